"""The result of a run and the score of several, on fabricated logs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.errors import LogError
from harness.log import power_files, run_log
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, ReferenceConvergence, Timing
from harness.scoring.run_result import derive_ledger, run_result
from harness.scoring.score import Score, score
from harness.workload import Metric
from tests import fabricate
from tests.fabricate import Step, benchmark_rules, find

TIMING = Timing(max_init_s={"closed": 1800.0, "open": 14400.0})
UNCOUNTED = Timing(max_init_s={"closed": 1800.0, "open": 14400.0}, count_evaluation=False)
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


def test_run_result_of_a_good_run(folder: Path) -> None:
    """The time is from run_start to run_stop, the samples are those of the evaluation that reached the target."""
    result = run_result(log_of(folder, fabricate.events(seed=7)), benchmark_rules())

    assert result.seconds == pytest.approx(7.7)
    assert result.run_s == result.seconds
    assert (result.samples, result.quality, result.seed) == (3000, 0.95, 7)
    assert (result.status, result.reason, result.why_not) == ("success", "target", None)
    assert [(item.samples, item.quality) for item in result.evaluations] == [(1000, 0.5), (2000, 0.8), (3000, 0.95)]
    assert [item.seconds for item in result.evaluations] == pytest.approx([2.7, 5.2, 7.7])


def test_quality_equal_to_the_target_reaches_it(folder: Path) -> None:
    """Equal counts."""
    assert run_result(log_of(folder, fabricate.events(qualities=(0.9,))), benchmark_rules()).samples == 1000


def test_success_without_reaching_the_target_is_not_believed(folder: Path) -> None:
    """The status of run_stop is not enough."""
    below = math.nextafter(0.9, 0)
    result = run_result(log_of(folder, fabricate.events(qualities=(0.5, below))), benchmark_rules())

    assert (result.seconds, result.samples, result.quality) == (None, None, below)
    assert result.why_not == "no evaluation up to 'run_stop' reached top1_accuracy 0.9"


def test_a_lower_quality_is_better_where_the_metric_says_so(folder: Path) -> None:
    """Direction comes from the rules."""
    rules = benchmark_rules(metric=Metric("error", "fraction", "min"), target=0.2)
    result = run_result(log_of(folder, fabricate.events(rules=rules, qualities=(0.9, 0.2))), rules)
    aborted = fabricate.events(rules=rules, qualities=(0.4, 0.3, 0.5), status="aborted")

    assert (result.samples, result.quality) == (2000, 0.2)
    assert run_result(log_of(folder, aborted), rules).quality == 0.3


@pytest.mark.parametrize(
    ("qualities", "samples"),
    [((0.95, 0.95), 2000), ((0.95, 0.5, 0.95, 0.95), 4000), ((0.5, 0.95), None), ((0.95, 0.5, 0.95), None)],
)
def test_confirmation(folder: Path, qualities: tuple[float, ...], samples: int | None) -> None:
    """With one confirmation the clock stops at the second evaluation in a row that reaches the target."""
    rules = benchmark_rules(confirm_evaluations=1)

    assert run_result(log_of(folder, fabricate.events(rules=rules, qualities=qualities)), rules).samples == samples


def test_an_evaluation_after_run_stop_does_not_count(folder: Path) -> None:
    """A target reached after the clock has stopped was not reached."""
    steps = fabricate.events()
    find(steps, "run_stop").at_s -= 1.0
    steps.sort(key=lambda step: step.at_s)

    assert run_result(log_of(folder, steps), benchmark_rules()).seconds is None


@pytest.mark.parametrize("key", ["run_start", "run_stop"])
def test_a_log_needs_one_start_and_one_stop(folder: Path, key: str) -> None:
    """Without one, the run did not finish; with two, its time is ambiguous."""
    steps = fabricate.events()
    without = run_result(log_of(folder, [step for step in steps if step.key != key]), benchmark_rules())
    doubled = sorted([*steps, find(steps, key)], key=lambda step: step.at_s)
    twice = run_result(log_of(folder, doubled), benchmark_rules())

    assert without.seconds is None
    assert without.why_not == f"the log has no {key!r}; there must be one"
    assert twice.seconds is None
    assert twice.why_not == f"the log has 2 {key!r}; there must be one"


def test_a_run_without_run_stop_has_started(folder: Path) -> None:
    """A crash never looks like success."""
    steps = [step for step in fabricate.events() if step.key != "run_stop"]
    result = run_result(log_of(folder, steps), benchmark_rules())

    assert (result.status, result.reason, result.run_s) == ("started", None, None)
    assert result.ledger == {"init": pytest.approx(1.0)}


def test_aborted_run_names_its_reason(folder: Path) -> None:
    """An aborted run has no time, even where its last evaluation reached the target."""
    result = run_result(log_of(folder, fabricate.events(status="aborted", reason="budget")), benchmark_rules())

    assert (result.seconds, result.quality) == (None, 0.95)
    assert result.why_not == "the run was aborted: budget"


@pytest.mark.parametrize("value", ["0.95", None, True, [0.95]])
def test_a_quality_that_is_no_number_is_an_error(folder: Path, value: Any) -> None:
    """It is neither missing nor zero."""
    steps = fabricate.events()
    find(steps, "eval_accuracy").value = value

    with pytest.raises(LogError, match="the quality is not a finite number"):
        run_result(log_of(folder, steps), benchmark_rules())


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400])
def test_a_quality_that_is_not_finite_is_an_error(folder: Path, value: float) -> None:
    """The reader rejects such numbers; if one got through, it would be neither missing nor the best."""
    log = log_of(folder, fabricate.events())
    first, second, third, *others = log.all("eval_accuracy")
    log._by_key["eval_accuracy"] = (first, second, msgspec.structs.replace(third, value=value), *others)

    with pytest.raises(LogError, match="the quality is not a finite number"):
        run_result(log, benchmark_rules())


def test_a_quality_beyond_json_does_not_become_a_result(folder: Path) -> None:
    """1e999 in the file is a damaged line: the target was not reached."""
    path = folder / "result_0.txt"
    path.write_text(fabricate.text_of(fabricate.events()).replace('"value": 0.95,', '"value": 1e999,'))

    assert run_result(run_log.read(path), benchmark_rules()).seconds is None


def test_an_evaluation_without_samples_is_an_error(folder: Path) -> None:
    """A count is never guessed; a count in epochs, as in published logs, is accepted."""
    steps = fabricate.events()
    del find(steps, "eval_accuracy").metadata["samples_count"]
    with pytest.raises(LogError, match="no valid samples_count"):
        run_result(log_of(folder, steps), benchmark_rules())
    find(steps, "eval_accuracy").metadata["epoch_num"] = 0.2

    assert run_result(log_of(folder, steps), benchmark_rules()).evaluations[0].samples == 1000


def test_derived_ledger_agrees_with_the_referees(folder: Path) -> None:
    """The ledger derived from the intervals is the one that the log states."""
    log = log_of(folder, fabricate.events())
    claimed = log.value("tta_ledger")

    assert derive_ledger(log) == pytest.approx(
        {phase: claimed[f"{phase}_s"] for phase in ("init", "data", "train", "eval", "checkpoint", "other")}, abs=1e-6
    )


def test_ledger_sums_to_the_run_and_shows_unclaimed_time(folder: Path) -> None:
    """Ten seconds between two phases are `other`."""
    steps = fabricate.events()
    second = steps.index(find(steps, "block_start", 1))
    for step in steps[second:]:
        step.at_s += 10.0
    log = log_of(folder, steps)
    ledger = derive_ledger(log)

    assert ledger["other"] == pytest.approx(10.0)
    assert math.fsum(ledger.values()) - ledger["init"] == pytest.approx(17.7)


def test_waiting_is_no_longer_than_its_block(folder: Path) -> None:
    """A block of 2 s cannot have waited 99 s, nor a negative time."""
    steps = fabricate.events()
    find(steps, "tracked_stats", 0).value["data_wait_s"] = 99.0
    find(steps, "tracked_stats", 1).value["data_wait_s"] = -5.0
    ledger = derive_ledger(log_of(folder, steps))

    assert ledger["data"] == pytest.approx(0.2 + 2.0 + 0.0 + 0.1)
    assert ledger["train"] == pytest.approx(0.0 + 2.0 + 1.9)


def test_a_block_without_an_end_claims_nothing(folder: Path) -> None:
    """The last block of a crashed run is unclaimed time."""
    steps = fabricate.events()
    steps.remove(find(steps, "block_stop", 2))

    assert derive_ledger(log_of(folder, steps))["other"] == pytest.approx(2.0)


def test_evaluation_is_subtracted_where_the_rules_do_not_count_it(folder: Path) -> None:
    """Three evaluations of half a second."""
    result = run_result(log_of(folder, fabricate.events()), benchmark_rules(), timing=UNCOUNTED)

    assert result.seconds == pytest.approx(7.7 - 1.5)
    assert result.run_s == pytest.approx(7.7)


def test_energy_is_summed_from_the_power_logs_only(folder: Path) -> None:
    """300 W for 7.7 s; `tta_energy` is ignored, with or without power logs."""
    steps = fabricate.events(mono_ns=fabricate.MONO_NS)
    find(steps, "tta_energy").value = {"energy_j": 1.0, "source": "measured", "meter": "m"}
    claimed = run_result(log_of(folder, steps), benchmark_rules())
    measured = run_result(metered(folder, steps, 300.0), benchmark_rules())

    assert (claimed.energy, claimed.energy_j, claimed.energy_source) == (None, None, "none")
    assert measured.energy_j == pytest.approx(300 * 7.7)
    assert measured.energy_source == "measured"


def test_zero_energy_is_not_missing_energy(folder: Path) -> None:
    """A meter that says 0 W throughout is a measurement (and a broken meter)."""
    result = run_result(metered(folder, fabricate.events(mono_ns=fabricate.MONO_NS), 0.0), benchmark_rules())

    assert (result.energy_j, result.energy_source) == (0.0, "measured")


def test_cost_is_exact(folder: Path) -> None:
    """7.2 s at 36 USD an hour are 0.072 USD; without a rate there is no cost."""
    log = log_of(folder, fabricate.events(block_s=2.0, eval_s=1.0 / 3))

    assert run_result(log, benchmark_rules(), Decimal(36)).usd == Decimal("0.072")
    assert run_result(log, benchmark_rules()).usd is None


def scored(folder: Path, block_s: Sequence[float | None], rules: BenchmarkRules = NO_REFERENCE, **more: Any) -> Score:
    return score(logs_of(folder, block_s, rules), rules, TIMING, more.pop("division", "closed"), **more)


def test_score_is_the_olympic_mean(folder: Path) -> None:
    """Of blocks of 1, 2, 3, 4 and 90 s, those of 2, 3 and 4 s are averaged."""
    found = scored(folder, (90.0, 2.0, 1.0, 4.0, 3.0))

    assert found.seconds == pytest.approx(time_of(3.0))
    assert found.dropped == (0, 2)
    assert found.samples == 3000
    assert (found.normalised_by, found.convergence, found.why_not) == (1.0, None, None)


@pytest.mark.parametrize("number", [0, 1, 4, 6])
def test_a_score_needs_exactly_the_required_runs(folder: Path, number: int) -> None:
    """One too few or one too many is not a result."""
    found = scored(folder, [2.0] * number)

    assert found.seconds is None
    assert found.why_not == f"{number} {'run' if number == 1 else 'runs'} found; the rules require 5"
    assert len(found.runs) == number


def test_one_missed_run_is_the_slowest(folder: Path) -> None:
    """It is dropped, and the fastest too."""
    found = scored(folder, (None, 2.0, 3.0, 4.0, 1.0))

    assert found.seconds == pytest.approx(time_of(3.0))
    assert found.dropped == (0, 4)
    assert found.samples == 3000
    assert found.interval is not None
    assert all(map(math.isfinite, found.interval))


def test_two_missed_runs_prevent_a_score(folder: Path) -> None:
    """The reason names the first of them."""
    found = scored(folder, (None, 2.0, None, 4.0, 1.0))

    assert found.seconds is None
    assert found.why_not is not None
    assert found.why_not.startswith("2 runs of 5 missed the target; at most 1 may.")
    assert found.why_not.endswith("the run was aborted: budget")


def test_a_log_that_cannot_be_interpreted_prevents_a_score(folder: Path) -> None:
    """It does not count as the run that may be dropped."""
    logs = logs_of(folder, (2.0,) * 4)
    steps = fabricate.events(4)
    find(steps, "eval_accuracy").value = "high"
    found = score([*logs, log_of(folder, steps, "result_4.txt")], NO_REFERENCE, TIMING, "closed")

    assert found.seconds is None
    assert found.why_not is not None
    assert "result_4.txt" in found.why_not


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


def test_runs_of_different_batch_sizes_have_no_common_reference(folder: Path) -> None:
    """No single reference applies to them."""
    rules = benchmark_rules()
    logs = [log_of(folder, fabricate.events(i, batch_size=50 if i == 3 else 100), f"result_{i}.txt") for i in range(5)]

    assert "global_batch_size" in str(score(logs, rules, TIMING, "closed").why_not)
    assert score(logs, rules, TIMING, "open").seconds == pytest.approx(7.7)


def metered(folder: Path, steps: list[Step], watts: float, kind: str = "node", name: str = "result_0.txt") -> RunLog:
    """A run with the power log of one node that drew `watts` throughout; its own log states another energy."""
    find(steps, "tta_energy").value = {"energy_j": 1.0, "source": "measured", "meter": "m"}
    path = fabricate.write_log(folder / name, steps)
    text = fabricate.power_text(
        find(steps, "run_start").at_s,
        find(steps, "run_stop").at_s,
        fabricate.meters(kind),
        run_id=find(steps, "tta_format").value["run_id"],
        watts=lambda at_s: watts,
    )
    place = folder / "power" / path.stem / "node_0.txt"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return power_files.with_power(run_log.read(path))


def with_energy(folder: Path, watts: Sequence[float | None], kind: str = "node") -> list[RunLog]:
    """Runs with blocks of 2, 3, 4, 5, 6 s that drew these watts; None: not metered."""
    logs = []
    for index, power_w in enumerate(watts):
        steps = fabricate.events(index, block_s=2.0 + index, mono_ns=fabricate.MONO_NS)
        name = f"result_{index}.txt"
        logs.append(log_of(folder, steps, name) if power_w is None else metered(folder, steps, power_w, kind, name))
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


def test_one_unmetered_run_voids_the_energy(folder: Path) -> None:
    """If it is one of the kept runs; its joules are not guessed from the others."""
    found = score(with_energy(folder, (100.0, 100.0, None, 100.0, 100.0)), NO_REFERENCE, TIMING, "closed")

    assert found.energy is not None
    assert (found.energy_j, found.energy_source, found.energy.low_j) == (None, "none", None)
    assert found.energy.void == ("unmetered",)
    assert not found.energy.may_rank


def test_a_modelled_energy_is_shown_but_not_ranked(folder: Path) -> None:
    """It has joules but no board."""
    found = score(with_energy(folder, (100.0,) * 5, "model"), NO_REFERENCE, TIMING, "closed")

    assert found.energy is not None
    assert found.energy_source == "estimated"
    assert (found.energy.board, found.energy.may_rank, found.energy.meter_class) == (None, False, "E")
    assert found.energy_j == pytest.approx(100 * 13.7)


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


def test_one_void_run_voids_the_score(folder: Path) -> None:
    """If it is one of the kept runs; those dropped by time do not matter."""
    logs = with_energy(folder, (100.0,) * 5)
    late = power_files.read_nodes(folder / "power" / "result_2", power_files.Budget())
    cut = replace(late[0], samples={name: series[:60] for name, series in late[0].samples.items()})
    for index, void in ((2, ("coverage", "few_samples", "gap")), (0, ())):
        changed = [replace(log, nodes=(replace(cut, run_id=log.nodes[0].run_id),)) if i == index else log
                   for i, log in enumerate(logs)]  # fmt: skip
        energy = score(changed, NO_REFERENCE, TIMING, "closed").energy
        assert energy is not None
        assert energy.void == void


def test_the_order_of_the_runs_does_not_matter(folder: Path) -> None:
    """Energies of equal times included."""
    logs = with_energy(folder, (50.0, 60.0, 70.0, 80.0))
    same = fabricate.events(8, block_s=3.0, mono_ns=fabricate.MONO_NS)
    logs.append(metered(folder, same, 200.0, name="result_8.txt"))
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
            logs.append(log_of(place, steps, name) if power_w is None else metered(place, steps, power_w, name=name))

        assert score(logs, NO_REFERENCE, TIMING, "closed").energy_j == pytest.approx(300 * time_of(3.0))


def test_the_interval_of_a_score_is_that_of_its_times_and_ends_at_zero(folder: Path) -> None:
    """Kept 7.7, 10.7, 13.7: 10.7 +- 4.3027 * sqrt(9 * 5) / 3; of 7.7, 25.7, 61.7 the lower end would be negative."""
    narrow, wide = scored(folder, (1.0, 2.0, 3.0, 4.0, 90.0)), scored(folder, (1.0, 2.0, 8.0, 20.0, 90.0))

    assert narrow.interval == pytest.approx((10.7 - 9.6211, 10.7 + 9.6211), abs=1e-4)
    assert wide.interval is not None
    assert wide.interval[0] == 0.0


def test_runs_without_a_batch_size_have_no_reference(folder: Path) -> None:
    """A reason rather than an error, and no factor."""
    rules = benchmark_rules()
    logs = []
    for index in range(5):
        steps = [step for step in fabricate.events(index) if step.key != "global_batch_size"]
        logs.append(log_of(folder, steps, f"result_{index}.txt"))
    found = score(logs, rules, TIMING, "closed")

    assert (found.seconds, found.normalised_by) == (None, 1.0)
    assert "global_batch_size" in str(found.why_not)


def test_the_first_log_that_cannot_be_interpreted_is_named(folder: Path) -> None:
    """One reason is enough, and always the same."""
    logs = []
    for index in range(5):
        steps = fabricate.events(index)
        if index in (1, 3):
            find(steps, "eval_accuracy").value = "good"
        logs.append(log_of(folder, steps, f"result_{index}.txt"))

    assert "result_1.txt" in str(score(logs, NO_REFERENCE, TIMING, "closed").why_not)
