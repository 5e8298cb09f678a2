"""The result of one run at the boundaries: logs of a few lines, so that every number can be checked in the head."""

from __future__ import annotations

import itertools
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.energy.limits import EnergyLimits
from harness.errors import LogError
from harness.log import run_log
from harness.log.run_log import RunLog
from harness.ruleset.model import Timing
from harness.scoring.run_result import RunResult, derive_ledger, run_result
from harness.submission.result import read_result
from tests import fabricate, mlperflog
from tests.fabricate import Step, benchmark_rules
from tests.mlperflog import Entry

UNCOUNTED = Timing(max_init_s={}, count_evaluation=False)
RULES = benchmark_rules(reference_convergence=())


def log_of(folder: Path, *steps: Step) -> RunLog:
    return run_log.read(fabricate.write_log(folder / "result_0.txt", steps))


def result_of(folder: Path, *steps: Step, **more: Any) -> RunResult:
    return run_result(log_of(folder, *steps), RULES, **more)


def quality(at_s: float, value: float, samples: Any = 1000, **more: Any) -> Step:
    return Step(at_s, "eval_accuracy", value, {"samples_count": samples, **more})


def stopped(at_s: float, status: str = "success") -> Step:
    return Step(at_s, "run_stop", None, {"status": status})


START = Step(0.0, "run_start")


def test_an_aborted_run_has_no_deciding_evaluation(tmp_path: Path) -> None:
    """Its quality is the best, not the first that was good enough; it has no time, samples or price."""
    steps = (START, quality(1, 0.92), quality(2, 0.95, 2000), quality(3, 0.5, 3000), stopped(4, "aborted"))
    found = result_of(tmp_path, *steps, usd_per_hour=Decimal(36))

    assert (found.seconds, found.samples, found.quality, found.usd, found.run_s) == (None, None, 0.95, None, 4.0)


@pytest.mark.parametrize(("seed", "expected"), [(7, 7), (0, 0), (True, None), ("7", None), (7.0, None), (None, None)])
def test_a_seed_is_a_whole_number(tmp_path: Path, seed: object, expected: int | None) -> None:
    """Nothing that only looks like one is accepted."""
    assert result_of(tmp_path, Step(0.0, "seed", seed), START).seed == expected


@pytest.mark.parametrize(("number", "expected"), [(500, 500), (True, None), ("500", None), (500.0, None), (None, None)])
def test_a_number_of_examples_is_a_whole_number(tmp_path: Path, number: object, expected: int | None) -> None:
    """Otherwise it is not known."""
    assert result_of(tmp_path, START, quality(1, 0.5, num_examples=number)).evaluations[0].num_examples == expected


@pytest.mark.parametrize("samples", [0, 1, 10**15])
def test_samples_may_be_zero_to_ten_to_the_fifteenth(tmp_path: Path, samples: int) -> None:
    """Bounds included; `epoch_num` counts only without a `samples_count`."""
    assert result_of(tmp_path, START, quality(1, 0.5, samples, epoch_num=3)).evaluations[0].samples == samples


@pytest.mark.parametrize("samples", [-1, 10**15 + 1, None, "1000"])
def test_samples_beyond_that_are_an_error(tmp_path: Path, samples: object) -> None:
    """A count is not guessed."""
    with pytest.raises(LogError, match="the evaluation has no valid samples_count"):
        result_of(tmp_path, START, quality(1, 0.5, samples))


def test_the_largest_number_is_a_quality(tmp_path: Path) -> None:
    """It is finite."""
    assert result_of(tmp_path, START, quality(1, sys.float_info.max)).evaluations[0].quality == sys.float_info.max


def test_an_evaluation_before_the_start_does_not_belong_to_the_run(tmp_path: Path) -> None:
    """One exactly at the start does, and one exactly at the stop decides."""
    early = (quality(1.5, 0.99), Step(2.0, "run_start"), quality(2, 0.1), quality(2.5, 0.2), quality(3, 0.9))
    found = result_of(tmp_path, *early, stopped(3))

    assert [(item.seconds, item.quality) for item in found.evaluations] == [(0.0, 0.1), (0.5, 0.2), (1.0, 0.9)]
    assert (found.seconds, found.quality) == (1.0, 0.9)


def test_of_several_stops_the_last_ends_the_run(tmp_path: Path) -> None:
    """The longest possible run; it is not a result."""
    found = result_of(tmp_path, START, quality(1, 0.95), stopped(1), stopped(3))

    assert (found.run_s, found.seconds, found.ledger["other"]) == (3.0, None, 3.0)


@pytest.mark.parametrize(
    ("keys", "init_s"),
    [
        (("init_start", "init_stop"), 1.0),
        (("init_start", "init_start", "init_stop", "init_stop"), 3.0),
        (("init_start",), None),
        (("init_stop",), None),
        ((), None),
    ],
)
def test_initialisation_is_from_the_first_start_to_the_last_stop(
    tmp_path: Path, keys: tuple[str, ...], init_s: float | None
) -> None:
    """One second apart each; absent if either is missing."""
    ledger = derive_ledger(log_of(tmp_path, *(Step(float(at), key) for at, key in enumerate(keys)), Step(9.0, "seed")))

    assert ledger.get("init") == init_s


@pytest.mark.parametrize(
    ("begin_s", "end_s", "inside_s"),
    [(11, 12, 1.0), (9.5, 10.5, 0.5), (13.5, 20, 0.5), (5, 9, 0.0), (15, 16, 0.0), (5, 20, 4.0)],
)
def test_an_interval_counts_as_far_as_it_is_within_the_run(
    tmp_path: Path, begin_s: float, end_s: float, inside_s: float
) -> None:
    """A run of 4 s, from second 10 to second 14; time before and after it is not subtracted."""
    steps = [Step(10.0, "run_start"), stopped(14), Step(begin_s, "eval_start"), Step(end_s, "eval_stop")]
    ledger = derive_ledger(log_of(tmp_path, *sorted(steps, key=lambda step: step.at_s)))

    assert (ledger["eval"], ledger["other"]) == (inside_s, 4.0 - inside_s)


def test_time_without_evaluation_is_never_negative(tmp_path: Path) -> None:
    """Half a second remains of 1.5 s; three evaluations that fill a run sum to slightly more than it."""
    half = (START, Step(0.5, "eval_start"), Step(1.5, "eval_stop"), quality(1.5, 0.95), stopped(1.5))
    times = (0.0, 1.596071421, 7.269476829, 7.457859039)
    full = [START]
    for begin_s, end_s in itertools.pairwise(times):
        full += [Step(begin_s, "eval_start"), Step(end_s, "eval_stop")]
    full += [quality(times[-1], 0.95), stopped(times[-1])]
    over = derive_ledger(log_of(tmp_path, *full))

    assert result_of(tmp_path, *half, timing=UNCOUNTED).seconds == 0.5
    assert over["eval"] > times[-1]
    assert result_of(tmp_path, *full, timing=UNCOUNTED).seconds == 0.0


def block(begin_s: float, end_s: float) -> list[Step]:
    return [Step(begin_s, "block_start"), Step(end_s, "block_stop")]


def test_waiting_is_a_share_of_the_blocks(tmp_path: Path) -> None:
    """0.1 s of two blocks of a quarter second; without a block, or without an end of the run, there is no share."""
    waited = Step(0.5, "tracked_stats", {"data_wait_s": 0.1})
    steps = [START, *block(0, 0.25), *block(0.25, 0.5), waited]

    assert result_of(tmp_path, *steps, stopped(1)).data_wait_fraction == 0.2
    assert result_of(tmp_path, *steps).data_wait_fraction is None
    assert result_of(tmp_path, START, waited, stopped(1)).data_wait_fraction is None


@pytest.mark.parametrize("value", [None, "data_wait_s", {"throughput": 1.0}, ["data_wait_s"]])
def test_statistics_without_a_waiting_time_count_as_none(tmp_path: Path, value: object) -> None:
    """Nor do statistics before the end of the first block count: they belong to no block."""
    early, late = Step(0.5, "tracked_stats", {"data_wait_s": 0.5}), Step(2.0, "tracked_stats", value)
    steps = (START, Step(0.0, "block_start"), early, Step(1.0, "block_stop"), *block(1, 2), late, stopped(2))
    found = derive_ledger(log_of(tmp_path, *steps))

    assert (found["train"], found["data"]) == (2.0, 0.0)


def test_statistics_count_for_the_block_before_them(tmp_path: Path) -> None:
    """0.5 s for the first, 0.25 s and 0.25 s for the second, which is half a second long."""
    steps = [
        *(START, *block(0, 1), Step(1.0, "tracked_stats", {"data_wait_s": 0.5}), *block(1, 1.5)),
        *[Step(1.5, "tracked_stats", {"data_wait_s": 0.25})] * 2,
        stopped(1.5),
    ]

    assert derive_ledger(log_of(tmp_path, *steps))["data"] == 1.0


def test_energy_is_judged_by_the_limits_given(tmp_path: Path) -> None:
    """Without limits, by the harness's defaults."""
    log = read_result(fabricate.write_result(tmp_path / "r", power="node")).runs[0]
    plain, strict = run_result(log, RULES), run_result(log, RULES, limits=EnergyLimits(min_samples=10**6))

    assert plain.energy is not None
    assert strict.energy is not None
    assert (plain.energy.void, strict.energy.void) == ((), ("few_samples",))


@pytest.mark.parametrize(("stop_s", "is_known"), [(1e12, True), (1e12 + 1e-3, False), (-1e12, True), (-1.1e12, False)])
def test_a_time_out_of_range_is_an_error(tmp_path: Path, stop_s: float, is_known: bool) -> None:
    """By wall time, as in other programs' logs; the limit is 30,000 years."""
    mlperflog.write(tmp_path / "a.txt", [Entry(0.0, "run_start"), Entry(stop_s, "run_stop")])
    log = run_log.read(tmp_path / "a.txt")

    if is_known:
        assert math.isclose(run_result(log, RULES).run_s or 0.0, stop_s)
    else:
        with pytest.raises(LogError, match=r"a.txt:2: the time stamp of 'run_stop' is out of range"):
            run_result(log, RULES)


def test_a_start_without_a_stop_of_its_own_claims_no_time(tmp_path: Path) -> None:
    """Two evaluations begin, one ends: the time of the evaluation counts from the later start."""
    begun = [Step(0.5, "eval_start"), Step(1.5, "eval_start"), Step(2.0, "eval_stop"), quality(2.0, 0.95)]
    found = result_of(tmp_path, START, *begun, stopped(2.0), timing=UNCOUNTED)

    assert (found.ledger["eval"], found.seconds) == (0.5, 1.5)
