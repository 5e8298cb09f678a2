"""The timeline of a run, where the log is whole and where it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.log import run_log
from harness.log.keys import BLOCK_START, BLOCK_STOP
from harness.scoring import timeline
from harness.scoring.timeline import crossing, first_reached
from harness.workload import Metric
from tests import fabricate
from tests.fabricate import METRIC, Step, benchmark_rules
from tests.harness.scoring.test_run_result import RULES, START, log_of, quality, stopped

ERROR = Metric("error", "fraction", "min")


def test_unpaired_starts_and_stops(tmp_path: Path) -> None:
    """Every start opens its own interval; a stop without a start belongs to none."""
    steps = fabricate.events()
    steps.remove(fabricate.find(steps, BLOCK_STOP, 0))
    steps.remove(fabricate.find(steps, BLOCK_START, 1))
    steps.remove(fabricate.find(steps, BLOCK_START, 1))
    log = run_log.read(fabricate.write_log(tmp_path / "result_0.txt", steps))
    first, *stops = (*log.all(BLOCK_START), *log.all(BLOCK_STOP))

    assert timeline.intervals(log, BLOCK_START, BLOCK_STOP) == (timeline.Interval(first, stops[0]),)
    assert timeline.intervals(log, BLOCK_STOP, BLOCK_START) == tuple(timeline.Interval(stop, None) for stop in stops)


@pytest.mark.parametrize(
    ("values", "count"), [((), 0), ((0.95, 0.5), 0), ((0.5, 0.95, 0.9), 2), ((0.95, 0.5, 0.9), 1), ((0.9, 0.9), 2)]
)
def test_confirmed_are_those_that_reach_the_target_without_a_gap(values: tuple[float, ...], count: int) -> None:
    """Counted back from the last: an evaluation below the target ends the count."""
    assert timeline.num_confirmed(values, fabricate.benchmark_rules(target=0.9)) == count


def test_the_first_that_reaches_the_target_decides_without_confirmation() -> None:
    """Unless the rules require confirmation."""
    assert first_reached([0.5, 0.9, 0.95], METRIC, 0.9) == 1
    assert first_reached([0.5, 0.9, 0.95], METRIC, 0.9, 1) == 2
    assert first_reached([0.5], METRIC, 0.9) is None


@pytest.mark.parametrize(
    ("qualities", "confirm", "samples"),
    [
        ((0.5, 0.8, 1.0), 0, 2500.0),
        ((0.5, 0.9, 0.3), 0, 2000.0),
        ((0.95, 0.5), 0, 1000.0),
        ((0.5, 0.7), 0, None),
        ((), 0, None),
        ((0.8, 1.0, 0.95), 1, 2500.0),
        ((0.95, 0.9, 0.8), 1, 2000.0),
        ((0.95, 0.5, 1.0, 0.9), 1, 3800.0),
        ((0.5, 0.95), 1, None),
    ],
)
def test_a_crossing_is_interpolated(qualities: tuple[float, ...], confirm: int, samples: float | None) -> None:
    """Target 0.9, an evaluation every 1,000 samples; the first has none before it, and a confirmation is added. An
    error of 1 - quality crosses 0.1 at the same place."""
    curve = [(1000 * (index + 1), quality) for index, quality in enumerate(qualities)]
    errors = [(count, 1 - quality) for count, quality in curve]
    found = [crossing(curve, METRIC, 0.9, confirm), crossing(errors, ERROR, 1 - 0.9, confirm)]

    assert found == [None, None] if samples is None else found == pytest.approx([samples] * 2)


def test_a_damaged_log_is_read_as_far_as_possible(tmp_path: Path) -> None:
    """Status, length by the first start and stop, configuration, and the ranks that are mappings."""
    whole = log_of(
        tmp_path,
        Step(0.0, "tta_config", {"full_curve": True, "hyperparameters": {"lr": 0.1}}),
        Step(1.0, "run_start"),
        stopped(3.0, "aborted"),
        Step(4.0, "run_start"),
        stopped(5.0),
    )
    assert (timeline.status(whole), timeline.run_s(whole), timeline.is_full_curve(whole)) == ("aborted", 2.0, True)
    assert timeline.hyperparameters(whole) == {"lr": 0.1}

    bare = log_of(tmp_path, Step(0.0, "tta_config", {"full_curve": 1, "hyperparameters": ["lr"]}), START)
    assert (timeline.status(bare), timeline.run_s(bare), timeline.is_full_curve(bare)) == ("started", None, False)
    assert timeline.hyperparameters(bare) is None
    assert timeline.ranks(bare) == timeline.ranks(log_of(tmp_path, Step(0.0, "tta_world", 5))) == []
    assert timeline.ranks(log_of(tmp_path, Step(0.0, "tta_world", [{"rank": 0}, 5]))) == [{"rank": 0}]
    odd = log_of(tmp_path, Step(1.0, "run_stop", None, {"status": 5}))
    assert (timeline.status(odd), timeline.run_s(odd), timeline.is_full_curve(odd)) == ("started", None, False)


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (256, 256), (0, None), (-1, None), (True, None), (64.0, None)])
def test_a_batch_size_is_a_whole_number_from_one(tmp_path: Path, value: object, expected: int | None) -> None:
    """Otherwise it is not known."""
    assert timeline.batch_size(log_of(tmp_path, Step(0.0, "global_batch_size", value))) == expected


def test_statistics_belong_to_the_last_block_that_was_finished(tmp_path: Path) -> None:
    """Not to one that was never started, nor to one that is not finished."""
    stats = [Step(float(at), "tracked_stats", at) for at in range(6)]
    log = log_of(
        tmp_path,
        *(stats[0], Step(0.5, "block_stop"), stats[1], Step(1.5, "block_start"), stats[2], Step(2.5, "block_stop")),
        *(stats[3], Step(3.5, "block_start"), stats[4], Step(4.5, "block_stop"), Step(4.6, "seed"), stats[5]),
    )
    found = [(event.value, log.seconds(start, stop)) for event, start, stop in timeline.block_stats(log)]

    assert found == [(3, 1.0), (4, 1.0), (5, 1.0)]
    assert [stop.lineno for _, _, stop in timeline.block_stats(log)] == [6, 6, 10]


def test_only_evaluations_with_a_quality_decide(tmp_path: Path) -> None:
    """One without is skipped; 0.9 is crossed at 8/9 of the way from 0.5 to 0.95, and confirmed 1,000 samples later."""
    words = Step(1.0, "eval_accuracy", "good", {"samples_count": 500})
    log = log_of(tmp_path, START, words, quality(2, 0.5), quality(3, 0.95, 2000), quality(4, 0.96, 3000))
    confirmed = benchmark_rules(confirm_evaluations=1)
    missed = log_of(tmp_path, START, words, quality(2, 0.5))

    assert [value for _, value in timeline.qualities(log)] == [0.5, 0.95, 0.96]
    uncounted = log_of(tmp_path, START, quality(2, 0.5, "many"), quality(3, 0.95, 2000))
    found = [timeline.samples_to_target(log, rules) for rules in (RULES, confirmed)]

    assert found == pytest.approx([1000 + 8000 / 9, 2000 + 8000 / 9])
    assert (timeline.deciding(missed, RULES), timeline.samples_to_target(missed, RULES)) == (None, None)
    assert timeline.samples_to_target(uncounted, RULES) is None
