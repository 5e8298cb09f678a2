"""The network: encoder and decoder of Marian's architecture, from transformers, with its own initialisation.

Dimension letters: N sentences, S source pieces, T target pieces, V vocabulary, D width.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import dataclasses
import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

# Import the modules directly: `from transformers import ...` first scans the whole library.
from transformers.models.marian.configuration_marian import MarianConfig
from transformers.models.marian.modeling_marian import MarianDecoder, MarianModel

from workloads.translation.full_recipe import FullRecipe
from workloads.translation.recipe import Recipe
from workloads.translation.subwords import END, PAD, START

SHAPES: dict[str, dict[str, int]] = {
    "mini": {"d_model": 128, "layers": 1, "heads": 4, "ffn_dim": 256},
    "standard": {"d_model": 256, "layers": 3, "heads": 8, "ffn_dim": 512},
    "full": {"d_model": 1024, "layers": 6, "heads": 16, "ffn_dim": 4096},  # Transformer-big
}

# transformers 5.24 renamed the argument.
_CACHE = "cache" if "cache" in inspect.signature(MarianDecoder.forward).parameters else "past_key_values"


def build_model(suite: str, num_pieces: int, max_length: int, recipe: Recipe | FullRecipe) -> nn.Module:
    """Build a freshly initialised `Translator` for sequences of up to `max_length` pieces.

    The weights are drawn from torch's global generator.
    """
    shape = SHAPES[suite]
    inner_dropout = recipe.dropout if suite == "full" else 0.0
    config = MarianConfig(
        vocab_size=num_pieces,
        d_model=shape["d_model"],
        encoder_layers=shape["layers"],
        decoder_layers=shape["layers"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["ffn_dim"],
        decoder_ffn_dim=shape["ffn_dim"],
        activation_function="relu",
        max_position_embeddings=max_length,
        dropout=recipe.dropout,
        attention_dropout=inner_dropout,
        activation_dropout=inner_dropout,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        decoder_start_token_id=START,
        use_cache=False,
        attn_implementation="sdpa",  # type: ignore[call-arg]
    )
    return Translator(config)


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW over all trainable parameters; the session sets the learning rate before every step."""
    return torch.optim.AdamW(
        [parameter for parameter in network.parameters() if parameter.requires_grad],
        lr=recipe.opt_base_learning_rate,
        betas=(recipe.opt_adamw_beta_1, recipe.opt_adamw_beta_2),
        eps=recipe.opt_adamw_epsilon,
        weight_decay=recipe.opt_adamw_weight_decay,
        fused=True,
    )


def build_full_optimizer(network: nn.Module, recipe: FullRecipe) -> torch.optim.Optimizer:
    """Adam over all trainable parameters; the session sets the learning rate before every step."""
    return torch.optim.Adam(
        [parameter for parameter in network.parameters() if parameter.requires_grad],
        lr=recipe.opt_base_learning_rate,
        betas=(recipe.opt_adam_beta_1, recipe.opt_adam_beta_2),
        eps=recipe.opt_adam_epsilon,
        fused=True,
    )


@dataclasses.dataclass(slots=True)
class Decoding:
    """The state of decoding a batch: the encoded source, and the keys and values of the pieces so far."""

    memory_NSD: Tensor
    mask_N11S: Tensor
    cache: Any  # transformers' EncoderDecoderCache, untyped there

    def keep(self, rows: Tensor) -> None:
        """Continue with only these rows of the batch."""
        self.memory_NSD, self.mask_N11S = self.memory_NSD[rows], self.mask_N11S[rows]
        self.cache.self_attention_cache.batch_select_indices(rows)
        self.cache.cross_attention_cache.batch_select_indices(rows)


class Translator(nn.Module):
    """Transformer (Vaswani et al. 2017) with sinusoidal positions; one matrix embeds on both sides and predicts."""

    def __init__(self, config: MarianConfig) -> None:
        super().__init__()
        self.marian: Any = MarianModel(config)  # its calls are untyped
        # transformers initialises every matrix with standard deviation 0.02, with which a network of this width learns
        # little for hundreds of steps: BLEU 27 after 19,200 pairs instead of 83 (on an easier draft of the mini data).
        for module in self.marian.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
        # Scaled by sqrt(D), an embedding is then about as long as the position added to it.
        nn.init.normal_(self.marian.shared.weight, std=0.57 * config.d_model**-0.5)

    def forward(self, sources_NS: Tensor, inputs_NT: Tensor) -> Tensor:
        """logits_NTV for the piece after each of `inputs_NT`, whose rows begin with START."""
        mask_N11S = _mask(sources_NS)
        memory_NSD = self._encode(sources_NS, mask_N11S)
        n, t = inputs_NT.shape
        # Pass masks in four dimensions, so that transformers builds none: to do so it would read values from the
        # device in every step.
        causal_N1TT = torch.ones(t, t, dtype=torch.bool, device=inputs_NT.device).tril().expand(n, 1, t, t)
        hidden_NTD = self.marian.decoder(
            input_ids=inputs_NT,
            attention_mask=causal_N1TT,
            encoder_hidden_states=memory_NSD,
            encoder_attention_mask=mask_N11S.expand(n, 1, t, -1),
        ).last_hidden_state
        return self._logits(hidden_NTD)

    def begin(self, sources_NS: Tensor) -> Decoding:
        """The state before the first piece."""
        mask_N11S = _mask(sources_NS)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        return Decoding(self._encode(sources_NS, mask_N11S), mask_N11S, cache)

    def step(self, state: Decoding, pieces_N: Tensor) -> Tensor:
        """logits_NV for the piece after `pieces_N`; advances the state by one."""
        past = state.cache.get_seq_length()
        hidden_N1D = self.marian.decoder(
            input_ids=pieces_N[:, None],
            attention_mask=torch.ones(1, 1, 1, past + 1, dtype=torch.bool, device=pieces_N.device),
            encoder_hidden_states=state.memory_NSD,
            encoder_attention_mask=state.mask_N11S,
            use_cache=True,
            **{_CACHE: state.cache},
        ).last_hidden_state
        return self._logits(hidden_N1D[:, 0])

    def _encode(self, sources_NS: Tensor, mask_N11S: Tensor) -> Tensor:
        n, s = sources_NS.shape
        memory_NSD: Tensor = self.marian.encoder(
            input_ids=sources_NS, attention_mask=mask_N11S.expand(n, 1, s, s)
        ).last_hidden_state
        return memory_NSD

    def _logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.marian.shared.weight)


def _mask(sources_NS: Tensor) -> Tensor:
    return (sources_NS != PAD)[:, None, None, :]
