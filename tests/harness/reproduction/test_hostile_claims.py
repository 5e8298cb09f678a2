"""Claims that nobody could have made in good faith: one sentence and status 2, or a verdict; never anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ExitStatus, TtaError
from harness.log.replay import replay_of
from harness.reproduction import report
from harness.reproduction.claim import read_claim
from harness.reproduction.identity import Difference, Identity
from harness.reproduction.page import as_html
from harness.reproduction.replays import Comparison
from harness.reproduction.reproduction import Reproduction, judged, outlook_of, terms_of
from harness.scoring.run_result import run_result
from tests import fabricate
from tests.fabricate import Step

RULES = fabricate.benchmark_rules()
RULESET = fabricate.ruleset({}, RULES)
MARKUP = "<script>alert(1)</script>\x1b[31m"
Damage = Callable[[list[Step]], None]


def made(folder: Path, num_runs: int = 5, damage: Damage | None = None, tolerance: float | None = 0.1) -> Reproduction:
    """A claim of so many runs, all damaged alike, made again by runs that are its own without the damage."""
    fabricate.write_result(folder / "claim", num_runs=num_runs)
    new = [run_result(log, RULES) for log in read_claim(folder / "claim", RULESET).result.runs]
    for index in range(num_runs if damage is not None else 0):
        assert damage is not None
        steps = fabricate.events(index)
        damage(steps)
        fabricate.write_log(folder / "claim" / f"result_{index}.txt", steps)
    claim = read_claim(folder / "claim", RULESET)
    terms = terms_of(claim, tolerance, num_runs)
    identity = Identity((Difference("code", MARKUP, MARKUP),), True)
    outlook = outlook_of(claim, terms, True, None)
    steps_again = Comparison("not available", 0, why=MARKUP)
    return judged(claim, terms, identity, outlook, folder / "new", new, steps_again, {}, {})


def shown(found: Reproduction) -> str:
    """All that is said of it, in each form; the page is returned."""
    text = report.text(found)
    report.plan_text(found.claim, found.terms, found.identity, found.outlook)
    assert "\x1b" not in text
    json.loads(json.dumps(report.document(found), allow_nan=False))
    page = as_html(found)
    assert "<script" not in page.lower()
    assert "\x1b" not in page
    return page


def of(key: str, change: Callable[[Step], None]) -> Damage:
    """A change to every event of `key`."""

    def damage(steps: list[Step]) -> None:
        for step in steps:
            if step.key == key:
                change(step)

    return damage


def config(**changes: Any) -> Damage:
    return of("tta_config", lambda step: step.value.update(changes))


def samples(value: Any) -> Damage:
    return of("eval_accuracy", lambda step: step.metadata.update(samples_count=value))


def quality(value: Any) -> Damage:
    return of("eval_accuracy", lambda step: setattr(step, "value", value))


def valued(key: str, value: Any) -> Damage:
    return of(key, lambda step: setattr(step, "value", value))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (quality(0.1), "no run of the claim reached the target"),
        (quality(10**400), "no run of the claim reached the target"),  # the line is no event
        (quality("good"), "quality is not a finite number"),
        (samples(-100), "no valid samples_count"),
        (samples(10**18), "no valid samples_count"),
        (samples(0), "reached the target without training"),
        (of("eval_accuracy", lambda step: step.metadata.pop("samples_count")), "no valid samples_count"),
        (config(hyperparameters=None), "names no global_batch_size"),
        (config(hyperparameters={"global_batch_size": -1}), "names no global_batch_size"),
        (config(hyperparameters={"global_batch_size": True}), "names no global_batch_size"),
        (valued("submission_benchmark", MARKUP), "unknown benchmark"),
        (valued("submission_benchmark", ["toy_mini"]), "unknown benchmark"),
    ],
)
def test_what_cannot_be_made_again_is_one_sentence(tmp_path: Path, damage: Damage, why: str) -> None:
    with pytest.raises(TtaError, match=why) as raised:
        made(tmp_path, damage=damage)

    assert raised.value.exit_status is ExitStatus.USAGE
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    "damage",
    [
        None,
        samples(10**15),
        samples(1),
        valued("submission_org", MARKUP),
        valued("submission_platform", {"name": [MARKUP]}),
        valued("tta_packages", MARKUP),
        valued("tta_code", None),
        valued("tta_world", {"versions": MARKUP}),
        valued("seed", MARKUP),
        valued("seed", -(10**30)),
        valued("tta_replay", {"steps": 10**6, "losses": [], "batches": [], "weights": {}}),
        valued("tta_replay", {"steps": 0, "not_available": MARKUP}),
        config(precision=MARKUP, execution={MARKUP: MARKUP}),
        of("run_stop", lambda step: setattr(step, "at_s", 1e8)),
    ],
)
def test_whatever_else_it_says_is_judged_and_shown(tmp_path: Path, damage: Damage | None) -> None:
    """Huge and tiny counts, names with markup, forged first steps: a verdict, as text, JSON and a page."""
    found = made(tmp_path, damage=damage)

    shown(found)
    assert found.verdict.status in ("reproduced", "not reproduced", "inconclusive")


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "1e999", "-1e999"])
def test_quality_that_is_no_number_reaches_no_target(tmp_path: Path, literal: str) -> None:
    """Its line is no event of a log, whatever JSON libraries make of it."""
    fabricate.write_result(tmp_path, num_runs=3)
    for path in tmp_path.glob("result_*.txt"):
        steps = fabricate.events(0)
        quality(12345.0)(steps)
        fabricate.write_log(path, steps)
        path.write_text(path.read_text().replace("12345.0", literal))

    with pytest.raises(TtaError, match=r"no run of the claim reached the target|not a finite number"):
        terms_of(read_claim(tmp_path, RULESET), 0.1, None)


def test_one_run_can_be_judged(tmp_path: Path) -> None:
    """With a reference's scatter it is a claim; here there is none, and one new run has no scatter of its own."""
    found = made(tmp_path, num_runs=1)

    assert found.verdict.status == "inconclusive"
    assert "1 claimed" in shown(found)


def test_logs_that_are_missing_or_cut_off(tmp_path: Path) -> None:
    """A run without a log is not there; one whose log is cut off has missed its target."""
    fabricate.write_result(tmp_path, num_runs=5)
    (tmp_path / "result_1.txt").unlink()
    text = (tmp_path / "result_3.txt").read_text()
    (tmp_path / "result_3.txt").write_text(text[: len(text) // 2])

    claim = read_claim(tmp_path, RULESET)

    assert [run.path.rpartition("/")[2] for run in claim.runs] == [f"result_{index}.txt" for index in (0, 2, 3, 4)]
    assert [samples is None for samples in claim.samples] == [False, False, True, False]


def test_forged_steps_by_the_thousand_are_no_replay(tmp_path: Path) -> None:
    """A list that is shorter than it says is none; a long one is a replay, of which few steps are made again."""
    long = fabricate.replay_record(100, 5000)
    steps = fabricate.events(0)
    steps.insert(next(p for p, step in enumerate(steps) if step.key == "run_start"), Step(0.8, "tta_replay", long))
    fabricate.write_result(tmp_path, num_runs=1)
    fabricate.write_log(tmp_path / "result_0.txt", steps)

    (log,) = read_claim(tmp_path, RULESET).result.runs

    replay = replay_of(log)
    assert replay is not None
    assert replay.num_steps == 5000
