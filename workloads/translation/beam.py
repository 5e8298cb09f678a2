"""Beam search with the length penalty of Wu et al. 2016 (arXiv:1609.08144).

Dimension letters: N sentences, S source pieces, T target pieces, V vocabulary, B hypotheses of a sentence.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from typing import Any

import torch
from torch import Tensor

from workloads.translation.subwords import END, START

BEAM, PENALTY = 4, 0.6  # Vaswani et al. 2017, and MLPerf's reference
STEP = 8  # finished sentences leave the batch every so many pieces


def translate(network: Any, sources_NS: Tensor, limits_N: Tensor, beam: int = BEAM) -> Tensor:
    """The pieces_NT of the best translation that was found of each sentence; from its END on they are END.

    The score of a translation of t pieces, END included, is its log-probability / ((5 + t) / 6) ** PENALTY. A sentence
    is finished when no hypothesis can become better than the best translation so far, or at its limit; without any
    translation by then, its most probable hypothesis is taken.

    network: a `Translator`. limits_N: the most pieces of each translation, with END.
    """
    n, device = len(sources_NS), sources_NS.device
    width = int(limits_N.max())
    out_NT = torch.full((n, width), END, dtype=torch.int64, device=device)
    rows_N = torch.arange(n, device=device)  # where the sentences that are not finished are in out_NT
    best_N = torch.full((n,), -torch.inf, device=device)
    state = network.begin(sources_NS)
    scores_NB = torch.zeros(n, 1, device=device)
    pieces_NBT = torch.full((n, 1, width), END, dtype=torch.int64, device=device)
    last = torch.full((n,), START, dtype=torch.int64, device=device)
    for t in range(width):
        logits = network.step(state, last).float()
        n, b = scores_NB.shape
        totals_NBV = scores_NB[:, :, None] + logits.log_softmax(-1).view(n, b, -1)
        # Translations that end here.
        ended_N, which_N = (totals_NBV[:, :, END] / _penalty(t + 1)).max(1)
        is_better_N = (ended_N > best_N) & (t < limits_N)
        ended_NT = pieces_NBT[torch.arange(n, device=device), which_N]
        out_NT[rows_N] = torch.where(is_better_N[:, None], ended_NT, out_NT[rows_N])
        best_N = torch.where(is_better_N, ended_N, best_N)
        # Hypotheses that go on.
        totals_NBV[:, :, END] = -torch.inf
        scores_NB, chosen_NB = totals_NBV.view(n, -1).topk(min(beam, b * (totals_NBV.shape[2] - 1)), 1)
        from_NB, piece_NB = chosen_NB // totals_NBV.shape[2], chosen_NB % totals_NBV.shape[2]
        pieces_NBT = pieces_NBT.gather(1, from_NB[:, :, None].expand(-1, -1, width)).clone()
        pieces_NBT[:, :, t] = piece_NB
        is_over_N = t + 1 >= limits_N
        is_empty_N = is_over_N & (best_N == -torch.inf)
        out_NT[rows_N] = torch.where(is_empty_N[:, None], pieces_NBT[:, 0], out_NT[rows_N])
        best_N = torch.where(is_empty_N, torch.inf, best_N)  # nothing replaces it
        # A log-probability only falls, and the penalty is largest at the limit.
        is_over_N |= best_N >= scores_NB[:, 0] / _penalty(limits_N)
        beams_N = torch.arange(n, device=device)
        if t % STEP == STEP - 1 or t + 1 == width:
            beams_N = (~is_over_N).nonzero()[:, 0]  # waits for the device
            if len(beams_N) == 0:
                break
        rows_N, best_N, limits_N = rows_N[beams_N], best_N[beams_N], limits_N[beams_N]
        scores_NB, pieces_NBT, from_NB = scores_NB[beams_N], pieces_NBT[beams_N], from_NB[beams_N]
        state.keep((beams_N[:, None] * b + from_NB).flatten())
        last = piece_NB[beams_N].flatten()
    return out_NT


def _penalty(length: Any) -> Any:
    return ((5 + length) / 6) ** PENALTY
