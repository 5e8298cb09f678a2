"""Qualities that are computed again from kept predictions, by the real process."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cli
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run import data_cache, recompute
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, REFUSED, Recomputed
from harness.submission.result import Result, read_result
from tests import fabricate
from tests.fabricate import Step, find
from tests.rules_folder import write_ruleset

LABELS = np.arange(20) % 4
NAME = "image_classification_mini"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Twenty test images of image classification, without images."""
    prepared = tmp_path / "cache" / NAME / "prepared"
    for part in ("data", "labels"):
        (prepared / part).mkdir(parents=True)
    (prepared / "data" / "metadata.json").write_text("{}")
    np.save(prepared / "labels" / "test_labels.npy", LABELS.astype(np.int64))
    return tmp_path / "cache"


@pytest.fixture
def rules(cache: Path) -> BenchmarkRules:
    digest = data_cache.read(cache / NAME / "prepared").digest
    return fabricate.benchmark_rules(workload="image_classification", eval_examples=20, data_digest=digest)


@pytest.fixture
def ruleset(rules: BenchmarkRules) -> RuleSet:
    return fabricate.ruleset({}, rules)


def archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    rows = {f"{name}.rows": np.array([len(array)]) for name, array in arrays.items()}
    np.savez(file, **arrays, **rows)
    return file.getvalue()


def right(num: int) -> bytes:
    """Predictions that are right for the first `num` of twenty images."""
    return archive(classes=np.where(np.arange(20) < num, LABELS, 9))


def result_of(folder: Path, rules: BenchmarkRules, *kept: bytes | None, **metadata: Any) -> Result:
    """A result whose runs kept these predictions; None: too large. metadata: of the last evaluation."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        text, evaluation = kept[index], find(steps, "eval_accuracy", 2)
        evaluation.metadata.update(metadata)
        if text is not None:
            name = f"predictions_{index}.npz"
            (folder / name).write_bytes(text)
            find(steps, "tta_predictions").value = {"file": name, "num_bytes": len(text)}
            evaluation.metadata["predictions"] = hashlib.sha256(text).hexdigest()
        return steps

    return read_result(fabricate.write_result(folder, len(kept), change, rules=rules))


def states(result: Result) -> list[tuple[str, str]]:
    return [(again.state, again.why) for again in result.recomputed.values()]


def test_qualities_are_those_of_the_predictions(
    tmp_path: Path, cache: Path, rules: BenchmarkRules, ruleset: RuleSet
) -> None:
    """Whatever the log says; predictions that were not kept have none."""
    result = result_of(tmp_path / "result", rules, right(20), right(7), None)

    again = recompute.Recomputation(cache)(result, ruleset)

    assert again.recomputed == {
        "result_0.txt": Recomputed(COMPUTED, "", 1.0, 20),
        "result_1.txt": Recomputed(COMPUTED, "", 0.35, 20),
        "result_2.txt": Recomputed(IMPOSSIBLE, "the predictions were not kept"),
    }


def huge_header() -> bytes:
    """An array that states a terabyte of numbers and has none."""
    text = b"{'descr': '<i8', 'fortran_order': False, 'shape': (137438953472,), }\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("classes.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    return file.getvalue()


def packed(name: str, data: bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(name, data)
    return file.getvalue()


HOSTILE = {
    "bomb": packed("classes.npy", bytes(200 << 20)),
    "pickle": pickle.dumps(LABELS),
    "pickled array": archive(classes=np.array([{}] * 20)),
    "huge header": huge_header(),
    "no array": packed("classes", b"1" * 20),
    "damaged": right(20)[:200] + bytes(50) + right(20)[250:],
    "other shape": archive(classes=np.zeros((20, 2), dtype=int)),
    "nothing": b"",
    "no archive": b"\x93NUMPY" + bytes(100),
}


def test_hostile_predictions_are_refused_and_keep_no_other_from_its_turn(
    tmp_path: Path, cache: Path, rules: BenchmarkRules, ruleset: RuleSet
) -> None:
    """Even those that end the process; the last run, an honest one, has its quality."""
    result = result_of(tmp_path / "result", rules, *HOSTILE.values(), right(20))

    again = recompute.Recomputation(cache)(result, ruleset)

    found = dict(zip(HOSTILE, states(again), strict=False))
    assert {name: state for name, (state, _) in found.items()} == dict.fromkeys(HOSTILE, REFUSED)
    assert "holds more than 134,217,728 bytes" in found["bomb"][1]
    assert found["huge header"][1] == "the evaluator failed (exit status 1)"
    assert "expected the class of each of 20 images" in found["other shape"][1]
    assert states(again)[-1] == (COMPUTED, "")


@pytest.mark.parametrize(("is_played", "state"), [(True, IMPOSSIBLE), (False, REFUSED)])
def test_actions_that_do_not_fit_the_episodes_prove_nothing(is_played: bool, state: str) -> None:
    """An episode may take another step on another processor."""
    again = recompute._recomputed({"ok": False, "message": "one more is asked for", "is_played": is_played})

    assert (again.state, "one more is asked for" in again.why) == (state, True)


@pytest.mark.parametrize("what", ["nowhere", "no labels", "no metadata", "others"])
def test_qualities_need_the_data_of_the_run(
    tmp_path: Path, cache: Path, rules: BenchmarkRules, ruleset: RuleSet, what: str
) -> None:
    """Nothing is computed with other data."""
    prepared = cache / NAME / "prepared"
    result = result_of(tmp_path / "result", rules, right(20), right(20))
    match what:
        case "nowhere":
            cache = tmp_path / "no cache"
        case "no labels":
            (prepared / "labels" / "test_labels.npy").unlink()
            (prepared / "labels").rmdir()
        case "no metadata":
            (prepared / "data" / "metadata.json").unlink()
        case "others":
            np.save(prepared / "labels" / "test_labels.npy", LABELS[::-1].astype(np.int64))

    again = recompute.Recomputation(cache)(result, ruleset)

    why = {
        "nowhere": f"the data of {NAME} are not prepared here",
        "no labels": f"the data of {NAME} are not prepared here",
        "no metadata": "metadata.json: cannot be read",
        "others": f"the data of {NAME} that are prepared here are not those of the run",
    }[what]
    assert [state for state, _ in states(again)] == [IMPOSSIBLE] * 2
    assert all(why in reason for _, reason in states(again))


def test_qualities_need_an_evaluator_that_opens(tmp_path: Path, cache: Path, rules: BenchmarkRules) -> None:
    """Labels that the workload cannot read are no fault of the predictions."""
    prepared = cache / NAME / "prepared"
    (prepared / "labels" / "test_labels.npy").write_bytes(b"")
    own = fabricate.benchmark_rules(workload=rules.workload, data_digest=data_cache.read(prepared).digest)
    result = result_of(tmp_path / "result", own, right(20), right(20))

    again = recompute.Recomputation(cache)(result, fabricate.ruleset({}, own))

    assert [state for state, _ in states(again)] == [IMPOSSIBLE] * 2
    assert "is damaged" in states(again)[0][1]


def test_another_library_computes_another_quality(
    tmp_path: Path, cache: Path, rules: BenchmarkRules, ruleset: RuleSet
) -> None:
    result = result_of(tmp_path / "result", rules, right(20), signature="BLEU|v2")

    again = recompute.Recomputation(cache)(result, ruleset)

    assert states(again) == [(IMPOSSIBLE, "the metric here is 'None'; in the run it was 'BLEU|v2'")]


@pytest.mark.parametrize(
    ("value", "num_replies", "state"), [(0.95, 500, COMPUTED), (0.94, 500, IMPOSSIBLE), (0.94, 1, COMPUTED)]
)
def test_episodes_that_end_otherwise_prove_nothing(
    tmp_path: Path, rules: BenchmarkRules, value: float, num_replies: int, state: str
) -> None:
    """Another processor may play them otherwise; predictions that are not played have one quality everywhere.

    On the same system episodes end as they did.
    """
    (log,) = result_of(tmp_path / "result", rules, None).runs
    computed = Recomputed(COMPUTED, "", value, 20, None, is_played=num_replies > 1)
    again = recompute._compared(log, computed)

    assert again.state == state
    assert recompute._compared(log, computed, is_same_system=True) == computed
    assert again.why == "" or "played again here, have 0.94, the log 0.95" in again.why


def test_evaluations_have_a_limit(
    tmp_path: Path, cache: Path, rules: BenchmarkRules, ruleset: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompute, "LIMIT_S", 0.0)
    result = result_of(tmp_path / "result", rules, right(20), right(20))

    again = recompute.Recomputation(cache)(result, ruleset)

    assert states(again) == [(IMPOSSIBLE, "the evaluator took longer than 0 s")] * 2


def test_nothing_is_started_where_nothing_was_kept(
    tmp_path: Path, cache: Path, rules: BenchmarkRules, ruleset: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for a single log, another benchmark, or predictions that are not those of the log; nor are data read."""
    monkeypatch.delattr(recompute.subprocess, "run")
    monkeypatch.delattr(data_cache, "read")
    folder = tmp_path / "result"
    result = result_of(folder, rules, right(20), None)
    (folder / "predictions_0.npz").write_bytes(right(19))
    again = recompute.Recomputation(cache)

    assert list(again(read_result(folder), ruleset).recomputed) == ["result_1.txt"]
    assert again(read_result(folder / "result_0.txt"), ruleset).recomputed == {}
    assert again(result, fabricate.ruleset({})).recomputed == {}
    toy = read_result(fabricate.write_result(tmp_path / "toy", 1))
    assert again(toy, fabricate.ruleset({})).recomputed == {}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_check_reports_what_was_computed(
    tmp_path: Path, rules: BenchmarkRules, cache: Path, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    """In this process and in others."""
    folder = write_ruleset(tmp_path / "rules", rules)
    trees = [tmp_path / "tree" / str(number) for number in range(2)]
    for tree in trees:
        tree.mkdir(parents=True)
        result_of(tree, rules, right(19), right(7))

    def found(cache: Path) -> list[tuple[str, str, str]]:
        words = ["check", *map(str, trees), "--ruleset", str(folder), "--format", "json", "--jobs", jobs]
        cli.main([*words, "--data", str(cache)])
        results = json.loads(capsys.readouterr().out)["results"]
        items = [item for result in results for item in result["findings"] if item["code"] in ("QUA016", "QUA017")]
        return [(item["code"], Path(item["path"]).name, item["message"]) for item in items]

    wrong = "the quality is 0.951; the kept predictions have 0.35, of 20 examples"
    assert found(cache) == [("QUA016", "result_1.txt", wrong)] * 2
    why = f"the quality of 2 of 2 runs was not computed again: the data of {NAME} are not prepared here"
    assert found(tmp_path) == [("QUA017", "0", why), ("QUA017", "1", why)]


def test_an_audit_reports_what_was_computed(
    tmp_path: Path, rules: BenchmarkRules, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the score of what is beyond doubt; without the data nothing."""
    folder = write_ruleset(tmp_path / "rules", rules)
    result_of(tmp_path / "result", rules, right(19), right(7), archive(classes=np.zeros(3, int)))

    def found(cache: Path) -> list[tuple[str, str, float]]:
        cli.main(
            ["audit", str(tmp_path / "result"), "--ruleset", str(folder), "--format", "json", "--data", str(cache)]
        )
        (result,) = json.loads(capsys.readouterr().out)["results"]
        items = [item for item in result["findings"] if item["code"] == "AUD063"]
        return [(Path(item["path"]).name, item["message"], item["score"]) for item in items]

    assert found(cache) == [
        ("result_1.txt", "the quality is 0.951; the kept predictions have 0.35, of 20 examples", 95.0),
        (
            "result_2.txt",
            "the kept predictions cannot be evaluated: expected the class of each of 20 images, as whole numbers",
            95.0,
        ),
    ]
    assert found(tmp_path) == []
