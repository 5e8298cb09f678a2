"""Runs that are nearly the same, come from elsewhere, or have another test set, as the audit compares them."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.checker.audit import read, similarity
from harness.checker.audit.facts import RunDigest, Standard, Tree
from harness.checker.audit.signals import Evidence
from tests import fabricate, foreign
from tests.auditing import STANDARD, TODAY, found, rules
from tests.fabricate import Step, find
from tests.foreign import Row, of, rows

ROOT = Path(__file__).parents[3]
Runs = list[list[Row]]


def messages_of(place: Path, code: str, standard: Standard | None = STANDARD) -> list[str]:
    return [item.finding.message for item in found(place, code, standard)]


def look(code: str, *runs: RunDigest) -> list[Evidence]:
    return list(registry.signals()[code].look(Tree(list(runs)), rules().signals[code]))


def test_a_step_is_the_usual_distance_between_different_values() -> None:
    """A quality at chance for half of a run does not count; values that never change have no step."""
    assert similarity.of_values([0.0, 0.0, 0.0, 0.0, 0.2, 0.3, 0.6]).step == pytest.approx(0.2)
    assert similarity.of_values([0.5, 0.5]).step == similarity.of_values([0.5]).step == 0.0
    assert similarity.of_values([1e308, -1e308, 1e308]).step == 0.0


def test_a_step_of_times_is_to_the_next_of_its_kind() -> None:
    """Blocks of 1,000 and 1,100 ms among evaluations of 200 and 230 ms; an interval of 20 ms does not count."""
    course = [("block", 1000.0), ("evaluation", 200.0), ("block", 1100.0), ("evaluation", 230.0), ("line", 20.0)]

    assert similarity.of_intervals(course).step == 65.0
    assert similarity.of_intervals([*course, ("line", 90.0)]).step == 65.0
    assert similarity.of_intervals([*course, ("line", 21.0), ("line", 22.0)]).step == 30.0
    assert similarity.of_intervals(course).numbers == (1000.0, 200.0, 1100.0, 230.0, 20.0)


def test_the_beginning_of_a_run_is_compared() -> None:
    """However long the log is."""
    assert len(similarity.of_values(range(1000)).numbers) == similarity.MAX_NUMBERS
    assert len(similarity.of_intervals([("block", 1.0)] * 1000).numbers) == similarity.MAX_NUMBERS


CURVE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
CHANCE = (0.0, 0.0, 0.0, 0.0, 0.3)
NEAR_CHANCE = (1e-5, 1e-5, 1e-5, 1e-5, 0.3)


@pytest.mark.parametrize(
    ("mine", "other", "num", "off_steps"),
    [
        (CURVE, CURVE, 6, 0.0),
        (CURVE, (0.1005, 0.2, 0.3, 0.4005, 0.5, 0.6), 6, 0.005),
        (CURVE, (0.1, 0.2005, 0.3001, 0.4, 0.5, 0.9), 5, 0.005),
        (CURVE, (0.102, 0.202, 0.3, 0.4, 0.5, 0.6), 4, 0.0),
        (CURVE, (0.102, 0.202, 0.302, 0.4, 0.5, 0.6), None, 0.0),
        (CURVE, CURVE[:4], 4, 0.0),
        (CURVE, CURVE[:3], None, 0.0),
        (CURVE, (), None, 0.0),
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), None, 0.0),
        ((*CHANCE, 0.5, 0.7), (*NEAR_CHANCE, 0.55, 0.75), None, 0.0),
        ((0.0, 0.0, 0.1, 0.1, 0.3, 0.5, 0.7), (1e-5, 1e-5, 0.1, 0.1, 0.3, 0.55, 0.75), 5, 5e-5),
        ((1e308, -1e308, 0.0), (1e308, -1e308, 0.0), 3, 0.0),
        ((1e308, -1e308, 0.0), (1e308, -1e308, 1.0), None, 0.0),
    ],
)
def test_two_thirds_of_a_run_with_three_different_values_are_those_of_another(
    mine: tuple[float, ...], other: tuple[float, ...], num: int | None, off_steps: float
) -> None:
    """To within a hundredth of a step; without a step, exactly. All runs begin at chance."""
    alike = similarity.alike(similarity.of_values(mine), similarity.of_values(other), 0.01)

    assert (None if alike is None else alike.num) == num
    assert alike is None or alike.off_steps == pytest.approx(off_steps, abs=1e-6)


def test_the_smaller_step_of_two_runs_counts() -> None:
    """A hundredth of a step of the one may be a tenth of a step of the other, whichever comes first."""
    calm, restless = similarity.Fingerprint((0.1, 0.2, 0.3), 0.1), similarity.Fingerprint((0.105, 0.205, 0.305), 1.0)

    assert similarity.alike(calm, restless, 0.01) is similarity.alike(restless, calm, 0.01) is None
    assert similarity.alike(calm, restless, 0.1) is not None


def intervals(*, count: int = 8, factor: float = 1.0, shake_ms: float = 0.0) -> similarity.Fingerprint:
    rnd = random.Random(5)
    blocks = [2000 + 200 * rnd.random() for _ in range(count)]
    shaken = [factor * block + shake_ms * (-1) ** nth for nth, block in enumerate(blocks)]
    return similarity.of_intervals(("block", block) for block in shaken)


def test_a_timeline_at_another_pace_is_the_same_timeline() -> None:
    """All times 3 % shorter; another 10 ms on each makes another timeline, and seven intervals are too few."""
    same = similarity.of_one_pace(intervals(), intervals(factor=0.97), 0.01)

    assert same is not None
    assert same[1] == pytest.approx(1 / 0.97)
    assert similarity.of_one_pace(intervals(), intervals(shake_ms=10), 0.01) is None
    assert similarity.of_one_pace(intervals(count=7), intervals(count=7), 0.01) is None


def test_intervals_of_a_moment_are_not_compared() -> None:
    """20 ms and less, in either run."""
    short = similarity.Fingerprint((20.0,) * 4 + intervals().numbers[4:], 1.0)

    assert similarity.of_one_pace(short, intervals(), 0.01) is None
    assert similarity.of_one_pace(intervals(), short, 0.01) is None

    more = similarity.Fingerprint((*intervals().numbers, *(20.0,) * 5), 1.0)
    assert similarity.of_one_pace(more, intervals(count=13), 0.01) is not None


def shaken(run: list[Row], seed: int, values: float = 0.0, pace: float = 1.0) -> list[Row]:
    """A copy with another seed, whose qualities differ by a share of themselves, and whose times go at another pace."""
    rnd = random.Random(seed)
    made = copy.deepcopy(run)
    of(made, "seed").value = 90_000 + seed
    for row in made:
        row.at_s *= pace
        row.text = row.text.replace("SEED=", f"SEED={seed}")
        if row.key == "eval_accuracy":
            row.value *= 1 + rnd.uniform(-values, values)
    return made


def test_values_that_are_an_eighth_of_a_step_off_are_another_run(tmp_path: Path) -> None:
    """AUD021: runs with different seeds are as far apart."""
    runs = [rows(index) for index in range(5)]
    runs[1] = shaken(runs[0], 1)
    for nth in range(foreign.NUM_EVALUATIONS):
        of(runs[1], "eval_accuracy", nth).value += 0.005 * (-1) ** nth
        of(runs[1], "eval_stop", nth).at_s += 0.08 * (nth % 3)

    assert messages_of(foreign.write(foreign.result(tmp_path), runs), "AUD021") == []


def test_a_timeline_at_another_pace_is_found(tmp_path: Path) -> None:
    """AUD021: a curve of its own, and another run's times, 2 % shorter."""
    runs = [rows(index) for index in range(5)]
    for index, run in enumerate(runs):
        rnd = random.Random(index)
        for nth in range(foreign.NUM_EVALUATIONS):
            for key in ("block_stop", "eval_accuracy"):
                late_s = rnd.random()
                for row in run[run.index(of(run, key, nth)) :]:
                    row.at_s += late_s
    for row, first in zip(runs[3], runs[1], strict=True):
        row.at_s = 0.98 * first.at_s
    [message] = messages_of(foreign.write(foreign.result(tmp_path), runs), "AUD021")

    assert "are 0.98 times those of" in message
    assert "result_1.txt to within 0.0" in message


def test_a_copy_in_another_result_is_found(tmp_path: Path) -> None:
    """AUD021: the runs of one system, slightly changed, as those of another; with equal seeds curves may be equal."""
    runs = [rows(index) for index in range(5)]
    foreign.write(tmp_path / "Toy" / "results" / "box1" / "toy", runs)
    copies = [shaken(run, seed, 1e-9, 0.9) for seed, run in enumerate(runs)]
    other = foreign.write(tmp_path / "Toy" / "results" / "box2" / "toy", copies)
    assert len(messages_of(tmp_path, "AUD021")) == 5

    for mine, run in zip(copies, runs, strict=True):
        of(mine, "seed").value = of(run, "seed").value
    foreign.write(other, copies)
    assert messages_of(tmp_path, "AUD021") == []


def digest(number: int, values: tuple[float, ...] = CURVE, result: str = "r", **fields: Any) -> RunDigest:
    return RunDigest(
        path=Path(result) / f"result_{number}.txt",
        result=Path(result),
        place=fields.get("place", "Toy/box"),
        benchmark=fields.get("benchmark", "toy"),
        sha256=fields.get("sha256", f"{result}{number}"),
        span_ms=fields.get("span_ms", (foreign.START_MS, foreign.START_MS + 1000)),
        seeds=fields.get("seeds", (number,)),
        times=None,
        curve=None,
        values=None,
        qualities=similarity.of_values(values),
        intervals=fields.get("intervals", similarity.of_intervals([])),
        eval_samples=fields.get("eval_samples", 5000.0),
        speed=fields.get("speed", 10.0),
        unit="samples",
        accelerator=fields.get("accelerator", "Example 9000"),
        num_accelerators=fields.get("num_accelerators"),
        num_ranks=fields.get("num_ranks", 0),
    )


def test_a_run_is_compared_with_the_first_fifty() -> None:
    """AUD021: within a result, however many runs it has."""
    apart = [digest(number, tuple(value + number for value in CURVE)) for number in range(51)]
    fiftieth = digest(60, tuple(value + 49 for value in CURVE))
    beyond = digest(61, tuple(value + 50 for value in CURVE))

    assert [item.fault.path for item in look("AUD021", *apart, fiftieth, beyond)] == ["r/result_60.txt"]


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, True),
        ({"seeds": ()}, True),
        ({"seeds": (7,)}, False),
        ({"benchmark": "other"}, False),
        ({"sha256": "r7"}, False),
    ],
)
def test_results_are_compared_by_benchmark_and_seed(changes: dict[str, Any], is_found: bool) -> None:
    """AUD021: a repeated file is for AUD020; runs without a seed have no reason to be alike."""
    first, other = (
        digest(7, seeds=changes.get("seeds", (7,)) and (7,)),
        digest(8, (*CURVE[:5], 0.9), "other", **changes),
    )

    assert bool(look("AUD021", first, other)) == is_found


LONG = tuple(0.1 * nth for nth in range(9))


@pytest.mark.parametrize("place", range(4))
def test_one_of_the_first_three_values_brings_two_results_together(place: int) -> None:
    """AUD021: the others of the first three were changed, and are far off, among those of other results."""
    others = [digest(nth, tuple(value + 3 + nth for value in LONG), f"o{nth}") for nth in range(20)]
    copied = tuple(value + 90 * (nth < 3 and nth != place) for nth, value in enumerate(LONG))

    items = look("AUD021", digest(20, LONG), *others, digest(21, copied, "copy"))

    assert [item.fault.path for item in items] == (["copy/result_21.txt"] if place < 3 else [])


@pytest.mark.parametrize(("num_between", "is_found"), [(7, True), (8, False)])
@pytest.mark.parametrize("is_above", [True, False])
def test_the_eight_nearest_of_other_results_are_compared(num_between: int, is_found: bool, is_above: bool) -> None:
    """AUD021: by a value; of two that are alike the later one is found, above or below the other."""
    sign = 1 if is_above else -1
    first = digest(20, (0.0, *LONG), "first")
    copy_ = digest(21, (1e-5 * sign, *(90 + value for value in LONG[:2]), *LONG[2:]), "copy")
    between = [
        digest(nth, (1e-6 * (nth + 1) * sign, *(10 + nth + value for value in LONG)), f"o{nth}")
        for nth in range(num_between)
    ]

    assert [item.fault.path for item in look("AUD021", first, *between, copy_)] == ["copy/result_21.txt"] * is_found


def test_the_times_of_other_results_are_not_compared() -> None:
    """AUD021: nor are times that differ by less than 10 ms from one to the next, nor runs already found."""
    trail, slow = intervals(), dataclasses.replace(intervals(), step=9.9)
    one, other = digest(1, intervals=trail), digest(2, (0.7,), intervals=trail)

    assert len(look("AUD021", one, other)) == 1
    assert len(look("AUD021", one, other, digest(3, (0.8,), intervals=trail))) == 2
    assert look("AUD021", one, digest(2, (0.7,), "other", intervals=trail)) == []
    assert look("AUD021", one, digest(2, (0.7,), intervals=slow)) == []
    assert look("AUD021", digest(1, intervals=slow), other) == []
    assert look("AUD021", one, digest(2, (0.7,), intervals=intervals(shake_ms=10))) == []


def world(change: Callable[[int, dict[str, Any]], None], description: dict[str, Any] | None = None) -> Any:
    def changed(index: int, steps: list[Step]) -> list[Step]:
        rank = find(steps, "tta_world").value[0]
        rank.update(device_name="x86_64", num_threads=2)
        change(index, rank)
        return steps

    return {"change": changed} | ({} if description is None else {"system": {**fabricate.SYSTEM, **description}})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("host", "fastbox", "the host of the ranks: fastbox; in 4 other runs: h (1 of 5 runs differ)"),
        ("num_threads", 1, "the number of threads of a rank: 1; in 4 other runs: 2 (1 of 5 runs differ)"),
        ("device", "cuda:0", "the device of the ranks: cuda:0 x86_64; in 4 other runs: cpu x86_64"),
        ("device_name", "aarch64", "the device of the ranks: cpu aarch64; in 4 other runs: cpu x86_64"),
    ],
)
def test_a_run_that_was_made_elsewhere_is_found(name: str, value: Any, text: str, tmp_path: Path) -> None:
    """AUD043: by what its rank states."""
    options = world(lambda index, rank: rank.update({name: value} if index == 2 else {}))
    made = fabricate.write_submission(tmp_path, **options)
    [message] = messages_of(made, "AUD043", None)

    assert message.startswith(text)


def test_ranks_of_one_kind_are_one(tmp_path: Path) -> None:
    """AUD043: equal runs are of one origin; a malformed world states nothing."""

    def silent(index: int, steps: list[Step]) -> list[Step]:
        find(steps, "tta_world").value = (None, [7], [{}], 3, [])[index]
        return steps

    assert messages_of(fabricate.write_submission(tmp_path / "a", **world(lambda *_: None)), "AUD043", None) == []
    assert messages_of(fabricate.write_submission(tmp_path / "b", change=silent), "AUD043", None) == []


@pytest.mark.parametrize(
    ("description", "threads", "is_found"),
    [
        ({}, 64, True),
        ({}, 2, False),
        ({}, 3, True),
        ({"host_processors_per_node": "2"}, 4, False),
        ({"host_processors_per_node": "2"}, 5, True),
        ({"host_processors_per_node": "two"}, 3, True),
        ({"host_processor_vcpu_count": "4"}, 4, False),
        ({"host_processor_vcpu_count": ""}, 3, True),
        ({"host_processor_vcpu_count": "", "host_processor_core_count": "many"}, 64, False),
        ({}, "64", False),
    ],
)
def test_threads_are_compared_with_the_description(
    description: dict[str, Any], threads: Any, is_found: bool, tmp_path: Path
) -> None:
    """AUD043: if it states a number of cores or of virtual processors."""
    options = world(lambda _, rank: rank.update(num_threads=threads), description)
    messages = messages_of(fabricate.write_submission(tmp_path, **options), "AUD043", None)

    assert len(messages) == is_found
    if threads == 64 and is_found:
        text = "a rank uses 64 threads; the description has 2 processors per node (5 of 5 runs do)"
        assert messages == [text]


def stating(*numbers: float | None, **fields: Any) -> list[RunDigest]:
    return [
        digest(1, result=f"r{nth}", place=f"org{nth % 2}/box", eval_samples=number, **fields)
        for nth, number in enumerate(numbers)
    ]


@pytest.mark.parametrize(
    ("numbers", "which"),
    [
        ((173, 173, 173, 173, 17), ["r4"]),
        ((17, 173, 173, 173, 173), ["r0"]),
        ((173, 173, 173, 173, 17_300), ["r4"]),
        ((173, 173, 173, 17), []),
        ((173, 173, 173, 173, 346), []),
        ((173, 173, 173, 173, 347), ["r4"]),
        ((11, 11, 11, 11, 10), []),
        ((11, 11, 11, 11, 9), ["r4"]),
        ((173, 173, 173, 173, 17, 18), ["r4", "r5"]),
        ((173, 173, 173, 5, 17, 18), []),
        ((173, 173, 173, 173, None), []),
        ((173, 173, 173, None, 17), []),
    ],
)
def test_another_test_set_than_all_others_is_found(numbers: tuple[float | None, ...], which: list[str]) -> None:
    """AUD047: if there are at least four others, and four in five of them agree."""
    items = look("AUD047", *stating(*numbers))

    assert sorted(Path(item.fault.path).parent.name for item in items) == which


def test_the_test_set_is_compared_within_a_round() -> None:
    """AUD047: results of one benchmark, at most 180 days apart, each by its first run; without a time, with none."""
    day_ms = 86_400_000
    others = stating(173, 173, 173, 173)
    for days, is_found in ((180, True), (-180, True), (181, False), (-181, False)):
        start_ms = foreign.START_MS + days * day_ms
        run = digest(1, result="x", eval_samples=17, span_ms=(start_ms, start_ms))
        assert bool(look("AUD047", *others, run)) == is_found
    assert look("AUD047", *others, digest(1, result="x", eval_samples=17, span_ms=None)) == []
    assert look("AUD047", *others, digest(1, result="x", eval_samples=17, benchmark="other")) == []
    assert look("AUD047", *others, digest(1, result="x"), digest(2, result="x", eval_samples=17)) != []  # 5,000
    [item] = look("AUD047", *others, digest(1, result="x", eval_samples=17), digest(2, result="x", eval_samples=173))
    assert item.fault.message == "eval_samples is 17; 4 of 4 other results of toy state 173"
    assert item.fault.path == "x/result_1.txt"


def test_a_result_of_another_test_set_is_found_in_a_tree(tmp_path: Path) -> None:
    """AUD047: five results in folders of their own."""
    for nth in range(5):
        runs = [rows(5 * nth + index) for index in range(5)]
        for run in runs:
            of(run, "eval_samples").value = 500 if nth == 3 else 5_000
        foreign.write(tmp_path / f"org{nth}" / "results" / "box" / "toy", runs)
    [item] = found(tmp_path, "AUD047")

    assert "org3" in item.finding.path


def test_reference_runs_are_not_taken_for_copies() -> None:
    """AUD021, AUD043, AUD047: machines that compute alike, equal seeds in two results, and nothing to find."""
    folders = sorted({path.parent for path in (ROOT / "submissions" / "reference").rglob("result_0.txt")})
    tree, items = Tree(), []
    for path, logs in read.find(folders):
        subject = read.subject(read.read(path, logs), None, rules(), TODAY)
        tree.add(subject)
        items += list(registry.signals()["AUD043"].look(subject, rules().signals["AUD043"]))

    assert len(tree.runs) > 200
    assert [*items, *look("AUD021", *tree.runs), *look("AUD047", *tree.runs)] == []


def sized(*systems: tuple[str, int, float], **fields: Any) -> list[RunDigest]:
    """One result for each submitter, number of accelerators, and samples per second."""
    return [
        digest(1, result=f"r{nth}", place=f"{name}/box{nth}", num_accelerators=number, speed=speed, **fields)
        for nth, (name, number, speed) in enumerate(systems)
    ]


@pytest.mark.parametrize(
    ("systems", "which"),
    [
        ((("A", 8, 20.0), ("B", 8, 16.0), ("C", 8, 25.9)), []),
        ((("A", 8, 20.0), ("B", 8, 16.0), ("C", 8, 26.1)), ["r2"]),
        ((("A", 8, 20.0), ("B", 8, 16.0), ("C", 512, 1800.0)), ["r2"]),
        ((("A", 8, 20.0), ("A", 8, 16.0), ("C", 8, 40.0)), []),
        ((("A", 8, 20.0), ("B", 16, 16.0), ("C", 8, 40.0)), []),
    ],
    ids=["less than 1.3 times", "more", "of a large system", "one submitter", "larger systems"],
)
def test_a_result_too_fast_for_its_accelerators_is_found(
    systems: tuple[tuple[str, int, float], ...], which: list[str]
) -> None:
    """AUD039: faster for each than all others in as many or fewer, of two submitters."""
    items = look("AUD039", *sized(*systems))

    assert [Path(item.fault.path).parent.name for item in items] == which


def test_only_like_results_are_compared_by_accelerator() -> None:
    """AUD039: of one accelerator, however it is spelt, from one half-year; the run of median speed stands for each."""
    others = sized(("A", 8, 20.0), ("B", 8, 16.0))
    fast = {"result": "x", "place": "C/box", "num_accelerators": 8, "speed": 40.0}
    year_ms = (foreign.START_MS + 365 * 86_400_000,) * 2

    [item] = look("AUD039", *others, digest(1, **fast, accelerator="EXAMPLE-9000 (400W)"))
    assert item.fault.message == (
        "5 samples/s for each of 8 accelerators, 2.00 times the fastest of 2 other results of toy on "
        "EXAMPLE-9000 (400W) in as many or fewer"
    )
    for changes in ({"accelerator": "Example 900"}, {"accelerator": ""}, {"span_ms": year_ms}, {"span_ms": None}):
        assert look("AUD039", *others, digest(1, **{**fast, **changes})) == []  # type: ignore[arg-type]
    assert look("AUD039", *others, digest(1, **{**fast, "speed": 1.0}), digest(2, **fast)) != []  # type: ignore[arg-type]


@pytest.mark.parametrize(("num_ranks", "number", "is_found"), [(8, 8, False), (16, 8, True), (16, None, False)])
def test_more_processes_than_accelerators_are_found(num_ranks: int, number: int | None, is_found: bool) -> None:
    """AUD039: by the ranks before the lines."""
    assert bool(look("AUD039", digest(1, num_ranks=num_ranks, num_accelerators=number))) == is_found
