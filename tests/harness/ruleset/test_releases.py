"""Releases of the code: how one is made, read, demanded and compared with what ran."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from harness.errors import RulesError
from harness.ruleset.load import load_ruleset
from harness.ruleset.releases import CodeVerdict, code_verdict, read_releases
from harness.run.identity import identify
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import CODE
from tests.harness.run.test_identity import commit
from tests.harness.submission.test_provenance import source
from tests.rules_folder import write_ruleset

ROOT = Path(__file__).parents[3]
RELEASES = {"0.1.0": CODE}


@pytest.fixture(scope="module")
def release() -> Callable[[list[str]], int]:
    """`main` of scripts/release.py."""
    found: Callable[[list[str]], int] = runpy.run_path(str(ROOT / "scripts" / "release.py"))["main"]
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Version 0.3.0, committed; 0.1.0 was released before."""
    root = source(tmp_path / "checkout")
    (root / "harness" / "__init__.py").write_text('"""The harness."""\n\n__version__ = "0.3.0"\n')
    (root / "rules" / "releases" / "0.1.0.txt").write_text(f"{'1' * 64}  harness/cli.py\n")
    commit(root)
    return root


def test_release_has_the_digest_of_the_code_before_and_after(
    release: Callable[[list[str]], int], checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed commits it; that changes neither the digest of the code nor whether it is clean afterwards."""
    before = identify(checkout)

    assert release(["0.3.0", "--root", str(checkout)]) == 0

    assert capsys.readouterr().out.startswith("git add rules/releases/0.3.0.txt && git commit -m 'Release 0.3.0'")
    commit(checkout)
    after = identify(checkout)
    assert read_releases(checkout / "rules" / "releases")["0.3.0"] == before.code == after.code
    assert after.is_clean
    assert after.commit != before.commit


@pytest.mark.parametrize(
    ("version", "damage", "message"),
    [
        ("0.4.0", None, "0.4.0: harness/__init__.py says 0.3.0; the version of a release is that of its code"),
        ("0.3.0", "workloads/toy/workload.py", "rules/ are as committed; commit first"),
        ("0.3.0", "workloads/toy/new.py", "rules/ are as committed; commit first"),
        ("0.3.0", ".git", "rules/ are as committed; commit first"),
        ("x", "harness/__init__.py", "says no version of three numbers"),
    ],
)
def test_release_that_could_not_be_trusted_is_refused(
    release: Callable[[list[str]], int],
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    damage: str | None,
    message: str,
) -> None:
    """Another version, an edited or added file, no checkout. Nothing is written."""
    if damage == ".git":
        (checkout / damage).rename(checkout / "elsewhere")
    elif damage is not None:
        (checkout / damage).write_text("edited")

    assert release([version, "--root", str(checkout)]) == 2

    assert message in capsys.readouterr().err
    assert [path.name for path in (checkout / "rules" / "releases").iterdir()] == ["0.1.0.txt"]


def test_release_is_never_changed(
    release: Callable[[list[str]], int], checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second release of a version is refused, even of the same code."""
    assert release(["0.3.0", "--root", str(checkout)]) == 0
    commit(checkout)
    before = (checkout / "rules" / "releases" / "0.3.0.txt").read_bytes()

    assert release(["0.3.0", "--root", str(checkout)]) == 2

    assert "is released already; a release never changes" in capsys.readouterr().err
    assert (checkout / "rules" / "releases" / "0.3.0.txt").read_bytes() == before


def test_list_of_a_release_can_be_checked_with_sha256sum(release: Callable[[list[str]], int], checkout: Path) -> None:
    """In a checkout, without `tta`."""
    release(["0.3.0", "--root", str(checkout)])
    command = ["sha256sum", "--check", "--quiet", "rules/releases/0.3.0.txt"]

    assert subprocess.run(command, cwd=checkout, check=False).returncode == 0


def test_rules_have_the_releases_next_to_them(tmp_path: Path) -> None:
    """None is needed unless the rules require one."""
    folder = write_ruleset(tmp_path / "v1")

    assert load_ruleset(folder, "v1").releases == RELEASES
    assert not load_ruleset(folder, "v1").requires_release
    assert read_releases(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("code", "list_text", "message"),
    [
        ("sometimes", "", "code: unknown choice 'sometimes'"),
        ("released", None, "code: released, but .*releases has no release"),
        ("any", "no list\n", "0.1.0.txt: line 1: not"),
    ],
)
def test_rules_that_cannot_be_met_are_refused(tmp_path: Path, code: str, list_text: str | None, message: str) -> None:
    """A setting that does not exist, releases that are required and not there, and a list that is none."""
    folder = write_ruleset(tmp_path / "v1")
    content = yaml.safe_load((folder / "ruleset.yaml").read_text())
    (folder / "ruleset.yaml").write_text(yaml.safe_dump({**content, "code": code}))
    release = tmp_path / "releases" / "0.1.0.txt"
    if list_text is None:
        release.unlink()
    else:
        release.write_text(list_text)

    with pytest.raises(RulesError, match=message):
        load_ruleset(folder, "v1")


def test_rules_may_require_a_release(tmp_path: Path) -> None:
    """`code: released` in ruleset.yaml."""
    folder = write_ruleset(tmp_path / "v1")
    with (folder / "ruleset.yaml").open("a") as stream:
        stream.write("code: released\n")

    assert load_ruleset(folder, "v1").requires_release


@pytest.mark.parametrize(
    ("commit_id", "is_clean", "words"),
    [
        ("c0ffee1234", True, "unreleased code, commit c0ffee1"),
        ("c0ffee1234", False, "unreleased code, commit c0ffee1 with changes"),
        (None, None, "unreleased code, outside a checkout"),
    ],
)
def test_unreleased_code_is_named_by_its_commit(commit_id: str | None, is_clean: bool | None, words: str) -> None:
    """And by what differs."""
    verdict = CodeVerdict("unreleased", None, "d" * 64, commit_id, is_clean, "changed: a.py")

    assert verdict.words == words
    assert verdict.sentence == f"{words}: changed: a.py"


def test_verdict_is_a_record_of_json(tmp_path: Path) -> None:
    """As the board and `tta score --format json` have it."""
    result = read_result(fabricate.write_result(tmp_path / "result"))

    released = code_verdict(result, RELEASES)
    assert (released.words, released.sentence) == ("release 0.1.0", "release 0.1.0")
    assert released.record() == {
        "state": "released",
        "release": "0.1.0",
        "digest": fabricate.IDENTITY.code_event["digest"],
        "commit": fabricate.IDENTITY.commit,
        "is_clean": True,
        "difference": None,
    }
    assert code_verdict(result, {}).record()["difference"] == "there is no release to compare with"


def test_result_whose_logs_do_not_say_what_ran_has_no_verdict(tmp_path: Path) -> None:
    """Nor has one without logs, or one whose commit is not a text."""

    def silent(_: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        return [step for step in steps if step.key != "tta_code"]

    def odd(_: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        fabricate.find(steps, "tta_code").value.update(commit=7, is_clean="yes")
        return steps

    without = read_result(fabricate.write_result(tmp_path / "silent", change=silent))
    strange = read_result(fabricate.write_result(tmp_path / "odd", change=odd))
    (tmp_path / "empty").mkdir()

    assert code_verdict(without, RELEASES) == CodeVerdict("unrecorded")
    assert code_verdict(without, RELEASES).words == "code not recorded"
    assert code_verdict(read_result(tmp_path / "empty"), RELEASES).state == "unrecorded"
    assert (code_verdict(strange, RELEASES).commit, code_verdict(strange, RELEASES).is_clean) == (None, None)
