"""Results that were edited in one respect, and what of it the audit tells: counts, times of evaluations, machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker.audit.signals import Suspicion
from harness.mlperf import formula
from tests import fabricate, foreign
from tests.auditing import STANDARD, audit
from tests.foreign import BATCH, EVERY, NUM_EVALUATIONS, Row, of

LAST = EVERY * NUM_EVALUATIONS
SCHEDULE = formula.parse("value == 5000")


def found(place: Path, code: str, **standard: Any) -> list[Suspicion]:
    """What one signal says of the result at `place`."""
    return [item for item in audit(place, dataclasses.replace(STANDARD, **standard)) if item.finding.code == code]


def write(place: Path, change: Callable[[list[Row]], None], num_runs: int = 1) -> Path:
    """A result of which the first run is changed."""
    runs = [foreign.rows(index) for index in range(num_runs)]
    change(runs[0])
    return foreign.write(foreign.result(place), runs)


def recounted(where: Callable[[int], int]) -> Callable[[list[Row]], None]:
    """Every line at so many samples states others."""

    def change(run: list[Row]) -> None:
        for row in run:
            if "samples_count" in row.metadata:
                row.metadata["samples_count"] = where(row.metadata["samples_count"])

    return change


def only(num_evaluations: int, run: list[Row]) -> None:
    """Takes the later evaluations away."""
    for _ in range(NUM_EVALUATIONS - num_evaluations):
        run.remove(of(run, "eval_accuracy", num_evaluations))


@pytest.mark.parametrize(("more", "is_told"), [(-2_000, False), (0, False), (2, False), (3, True), (BATCH, True)])
@pytest.mark.parametrize("demand", [None, SCHEDULE])
def test_a_last_evaluation_counted_farther_on_is_told(
    more: int, is_told: bool, demand: formula.Formula | None, tmp_path: Path
) -> None:
    """AUD014: by a batch is enough; earlier is no fault, and half a thousandth of the distance is noise of counts."""
    place = write(tmp_path, recounted(lambda samples: samples + more if samples == LAST else samples))

    told = found(place, "AUD014", distance=demand)

    assert len(told) == is_told
    assert all(item.finding.evidence["distance"] == EVERY + more for item in told)


def test_evaluations_that_are_counted_farther_and_farther_on_are_told(tmp_path: Path) -> None:
    """AUD014: most distances are alike, so that three longer ones do not hide each other."""
    place = write(tmp_path, recounted(lambda samples: samples + max(0, samples - 5 * EVERY) // EVERY * BATCH))

    [told] = found(place, "AUD014")

    assert told.finding.evidence["times"] == 3


@pytest.mark.parametrize(("more", "is_told"), [(200, False), (220, False), (230, True)])
def test_distances_that_differ_leave_room_for_as_much(more: int, is_told: bool, tmp_path: Path) -> None:
    """AUD014: samples that are counted after packing; the others are 4,940 to 5,070 apart, the last up to 5,200."""
    wave = (0, 40, -10, 60, 10, 80, 20, 0)
    place = write(
        tmp_path,
        recounted(lambda samples: samples + wave[samples // EVERY - 1] + more * (samples == LAST) if samples else 0),
    )

    assert len(found(place, "AUD014")) == is_told


@pytest.mark.parametrize(("demand", "is_told"), [(None, False), (SCHEDULE, True)])
def test_the_rules_are_enough_where_a_run_has_two_evaluations(
    demand: formula.Formula | None, is_told: bool, tmp_path: Path
) -> None:
    """AUD014: the first is at a distance of the rules, the second at a longer one; the run alone has no usual one."""

    def change(run: list[Row]) -> None:
        only(2, run)
        of(run, "eval_accuracy", 1).metadata["samples_count"] = 2 * EVERY + BATCH

    place = write(tmp_path, change)

    assert len(found(place, "AUD014", distance=demand)) == is_told
    assert found(place, "AUD014", distance=demand, reference_unit="epochs") == []


def test_the_rules_are_enough_where_most_distances_are_longer(tmp_path: Path) -> None:
    """AUD014: four of seven are a batch longer, which is the run's own schedule, and not that of the rules."""
    place = write(tmp_path, recounted(lambda samples: samples + max(0, samples - 4 * EVERY) // EVERY * BATCH))

    told = found(place, "AUD014", distance=SCHEDULE)

    assert found(place, "AUD014") == []
    assert [
        item.finding.evidence.get("times") for item in told if "one evaluation to this one" in item.finding.message
    ] == [4]


@pytest.mark.parametrize(
    ("more", "is_told"),
    [(0, False), (2, False), (3, True), (2_500, True), (4_890, True), (4_910, False), (5_000, False), (-60_000, False)],
)
def test_evaluations_that_are_all_counted_farther_on_are_told(more: int, is_told: bool, tmp_path: Path) -> None:
    """AUD014: the first is at no multiple of the distance. Up to a batch before one is where some programs stop."""
    place = write(tmp_path, recounted(lambda samples: samples + more))

    assert [item.score for item in found(place, "AUD014", distance=SCHEDULE)] == [50] * is_told
    assert found(place, "AUD014") == []
    assert found(place, "AUD014", distance=SCHEDULE, reference_unit="epochs") == []


@pytest.mark.parametrize(("more", "is_told"), [(60, False), (100, False), (200, True)])
def test_a_first_evaluation_has_the_room_that_distances_have(more: int, is_told: bool, tmp_path: Path) -> None:
    """AUD014: distances from 4,940 to 5,070; the first is `more` than 5,000."""
    wave = (0, 40, -10, 60, 10, 80, 20, 0)
    place = write(tmp_path, recounted(lambda samples: samples + wave[samples // EVERY - 1] + more if samples else 0))
    near = formula.parse("abs(value - 5000) <= 100")

    assert len(found(place, "AUD014", distance=near)) == is_told


def test_a_batch_before_needs_a_batch(tmp_path: Path) -> None:
    """AUD014: 90 samples before a multiple, in a log that states no batch."""

    def change(run: list[Row]) -> None:
        recounted(lambda samples: samples - 90)(run)
        run.remove(of(run, "global_batch_size"))

    assert found(write(tmp_path / "with", recounted(lambda samples: samples - 90)), "AUD014", distance=SCHEDULE) == []
    assert len(found(write(tmp_path / "without", change), "AUD014", distance=SCHEDULE)) == 1


def test_epochs_may_begin_anywhere(tmp_path: Path) -> None:
    """AUD014: ResNet is evaluated every four epochs, from the first, second, third or fourth on."""

    def change(run: list[Row]) -> None:
        for nth in range(NUM_EVALUATIONS):
            of(run, "eval_accuracy", nth).metadata = {"epoch_num": 2 + 4 * nth}

    schedule = formula.parse("value == 4")

    assert found(write(tmp_path, change), "AUD014", distance=schedule, reference=(), reference_unit="epochs") == []


def stepped(name: str, key: str, more: int = 0, last: int = 0, num_steps: int = NUM_EVALUATIONS) -> Any:
    """Lines of `key` state their step, and `more`; the samples of the last `last` evaluations are one batch more."""

    def change(run: list[Row]) -> None:
        for nth in range(num_steps):
            of(run, key, nth).metadata = {name: (nth + 1) * EVERY // BATCH + more}
        recounted(lambda samples: samples + BATCH * (samples > LAST - last * EVERY))(run)

    return change


@pytest.mark.parametrize(("name", "key"), [("step", "tracked_stats"), ("curr_global_step", "block_stop")])
@pytest.mark.parametrize(("last", "is_told"), [(0, False), (1, True), (3, True), (4, False)])
def test_samples_that_contradict_the_step_are_told(
    name: str, key: str, last: int, is_told: bool, tmp_path: Path
) -> None:
    """AUD033: one batch more in the last evaluations, as long as most say what a step is."""
    told = found(write(tmp_path, stepped(name, key, last=last)), "AUD033")

    assert len(told) == is_told
    message = (
        f"{LAST + BATCH} samples after a line with {name} of {key} {LAST // BATCH}; at {BATCH} per step, "
        f"as in {NUM_EVALUATIONS - last} other evaluations, it would be {LAST}"
    )
    assert all(item.finding.message == message for item in told)


def test_steps_of_another_kind_are_not_compared(tmp_path: Path) -> None:
    """AUD033: counted from elsewhere, stated before few evaluations only, or none."""
    offset = write(tmp_path / "offset", stepped("step_num", "block_start", more=7, last=1))
    few = write(tmp_path / "few", stepped("step_num", "block_start", last=8, num_steps=2))
    zero = write(tmp_path / "zero", stepped("step_num", "block_start", more=-400, last=1))

    assert [found(place, "AUD033") for place in (offset, few, zero)] == [[], [], []]


def lasting(seconds: Callable[[int], float]) -> Callable[[list[Row]], None]:
    """Every evaluation lasts so long, and what comes after it moves with its end."""

    def change(run: list[Row]) -> None:
        shift_s, begin_s, nth = 0.0, 0.0, 0
        for row in run:
            row.at_s += shift_s
            if row.key == "eval_start":
                begin_s = row.at_s
            elif row.key == "eval_accuracy":
                more_s = begin_s + seconds(nth) - 0.001 - row.at_s  # eval_stop follows a millisecond later
                row.at_s, shift_s, nth = row.at_s + more_s, shift_s + more_s, nth + 1

    return change


def in_epochs(run: list[Row]) -> None:
    """Positions in epochs of a million samples."""
    for row in run:
        if (samples := row.metadata.pop("samples_count", None)) is not None:
            row.metadata["epoch_num"] = samples / 1e6


@pytest.mark.parametrize(("seconds", "is_told"), [(0.45, False), (0.38, True), (0.001, True), (0.0, True)])
@pytest.mark.parametrize("count", [lambda run: None, in_epochs])
def test_evaluations_that_are_too_fast_for_the_run_are_told(
    seconds: float, is_told: bool, count: Callable[[list[Row]], None], tmp_path: Path
) -> None:
    """AUD035: 500 samples are evaluated, 250 are trained in a second; up to five times as fast is usual."""

    def change(run: list[Row]) -> None:
        lasting(lambda nth: seconds)(run)
        count(run)

    told = found(write(tmp_path, change), "AUD035")

    assert len(told) == is_told
    assert all(item.finding.evidence["factor"] == pytest.approx(2 / max(seconds, 0.001), rel=0.02) for item in told)
    assert all(item.score == pytest.approx(70 - 35 * 5 / item.finding.evidence["factor"], abs=0.1) for item in told)


def without(*keys: str) -> Callable[[list[Row]], None]:
    def change(run: list[Row]) -> None:
        run[:] = [row for row in run if row.key not in keys]

    return change


def in_steps(run: list[Row]) -> None:
    for row in run:
        if (samples := row.metadata.pop("samples_count", None)) is not None:
            row.metadata["step"] = samples // BATCH


def in_epochs_of_nothing(run: list[Row]) -> None:
    in_epochs(run)
    without("train_samples")(run)


def nowhere(run: list[Row]) -> None:
    of(run, "eval_accuracy", NUM_EVALUATIONS - 1).metadata = {}


def starting_last(run: list[Row]) -> None:
    of(run, "run_start").at_s = run[-1].at_s


@pytest.mark.parametrize(
    "change",
    [
        without("eval_samples"),
        without("eval_accuracy"),
        without("run_start"),
        without("eval_start"),
        without("eval_stop"),
        in_epochs_of_nothing,
        in_steps,
        nowhere,
        recounted(lambda samples: samples - 2 * LAST),
        recounted(lambda samples: 0),
        starting_last,
    ],
)
def test_a_speed_that_cannot_be_counted_is_not_compared(change: Callable[[list[Row]], None], tmp_path: Path) -> None:
    """AUD035: no samples, no evaluation, no clock, no unit, or none that can be."""

    def both(run: list[Row]) -> None:
        lasting(lambda nth: 0.1)(run)
        change(run)

    assert found(write(tmp_path, both), "AUD035") == []


@pytest.mark.parametrize(
    ("usual", "short", "num_short", "is_told"),
    [(20.0, 6.0, 2, True), (20.0, 7.0, 2, False), (20.0, 1.0, 5, False), (1.0, 0.2, 1, False), (1.0, 0.2, 3, True)],
)
def test_evaluations_shorter_than_those_of_the_run_are_told(
    usual: float, short: float, num_short: int, is_told: bool, tmp_path: Path
) -> None:
    """AUD035: more than three times, and by a hundredth of the run's 160 s and more in all; most are no outliers."""
    place = write(tmp_path, lasting(lambda nth: short if nth < num_short else usual))

    told = found(place, "AUD035")

    assert len(told) == is_told
    assert all(f"({num_short} of 8 are too short" in item.finding.message for item in told)
    assert [item.score for item in told] == [pytest.approx(35 + 35 * (1 - 3 * short / usual), abs=0.2)] * is_told


@pytest.mark.parametrize("has_end", [True, False])
def test_the_shortest_evaluation_is_shown(has_end: bool, tmp_path: Path) -> None:
    """AUD035: of two starts before it the first counts; a run without an end has no length to hold the time against."""

    def change(run: list[Row]) -> None:
        lasting(lambda nth: {3: 6.0, 7: 3.0}.get(nth, 20.0))(run)
        begin, value = of(run, "eval_start"), of(run, "eval_accuracy")
        run.insert(run.index(value), Row(begin.at_s + 19.0, "eval_start"))
        if not has_end:
            run.remove(of(run, "run_stop"))

    [told] = found(write(tmp_path, change), "AUD035")

    assert told.finding.evidence["seconds"] == pytest.approx(3.0, abs=0.01)
    assert "(2 of 8 are too short, by 31 s)" in told.finding.message


def test_two_evaluations_have_no_usual_length(tmp_path: Path) -> None:
    def change(run: list[Row]) -> None:
        lasting(lambda nth: 2.0 if nth else 40.0)(run)
        only(2, run)
        for key in ("eval_start", "eval_stop"):
            for _ in range(NUM_EVALUATIONS - 2):
                run.remove(of(run, key, 2))

    assert found(write(tmp_path, change), "AUD035") == []


@pytest.mark.parametrize(("num_runs", "short", "is_told"), [(2, 2.0, False), (3, 2.0, True), (3, 8.0, False)])
def test_a_run_with_evaluations_shorter_than_the_others_is_told(
    num_runs: int, short: float, is_told: bool, tmp_path: Path
) -> None:
    """AUD035: all of one run's evaluations, between which nothing differs."""
    runs = [foreign.rows(index) for index in range(num_runs)]
    for index, run in enumerate(runs):
        lasting((lambda nth: 20.0) if index else (lambda nth: short))(run)

    told = found(foreign.write(foreign.result(tmp_path), runs), "AUD035")

    assert [Path(item.finding.path).name for item in told] == ["result_0.txt"] * is_told
    assert all("the runs of this result" in item.finding.message for item in told)


@pytest.mark.parametrize(("eval_s", "is_told"), [(0.1, False), (0.08, True), (0.005, True)])
def test_our_small_workloads_have_more_room(eval_s: float, is_told: bool, tmp_path: Path) -> None:
    """AUD035: twelve times, of 500 samples that are evaluated and 476 that are trained in a second."""
    told = [
        item for item in audit(fabricate.write_submission(tmp_path, eval_s=eval_s)) if item.finding.code == "AUD035"
    ]

    assert len(told) == 5 * is_told


def machine(
    place: Path, platform: Any, system: dict[str, Any] | None = None, folder: str = "toybox"
) -> list[Suspicion]:
    """What AUD036 says of runs on `platform` in the folder of another name, with or without a description."""
    runs = [foreign.rows(index) for index in range(2)]
    for run in runs:
        of(run, "submission_platform").value = platform
    if system is not None:
        path = place / "Toy" / "systems" / f"{folder}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(system))
    return found(foreign.write(place / "Toy" / "results" / folder / "toy", runs), "AUD036")


AMD = {"accelerator_model_name": "AMD Instinct MI325X 256GB", "system_name": "Quanta 7U", "number_of_nodes": "1"}
GAUDI = {"accelerator_model_name": "Gaudi 2", "number_of_nodes": "128", "accelerators_per_node": "8"}


@pytest.mark.parametrize(
    ("platform", "system", "folder", "missing"),
    [
        ("1xMI325X", AMD, "toybox", ""),
        ("1xMI325A", AMD, "toybox", ""),
        ("1xMI355X", AMD, "toybox", "mi355"),
        ("1xMI32X", AMD, "toybox", "mi32"),
        ("MI355X", None, "MI355X_pytorch", ""),
        ("MI355X", None, "MI325X_pytorch", "mi355"),
        ("TPUv4-128", None, "tpu-v4-128-TF", ""),
        ("tpu-v4-6912", None, "tpu-v4-128-TF", "6912"),
        ("tpu-v3-128", None, "tpu-v4-128-TF", "v3"),
        ("Ascend 910 ProA", {"accelerator_model_name": "Ascend910"}, "toybox", ""),
        ("Ascend 91", {"accelerator_model_name": "Ascend910"}, "toybox", ""),
        ("Ascend 310", {"accelerator_model_name": "Ascend910"}, "toybox", "310"),
        ("gaudi-1024", GAUDI, "toybox", ""),
        ("gaudi-512", GAUDI, "toybox", "512"),
        ("gaudi-512", {**GAUDI, "accelerators_per_node": "many"}, "toybox", "512"),
        ("gaudi-512", {"accelerator_model_name": "Gaudi 2", "accelerators_per_node": "8"}, "toybox", "512"),
        ("8xSUBMISSION_PLATFORM_PLACEHOLDER", AMD, "toybox", ""),
        ("toybox", AMD, "toybox", ""),
        (["MI355X"], AMD, "toybox", ""),
    ],
)
def test_a_platform_of_another_model_is_told(
    platform: Any, system: dict[str, Any] | None, folder: str, missing: str, tmp_path: Path
) -> None:
    """AUD036: by each word with a digit, whatever stands between words; letters behind it and nodes are no model."""
    told = machine(tmp_path, platform, system, folder)

    assert len(told) == bool(missing)
    assert all(f"{missing} is not in" in item.finding.message for item in told)
    assert all("(in 2 of 2 runs)" in item.finding.message and item.score == 85 for item in told)


def test_a_platform_without_a_place_is_compared_with_nothing(tmp_path: Path) -> None:
    """AUD036: a folder that is nowhere in a submission names no system."""
    runs = [foreign.rows(0)]
    of(runs[0], "submission_platform").value = "1xMI355X"

    assert found(foreign.write(tmp_path / "logs", runs), "AUD036") == []
