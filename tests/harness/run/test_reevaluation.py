"""Where kept weights are found, and what it takes to evaluate them; the evaluation itself is a workload's contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.ruleset import catalog, load
from harness.run.reevaluation import Reevaluation, _margin, _words
from harness.submission.claim import Claim
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, Recomputed
from harness.submission.result import Result, read_result
from tests import fabricate
from tests.fabricate import Step, find

RULESET = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")
RULES = RULESET.benchmark("recommendation", "mini")
TEXT = b"no tensors"


def result_of(folder: Path, is_apart: bool = False, module: str | None = None) -> Result:
    """A result with one run, whose weights are next to its log, or in `apart`."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        place = folder.parent / "apart" / "some name" if is_apart else folder / "weights_0.safetensors"
        fabricate.keep_weights(steps, place, TEXT, is_apart)
        return steps

    division = "closed" if module is None else "open"
    return read_result(fabricate.write_result(folder, 1, change, rules=RULES, division=division, module=module))


def reasons(result: Result, folder: Path, downloads: Path | None = None) -> list[str]:
    """Why weights were not evaluated; nothing is prepared in `folder`."""
    said: list[str] = []
    found = Reevaluation(folder, folder, downloads, "none", said.append)(result, RULESET).reevaluated
    assert {item.state for item in found.values()} <= {IMPOSSIBLE}
    assert said == [f"{name}: its weights were not evaluated: {item.why}" for name, item in found.items()]
    return [item.why for item in found.values()]


def test_weights_need_the_data(tmp_path: Path) -> None:
    assert reasons(result_of(tmp_path / "result"), tmp_path) == [
        "the data of recommendation_mini are not prepared here"
    ]


def test_module_of_a_submitter_is_not_run(tmp_path: Path) -> None:
    """What its weights predict, its program decides."""
    (why,) = reasons(result_of(tmp_path / "result", module="learning_rate = None\n"), tmp_path)

    assert why == "the run was made with a module, a program of the submitter's, which is not run here"


def test_downloaded_weights_are_known_by_their_digest(tmp_path: Path) -> None:
    """Whatever they are called; those that are not at hand are named with the place that the submitter states."""
    result = result_of(tmp_path / "result", is_apart=True)
    apart = tmp_path / "apart"
    (apart / "of the same size").write_bytes(TEXT[::-1])
    (apart / "folder").mkdir()

    assert reasons(result, tmp_path, apart) == ["the data of recommendation_mini are not prepared here"]
    (apart / "some name").unlink()
    for downloads in (apart, None):
        (why,) = reasons(result, tmp_path, downloads)
        assert why.startswith(
            "the weights are not part of the result; --weights DIR names the folder that has the file"
        )
    claim = Claim("a", "b", "c", "closed", "research", "v1", "", "", weights_at="https://weights.example/acme")
    (why,) = reasons(replace(result, claim=claim), tmp_path, apart)
    assert why.startswith("the weights are at https://weights.example/acme: download them; --weights DIR")


@pytest.mark.parametrize("what", ["none kept", "others", "no evaluation", "a log", "another benchmark"])
def test_nothing_is_evaluated_where_nothing_can_be(tmp_path: Path, what: str) -> None:
    """Weights that are not the log's are QUA018's."""
    result = result_of(tmp_path / "result")
    match what:
        case "none kept":
            result = read_result(fabricate.write_result(tmp_path / "other", 1, rules=RULES))
        case "others":
            (tmp_path / "result" / "weights_0.safetensors").write_bytes(TEXT[::-1])
            result = read_result(tmp_path / "result")
        case "no evaluation":

            def change(index: int, steps: list[Step]) -> list[Step]:
                fabricate.keep_weights(steps, tmp_path / "other" / "weights_0.safetensors", TEXT)
                return [step for step in steps if step.key != "eval_accuracy"]

            result = read_result(fabricate.write_result(tmp_path / "other", 1, change, rules=RULES))
        case "a log":
            result = read_result(tmp_path / "result" / "result_0.txt")
        case _:
            result = read_result(fabricate.write_result(tmp_path / "toy", 1))

    assert reasons(result, tmp_path) == []


def test_configuration_that_the_rules_do_not_permit_is_not_opened(tmp_path: Path) -> None:
    """The session is opened as the rules permit, whatever a log says."""
    (tmp_path / RULES.name / "prepared" / "labels").mkdir(parents=True)

    def change(index: int, steps: list[Step]) -> list[Step]:
        fabricate.keep_weights(steps, tmp_path / "result" / "weights_0.safetensors", TEXT)
        find(steps, "tta_config").value["precision"] = "fp8"
        return steps

    result = read_result(fabricate.write_result(tmp_path / "result", 1, change, rules=RULES))

    (why,) = reasons(result, tmp_path)

    assert why.startswith("the run's configuration cannot be opened here: ")
    assert "precision 'fp8' is not permitted" in why


@pytest.mark.parametrize(
    ("name", "other", "margin"),
    [
        ("image_classification", 0.9, 3 / 5040),
        ("image_classification", 0.9001, 0.001),
        ("translation", 0.9, 300 / 400),
    ],
    ids=["nothing changes", "another order changes something", "BLEU"],
)
def test_margin_is_three_examples_or_ten_times_what_another_order_changes(
    name: str, other: float, margin: float
) -> None:
    rules = RULESET.benchmark(name, "mini")

    found = _margin(rules, {"value": 0.9, "num_examples": rules.eval_examples}, {"value": other})

    assert found == pytest.approx(margin)


@pytest.mark.parametrize(
    ("again", "words"),
    [
        (Recomputed(COMPUTED, "", 0.5, 9), "its weights make the predictions of its last evaluation, bit by bit: 0.5"),
        (Recomputed(COMPUTED, "", 0.5, 9, margin=0.01), "its weights have 0.5; other kernels may change that by 0.01"),
        (Recomputed(IMPOSSIBLE, "no data"), "its weights were not evaluated: no data"),
    ],
)
def test_what_became_of_weights_is_said(again: Recomputed, words: str) -> None:
    assert _words(again) == words
