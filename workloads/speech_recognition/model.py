"""The front end and the network: log-mel spectra, strided convolutions, torchaudio's Conformer, a layer to words.

Dimension letters: N utterances, S samples, T spectra (10 ms), M bands, U output frames, D width, V tokens.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchaudio.functional import melscale_fbanks
from torchaudio.models import Conformer

from workloads.speech_recognition.dataset import HOP, LEVELS, SAMPLE_HZ
from workloads.speech_recognition.recipe import Recipe

NUM_BANDS = 40
SUBSAMPLING = 8  # spectra per output frame: 80 ms, a third of a word
_WINDOW = 256  # samples, 32 ms; an utterance has three fewer spectra than hops
LOST_SPECTRA = 3
_FLOOR = 1e3  # added to the power of a band; in units of 1/32,768 per sample, this is silence
_SCALE = 0.4  # about the inverse of a band's standard deviation within an utterance
_AT_ONCE = 512  # utterances; the spectra of such a chunk take 150 MB


class LogMel(nn.Module):
    """Mu-law codes to log-mel spectra, for all utterances of a split at once."""

    levels: Tensor
    window: Tensor
    bank: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("levels", torch.from_numpy(LEVELS).float())
        self.register_buffer("window", torch.hann_window(_WINDOW))
        bank = melscale_fbanks(_WINDOW // 2 + 1, 60.0, SAMPLE_HZ / 2, NUM_BANDS, SAMPLE_HZ)
        self.register_buffer("bank", bank)

    @torch.inference_mode()
    def forward(self, audio_S: Tensor, hops: list[int]) -> Tensor:
        """Spectra (T, M), one row per hop, minus each utterance's mean, and one row of zeros at the end.

        audio_S: uint8 codes, concatenated utterances of `hops` times 80 samples each. The last three rows of every
        utterance, whose windows would reach into the next one, are zero.
        """
        features_TM = torch.zeros(sum(hops) + 1, NUM_BANDS, device=audio_S.device)
        row = 0
        for first in range(0, len(hops), _AT_ONCE):
            chunk = hops[first : first + _AT_ONCE]
            rows = sum(chunk)
            codes_S = audio_S[row * HOP : (row + rows) * HOP]
            samples_S = functional.pad(self.levels[codes_S.int()], (0, _WINDOW - HOP))
            spectrum_TF = torch.fft.rfft(samples_S.unfold(0, _WINDOW, HOP) * self.window)
            power_TF = spectrum_TF.real.square() + spectrum_TF.imag.square()
            logmel_TM = torch.log(power_TF @ self.bank + _FLOOR)
            lengths_N = torch.tensor(chunk, device=audio_S.device)
            owner_T = torch.repeat_interleave(lengths_N, output_size=rows)
            last_N = lengths_N.cumsum(0)
            is_lost_T = torch.arange(rows, device=audio_S.device) >= last_N[owner_T] - LOST_SPECTRA
            logmel_TM.masked_fill_(is_lost_T[:, None], 0)
            mean_NM = torch.segment_reduce(logmel_TM, "sum", lengths=lengths_N) / (lengths_N - LOST_SPECTRA)[:, None]
            logmel_TM.sub_(mean_NM[owner_T]).mul_(_SCALE).masked_fill_(is_lost_T[:, None], 0)
            features_TM[row : row + rows] = logmel_TM
            row += rows
        return features_TM


def build_model(suite: str, num_bands: int, num_tokens: int, dropout: float) -> nn.Module:
    """Build a freshly initialised network from features_NTM and lengths_N (in spectra) to logits_UNV.

    T is a multiple of 16; an utterance of t spectra has ceil(t * U / T) output frames. Token 0 is CTC's blank. The
    weights are drawn from torch's global generator.
    """
    return Recogniser(num_bands, num_tokens, dropout)


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW; biases and norms do not decay. The session sets the learning rate before every step."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in network.parameters() if p.ndim > 1]},
        {"params": [p for p in network.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=recipe.opt_base_learning_rate,
        betas=(recipe.opt_adamw_beta_1, recipe.opt_adamw_beta_2),
        eps=recipe.opt_adamw_epsilon,
        weight_decay=recipe.opt_weight_decay,
        fused=True,
    )


class Recogniser(nn.Module):
    """Two strided convolutions over time and two Conformer blocks (Gulati et al. 2020) of width 64.

    163,756 parameters with 44 tokens; 5.0 million forward FLOPs per second of speech.
    """

    def __init__(self, num_bands: int, num_tokens: int, dropout: float, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv1d(num_bands, width, 5, stride=2, padding=2)
        self.second = nn.Conv1d(width, width, 5, stride=SUBSAMPLING // 2, padding=2)
        self.norm = nn.LayerNorm(width)
        self.conformer = Conformer(width, 4, 2 * width, layers, 9, dropout)
        self.head = nn.Linear(width, num_tokens)

    def forward(self, features_NTM: Tensor, lengths_N: Tensor) -> Tensor:
        x_NDT = functional.silu(self.first(features_NTM.transpose(1, 2)))
        x_NDU = functional.silu(self.second(x_NDT))
        x_UND = self.norm(x_NDU.permute(2, 0, 1))
        frames_N1 = torch.div(lengths_N + SUBSAMPLING - 1, SUBSAMPLING, rounding_mode="floor")[:, None]
        is_padding_NU = torch.arange(len(x_UND), device=lengths_N.device) >= frames_N1
        # Layer by layer, because Conformer.forward would fetch the longest length from the device in every step.
        for layer in self.conformer.conformer_layers:
            x_UND = layer(x_UND, is_padding_NU)
        logits_UNV: Tensor = self.head(x_UND)
        return logits_UNV


def decoded(logits_UNV: Tensor, frames_N: Tensor) -> Tensor:
    """Greedy decoding (N, U): the best token of each frame, repetitions merged, blanks dropped, padded with zeros."""
    best_NU = logits_UNV.argmax(2).T
    before_NU = functional.pad(best_NU, (1, 0))[:, :-1]
    is_valid_NU = torch.arange(best_NU.shape[1], device=best_NU.device) < frames_N[:, None]
    kept_NU = best_NU * ((best_NU != before_NU) & is_valid_NU)
    order_NU = torch.argsort((kept_NU == 0).int(), dim=1, stable=True)
    return kept_NU.gather(1, order_NU)
