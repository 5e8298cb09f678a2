"""The score of several runs: by hand on made-up runs, and on fabricated logs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.base.stats import trimming_cost, variance
from harness.energy.run_energy import RunEnergy
from harness.log import run_log
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, ReferenceConvergence, Timing
from harness.scoring.run_result import RunResult
from harness.scoring.score import Score, score, score_runs
from tests import fabricate
from tests.fabricate import Step, benchmark_rules, find
from tests.harness.energy.test_score import run_of as energy_of
from tests.harness.scoring.test_run_result import metered

TIMING = Timing(max_init_s={"closed": 1800.0, "open": 14400.0})
NO_REFERENCE = benchmark_rules(reference_convergence=())
PACED = benchmark_rules(reference_convergence=(ReferenceConvergence(100, (8000, 10_000, 12_500)),))
SPREAD = math.log(1.25) ** 2  # variance of the logarithms of that reference
BY_HAND = (
    (14.0, 12_000),
    (10.16, 8000),
    (12.1, 10_000),
    (11.8, 10_000),
    (9.92, 8000),
)  # docs/explanation/statistics.md


def run_of(
    seconds: float | None, samples: int = 10_000, fixed_s: float = 2.0, energy: RunEnergy | None = None
) -> RunResult:
    """A run that crosses its target at an evaluation; None: it missed it."""
    return RunResult(
        path="result.txt",
        seed=None,
        status="success",
        reason=None,
        seconds=seconds,
        samples=None if seconds is None else samples,
        quality=None,
        evaluations=(),
        ledger={},
        run_s=seconds,
        energy=energy,
        usd=None,
        crossing_samples=None if seconds is None else float(samples),
        fixed_s=0.0 if seconds is None else fixed_s,
    )


def of_runs(runs: Sequence[RunResult], rules: BenchmarkRules = PACED, division: str = "closed", **more: Any) -> Score:
    return score_runs(runs, rules, division, more.pop("batch_size", 100), **more)


def test_the_worked_example_of_the_documents() -> None:
    """Seconds per sample times the reference's 10,000 samples, and 2 s to open the data."""
    found = of_runs([run_of(*run) for run in BY_HAND], usd_per_hour=Decimal(3600))

    assert found.measured_seconds == pytest.approx(11.353, abs=1e-3)
    assert (found.fixed_s, found.pace_s) == (2.0, pytest.approx(0.00099990, abs=1e-8))
    assert (found.basis, found.scored_samples) == ("pace", pytest.approx(10_000))
    assert found.seconds == pytest.approx(11.999, abs=1e-3)
    assert [found.seconds_of(run) for run in found.runs] == pytest.approx([12.0, 12.2, 12.1, 11.8, 11.9])
    assert found.errors == ((pytest.approx(0.005893**2, rel=1e-3), 4),)
    assert found.interval == pytest.approx((11.80, 12.20), abs=5e-3)
    assert (found.usd, found.measured_usd) == (Decimal("11.999000"), Decimal("11.353333"))
    assert (found.dropped, found.left_out, found.estimate.value) == ((0, 4), (), found.seconds)


def test_more_samples_than_the_reference_count() -> None:
    """Twice as many are scored as they are, and the interval contains their luck; twice as many seconds are not."""
    slow = of_runs([run_of(seconds * 2 - 2, samples) for seconds, samples in BY_HAND])
    late = of_runs([run_of(seconds * 2 - 2, samples * 2) for seconds, samples in BY_HAND])

    assert (slow.basis, slow.seconds) == ("pace", pytest.approx(21.998, abs=1e-3))
    assert late.convergence is not None
    assert (late.basis, late.convergence.status) == ("own samples", "slower")
    assert late.scored_samples == late.convergence.own_samples == pytest.approx((16_000 * 20_000**2) ** (1 / 3))
    assert late.seconds == pytest.approx(2 + 0.00099990 * late.scored_samples, abs=1e-4)
    [pace, luck] = late.errors
    assert luck == (pytest.approx(late.convergence.variance * trimming_cost(5, 1) / 5), 6)
    assert luck[0] > pace[0] > 0


def test_one_run_may_miss_the_target() -> None:
    """The others have the pace; the measured time counts the one as the slowest."""
    found = of_runs([run_of(*run) for run in BY_HAND[:4]] + [run_of(None)])

    assert found.measured_seconds == pytest.approx((11.8 + 12.1 + 14.0) / 3)
    assert found.seconds == pytest.approx(2 + 10_000 * (0.001 * 0.00102 * 0.00101 * 0.00098) ** 0.25)
    assert (found.errors[0][1], found.left_out, found.seconds_of(found.runs[4])) == (3, (4,), None)
    assert found.convergence is not None
    assert (found.convergence.variance, found.convergence.dof) == (pytest.approx(SPREAD), 2)


@pytest.mark.parametrize(
    ("rules", "division", "batch_size", "status"),
    [
        (NO_REFERENCE, "closed", 100, None),
        (NO_REFERENCE, "closed", None, None),
        (PACED, "open", 100, None),
        (PACED, "open", None, None),
        (PACED, "closed", 200, "missing"),
    ],
)
def test_where_the_score_is_the_measured_time(
    rules: BenchmarkRules, division: str, batch_size: int | None, status: str | None
) -> None:
    """In the open division, and where there is no reference; only a closed result is compared with one."""
    found = of_runs(
        [run_of(*run) for run in BY_HAND], rules, division, batch_size=batch_size, usd_per_hour=Decimal(3600)
    )

    assert (found.basis, found.pace_s, found.fixed_s, found.scored_samples) == ("measured", None, None, None)
    assert found.seconds == found.measured_seconds == pytest.approx(11.353, abs=1e-3)
    assert (found.interval, found.usd) == (found.measured_interval, found.measured_usd)
    assert (found.left_out, found.seconds_of(found.runs[0])) == (found.dropped, 14.0)
    assert (None if found.convergence is None else found.convergence.status) == status


def test_the_errors_of_a_measured_time() -> None:
    """Of the samples, with the reference's scatter pooled, and of the seconds per sample, both as trimming costs; the
    open division takes its own scatter if that is larger."""
    runs = [run_of(*run) for run in BY_HAND]
    wide = [run_of(2 + 0.001 * samples, samples) for samples in (2000, 5000, 10_000, 20_000, 50_000)]
    logs = [math.log(samples) for _, samples in BY_HAND]
    paces = [math.log((seconds - 2) / samples) for seconds, samples in BY_HAND]
    share = trimming_cost(5, 1) / 5
    pooled = (2 * SPREAD + 4 * variance(logs)) / 6
    expected = ((pytest.approx(pooled * share), 6), (pytest.approx(variance(paces) * share), 4))

    assert of_runs(runs, division="open").errors == expected
    closed = of_runs(runs)
    assert closed.measured_interval == of_runs(runs, division="open").interval != closed.interval
    own = variance([math.log(run.samples or 0) for run in wide])
    assert of_runs(wide, division="open").errors[0] == (pytest.approx(own * share), 4)
    missed = of_runs([*runs[:4], run_of(None)], division="open")
    assert missed.errors[0] == (pytest.approx(SPREAD * share), 2)


def test_the_interval_of_a_measured_time_without_a_reference() -> None:
    """Kept 7.7, 10.7, 13.7: a Winsorised variance of the logarithms of 0.083331, times 5 / 9; t(0.975, 2) = 4.3027."""
    found = of_runs([run_of(seconds) for seconds in (4.7, 7.7, 10.7, 13.7, 90.0)], NO_REFERENCE)
    half = 4.302653 * math.sqrt(0.083331 * 5 / 9)

    assert found.interval == pytest.approx((10.7 * math.exp(-half), 10.7 * math.exp(half)), rel=1e-5)


@pytest.mark.parametrize("reference", [(), PACED.reference_convergence])
def test_a_single_run_without_drop_has_no_interval(reference: tuple[ReferenceConvergence, ...]) -> None:
    """Where one run is required, there is a time but no spread."""
    found = of_runs([run_of(12.0)], benchmark_rules(num_runs=1, drop=0, reference_convergence=reference))

    assert found.seconds == pytest.approx(12.0)
    assert (found.interval, found.measured_interval, found.errors, found.dropped) == (None, None, (), ())


def test_a_run_of_no_time_but_its_opening_has_no_pace() -> None:
    """Where evaluations do not count, nothing may be left of it: the measured time stands."""
    found = of_runs([run_of(2.0)] + [run_of(12.0)] * 4)

    assert (found.basis, found.seconds) == ("measured", 12.0)
    assert found.convergence is not None
    assert found.convergence.status == "as expected"


def test_energy_is_scaled_as_the_time() -> None:
    """100 W throughout: each run has the joules of the seconds that it contributes; a missed one has none."""
    runs = [run_of(*run, energy=energy_of(100 * run[0], 0.0)) for run in BY_HAND]
    found, late = of_runs(runs), of_runs([replace(run, crossing_samples=20_000.0) for run in runs])
    missed = of_runs([*runs[:4], run_of(None, energy=energy_of(1e6))])

    assert found.energy_j == pytest.approx(100 * 12.0)
    assert found.energy is not None
    assert found.energy.errors[1] == (pytest.approx(found.errors[0][0], rel=0.01), 4)
    assert late.energy is not None
    assert (late.basis, late.energy.errors[2]) == ("own samples", late.errors[1])
    assert missed.energy_j == pytest.approx(100 * (12.0 + 12.2 + 12.1 + 11.8) / 4)


def test_the_energy_of_a_measured_time_is_of_the_runs_that_are_averaged() -> None:
    """10.16, 11.8 and 12.1 s at 100 W; all five show how much runs differ, unless one missed."""
    runs = [run_of(*run, energy=energy_of(100 * run[0], 0.0)) for run in BY_HAND]
    found, missed = of_runs(runs, NO_REFERENCE).energy, of_runs([*runs[1:], run_of(None)], NO_REFERENCE).energy
    relative = variance([seconds for seconds, _ in BY_HAND]) / (sum(seconds for seconds, _ in BY_HAND) / 5) ** 2

    assert found is not None
    assert missed is not None
    assert found.joules == pytest.approx(100 * (10.16 + 11.8 + 12.1) / 3)
    assert found.errors[1] == (pytest.approx(relative * trimming_cost(5, 1) / 5), 4)
    assert missed.errors[1][1] == 3


SECONDS = st.lists(st.integers(3, 100).map(float), min_size=5, max_size=5)
SAMPLES = st.lists(st.integers(5000, 30_000), min_size=5, max_size=5)


@given(SECONDS, SAMPLES, st.sampled_from([NO_REFERENCE, PACED]), st.sampled_from(["open", "closed"]), st.randoms())
def test_a_score_is_of_a_set_of_runs(
    seconds: list[float], samples: list[int], rules: BenchmarkRules, division: str, dice: random.Random
) -> None:
    """In whatever order they come, energies included."""
    runs = [run_of(*run, energy=energy_of(float(run[1] % 997))) for run in zip(seconds, samples, strict=True)]
    found, again = of_runs(runs, rules, division), of_runs(dice.sample(runs, 5), rules, division)

    assert replace(again, runs=(), dropped=()) == replace(found, runs=(), dropped=())
    assert {again.runs[i].seconds for i in again.dropped} == {found.runs[i].seconds for i in found.dropped}


@given(SAMPLES, st.lists(st.floats(0.9e-3, 1.1e-3), min_size=5, max_size=5))
def test_luck_with_the_seeds_moves_no_pace_score(samples: list[int], paces: list[float]) -> None:
    """The same five paces have one score, whatever samples the runs needed, unless they are significantly more."""
    found = of_runs([run_of(2 + pace * count, count) for pace, count in zip(paces, samples, strict=True)])
    plain = of_runs([run_of(2 + pace * 10_000) for pace in paces])

    assert plain.basis == "pace"
    if found.basis == "pace":
        assert found.seconds == pytest.approx(plain.seconds)
        assert found.interval == pytest.approx(plain.interval)
    else:
        assert found.seconds > plain.seconds


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


@pytest.mark.parametrize("slowest", [90.0, None])
def test_the_score_of_logs(folder: Path, slowest: float | None) -> None:
    """0.2 s of opening, and (4.5, 7.5, 10.5, 13.5 or 271.5 s) / 3,000 samples, times a reference of 3,000. A run that
    missed its target counts up to its last evaluation, at 2 s a block."""
    blocks = (slowest, 2.0, 1.0, 4.0, 3.0)
    rules = benchmark_rules(reference_convergence=(ReferenceConvergence(100, (2500, 3000, 3600)),))
    found = scored(folder, blocks, rules)
    trained_s = [time_of(seconds or 2.0) - 0.2 for seconds in blocks]

    assert found.measured_seconds == pytest.approx(time_of(3.0))
    assert (found.samples, found.dropped, found.why_not) == (3000, (0, 2), None)
    assert found.seconds == pytest.approx(0.2 + math.prod(trained_s) ** (1 / len(trained_s)))
    assert found.convergence is not None
    assert (found.basis, found.convergence.own_samples) == ("pace", pytest.approx(2000 + 2000 / 3))


@pytest.mark.parametrize(
    ("division", "number", "required"), [("closed", 0, 5), ("closed", 1, 5), ("closed", 6, 5), ("open", 5, 10)]
)
def test_a_score_needs_exactly_the_required_runs(division: str, number: int, required: int) -> None:
    """One too few or one too many is not a result."""
    found = of_runs([run_of(9.0)] * number, benchmark_rules(open_runs=10), division)

    assert found.seconds is None
    assert found.why_not == f"{number} {'run' if number == 1 else 'runs'} found; the rules require {required}"
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


@pytest.mark.parametrize("odd", [50, None])
def test_runs_without_one_batch_size_have_no_reference(folder: Path, odd: int | None) -> None:
    """If one run differs, or none names its batch size: a reason, and no score; the open division needs none."""
    logs = []
    for index in range(5):
        steps = fabricate.events(index, batch_size=odd if odd and index == 3 else 100)
        steps = [step for step in steps if odd or step.key != "global_batch_size"]
        logs.append(log_of(folder, steps, f"result_{index}.txt"))
    closed, is_open = (score(logs, benchmark_rules(), TIMING, division) for division in ("closed", "open"))

    assert (closed.seconds, closed.convergence) == (None, None)
    assert "global_batch_size" in str(closed.why_not)
    assert is_open.seconds == pytest.approx(7.7)


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


def test_a_reproduction_is_scored_by_its_first_runs(tmp_path: Path) -> None:
    """Those beyond the required number are kept and count in nothing; any other result has too many."""

    def slowed(index: int, steps: list[Step]) -> list[Step]:
        return steps if index < 5 else fabricate.events(index, block_s=9.0)

    def stating(index: int, steps: list[Step]) -> list[Step]:
        found = slowed(index, steps)
        found.insert(2, Step(0.0, "tta_reproduces", {"digest": "5d" * 32}))
        return found

    def logs(name: str, num_runs: int, change: Any) -> list[RunLog]:
        folder = fabricate.write_result(tmp_path / name, num_runs, change)
        return [run_log.read(folder / f"result_{index}.txt") for index in range(num_runs)]

    for rules in (benchmark_rules(), NO_REFERENCE):
        five = score(logs("five", 5, stating), rules, TIMING, "closed")
        seven = score(logs("seven", 7, stating), rules, TIMING, "closed")

        assert (seven.seconds, seven.measured_seconds, seven.dropped) == (
            five.seconds,
            five.measured_seconds,
            five.dropped,
        )
        assert (len(seven.runs), seven.num_beyond, five.num_beyond) == (7, 2, 0)
        assert seven.left_out == (*five.left_out, 5, 6)
    plain = score(logs("plain", 7, slowed), benchmark_rules(), TIMING, "closed")
    assert (plain.num_beyond, plain.why_not) == (0, "7 runs found; the rules require 5")
