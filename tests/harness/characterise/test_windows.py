"""Windows of steps, on a clock that the session moves: a known wait for data, and a known cost of no work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from harness.characterise.cells import REAL, SYNTHETIC, Cell, Row, input_shares, intercepts  # noqa: E402
from harness.characterise.measuring import plain, repeating, sustained, window  # noqa: E402
from harness.errors import UsageError  # noqa: E402
from tests.harness.characterise.toys import (  # noqa: E402
    BACKWARD_S,
    CLIP_S,
    DATA_S,
    FORWARD_S,
    LOSS_S,
    OPTIMIZER_S,
    READ_S,
    HandClock,
    ToySession,
)

ALONE: Any = SimpleNamespace(gather=lambda item: [item])
UPDATE_S = FORWARD_S + LOSS_S + BACKWARD_S + CLIP_S + OPTIMIZER_S


@pytest.mark.parametrize("updates", [1, 2])
def test_loader_with_a_known_wait(updates: int) -> None:
    """Real steps have the wait in them; synthetic ones make the same updates, and nothing else."""
    clock = HandClock()
    session = ToySession(clock, updates)

    real, synthetic = (window(session, kind, 4, 5, ALONE, clock) for kind in (REAL, SYNTHETIC))

    assert real["seconds"] == [updates * (DATA_S + UPDATE_S) + READ_S + FORWARD_S] * 5
    assert real["waited"] == [updates * DATA_S] * 5
    assert synthetic["seconds"] == [updates * UPDATE_S] * 5
    cells = (Cell(1, "fp32", 4, REAL), Cell(1, "fp32", 4, SYNTHETIC))
    rows = [Row(cell, "ok", "", tuple(one["seconds"])) for cell, one in zip(cells, (real, synthetic), strict=True)]
    (share,) = input_shares(rows)
    lost_s = updates * DATA_S + READ_S + FORWARD_S
    assert share.fraction == pytest.approx(lost_s / (lost_s + updates * UPDATE_S))


def test_steps_without_hooks_fill_some_seconds() -> None:
    """Two steps of a second are a part; seven seconds are four parts, on every rank those of the slowest."""
    clock, blocks = HandClock(), []

    def train_block(num_samples: int) -> None:
        blocks.append(num_samples)
        clock.at += num_samples / 4

    session: Any = SimpleNamespace(train_block=train_block)
    two: Any = SimpleNamespace(gather=lambda item: [item, item + 2])

    found = [plain(session, 4, 2, least_s, ranks, clock) for least_s, ranks in ((7.0, ALONE), (1.0, ALONE), (7.0, two))]

    assert found == [[1.0] * 4, [1.0], [1.0] * 6]
    assert blocks == [8] * 11


def test_steps_for_a_meter_take_as_long_as_it_needs() -> None:
    """Two seconds of steps of 0.4 s are five, on every rank those of the slowest."""
    blocks: list[int] = []
    session: Any = SimpleNamespace(train_block=blocks.append)
    two: Any = SimpleNamespace(gather=lambda item: [item, item + 2])

    found = [sustained(session, 4, 0.4, 2.0, ranks, HandClock()) for ranks in (ALONE, two)]

    assert blocks == [4 * 5, 4 * 7]
    assert [one["num_steps"] for one in found] == [5, 7]
    assert all(one["start_ns"] < one["stop_ns"] for one in found)


def test_synthetic_steps_train() -> None:
    """They are updates, with what the session gave its `execution`; afterwards that is as it was."""
    session = ToySession()
    before = session.network.first.weight.clone()

    window(session, SYNTHETIC, 4, 2, ALONE, HandClock())

    assert not torch.equal(session.network.first.weight, before)
    assert session.execution.step == session._update


def test_batches_take_turns() -> None:
    """Of steps whose batches differ, each is repeated, and none stands for all."""
    clock, sizes = HandClock(), iter([1, 2, 3])
    session = ToySession(batch=lambda n: (torch.randn(next(sizes), 4), torch.zeros(())))
    session.execution.step = _stepping(clock)
    repeat = repeating(session, 4, 3)
    begun = clock.at
    times = []

    for _ in range(6):
        repeat()
        times.append(clock.at - begun)

    assert times == [1, 3, 6, 7, 9, 12]


def _stepping(clock: HandClock) -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        clock.at += len(x)
        return torch.zeros(())

    return step


def test_session_without_synthetic_data_says_so() -> None:
    session = ToySession()
    del session.execution

    with pytest.raises(UsageError, match="no `execution` whose steps could be repeated"):
        window(session, SYNTHETIC, 4, 2, ALONE)


class Linear(ToySession):
    """A session whose step takes 3 s and 0.5 s a sample."""

    def train_block(self, num_samples: int) -> Any:
        self.pause(3.0 + 0.5 * num_samples)
        return SimpleNamespace(data_wait_s=0.0)


def test_session_with_a_known_intercept() -> None:
    """It is found from its windows."""
    clock = HandClock()
    rows = [
        Row(Cell(1, "fp32", size, REAL), "ok", "", tuple(window(Linear(clock), REAL, size, 4, ALONE, clock)["seconds"]))
        for size in (2, 4, 8)
    ]

    (found,) = intercepts(rows)

    assert (found.line.intercept, found.line.slope, found.line.r_squared) == pytest.approx((3.0, 0.5, 1.0))
