"""A result and one that repeats it: what may be compared, and what the comparison says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import LogError
from harness.log.events import canonical_json
from harness.ruleset.model import BenchmarkRules
from harness.scoring.non_inferiority import LOOKS, Scatter, judge
from harness.scoring.repetition import (
    MAX_CLAIMED,
    Outcome,
    Repeatable,
    compare,
    difference,
    judge_seconds,
    recipe_of,
    repeatable,
)
from harness.scoring.run_result import run_result
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import Step, benchmark_rules, find

RECIPE = {"benchmark": "toy_mini", "division": "closed", "hyperparameters": {"global_batch_size": 100}}
CLAIM = Repeatable(
    digest="1" * 64,
    repeats=None,
    malformed=None,
    recipe=RECIPE,
    samples=(2600.0, 2700.0, 2500.0, 2650.0, 2620.0),
    seeds=frozenset(range(5)),
    tolerance=0.1,
    scatter=Scatter(0.05**2, 19),
)
AGAIN = replace(
    CLAIM,
    digest="2" * 64,
    repeats=CLAIM.digest,
    samples=(2610.0, 2590.0, 2700.0, 2550.0, 2640.0),
    seeds=frozenset((9,)),
)


def slower(factor: float, again: Repeatable = AGAIN) -> Repeatable:
    return replace(again, samples=tuple(factor * (samples or 0.0) for samples in again.samples))


def read(folder: Path, rules: BenchmarkRules | None = None, **options: Any) -> Repeatable:
    """What a written result is compared by; a log that cannot be interpreted has no run."""
    result = read_result(fabricate.write_result(folder, **options))
    runs = []
    for log in result.runs:
        try:
            runs.append(run_result(log, benchmark_rules()))
        except LogError:
            continue
    return repeatable(result, runs, rules)


def test_the_verdict_is_that_of_tta_reproduce() -> None:
    """The same function on the same samples, scatter and tolerance."""
    found = compare(CLAIM, AGAIN)

    assert found.verdict == judge(CLAIM.samples, AGAIN.samples, CLAIM.scatter, 0.1)
    assert (found.status, found.why, found.verdict.tolerance) == ("reproduced", found.verdict.why, 0.1)
    assert found.pace is None
    assert found.power is not None
    assert 0.7 < found.power < 0.95


@pytest.mark.parametrize(("factor", "status"), [(1.3, "not reproduced"), (1.06, "inconclusive"), (0.5, "reproduced")])
def test_runs_that_need_more_samples(factor: float, status: str) -> None:
    """At five runs the verdict may still be open; fewer samples than claimed are no fault."""
    assert compare(CLAIM, slower(factor)).status == status


def test_four_times_as_many_runs_are_looked_at_until_one_look_decides() -> None:
    """Twenty runs that are clear at the first look are judged by five; the power is that of the look."""
    clear = replace(AGAIN, samples=AGAIN.samples * 4)
    unclear = slower(1.06, clear)

    first, last = compare(CLAIM, clear), compare(CLAIM, unclear)

    assert first.verdict is not None
    assert last.verdict is not None
    assert (first.verdict.num_runs, last.verdict.num_runs) == (5, 20)
    assert first.power is not None
    assert last.power is not None
    assert first.power < last.power


def test_power_is_not_known_without_a_scatter_or_at_no_look_or_of_a_huge_claim() -> None:
    unknown = replace(CLAIM, scatter=None)
    huge = replace(CLAIM, samples=(2600.0,) * (MAX_CLAIMED + 1))

    assert [compare(claim, AGAIN).power for claim in (unknown, huge)] == [None, None]
    early = compare(CLAIM, replace(AGAIN, samples=AGAIN.samples[: LOOKS[0] - 1]))
    assert (early.status, early.why, early.power) == ("inconclusive", "the first look is at 5 runs", None)


@pytest.mark.parametrize(
    ("claim", "again", "why"),
    [
        ({}, {"digest": CLAIM.digest}, "it says that it repeats itself"),
        ({"fault": "has no end"}, {}, "the original has no end"),
        ({}, {"fault": "has no end"}, "the reproduction has no end"),
        ({}, {"recipe": {**RECIPE, "benchmark": "other_mini"}}, "its benchmark is other_mini, not toy_mini"),
        ({}, {"recipe": {**RECIPE, "division": "open"}}, "its division is open, not closed"),
        (
            {},
            {"recipe": {**RECIPE, "hyperparameters": {"global_batch_size": 200}}},
            "its global_batch_size is 200, not 100",
        ),
        (
            {},
            {"recipe": {**RECIPE, "hyperparameters": {"global_batch_size": 100, "warmup": 5}}},
            "its warmup is 5, not absent",
        ),
        ({}, {"recipe": {**RECIPE, "hyperparameters": {}}}, "its global_batch_size is absent, not 100"),
        ({}, {"recipe": {**RECIPE, "hyperparameters": None}}, "its hyperparameters is None, not {"),
        ({}, {"seeds": frozenset((7, 3))}, "both have the seed 3"),
        ({"tolerance": None}, {}, "neither the rules nor reference runs"),
        ({"samples": (None,) * 5}, {}, "no run of the original reached the target"),
    ],
)
def test_unlike_results_are_not_compared(claim: dict[str, Any], again: dict[str, Any], why: str) -> None:
    """It is said in words, and there is no verdict."""
    found = compare(replace(CLAIM, **claim), replace(AGAIN, **again))

    assert found == Outcome("not comparable", found.why)
    assert why in found.why


PACES = (0.0010, 0.00101, 0.00099, 0.001, 0.001)


@pytest.mark.parametrize(
    ("factor", "system", "pace"),
    [(1.0, "box", "reproduced"), (1.2, "box", "not reproduced"), (1.2, "other", None), (1.2, None, None)],
)
def test_seconds_a_sample_are_compared_on_the_same_system_and_have_a_verdict_of_their_own(
    factor: float, system: str | None, pace: str | None
) -> None:
    claim = replace(CLAIM, paces=PACES, systems=frozenset({"box", "its kind"} if system else ()))
    again = replace(AGAIN, paces=tuple(factor * pace for pace in PACES), systems=frozenset({system} if system else ()))
    found = compare(claim, again)

    assert found.status == "reproduced"
    assert (found.pace and found.pace.status) == pace


def test_seconds_of_too_few_runs_have_no_verdict() -> None:
    assert judge_seconds(PACES, (*PACES[:2], None)) is None
    assert judge_seconds((None,), PACES) is None
    found = judge_seconds((*PACES, None), PACES, 0.5)
    assert found is not None
    assert (found.status, found.tolerance, found.num_claimed) == ("reproduced", 0.5, 5)


def test_a_verdict_on_samples_is_not_mended_by_the_pace() -> None:
    """Faster runs that need more samples are as bad a reproduction as slower ones."""
    fast = replace(slower(1.3), paces=tuple(0.5 * pace for pace in PACES), systems=frozenset({"box"}))

    assert compare(replace(CLAIM, paces=PACES, systems=frozenset({"box"})), fast).status == "not reproduced"


def test_runs_that_miss_refuse_a_claim() -> None:
    found = compare(CLAIM, replace(AGAIN, samples=(None, None, *AGAIN.samples[2:])))

    assert (found.status, found.why) == ("not reproduced", "2 of 5 new runs missed the target; at most 1 may")


def test_what_a_result_is_compared_by(tmp_path: Path) -> None:
    """Its samples and seeds by number, its recipe, and the tolerance that the rules or their reference runs give."""
    rules = benchmark_rules()
    found = read(tmp_path, rules)

    assert (found.repeats, found.malformed, found.fault) == (None, None, None)
    assert found.digest == read_result(tmp_path).runs_digest
    assert found.seeds == {100, 101, 102, 103, 104}
    assert found.samples == pytest.approx((2666.7, 2661.1, 2655.2, 2649.0, 2642.4), rel=1e-2)
    assert (found.recipe["benchmark"], found.recipe["division"]) == ("toy_mini", "closed")
    assert found.scatter is not None
    assert found.scatter.dof == 19
    assert found.tolerance == 0.2
    assert read(tmp_path, replace(rules, reproduce_tolerance=0.05)).tolerance == 0.05
    assert difference(found.recipe, recipe_of(read_result(tmp_path).runs[1])) is None


def test_reference_runs_are_of_the_closed_division(tmp_path: Path) -> None:
    """Without them there is no tolerance but that of the rules."""
    found = read(tmp_path, benchmark_rules(), division="open")

    assert (found.scatter, found.tolerance) == (None, None)


def test_without_a_batch_size_there_is_no_reference(tmp_path: Path) -> None:
    def change(index: int, steps: list[Step]) -> list[Step]:
        find(steps, "tta_config").value["hyperparameters"]["global_batch_size"] = "all"
        return steps

    assert read(tmp_path, benchmark_rules(), change=change).scatter is None


def test_what_is_repeated_is_read_from_the_logs(tmp_path: Path) -> None:
    """A statement that is none is kept in words."""

    def stating(digest: str) -> Callable[[int, list[Step]], list[Step]]:
        def change(index: int, steps: list[Step]) -> list[Step]:
            steps.insert(2, Step(0.0, "tta_reproduces", {"digest": digest}))
            return steps

        return change

    assert read(tmp_path / "good", benchmark_rules(), change=stating("5d" * 32)).repeats == "5d" * 32
    bad = read(tmp_path / "bad", benchmark_rules(), change=stating("theirs"))
    assert bad.repeats is None
    assert bad.malformed is not None
    assert "which is not the digest" in bad.malformed


def test_a_result_that_cannot_be_compared_says_why(tmp_path: Path) -> None:
    """Of no benchmark, without a run, with one that cannot be read or interpreted, of two recipes, without training."""

    def unlike(index: int, steps: list[Step]) -> list[Step]:
        if index == 3:
            find(steps, "tta_config").value["precision"] = "bf16"
        return steps

    def untrained(index: int, steps: list[Step]) -> list[Step]:
        if index == 1:
            for step in steps:
                if "samples_count" in step.metadata:
                    step.metadata["samples_count"] = 0
            find(steps, "eval_accuracy").value = 0.95
        return steps

    def infinite(index: int, steps: list[Step]) -> list[Step]:
        if index == 2:
            find(steps, "eval_accuracy").value = "high"
        return steps

    rules = benchmark_rules()
    assert read(tmp_path / "a", None).fault == "is of no benchmark of these rules"
    assert read(tmp_path / "b", rules, num_runs=0).fault == "has a log that cannot be read"
    assert read(tmp_path / "c", rules, change=infinite).fault == "has a log that cannot be read"
    mixed = "has runs that do not belong together: in result_3.txt, precision is bf16, not fp32"
    assert read(tmp_path / "d", rules, change=unlike).fault == mixed
    untrained_fault = "has a run that reached the target without training"
    assert read(tmp_path / "e", rules, change=untrained).fault == untrained_fault
    fabricate.write_result(tmp_path / "f")
    (tmp_path / "f" / "result_5.txt").write_text("")
    result = read_result(tmp_path / "f")
    found = repeatable(result, [run_result(log, rules) for log in result.runs], rules)
    assert found.fault == "has a log that cannot be read"


@pytest.mark.parametrize("fault", [None, "runs", "malformed"])
def test_what_is_compared_survives_being_stored(tmp_path: Path, fault: str | None) -> None:
    """Facts and outcome are the same after a way through JSON, and so is what is said."""
    again = read(tmp_path / "again", num_runs=0 if fault == "runs" else 5)
    if fault == "malformed":
        again = replace(again, malformed="repeats 7, which is not the digest of a result")
    stored = json.loads(canonical_json(again.record()))

    assert Repeatable.of_record(stored) == again
    for one, other in ((CLAIM, AGAIN), (CLAIM, slower(2.0)), (CLAIM, again), (again, AGAIN)):
        outcome = compare(one, other)
        assert Outcome.of_record(json.loads(canonical_json(outcome.record()))) == outcome
        assert compare(Repeatable.of_record(one.record()), Repeatable.of_record(other.record())) == outcome
