"""Every kind of change that can be made with a seed is found by a check or by the audit, or is listed as not found."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.ruleset import catalog, load
from tests import foreign
from tests.auditing import STANDARD, v1
from tests.rules import tamperkinds
from tests.rules.test_audit_falsifications import unpacked  # noqa: F401  (a fixture)
from tests.rules.test_tampering import TAMPERINGS

ROOT = Path(__file__).parents[2]
# What no other line of the log contradicts, where the round's own checks are not asked.
NOT_SUSPICIOUS = {
    "the last value is a text",
    "the seed of a run is deleted",
    "the division is misspelt in all runs",
    "the status is a word of no meaning",
    "the status is aborted",
    "cache_clear comes after run_stop",
    "init_start is deleted",
    "a line of ours is no JSON",
    "the learning rate of a run is another",  # the fabricated log states none
    "an evaluation of no value lies farther on, in all runs",
    "an eval_error of no value lies farther on, in all runs",
    "an evaluation farther on follows the one that hits, in all runs",
    "the place of the last evaluation is null",
    "run_stop comes half an evaluation before the last, in all runs",
    "a second batch size is stated below the first, in all runs",
    "samples of all runs are counted as a tenth more",  # the schedule of the toy's reference is half of its own
    "another description of the system lies beside the logs",
}
# Of the real result, without its description and its folder's name: no line of the log states it otherwise.
NOT_FOUND_IN_A_ROUND = {"all runs are of another accelerator"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tamper", ROOT / "tests" / "rules" / "tamper.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tamper"] = module
    spec.loader.exec_module(module)
    return module


def not_found(table: dict[str, list[str]]) -> set[str]:
    return {name for name, codes in table.items() if not codes}


@pytest.mark.parametrize("seed", [4, 11])
def test_a_change_to_a_result_is_suspicious(seed: int, script: ModuleType, tmp_path: Path) -> None:
    """By the audit alone, with no round's rules: all but those that only a rule can see."""
    made = foreign.write(foreign.result(tmp_path), [foreign.rows(index) for index in range(5)])

    assert not_found(script.on_results(made, None, STANDARD, seed)) <= NOT_SUSPICIOUS


@pytest.mark.slow
def test_a_change_to_a_published_result_is_found(script: ModuleType, unpacked: Path) -> None:  # noqa: F811
    """By the round's checks or by the audit."""
    law = load.load_ruleset(catalog.ruleset_folder("mlperf_training/5.1.0"), "mlperf_training/5.1.0")

    assert not_found(script.on_results(unpacked, law, None, 4)) <= NOT_FOUND_IN_A_ROUND


@pytest.mark.parametrize("seed", range(3))
def test_a_change_to_a_submission_of_ours_is_found(seed: int, script: ModuleType) -> None:
    """The reference submission, edited as text at places that the seed chooses."""
    place = sorted((ROOT / "submissions/reference/results").glob("*/*/submission.yaml"))[0].parent

    assert not_found(script.on_reference(place, v1(), seed)) == set()


def test_there_are_more_than_sixty_kinds() -> None:
    """To results, to ours as text, and to ours by a careful forger; none has the name of another."""
    names = [kind.name for kind in tamperkinds.RESULTS]

    assert len(names) == len(set(names)) >= 60
    assert len(names) + len(tamperkinds.OURS) + len(TAMPERINGS) >= 150


def test_the_table_lists_every_kind() -> None:
    """docs/reports/tampering.md is made by tests/rules/tamper.py."""
    text = (ROOT / "docs" / "reports" / "tampering.md").read_text()
    listed = {line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")}

    assert {kind.name for kind in tamperkinds.RESULTS} | {name for name, _ in tamperkinds.OURS} <= listed


def test_a_kind_changes_something(tmp_path: Path) -> None:
    """A change that changes nothing would be found by nothing."""
    act: Callable[[tamperkinds.Folder], None]
    for number, kind in enumerate(tamperkinds.RESULTS):
        act = kind.act
        folder = foreign.write(tmp_path / str(number), [foreign.rows(index) for index in range(5)])
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        box = tamperkinds.Folder(folder, random.Random(4))
        act(box)
        box.write()
        is_stated = kind.name != "the learning rate of a run is another"
        assert ({path.name: path.read_bytes() for path in folder.iterdir()} != before) == is_stated, kind.name
