"""Every attack of the catalogue is found by the checks and signals that it names, and by no others if it names none."""

from __future__ import annotations

import random
import shutil
import tarfile
from pathlib import Path

import pytest

from harness.checker import engine, registry
from harness.mlperf import score
from harness.ruleset import catalog, load
from harness.submission import result
from tests import foreign
from tests.attacks import __main__ as page
from tests.attacks.forgeries import CASES, FORGERIES, Forgery
from tests.attacks.results import ATTACKS, Attack, Folder
from tests.attacks.score_cheats import CHEATS, Cheat, outcome
from tests.attacks.text_edits import TEXT_EDITS
from tests.auditing import STANDARD, audit, codes
from tests.mlperflog import find
from tests.rules.box import TODAY, Box
from tests.rules.mlperfbox import ruleset
from tests.rules.roundbox import RoundBox
from tests.shared_files import shared

ROUND = "mlperf_training/5.1.0"
ARCHIVE = "mlperf_results/training_v5.1.tar.xz"
CISCO = "Cisco/results/1xC885A_M8-8xMI350X-OAM-288GB/llama2_70b_lora"
KRAI = "Krai/results/Cray-XD670-H200-SXM5-141GB_n2_v5.0/llama2_70b_lora"
# Without its description and its folder's name no other line of the published log contradicts the first. The second is
# a worse loss, which gains nothing.
NOT_FOUND_IN_A_PUBLISHED_RESULT = {"all runs name another accelerator", "an evaluation has five times its value"}
# Those that were tried on MLCommons' checker, which passes each.
EIGHTEEN = {
    "run_stop is moved to half the time": "MLP025",
    "run_stop comes before run_start": "MLP021",
    "a second run_start shortly before run_stop": "MLP022",
    "all times of a run are divided by ten": "MLP034",
    "five hours pass between init_stop and run_start": "MLP029",
    "the status is aborted": "MLP023",
    "the status is a meaningless word": "MLP023",
    "all evaluations but the last are deleted": "MLP027",
    "every evaluation has the same value": "MLP028",
    "the target is reached only after run_stop": "MLP024",
    "train_samples is a word": "MLP030",
    "the batch size is a billion": "MLP030",
    "a run names another organisation": "MLP032",
    "lines of blocks and evaluations are shuffled": "MLP025",
    "samples are counted down": "MLP026",
    "the framework's output is deleted from a log": "MLP035",
    "cache_clear comes after run_stop": "MLP031",
    "the seed of a run is deleted": "MLP033",
}


def attacked(folder: Path, attack: Attack, seed: int = 4) -> Folder:
    found = Folder(folder, random.Random(seed))
    attack.act(found)
    found.write()
    return found


def by_name(item: Attack | Forgery | Cheat) -> str:
    return item.name


def test_names_are_unique() -> None:
    for names in (
        [item.name for item in ATTACKS],
        [item.name for item in TEXT_EDITS],
        [(item.name, item.manner) for item in FORGERIES],
    ):
        assert len(names) == len(set(names))


def test_valid_results_are_clean(tmp_path: Path) -> None:
    """What is found below is found because of the attack."""
    made = foreign.write(foreign.result(tmp_path / "made"), [foreign.rows(index, has_stats=True) for index in range(5)])

    assert RoundBox(tmp_path / "round").judge() == []
    assert audit(made, STANDARD) == []


@pytest.mark.parametrize("attack", ATTACKS, ids=by_name)
def test_the_checks_find_an_attack(attack: Attack, tmp_path: Path) -> None:
    """On five runs of RetinaNet, under the rules of round 5.1."""
    box = RoundBox(tmp_path)
    box.write()
    attacked(box.folder, attack)
    found = {finding.code for finding in box.judge()}

    assert attack.checks <= found
    assert bool(attack.checks) == bool(found)


@pytest.mark.parametrize("seed", [4, 11])
@pytest.mark.parametrize("attack", ATTACKS, ids=by_name)
def test_the_audit_finds_an_attack(attack: Attack, seed: int, tmp_path: Path) -> None:
    """By its signals alone, with no round's rules."""
    made = foreign.write(foreign.result(tmp_path), [foreign.rows(index, has_stats=True) for index in range(5)])
    found = codes(audit(attacked(made, attack, seed).path, STANDARD))

    assert attack.signals <= found
    assert bool(attack.signals) == bool(found)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two results of round v5.1 as they were published."""
    place = tmp_path_factory.mktemp("v5.1")
    with tarfile.open(shared(ARCHIVE)) as archive:
        for member in archive:
            for folder in (CISCO, KRAI):
                if f"{folder}/" in member.name and (content := archive.extractfile(member)) is not None:
                    (place / folder).mkdir(parents=True, exist_ok=True)
                    (place / folder / Path(member.name).name).write_bytes(content.read())
    return place


@pytest.mark.parametrize(("name", "code"), EIGHTEEN.items(), ids=EIGHTEEN)
def test_a_check_finds_what_mlcommons_checker_passes(name: str, code: str, published: Path, tmp_path: Path) -> None:
    """In a published log, by the check that is named for it, which finds nothing in the log as it was."""
    attack = next(item for item in ATTACKS if item.name == name)
    folder = Path(shutil.copytree(published / CISCO, tmp_path / CISCO))
    log = Folder(folder, random.Random(4)).log.path

    def found() -> set[str]:
        findings = engine.judge(result.read_result(log), ruleset(ROUND), registry.checks().values(), TODAY)
        return {finding.code for finding in findings}

    before = found()
    attacked(folder, attack)

    assert code in attack.checks
    assert code not in before
    assert code in found()


@pytest.mark.slow
def test_an_attack_on_a_published_result_is_found(published: Path) -> None:
    """By the round's checks or by the audit."""
    rules = load.load_ruleset(catalog.ruleset_folder(ROUND), ROUND)
    table = page.on_results(published / KRAI, rules, None, 4)

    assert {name for name, found in table.items() if not found} <= NOT_FOUND_IN_A_PUBLISHED_RESULT


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_of_a_submission_is_found(seed: int) -> None:
    """Wherever in the log of a reference submission the seed places it."""
    table = page.on_reference(seed)

    for edit in TEXT_EDITS:
        assert set(edit.checks) <= set(table[edit.name]), edit.name


def test_every_forgery_names_its_finding_or_the_reason_why_there_is_none() -> None:
    for forgery in FORGERIES:
        assert bool(forgery.expected) != bool(forgery.why), forgery.name


@pytest.mark.parametrize(
    "forgery",
    [item for item in FORGERIES if item.damage not in {case.damage for case in CASES.values()}],
    ids=lambda item: f"{item.manner}: {item.name}",
)
def test_a_forgery_is_found(forgery: Forgery, tmp_path: Path) -> None:
    """By the check that is named, with file and line; or by none. Cases of checks are in tests/rules/test_checks.py."""
    box = Box(tmp_path, **forgery.box)
    forgery.damage(box)
    if not box.is_written:
        box.write()

    found = {(finding.code, Path(finding.path).name, finding.line) for finding in box.judge()}

    if forgery.manner == "unseen":
        assert found == set()
    else:
        assert {item.at(box) for item in forgery.expected} <= found
    if forgery.manner == "careful":
        assert not {"LOG006", "LOG007", "PKG003"} & {code for code, _, _ in found}


@pytest.mark.parametrize("cheat", CHEATS, ids=by_name)
def test_a_cheat_on_the_score_gains_nothing_or_is_found(cheat: Cheat, tmp_path: Path) -> None:
    """At most 0.5 %, or the result is not valid, or the machine really was that much faster over all it trained.

    What is measured improves by up to 46 %; a run that was ended by hand is reported.
    """
    found = outcome(cheat, tmp_path)

    assert found.codes == cheat.codes
    assert found.is_valid == (cheat.then != "not valid")
    if found.basis == "own samples":
        assert found.score > found.measured
    elif found.is_valid and "QUA001" not in found.codes:
        assert found.score > 0.995


def test_the_page_lists_what_cheats_on_the_score_gain() -> None:
    text = (page.ROOT / "docs" / "reports" / "tampering.md").read_text()

    assert f"\n{page.score_cheats()}\n" in text


def test_the_page_lists_every_attack() -> None:
    """docs/reports/tampering.md is written by `python -m tests.attacks`."""
    text = (page.ROOT / "docs" / "reports" / "tampering.md").read_text()
    listed = {line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")}

    assert {item.name for item in (*ATTACKS, *TEXT_EDITS, *FORGERIES)} <= listed


def test_two_results_of_one_submitter_and_benchmark_have_two_titles(tmp_path: Path) -> None:
    """Submitter, system and benchmark, wherever the round is."""
    first, second = (tmp_path / "round" / "Krai" / "results" / system / "llama2_70b_lora" for system in ("n1", "n2"))

    assert page.named(first) == "Krai, n1, llama2_70b_lora"
    assert page.named(second) == "Krai, n2, llama2_70b_lora"


def test_a_made_up_monotonic_clock_does_not_time_a_round(tmp_path: Path) -> None:
    """A round is timed by `time_ms`; by the clock that MLP036 finds, a run of 1,301 s would take one second."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "run_start").metadata["elapsed_ns"] = 0
        find(log, "run_stop").metadata["elapsed_ns"] = 1_000_000_000
    assert box.ruleset.round is not None

    assert score.round_score(box.result().runs, box.ruleset.round).raw_seconds == pytest.approx(1321.0)
