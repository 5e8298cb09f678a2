"""`tta submit` from a results folder to a ranked row: through the command line, with real files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.submission.result import read_result
from tests.fabricate import MODULE, SYSTEM, Step, find, keep_weights, write_result
from tests.rules.box import configure, put, recount
from tests.rules_folder import write_ruleset

CLAIM = """submitter: acme
system: box1
benchmark: toy_mini
division: closed
category: available
ruleset: v1
system_sha256: x
submitted: 2025-11-21
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ruleset `rules`, a result `result` and an empty tree `tree`."""
    write_ruleset(tmp_path / "rules")
    write_result(tmp_path / "result")
    (tmp_path / "tree").mkdir()
    return tmp_path


def submit(place: Path, *more: str, result: str = "result") -> int:
    return main(["submit", str(place / result), "--to", str(place / "tree"), "--ruleset", "v1", *more])


@pytest.fixture(autouse=True)
def toy_is_v1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The shipped rulesets are looked for in the folder of the test, so that `v1` has the toy benchmark."""
    import rules

    (tmp_path / "shipped").mkdir()
    write_ruleset(tmp_path / "shipped" / "v1")
    monkeypatch.setattr(rules, "__path__", [str(tmp_path / "shipped"), *rules.__path__])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_valid_result_is_placed_and_passes_the_check_in_its_place(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What submit placed, check accepts, without a single finding; a dry run reports the same rank, leaving nothing."""
    assert submit(place, "--dry-run") == 0
    assert "rank 1 of 1" in capsys.readouterr().out
    assert list((place / "tree").iterdir()) == []
    assert submit(place) == 0
    said = capsys.readouterr().out
    assert main(["check", str(place / "tree"), "--ruleset", "v1"]) == 0

    checked = capsys.readouterr().out
    assert "rank 1 of 1" in said
    assert "1 valid" in checked
    assert set(contents(place / "tree")) == {
        "acme/systems/box1.json",
        *(f"acme/results/box1/toy_mini/{name}" for name in ("submission.yaml", "MANIFEST.sha256")),
        *(f"acme/results/box1/toy_mini/provenance/{name}.txt" for name in ("code", "packages")),
        *(f"acme/results/box1/toy_mini/result_{k}.txt" for k in range(5)),
    }


def test_second_submission_of_the_same_is_refused_and_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submission never replaces another."""
    submit(place)
    before = contents(place / "tree")

    for more in ((), ("--dry-run",)):
        capsys.readouterr()
        assert submit(place, *more) == 2
        said = capsys.readouterr()
        assert "never replaces another" in said.err
        assert "rank" not in said.out  # against itself
        assert contents(place / "tree") == before


def test_invalid_result_is_not_placed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The organiser's check runs first: four runs instead of five are not a result."""
    (place / "result" / "result_4.txt").unlink()

    assert submit(place) == 1
    assert "RUN001" in capsys.readouterr().out
    assert list((place / "tree").iterdir()) == []


def test_other_description_under_the_same_name_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two machines cannot share a name in one submitter's folder."""
    other = place / "tree" / "acme" / "systems" / "box1.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps({**SYSTEM, "host_memory_capacity": "17 GiB"}))

    assert submit(place) == 2
    assert "rename this system" in capsys.readouterr().err
    assert not (place / "tree" / "acme" / "results" / "box1" / "toy_mini").exists()


@pytest.mark.parametrize("name", ["../../etc", ".hidden", "a/b", "", "x" * 101, "\x1b[31m", "nul\x00"])
def test_name_unfit_for_a_folder_is_refused(place: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A submitter's name from a description cannot lead out of the tree."""
    system = {**SYSTEM, "submitter": name}
    write_result(place / "hostile", system=system)

    assert submit(place, result="hostile") == 2
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert "Traceback" not in error
    assert list((place / "tree").iterdir()) == []


def test_second_result_is_ranked_behind_the_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slower system of another submitter takes the second rank."""

    def slower(index: int, steps: list[Any]) -> list[Any]:
        for step in steps:
            step.at_s *= 2
            if step.key == "tracked_stats":
                step.value["throughput"] /= 2
                step.value["data_wait_s"] *= 2
        ledger = find(steps, "tta_ledger")
        ledger.value = {name: 2 * seconds for name, seconds in ledger.value.items()}
        return steps

    submit(place)
    write_result(place / "slow", change=slower, system={**SYSTEM, "submitter": "zeta", "system_name": "box2"})
    capsys.readouterr()

    assert submit(place, result="slow") == 0
    assert "rank 2 of 2" in capsys.readouterr().out


def test_result_without_a_description_reports_where_it_belongs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Next to the logs or, for a submission, below systems/; and why one that is there cannot be read."""
    result = place / "result"
    description = (result / "system.json").read_text()
    said = []
    for name, text in (
        ("system.json", "{"),
        ("system.json", None),
        ("submission.yaml", CLAIM),
        ("system.json", description),
        ("submission.yaml", "submitter: acme\n"),
    ):
        (result / name).unlink(missing_ok=True)
        if text is not None:
            (result / name).write_text(text)
        said.append((submit(place, "--dry-run"), capsys.readouterr().err.strip()))

    systems = result.parents[2] / "systems/box1.json"
    claimed = (
        f"tta: {result}: has a submission.yaml, so it is a submission already, and the description of its system "
        f"belongs at {systems}, which does not exist; without submission.yaml it is taken from system.json next to "
        f"the logs"
    )
    assert said[0][1].startswith(f"tta: {result}/system.json: is not a readable system description: ")
    assert said[1][1] == f"tta: {result}: has no system.json; `tta run` writes one there"
    assert said[2][1] == said[3][1] == claimed
    assert [status for status, _ in said] == [2, 2, 2, 2, 0]  # a claim that cannot be read is written again


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_tree_that_cannot_be_written_is_one_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tree is named, nothing is half-placed."""
    (place / "tree").chmod(0o500)

    assert submit(place) == 2
    assert "cannot be written" in capsys.readouterr().err


CODE = "acme/benchmarks/toy_mini/fast.py"


def write_open(folder: Path, text: str = MODULE, **options: Any) -> Path:
    return write_result(folder, division="open", module=text, **options)


def test_module_is_brought_to_its_place(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From code/ to benchmarks/<benchmark>/, as in MLPerf; the check finds it in either place, and has no findings."""
    write_open(place / "open")

    assert main(["check", str(place / "open"), "--ruleset", "v1"]) == 0
    assert submit(place, result="open") == 0
    assert main(["check", str(place / "tree"), "--ruleset", "v1"]) == 0

    assert "open: " in capsys.readouterr().out
    placed = contents(place / "tree")
    assert placed[CODE] == MODULE.encode()
    assert "acme/results/box1/toy_mini/code/fast.py" not in placed
    assert len(placed) == 11


def test_module_is_checked_before_it_is_placed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that was changed, one that is gone, one that is a link, one in the closed division: nothing is placed."""
    for name in ("changed", "gone", "link"):
        write_open(place / name)
    (place / "changed" / "code" / "fast.py").write_text("# tidied\n" + MODULE)
    (place / "gone" / "code" / "fast.py").unlink()
    (place / "link" / "code" / "fast.py").unlink()
    (place / "fast.py").write_text(MODULE)
    (place / "link" / "code" / "fast.py").symlink_to(place / "fast.py")
    write_result(place / "closed", module=MODULE)

    assert main(["check", str(place / "changed"), "--ruleset", "v1"]) == 1
    assert "PKG015 error" in capsys.readouterr().out
    for name, code in (("changed", "PKG015"), ("gone", "PKG014"), ("link", "PKG014"), ("closed", "HYP010")):
        assert submit(place, result=name) == 1
        assert code in capsys.readouterr().out
        assert list((place / "tree").iterdir()) == []


def test_other_module_of_the_same_name_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another system's result with another fast.py: nothing of it stays. With the same one it is placed."""
    write_open(place / "open")
    other = {**SYSTEM, "system_name": "box2"}
    write_open(place / "other", "# faster\n" + MODULE, system=other)
    write_open(place / "same", system=other)
    submit(place, result="open")
    before = contents(place / "tree")

    assert submit(place, result="other") == 2
    assert "there is another module of that name; rename this one" in capsys.readouterr().err
    assert contents(place / "tree") == before

    assert submit(place, result="same") == 0
    assert contents(place / "tree")[CODE] == MODULE.encode()


def test_board_carries_the_module_and_the_share_of_waiting(place: Path) -> None:
    """A reader can look at the code, check what is downloaded, and see how long training waited for data."""
    write_open(place / "open")
    submit(place, result="open")

    assert main(["board", "build", str(place / "tree"), "--out", str(place / "site"), "--ruleset", "v1"]) == 0

    [page] = (place / "site" / "results").glob("*.html")
    assert "fast.py" in page.read_text()
    assert "waiting for data, fraction of training time" in page.read_text()
    assert "5.0 %" in page.read_text()
    [copy] = (place / "site" / "files").rglob("fast.py")
    assert copy.read_text() == MODULE
    [folder] = (place / "site" / "files").iterdir()
    assert main(["check", str(folder), "--ruleset", "v1"]) == 0


def test_power_logs_are_placed_sealed_and_verified(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the runs and of the idle baseline, nothing else below power/; a later change to one is found."""
    write_result(place / "metered", power="node", num_nodes=2)
    (place / "metered" / "power" / "notes.txt").write_text("room 12")
    (place / "metered" / "power" / "result_7").mkdir()
    (place / "metered" / "power" / "result_7" / "node_0.txt").write_text("of a run that was put aside")
    assert submit(place, result="metered") == 0

    folder = place / "tree" / "acme" / "results" / "box1" / "toy_mini"
    logs = sorted(path.relative_to(folder).as_posix() for path in (folder / "power").rglob("*.txt"))
    names = [*(f"result_{index}" for index in range(5)), "idle"]
    assert logs == sorted(f"power/{name}/node_{node}.txt" for name in names for node in (0, 1))
    assert all(f"  {name}\n" in (folder / "MANIFEST.sha256").read_text() for name in logs)
    assert main(["check", str(place / "tree"), "--ruleset", "v1"]) == 0

    log = folder / logs[-1]
    log.write_text(log.read_text().replace('"power_reading", "value": 3', '"power_reading", "value": 2'))
    capsys.readouterr()
    assert main(["check", str(place / "tree"), "--ruleset", "v1"]) == 1
    assert "PKG003" in capsys.readouterr().out


def test_score_shows_and_ranks_energy(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured with interval and class, modelled ones separately, void ones with the reason, and not measured."""
    for name, kind in (("a", "node"), ("b", "counters"), ("c", "model"), ("d", None), ("e", "node")):
        write_result(place / name, power=kind, system={**SYSTEM, "system_name": name})
    for index in range(5):
        path = place / "e" / "power" / f"result_{index}" / "node_0.txt"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:60]))
    folders = [str(place / name) for name in "abcde"]

    main(["score", *folders, "--ruleset", "v1"])
    text = capsys.readouterr().out
    main(["score", *folders, "--ruleset", "v1", "--format", "json"])
    rows = {row["system"]: row for row in json.loads(capsys.readouterr().out)["tables"][0]["rows"]}

    assert "2.04 kJ ± 0.05 (class B)" in text
    assert "4.08 kJ ± 0.09 (class C)" in text
    assert "estimated 2.04 kJ" in text
    assert "not measured" in text
    assert "void: coverage" in text
    assert "by energy, whole nodes: node (ac)" in text
    assert "by energy, parts of nodes: cpu_package (package) + gpu (board)" in text
    assert rows["a"]["energy_place"] == {"board": "node", "scope": "node (ac)", "ranks": [1, 1]}
    assert [rows[name]["energy_place"] for name in "cde"] == [None, None, None]
    assert rows["d"]["score"]["energy"] is None
    assert rows["d"]["score"]["energy_j"] is None
    assert rows["a"]["score"]["energy"]["may_rank"] is True
    assert "gap" in rows["e"]["score"]["energy"]["void"]


def test_reproduction_is_placed_next_to_the_own_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what it says of the original; the check and the score accept both in their places."""
    submit(place)
    original = read_result(place / "tree" / "acme" / "results" / "box1" / "toy_mini")

    def again(index: int, steps: list[Step]) -> list[Step]:
        configure(steps, seed=5000 + index)
        find(steps, "tta_format").value.update(run_id=f"{index + 16:032x}", result_id="cd" * 16)
        put(steps, Step(0.0, "tta_reproduces", {"digest": original.runs_digest}), "tta_rules")
        recount(steps)
        return steps

    write_result(place / "again", 7, again)
    capsys.readouterr()
    assert submit(place, result="again") == 0
    said = capsys.readouterr().out

    assert "repeats the result of acme, on box1 (the same submitter): reproduced, ratio 1.00 [" in said
    assert f"acme/results/box1/toy_mini-again-{original.runs_digest[:12]}\n" in said
    assert main(["check", str(place / "tree"), "--ruleset", "v1"]) == 0
    assert "2 valid" in capsys.readouterr().out
    assert submit(place, result="again") == 2
    assert "never replaces another" in capsys.readouterr().err


ADDRESS = "https://weights.example/acme"


def test_weights_that_are_too_large_need_a_place(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in submission.yaml, and the check is content with it."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        keep_weights(steps, place / "result-weights" / f"weights_{index}.safetensors", b"weights", is_apart=True)
        return steps

    write_result(place / "large", change=change)

    for words, said in (
        ((), "large: result_0.txt, result_1.txt, result_2.txt, result_3.txt, result_4.txt: the weights are too large"),
        (("--weights-at", "/mnt/weights"), "--weights-at '/mnt/weights': expected an address"),
    ):
        assert submit(place, *words, result="large") == 2
        assert said in capsys.readouterr().err
    assert submit(place, "--weights-at", ADDRESS, result="large") == 0
    kept = contents(place / "tree")
    assert f"weights_at: {ADDRESS}".encode() in kept["acme/results/box1/toy_mini/submission.yaml"]
    assert not [name for name in kept if name.endswith(".safetensors")]
    capsys.readouterr()
    assert main(["check", str(place / "tree"), "--ruleset", "v1"]) == 0


def test_place_of_weights_that_nobody_kept_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor of those that are in the submission."""
    assert submit(place, "--weights-at", ADDRESS) == 2
    assert "has weights that are too large for a submission" in capsys.readouterr().err
