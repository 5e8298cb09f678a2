"""The score of several runs, on fabricated logs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, ReferenceConvergence, Timing
from harness.scoring.score import Score, score
from tests import fabricate
from tests.fabricate import Step, benchmark_rules, find
from tests.harness.scoring.test_run_result import metered

TIMING = Timing(max_init_s={"closed": 1800.0, "open": 14400.0})
NO_REFERENCE = benchmark_rules(reference_convergence=())
SLOWER_REFERENCE = ReferenceConvergence(100, (3000, 3100, 3200, 3300, 3400) * 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def log_of(folder: Path, steps: list[Step], name: str = "result_0.txt") -> RunLog:
    return run_log.read(fabricate.write_log(folder / name, steps))


def logs_of(folder: Path, block_s: Sequence[float | None], rules: BenchmarkRules = NO_REFERENCE) -> list[RunLog]:
    """One run per number: three blocks of that many seconds, each with 0.5 s of evaluation; None misses the target."""
    return [
        log_of(
            folder,
            fabricate.events(
                index,
                rules=rules,
                qualities=(0.5, 0.8, 0.7 if seconds is None else 0.95),
                block_s=seconds or 2.0,
                status="aborted" if seconds is None else "success",
                reason="budget" if seconds is None else "target",
            ),
            f"result_{index}.txt",
        )
        for index, seconds in enumerate(block_s)
    ]


def time_of(block_s: float) -> float:
    """0.2 s of opening the data, three blocks, three evaluations of 0.5 s."""
    return 0.2 + 3 * block_s + 1.5


def scored(folder: Path, block_s: Sequence[float | None], rules: BenchmarkRules = NO_REFERENCE, **more: Any) -> Score:
    return score(logs_of(folder, block_s, rules), rules, TIMING, more.pop("division", "closed"), **more)


@pytest.mark.parametrize(
    ("block_s", "dropped"), [((90.0, 2.0, 1.0, 4.0, 3.0), (0, 2)), ((None, 2.0, 3.0, 4.0, 1.0), (0, 4))]
)
def test_score_is_the_olympic_mean(folder: Path, block_s: Sequence[float | None], dropped: tuple[int, int]) -> None:
    """Blocks of 2, 3 and 4 s are averaged; the fastest run is left out, and the slowest, or the one that missed."""
    found = scored(folder, block_s)

    assert found.seconds == pytest.approx(time_of(3.0))
    assert found.dropped == dropped
    assert found.samples == 3000
    assert found.interval is not None
    assert all(map(math.isfinite, found.interval))
    assert (found.normalised_by, found.convergence, found.why_not) == (1.0, None, None)


@pytest.mark.parametrize("number", [0, 1, 4, 6])
def test_a_score_needs_exactly_the_required_runs(folder: Path, number: int) -> None:
    """One too few or one too many is not a result."""
    found = scored(folder, [2.0] * number)

    assert found.seconds is None
    assert found.why_not == f"{number} {'run' if number == 1 else 'runs'} found; the rules require 5"
    assert len(found.runs) == number


def test_two_missed_runs_prevent_a_score(folder: Path) -> None:
    """The reason names the first of them."""
    found = scored(folder, (None, 2.0, None, 4.0, 1.0))

    assert found.seconds is None
    assert found.why_not is not None
    assert found.why_not.startswith("2 runs of 5 missed the target; at most 1 may.")
    assert found.why_not.endswith("the run was aborted: budget")


@pytest.mark.parametrize("damaged", [(4,), (1, 3)])
def test_a_log_that_cannot_be_interpreted_prevents_a_score(folder: Path, damaged: tuple[int, ...]) -> None:
    """It does not count as the run that may be dropped; the first of them is named."""
    logs = []
    for index in range(5):
        steps = fabricate.events(index)
        if index in damaged:
            find(steps, "eval_accuracy").value = "high"
        logs.append(log_of(folder, steps, f"result_{index}.txt"))
    found = score(logs, NO_REFERENCE, TIMING, "closed")

    assert found.seconds is None
    assert f"result_{damaged[0]}.txt" in str(found.why_not)


def test_a_single_run_without_drop_has_no_interval(folder: Path) -> None:
    """Where one run is required, there is a time but no spread."""
    found = scored(folder, (2.0,), benchmark_rules(num_runs=1, drop=0, reference_convergence=()))

    assert found.seconds == pytest.approx(7.7)
    assert found.interval is None
    assert found.dropped == ()


def test_faster_convergence_is_normalised(folder: Path) -> None:
    """3,000 samples where the reference needs 3,200 multiply everything by 3200 / 3000, except in the open division."""
    rules = benchmark_rules(reference_convergence=(SLOWER_REFERENCE,))
    closed = scored(folder, (2.0,) * 5, rules, usd_per_hour=Decimal(3600))
    is_open = scored(folder, (2.0,) * 5, rules, division="open", usd_per_hour=Decimal(3600))

    assert closed.normalised_by == pytest.approx(3200 / 3000)
    assert closed.raw_seconds == pytest.approx(7.7)
    assert closed.seconds == pytest.approx(7.7 * 3200 / 3000)
    assert closed.interval == pytest.approx((closed.seconds, closed.seconds))
    assert closed.usd == Decimal("8.213333")
    assert closed.convergence is not None
    assert (is_open.seconds, is_open.normalised_by, is_open.convergence) == (is_open.raw_seconds, 1.0, None)
    assert is_open.usd == Decimal("7.7")


@pytest.mark.parametrize("odd", [50, None])
def test_runs_without_one_batch_size_have_no_reference(folder: Path, odd: int | None) -> None:
    """If one run differs, or none names its batch size: a reason, and no factor; the open division needs none."""
    logs = []
    for index in range(5):
        steps = fabricate.events(index, batch_size=odd if odd and index == 3 else 100)
        steps = [step for step in steps if odd or step.key != "global_batch_size"]
        logs.append(log_of(folder, steps, f"result_{index}.txt"))
    found = score(logs, benchmark_rules(), TIMING, "closed")

    assert (found.seconds, found.normalised_by) == (None, 1.0)
    assert "global_batch_size" in str(found.why_not)
    assert score(logs, benchmark_rules(), TIMING, "open").seconds == pytest.approx(7.7)


def with_energy(folder: Path, watts: Sequence[float | None]) -> list[RunLog]:
    """Runs with blocks of 2, 3, 4, 5, 6 s that drew these watts; None: not metered."""
    logs = []
    for index, power_w in enumerate(watts):
        steps = fabricate.events(index, block_s=2.0 + index, mono_ns=fabricate.MONO_NS)
        name = f"result_{index}.txt"
        logs.append(log_of(folder, steps, name) if power_w is None else metered(folder, steps, power_w, name))
    return logs


def test_energy_is_averaged_over_the_same_runs_as_the_time(folder: Path) -> None:
    """The first and the last are dropped by time, whatever they used: 10.7, 13.7 and 16.7 s are kept."""
    found = score(with_energy(folder, (None, 100.0, 200.0, 300.0, None)), NO_REFERENCE, TIMING, "closed").energy

    assert found is not None
    assert found.joules == pytest.approx((1070 + 2740 + 5010) / 3)
    assert found.mean_w == pytest.approx(200.0)
    assert (found.void, found.may_rank, found.meter_class, found.board) == ((), True, "B", "node")
    assert found.low_j is not None
    assert found.high_j is not None
    assert found.low_j < (1070 + 2740 + 5010) / 3 * 0.98 < (1070 + 2740 + 5010) / 3 * 1.02 < found.high_j


def test_energy_is_normalised_like_the_time(folder: Path) -> None:
    """One factor for both, and for the interval."""
    logs = with_energy(folder, (100.0,) * 5)
    slow = benchmark_rules(reference_convergence=(ReferenceConvergence(100, (4000,) * 20),))
    found, plain = (score(logs, rules, TIMING, "closed") for rules in (slow, NO_REFERENCE))

    assert found.normalised_by > 1
    assert found.energy is not None
    assert plain.energy is not None
    assert found.energy_j == pytest.approx(100 * 13.7 * found.normalised_by)
    assert found.energy.high_j == pytest.approx((plain.energy.high_j or 0) * found.normalised_by)


def test_the_order_of_the_runs_does_not_matter(folder: Path) -> None:
    """Energies of equal times included."""
    logs = with_energy(folder, (50.0, 60.0, 70.0, 80.0))
    same = fabricate.events(8, block_s=3.0, mono_ns=fabricate.MONO_NS)
    logs.append(metered(folder, same, 200.0, "result_8.txt"))
    found = score(logs, NO_REFERENCE, TIMING, "closed")

    for seed in range(10):
        shuffled = random.Random(seed).sample(logs, 5)
        again = score(shuffled, NO_REFERENCE, TIMING, "closed")
        assert (again.seconds, again.interval, again.energy_j) == (found.seconds, found.interval, found.energy_j)


def test_which_of_equally_fast_runs_are_left_out_is_decided_by_their_energy(folder: Path) -> None:
    """All take 10.7 s: the lowest and the highest are dropped, in any order; unmetered counts as lowest."""
    for watts in ((300.0, 100.0, 500.0, 200.0, 400.0), (500.0, 400.0, 300.0, 200.0, None)):
        logs = []
        for index, power_w in enumerate(watts):
            steps = fabricate.events(index, block_s=3.0, mono_ns=fabricate.MONO_NS)
            name = f"result_{index}.txt"
            place = folder / str(power_w)
            place.mkdir(exist_ok=True)
            logs.append(log_of(place, steps, name) if power_w is None else metered(place, steps, power_w, name))

        assert score(logs, NO_REFERENCE, TIMING, "closed").energy_j == pytest.approx(300 * time_of(3.0))


def test_the_interval_of_a_score_is_that_of_its_times_and_ends_at_zero(folder: Path) -> None:
    """Kept 7.7, 10.7, 13.7: 10.7 +- 4.3027 * sqrt(9 * 5) / 3; of 7.7, 25.7, 61.7 the lower end would be negative."""
    narrow, wide = scored(folder, (1.0, 2.0, 3.0, 4.0, 90.0)), scored(folder, (1.0, 2.0, 8.0, 20.0, 90.0))

    assert narrow.interval == pytest.approx((10.7 - 9.6211, 10.7 + 9.6211), abs=1e-4)
    assert wide.interval is not None
    assert wide.interval[0] == 0.0
