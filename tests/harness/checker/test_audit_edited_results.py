"""Results that were edited in one respect, and what of it the audit tells: counts, times of evaluations, machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker.audit.signals import Suspicion
from harness.mlperf import formula
from tests import fabricate, foreign
from tests.auditing import audit, found
from tests.foreign import BATCH, EVERY, NUM_EVALUATIONS, Row, of

LAST = EVERY * NUM_EVALUATIONS
SCHEDULE, NEAR = formula.parse("value == 5000"), formula.parse("abs(value - 5000) <= 100")


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


@pytest.mark.parametrize(("more", "is_found"), [(-2_000, False), (0, False), (2, False), (3, True), (BATCH, True)])
@pytest.mark.parametrize("demand", [None, SCHEDULE])
def test_a_last_evaluation_counted_farther_on_is_found(
    more: int, is_found: bool, demand: formula.Formula | None, tmp_path: Path
) -> None:
    """AUD014: by a batch is enough; earlier is no fault, and half a thousandth of the distance is noise of counts."""
    place = write(tmp_path, recounted(lambda samples: samples + more if samples == LAST else samples))

    items = found(place, "AUD014", distance=demand)

    assert len(items) == is_found
    assert all(item.finding.evidence["distance"] == EVERY + more for item in items)


@pytest.mark.parametrize(("from_nth", "times", "by_rules"), [(5, 3, 3), (4, None, 4)])
def test_evaluations_that_are_counted_farther_and_farther_on_are_found(
    from_nth: int, times: int | None, by_rules: int, tmp_path: Path
) -> None:
    """AUD014: three of seven distances are a batch longer than the others; if it is four, only the rules show it."""
    place = write(tmp_path, recounted(lambda samples: samples + max(0, samples - from_nth * EVERY) // EVERY * BATCH))

    for schedule, expected in ((None, times), (SCHEDULE, by_rules)):
        items = [item for item in found(place, "AUD014", distance=schedule) if "times" in item.finding.evidence]
        assert [item.finding.evidence["times"] for item in items] == [expected] * (expected is not None)


@pytest.mark.parametrize(
    ("last", "every", "demand", "is_found"),
    [
        (200, 0, None, False),
        (220, 0, None, False),
        (230, 0, None, True),
        (0, 60, NEAR, False),
        (0, 100, NEAR, False),
        (0, 200, NEAR, True),
    ],
)
def test_distances_that_differ_leave_room_for_as_much(
    last: int, every: int, demand: formula.Formula | None, is_found: bool, tmp_path: Path
) -> None:
    """AUD014: counted after packing, 4,940 to 5,070 apart; the last or the first may be as far off, by 100 at most."""
    wave = (0, 40, -10, 60, 10, 80, 20, 0)

    def where(samples: int) -> int:
        return samples + wave[samples // EVERY - 1] + every + last * (samples == LAST) if samples else 0

    assert len(found(write(tmp_path, recounted(where)), "AUD014", distance=demand)) == is_found


def test_two_evaluations_have_no_usual_distance_or_length(tmp_path: Path) -> None:
    """AUD014, AUD035: the rules may have a distance, in the same unit."""

    def change(run: list[Row]) -> None:
        lasting(lambda nth: 2.0 if nth else 40.0)(run)
        for key in ("eval_start", "eval_accuracy", "eval_stop"):
            for _ in range(NUM_EVALUATIONS - 2):
                run.remove(of(run, key, 2))
        of(run, "eval_accuracy", 1).metadata["samples_count"] = 2 * EVERY + BATCH

    place = write(tmp_path, change)

    assert len(found(place, "AUD014", distance=SCHEDULE)) == 1
    assert found(place, "AUD014", distance=SCHEDULE, reference_unit="epochs") == []
    assert found(place, "AUD014") == found(place, "AUD035") == []


@pytest.mark.parametrize(
    ("more", "is_found"),
    [(0, False), (2, False), (3, True), (2_500, True), (4_890, True), (4_910, False), (5_000, False), (-60_000, False)],
)
def test_evaluations_that_are_all_counted_farther_on_are_found(more: int, is_found: bool, tmp_path: Path) -> None:
    """AUD014: the first is at no multiple of the distance. Up to a batch before one is where some programs stop."""
    place = write(tmp_path, recounted(lambda samples: samples + more))

    assert [item.score for item in found(place, "AUD014", distance=SCHEDULE)] == [50] * is_found
    assert found(place, "AUD014") == []
    assert found(place, "AUD014", distance=SCHEDULE, reference_unit="epochs") == []


def test_a_first_evaluation_may_be_up_to_a_batch_early(tmp_path: Path) -> None:
    """AUD014: 90 samples before a multiple; not in a log that states no batch size. Epochs may begin anywhere."""

    def in_fours(run: list[Row]) -> None:
        for nth in range(NUM_EVALUATIONS):
            of(run, "eval_accuracy", nth).metadata = {"epoch_num": 2 + 4 * nth}

    def early(run: list[Row]) -> None:
        recounted(lambda samples: samples - 90)(run)

    def without_batch(run: list[Row]) -> None:
        early(run)
        run.remove(of(run, "global_batch_size"))

    fours: dict[str, Any] = {"distance": formula.parse("value == 4"), "reference": (), "reference_unit": "epochs"}
    assert found(write(tmp_path / "early", early), "AUD014", distance=SCHEDULE) == []
    assert len(found(write(tmp_path / "without", without_batch), "AUD014", distance=SCHEDULE)) == 1
    assert found(write(tmp_path / "fours", in_fours), "AUD014", **fours) == []


def stepped(name: str, key: str, more: int = 0, last: int = 0, num_steps: int = NUM_EVALUATIONS) -> Any:
    """Lines of `key` state their step, and `more`; the samples of the last `last` evaluations are one batch more."""

    def change(run: list[Row]) -> None:
        for nth in range(num_steps):
            of(run, key, nth).metadata = {name: (nth + 1) * EVERY // BATCH + more}
        recounted(lambda samples: samples + BATCH * (samples > LAST - last * EVERY))(run)

    return change


@pytest.mark.parametrize(("name", "key"), [("step", "tracked_stats"), ("curr_global_step", "block_stop")])
@pytest.mark.parametrize(("last", "is_found"), [(0, False), (1, True), (3, True), (4, False)])
def test_samples_that_contradict_the_step_are_found(
    name: str, key: str, last: int, is_found: bool, tmp_path: Path
) -> None:
    """AUD033: one batch more in the last evaluations, as long as most say what a step is."""
    items = found(write(tmp_path, stepped(name, key, last=last)), "AUD033")

    assert len(items) == is_found
    message = (
        f"{LAST + BATCH} samples after a line with {name} of {key} {LAST // BATCH}; at {BATCH} per step, "
        f"as in {NUM_EVALUATIONS - last} other evaluations, it would be {LAST}"
    )
    assert all(item.finding.message == message for item in items)


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


@pytest.mark.parametrize(("seconds", "is_found"), [(0.45, False), (0.38, True), (0.001, True), (0.0, True)])
@pytest.mark.parametrize("count", [lambda run: None, in_epochs])
def test_evaluations_that_are_too_fast_for_the_run_are_found(
    seconds: float, is_found: bool, count: Callable[[list[Row]], None], tmp_path: Path
) -> None:
    """AUD035: 500 samples are evaluated, 250 are trained in a second; up to five times as fast is usual."""

    def change(run: list[Row]) -> None:
        lasting(lambda nth: seconds)(run)
        count(run)

    items = found(write(tmp_path, change), "AUD035")

    assert len(items) == is_found
    assert all(item.finding.evidence["factor"] == pytest.approx(2 / max(seconds, 0.001), rel=0.02) for item in items)
    assert all(item.score == pytest.approx(70 - 35 * 5 / item.finding.evidence["factor"], abs=0.1) for item in items)


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
    ("usual", "short", "num_short", "is_found"),
    [(20.0, 6.0, 2, True), (20.0, 7.0, 2, False), (20.0, 1.0, 5, False), (1.0, 0.2, 1, False), (1.0, 0.2, 3, True)],
)
def test_evaluations_shorter_than_those_of_the_run_are_found(
    usual: float, short: float, num_short: int, is_found: bool, tmp_path: Path
) -> None:
    """AUD035: more than three times, and by a hundredth of the run's 160 s and more in all; most are no outliers."""
    place = write(tmp_path, lasting(lambda nth: short if nth < num_short else usual))

    items = found(place, "AUD035")

    assert len(items) == is_found
    assert all(f"({num_short} of 8 are too short" in item.finding.message for item in items)
    assert [item.score for item in items] == [pytest.approx(35 + 35 * (1 - 3 * short / usual), abs=0.2)] * is_found


@pytest.mark.parametrize("has_end", [True, False])
def test_the_shortest_evaluation_is_shown(has_end: bool, tmp_path: Path) -> None:
    """AUD035: of two starts before it the first counts; a run without an end has no length to hold the time against."""

    def change(run: list[Row]) -> None:
        lasting(lambda nth: {3: 6.0, 7: 3.0}.get(nth, 20.0))(run)
        begin, value = of(run, "eval_start"), of(run, "eval_accuracy")
        run.insert(run.index(value), Row(begin.at_s + 19.0, "eval_start"))
        if not has_end:
            run.remove(of(run, "run_stop"))

    [item] = found(write(tmp_path, change), "AUD035")

    assert item.finding.evidence["seconds"] == pytest.approx(3.0, abs=0.01)
    assert "(2 of 8 are too short, by 31 s)" in item.finding.message


@pytest.mark.parametrize(("num_runs", "short", "is_found"), [(2, 2.0, False), (3, 2.0, True), (3, 8.0, False)])
def test_a_run_with_evaluations_shorter_than_the_others_is_found(
    num_runs: int, short: float, is_found: bool, tmp_path: Path
) -> None:
    """AUD035: all of one run's evaluations, between which nothing differs."""
    runs = [foreign.rows(index) for index in range(num_runs)]
    for index, run in enumerate(runs):
        lasting((lambda nth: 20.0) if index else (lambda nth: short))(run)

    items = found(foreign.write(foreign.result(tmp_path), runs), "AUD035")

    assert [Path(item.finding.path).name for item in items] == ["result_0.txt"] * is_found
    assert all("the runs of this result" in item.finding.message for item in items)


@pytest.mark.parametrize(("eval_s", "is_found"), [(0.1, False), (0.08, True), (0.005, True)])
def test_our_small_workloads_have_more_room(eval_s: float, is_found: bool, tmp_path: Path) -> None:
    """AUD035: twelve times, of 500 samples that are evaluated and 476 that are trained in a second."""
    items = [
        item for item in audit(fabricate.write_submission(tmp_path, eval_s=eval_s)) if item.finding.code == "AUD035"
    ]

    assert len(items) == 5 * is_found


def machine(
    place: Path, platform: Any, system: dict[str, Any] | None = None, folder: str = "toybox"
) -> list[Suspicion]:
    """What AUD036 finds in runs on `platform` in a folder of another name, with or without a description."""
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
        ("1xMI325X_HBM3e_OAM2_x86_PCIe5_x16_256GB", AMD, "toybox", ""),
        ("1xMI355X_HBM3e_x86", AMD, "toybox", "mi355"),
        ("toybox", AMD, "toybox", ""),
        (["MI355X"], AMD, "toybox", ""),
    ],
)
def test_a_platform_of_another_model_is_found(
    platform: Any, system: dict[str, Any] | None, folder: str, missing: str, tmp_path: Path
) -> None:
    """AUD036: by each word with a digit, whatever stands between words; letters behind it and nodes are no model."""
    items = machine(tmp_path, platform, system, folder)

    assert len(items) == bool(missing)
    assert all(f"{missing} is not in" in item.finding.message for item in items)
    assert all("(in 2 of 2 runs)" in item.finding.message and item.score == 85 for item in items)
