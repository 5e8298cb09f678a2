"""The result of one run at the boundaries: logs of a few lines, so that every number can be checked in the head."""

from __future__ import annotations

import itertools
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.energy.limits import EnergyLimits
from harness.errors import LogError
from harness.log import power_files, run_log
from harness.log.run_log import RunLog
from harness.ruleset.model import Timing
from harness.scoring.run_result import RunResult, derive_ledger, run_result
from harness.submission.result import read_result
from harness.workload import Metric
from tests import fabricate, mlperflog
from tests.fabricate import Step, benchmark_rules, find
from tests.mlperflog import Entry

UNCOUNTED = Timing(max_init_s={}, count_evaluation=False)
TOY = benchmark_rules()
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


def test_run_result_of_a_good_run(tmp_path: Path) -> None:
    """The time is from run_start to run_stop, the samples are those of the evaluation that reached the target."""
    result = run_result(log_of(tmp_path, *fabricate.events(seed=7)), TOY)

    assert result.seconds == pytest.approx(7.7)
    assert result.run_s == result.seconds
    assert (result.samples, result.quality, result.seed) == (3000, 0.95, 7)
    assert (result.status, result.reason, result.why_not) == ("success", "target", None)
    assert [(item.samples, item.quality) for item in result.evaluations] == [(1000, 0.5), (2000, 0.8), (3000, 0.95)]
    assert [item.seconds for item in result.evaluations] == pytest.approx([2.7, 5.2, 7.7])


def test_the_parts_of_a_pace_score(tmp_path: Path) -> None:
    """0.2 s open the data, 7.5 s are for 3,000 samples, and 0.9 is crossed 2/3 of the way from 0.8 to 0.95."""
    result = run_result(log_of(tmp_path, *fabricate.events()), TOY)
    missed = run_result(log_of(tmp_path, *fabricate.events(status="aborted")), TOY)

    assert (result.fixed_s, result.pace_s) == (pytest.approx(0.2), pytest.approx(7.5 / 3000))
    assert result.crossing_samples == pytest.approx(2000 + 2000 / 3)
    assert (missed.fixed_s, missed.pace_s, missed.crossing_samples) == (
        pytest.approx(0.2),
        pytest.approx(7.5 / 3000),
        None,
    )


def test_a_killed_run_has_the_pace_of_its_last_evaluation(tmp_path: Path) -> None:
    """It has no run_stop; a run that was never evaluated has no pace."""
    steps = fabricate.events()
    last = max(index for index, step in enumerate(steps) if step.key == "eval_accuracy")
    first = next(index for index, step in enumerate(steps) if step.key == "eval_accuracy")

    killed, unevaluated = (run_result(log_of(tmp_path, *steps[:end]), TOY) for end in (last + 1, first))

    assert (killed.seconds, killed.fixed_s) == (None, pytest.approx(0.2))
    assert killed.pace_s == pytest.approx(7.5 / 3000)
    assert (unevaluated.fixed_s, unevaluated.pace_s) == (0.0, None)


def test_a_run_without_training_or_time_has_no_pace(tmp_path: Path) -> None:
    """It reached the target before any sample, or in no more time than its data took to open."""
    untrained = result_of(tmp_path, START, quality(1, 0.95, 0), stopped(1))
    opening = (Step(0.0, "tta_data_open_start"), Step(1.0, "tta_data_open_stop"))
    opened = result_of(tmp_path, START, *opening, quality(1, 0.95), stopped(1))

    assert (untrained.pace_s, untrained.crossing_samples) == (None, 0.0)
    assert (opened.pace_s, opened.fixed_s) == (None, 1.0)


def test_success_without_reaching_the_target_is_not_believed(tmp_path: Path) -> None:
    """A quality equal to the target reaches it; just below it, or after the end, the status alone is not enough."""
    below = math.nextafter(0.9, 0)
    equal = result_of(tmp_path, START, quality(1, 0.9), stopped(1))
    missed = result_of(tmp_path, START, quality(1, 0.5), quality(2, below), stopped(2), quality(3, 0.95))

    assert (equal.seconds, equal.samples) == (1.0, 1000)
    assert (missed.seconds, missed.samples) == (None, None)
    assert missed.why_not == "no evaluation up to 'run_stop' reached top1_accuracy 0.9"


def test_a_lower_quality_is_better_where_the_metric_says_so(tmp_path: Path) -> None:
    """Direction comes from the rules."""
    rules = benchmark_rules(metric=Metric("error", "fraction", "min"), target=0.2)
    result = run_result(log_of(tmp_path, *fabricate.events(rules=rules, qualities=(0.9, 0.2))), rules)
    aborted = fabricate.events(rules=rules, qualities=(0.4, 0.3, 0.5), status="aborted")

    assert (result.samples, result.quality) == (2000, 0.2)
    assert run_result(log_of(tmp_path, *aborted), rules).quality == 0.3


@pytest.mark.parametrize(
    ("qualities", "samples"),
    [((0.95, 0.95), 2000), ((0.95, 0.5, 0.95, 0.95), 4000), ((0.5, 0.95), None), ((0.95, 0.5, 0.95), None)],
)
def test_confirmation(tmp_path: Path, qualities: tuple[float, ...], samples: int | None) -> None:
    """With one confirmation, the clock stops at the second evaluation in a row that reaches the target."""
    rules = benchmark_rules(confirm_evaluations=1)

    assert run_result(log_of(tmp_path, *fabricate.events(rules=rules, qualities=qualities)), rules).samples == samples


@pytest.mark.parametrize("key", ["run_start", "run_stop"])
def test_a_log_needs_one_start_and_one_stop(tmp_path: Path, key: str) -> None:
    """Without one, the run did not finish; with two, its time is ambiguous."""
    steps = fabricate.events()
    without = run_result(log_of(tmp_path, *(step for step in steps if step.key != key)), TOY)
    doubled = sorted([*steps, find(steps, key)], key=lambda step: step.at_s)
    twice = run_result(log_of(tmp_path, *doubled), TOY)

    assert (without.seconds, without.why_not) == (None, f"the log has no {key!r}; there must be one")
    assert (twice.seconds, twice.why_not) == (None, f"the log has 2 {key!r}; there must be one")
    if key == "run_stop":
        assert (without.status, without.reason, without.run_s) == ("started", None, None)
        assert without.ledger == {"init": pytest.approx(1.0)}


def test_an_aborted_run_has_no_deciding_evaluation(tmp_path: Path) -> None:
    """Its quality is the best, not the first that was good enough; it has no time, samples or price, and a reason."""
    steps = (START, quality(1, 0.92), quality(2, 0.95, 2000), quality(3, 0.5, 3000), stopped(4, "aborted"))
    found = result_of(tmp_path, *steps, usd_per_hour=Decimal(36))
    budget = run_result(log_of(tmp_path, *fabricate.events(status="aborted", reason="budget")), TOY)

    assert (found.seconds, found.samples, found.quality, found.usd, found.run_s) == (None, None, 0.95, None, 4.0)
    assert (budget.seconds, budget.why_not) == (None, "the run was aborted: budget")


@pytest.mark.parametrize(("number", "expected"), [(7, 7), (0, 0), (True, None), ("7", None), (7.0, None), (None, None)])
def test_seeds_and_numbers_of_examples_are_whole_numbers(tmp_path: Path, number: object, expected: int | None) -> None:
    """Anything that only looks like one is unknown."""
    found = result_of(tmp_path, Step(0.0, "seed", number), START, quality(1, 0.5, num_examples=number))

    assert (found.seed, found.evaluations[0].num_examples) == (expected, expected)


@pytest.mark.parametrize(("samples", "expected"), [(0, 0), (1, 1), (10**15, 10**15), (None, 1000)])
def test_samples_may_be_zero_to_ten_to_the_fifteenth(tmp_path: Path, samples: int | None, expected: int) -> None:
    """Bounds included; `epoch_num`, as in published logs, counts only without a `samples_count`."""
    assert result_of(tmp_path, START, quality(1, 0.5, samples, epoch_num=0.2)).evaluations[0].samples == expected


@pytest.mark.parametrize("samples", [-1, 10**15 + 1, None, "1000"])
def test_samples_beyond_that_are_an_error(tmp_path: Path, samples: object) -> None:
    """A count is not guessed."""
    with pytest.raises(LogError, match="the evaluation has no valid samples_count"):
        result_of(tmp_path, START, quality(1, 0.5, samples))


@pytest.mark.parametrize("value", ["0.95", None, True, [0.95], math.nan, math.inf, 10**400])
def test_a_quality_that_is_not_a_finite_number_is_an_error(tmp_path: Path, value: Any) -> None:
    """It is neither missing nor zero nor the best, even if it gets past the reader; the largest number is finite."""
    log = log_of(tmp_path, START, quality(1, sys.float_info.max))
    assert run_result(log, RULES).evaluations[0].quality == sys.float_info.max

    log._by_key["eval_accuracy"] = (msgspec.structs.replace(log.one("eval_accuracy"), value=value),)
    with pytest.raises(LogError, match="the quality is not a finite number"):
        run_result(log, RULES)


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

    without = result_of(tmp_path, *half, timing=UNCOUNTED)
    assert (without.seconds, without.run_s) == (0.5, 1.5)
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


def test_derived_ledger_agrees_with_the_referees(tmp_path: Path) -> None:
    """The ledger derived from the intervals is the one that the log states."""
    log = log_of(tmp_path, *fabricate.events())
    claimed = log.value("tta_ledger")

    assert derive_ledger(log) == pytest.approx(
        {phase: claimed[f"{phase}_s"] for phase in ("init", "data", "train", "eval", "checkpoint", "other")}, abs=1e-6
    )


def test_ledger_sums_to_the_run_and_shows_unclaimed_time(tmp_path: Path) -> None:
    """Ten seconds between two phases are `other`, and so is a block without an end, the last of a crashed run."""
    steps = fabricate.events()
    for step in steps[steps.index(find(steps, "block_start", 1)) :]:
        step.at_s += 10.0
    steps.remove(find(steps, "block_stop", 2))
    ledger = derive_ledger(log_of(tmp_path, *steps))

    assert ledger["other"] == pytest.approx(10.0 + 2.0)
    assert math.fsum(ledger.values()) - ledger["init"] == pytest.approx(17.7)


def test_waiting_is_no_longer_than_its_block(tmp_path: Path) -> None:
    """A block of 2 s cannot have waited 99 s, nor a negative time."""
    steps = fabricate.events()
    find(steps, "tracked_stats", 0).value["data_wait_s"] = 99.0
    find(steps, "tracked_stats", 1).value["data_wait_s"] = -5.0
    ledger = derive_ledger(log_of(tmp_path, *steps))

    assert ledger["data"] == pytest.approx(0.2 + 2.0 + 0.0 + 0.1)
    assert ledger["train"] == pytest.approx(0.0 + 2.0 + 1.9)


def metered(folder: Path, steps: list[Step], watts: float, name: str = "result_0.txt") -> RunLog:
    """A run with the power log of one node that drew `watts` throughout; its own log states another energy."""
    find(steps, "tta_energy").value = {"energy_j": 1.0, "source": "measured", "meter": "m"}
    path = fabricate.write_log(folder / name, steps)
    text = fabricate.power_text(
        find(steps, "run_start").at_s,
        find(steps, "run_stop").at_s,
        fabricate.meters("node"),
        run_id=find(steps, "tta_format").value["run_id"],
        watts=lambda at_s: watts,
    )
    place = folder / "power" / path.stem / "node_0.txt"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return power_files.with_power(run_log.read(path))


@pytest.mark.parametrize("watts", [300.0, 0.0])
def test_energy_is_summed_from_the_power_logs_only(tmp_path: Path, watts: float) -> None:
    """Of 7.7 s; a meter that reads 0 W throughout is a measurement; `tta_energy` is ignored, with power logs or not."""
    steps = fabricate.events(mono_ns=fabricate.MONO_NS)
    measured = run_result(metered(tmp_path, steps, watts), TOY)
    claimed = run_result(log_of(tmp_path, *steps), TOY)

    assert (measured.energy_j, measured.energy_source) == (pytest.approx(watts * 7.7), "measured")
    assert (claimed.energy, claimed.energy_j, claimed.energy_source) == (None, None, "none")


def test_cost_is_exact(tmp_path: Path) -> None:
    """7.2 s at 36 USD an hour are 0.072 USD; without a rate there is no cost."""
    log = log_of(tmp_path, *fabricate.events(block_s=2.0, eval_s=1.0 / 3))

    assert run_result(log, TOY, Decimal(36)).usd == Decimal("0.072")
    assert run_result(log, TOY).usd is None
