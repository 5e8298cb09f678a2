"""The front end and the network of the full suite: log-mel spectra, SpecAugment, torchaudio's Conformer, characters.

Dimension letters: N utterances, S samples, T spectra (10 ms), F frequencies, M bands, U output frames, D width,
V tokens, K masks.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchaudio.functional import melscale_fbanks
from torchaudio.models import Conformer

from workloads.speech_recognition.full_audio import HOP, NUM_BANDS
from workloads.speech_recognition.librispeech import SAMPLE_HZ
from workloads.speech_recognition.recipe import FullRecipe

STACKED = 4  # spectra that become one output frame of 40 ms
_WINDOW, _NUM_FFT = 400, 512  # samples: 25 ms
_FLOOR = 1e-10  # added to the power of a band; full scale is 1, so this is below the last of 16 bits


class FrontEnd(nn.Module):
    """Samples to log-mel spectra, each band of an utterance with mean 0 and standard deviation 1."""

    window: Tensor
    bank: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(_WINDOW))
        self.register_buffer("bank", melscale_fbanks(_NUM_FFT // 2 + 1, 0.0, SAMPLE_HZ / 2, NUM_BANDS, SAMPLE_HZ))

    @torch.no_grad()
    def forward(self, audio_NS: Tensor, spectra_N: Tensor, masks_NK2: Tensor, num_band_masks: int) -> Tensor:
        """features_NTM; T is S / HOP, and what is beyond the `spectra_N` of an utterance is zero, its mean.

        audio_NS: int16. masks_NK2: the first and the number of the bands (the first `num_band_masks`) or spectra that
        are hidden.
        """
        samples_NS = functional.pad(audio_NS.float() / 32_768, (0, _WINDOW - HOP))
        spectrum_NTF = torch.fft.rfft(samples_NS.unfold(1, _WINDOW, HOP) * self.window, _NUM_FFT)
        power_NTF = spectrum_NTF.real.square() + spectrum_NTF.imag.square()
        logmel_NTM = torch.log(power_NTF @ self.bank + _FLOOR)
        steps_T = torch.arange(logmel_NTM.shape[1], device=audio_NS.device)
        is_beyond_NT1 = (steps_T >= spectra_N[:, None])[..., None]
        count_N11 = spectra_N[:, None, None]
        mean_N1M = logmel_NTM.masked_fill(is_beyond_NT1, 0).sum(1, keepdim=True) / count_N11
        centred_NTM = (logmel_NTM - mean_N1M).masked_fill(is_beyond_NT1, 0)
        deviation_N1M = (centred_NTM.square().sum(1, keepdim=True) / count_N11).sqrt()
        features_NTM = centred_NTM / (deviation_N1M + 1e-3)
        bands_M = torch.arange(NUM_BANDS, device=audio_NS.device)
        is_hidden_NM = _covered(bands_M, masks_NK2[:, :num_band_masks])
        is_hidden_NT = _covered(steps_T, masks_NK2[:, num_band_masks:])
        return features_NTM.masked_fill(is_hidden_NM[:, None, :] | is_hidden_NT[..., None], 0)


def _covered(places_P: Tensor, masks_NK2: Tensor) -> Tensor:
    """Whether any of an utterance's masks covers a place: (N, P)."""
    first_NK1, width_NK1 = masks_NK2[..., :1], masks_NK2[..., 1:]
    return ((places_P >= first_NK1) & (places_P < first_NK1 + width_NK1)).any(1)


class FullRecogniser(nn.Module):
    """The encoder of torchaudio's Conformer RNN-T recipe: four spectra become a frame, then 16 blocks of width 256.

    24,456,733 parameters with 29 tokens, of which 24,367,104 are the Conformer's. As in that recipe, the convolution is
    first in a block and normalised within an utterance, so there are no batch statistics. What is beyond the end of an
    utterance is hidden from convolution and normalisation, too, which torchaudio's own `forward` does not do: the
    output depends neither on padding nor on how a batch is divided.
    """

    def __init__(self, num_bands: int, num_tokens: int, recipe: FullRecipe) -> None:
        super().__init__()
        width = recipe.model_width
        self.reduce = nn.Linear(STACKED * num_bands, width)
        self.conformer = Conformer(
            width, 4, 4 * width, recipe.model_layers, 31, recipe.dropout, use_group_norm=True, convolution_first=True
        )
        self.head = nn.Linear(width, num_tokens)

    def forward(self, features_NTM: Tensor, lengths_N: Tensor) -> Tensor:
        """logits_UNV; T is a multiple of 4, and an utterance of t spectra has ceil(t / 4) frames."""
        x_UND = self.reduce(features_NTM.reshape(len(features_NTM), -1, STACKED * features_NTM.shape[2])).transpose(
            0, 1
        )
        frames_N = torch.div(lengths_N + STACKED - 1, STACKED, rounding_mode="floor")
        is_padding_NU = torch.arange(len(x_UND), device=lengths_N.device) >= frames_N[:, None]
        for layer in self.conformer.conformer_layers:
            x_UND = _block(layer, x_UND, is_padding_NU, frames_N)
        logits_UNV: Tensor = self.head(x_UND)
        return logits_UNV


def _block(layer: Any, x_UND: Tensor, is_padding_NU: Tensor, frames_N: Tensor) -> Tensor:
    """One of torchaudio's `ConformerLayer`s."""
    x_UND = x_UND + layer.ffn1(x_UND) * 0.5
    x_UND = x_UND + _convolution(layer.conv_module, x_UND, is_padding_NU, frames_N)
    y_UND = layer.self_attn_layer_norm(x_UND)
    y_UND, _ = layer.self_attn(y_UND, y_UND, y_UND, key_padding_mask=is_padding_NU, need_weights=False)
    x_UND = x_UND + layer.self_attn_dropout(y_UND)
    x_UND = x_UND + layer.ffn2(x_UND) * 0.5
    normal_UND: Tensor = layer.final_layer_norm(x_UND)
    return normal_UND


def _convolution(module: Any, x_UND: Tensor, is_padding_NU: Tensor, frames_N: Tensor) -> Tensor:
    widen, gate, depthwise, norm, *rest = module.sequential
    is_padding_N1U = is_padding_NU[:, None]
    y_NDU = gate(widen(module.layer_norm(x_UND).permute(1, 2, 0))).masked_fill(is_padding_N1U, 0)
    y_NDU = depthwise(y_NDU).float().masked_fill(is_padding_N1U, 0)
    count_N11 = (frames_N * y_NDU.shape[1])[:, None, None]
    y_NDU = (y_NDU - y_NDU.sum((1, 2), keepdim=True) / count_N11).masked_fill(is_padding_N1U, 0)
    variance_N11 = y_NDU.square().sum((1, 2), keepdim=True) / count_N11
    y_NDU = y_NDU * (variance_N11 + norm.eps).rsqrt() * norm.weight[:, None] + norm.bias[:, None]
    for part in rest:
        y_NDU = part(y_NDU)
    y_UND: Tensor = y_NDU.permute(2, 0, 1)
    return y_UND


def build_model(suite: str, num_bands: int, num_tokens: int, recipe: FullRecipe) -> nn.Module:
    """Build a freshly initialised network from features_NTM and lengths_N (in spectra) to logits_UNV.

    T is a multiple of 16; an utterance of t spectra has ceil(t * U / T) output frames. Token 0 is CTC's blank. The
    weights are drawn from torch's global generator.
    """
    return FullRecogniser(num_bands, num_tokens, recipe)
