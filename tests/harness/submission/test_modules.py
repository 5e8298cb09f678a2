"""`tta run --module` with real worker processes: what is loaded, kept, logged, refused and gone on with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.events import digest_of
from harness.submission.result import named_module, read_result
from tests.killing import Running, toy_tree

pytestmark = pytest.mark.slow
MODULE = "def quality():\n    return 0.95\n"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Runs `tta run toy` in the open division with a module of this text, and waits for its end."""
    started: list[Running] = []
    tree = toy_tree(tmp_path)

    def begin(text: str | None, *arguments: str, name: str = "fast.py", **options: Any) -> Running:
        command = ["run", "toy", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--no-mlflow"]
        if text is not None:
            (tree / name).write_text(text)
            command += ["--module", name]
        started.append(Running([*command, "--division", "open", "--seed", "1", *arguments], tree, **options))
        started[-1].wait()
        return started[-1]

    yield begin
    for running in started:
        running.end()


def status(running: Running) -> int | None:
    return running.process.returncode


def test_module_takes_the_place_of_a_part(run: Callable[..., Running], tmp_path: Path) -> None:
    """The toy never gets beyond 0.5; with its own part it reaches 0.9. The log says with what, and it is kept."""
    running = run(MODULE)

    assert status(running) == 0, running.errors
    log = run_log.read(tmp_path / "out" / "result_0.txt")
    expected = {"name": "fast.py", "sha256": hashlib.sha256(MODULE.encode()).hexdigest(), "parts": ["quality"]}
    assert log.field("tta_config", "module") == log.field("tta_resolved", "module") == expected
    assert log.one("tta_config").metadata["digest"] == digest_of(log.value("tta_config"))
    assert log.value("tta_config") == log.value("tta_resolved")
    assert (tmp_path / "out" / "code" / "fast.py").read_text() == MODULE
    assert [path.name for path in (tmp_path / "out" / "code").iterdir()] == ["fast.py"]
    result = read_result(tmp_path / "out")
    assert result.code["fast.py"].sha256 == expected["sha256"]
    assert named_module(result.runs[0]) is not None


def test_run_without_a_module_says_so(run: Callable[..., Running], tmp_path: Path) -> None:
    """null in both, and no folder for code."""
    assert status(run(None)) == 1

    log = run_log.read(tmp_path / "out" / "result_0.txt")
    assert log.value("tta_config") == log.value("tta_resolved")
    assert log.value("tta_config")["module"] is None
    assert not (tmp_path / "out" / "code").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def quality(): ...\nx = 1 / 0\n", "tta: fast.py, line 2: cannot be imported: ZeroDivisionError"),
        ("quality = 0.95\n", "tta: fast.py: 'quality' is of type float, which cannot be called"),
    ],
)
def test_module_that_cannot_be_used_starts_no_run(
    run: Callable[..., Running], tmp_path: Path, text: str, message: str
) -> None:
    """2 and one sentence, from the worker as from the text."""
    running = run(text)

    assert status(running) == 2
    assert message in running.errors.splitlines()[-1]
    assert "Traceback" not in running.errors
    log = run_log.read(tmp_path / "out" / "result_0.txt")
    assert log.one("run_stop").metadata["status"] == "aborted"
    assert log.first("run_start") is None


def test_module_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """What lies there is kept by nobody, and a random.py there must not change a run."""
    tree, here = toy_tree(tmp_path / "tree"), tmp_path / "here"
    here.mkdir()
    (here / "neighbour.py").touch()
    (here / "fast.py").write_text(f"import neighbour\n{MODULE}")
    command = ["run", "toy", "--ruleset", str(tree / "toy_rules"), "--data", "data", "--no-mlflow"]
    command += ["--division", "open", "--module", "fast.py"]

    running = Running(command, here, {"PYTHONPATH": str(tree)})

    assert running.wait() == 2
    assert "line 1: cannot be imported: ModuleNotFoundError: No module named 'neighbour'" in running.errors


def test_resume_is_with_the_same_module_or_not_at_all(run: Callable[..., Running], tmp_path: Path) -> None:
    """Another text, another name, none: refused, and nothing is touched. The same: it goes on."""
    assert status(run(MODULE)) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}

    for text, name in ((MODULE + "# faster\n", "fast.py"), (MODULE, "faster.py"), (None, "")):
        running = run(text, "--resume", "--runs", "2", name=name)
        assert status(running) == 2
        assert "out/result_0.txt: was run with the module fast.py (" in running.errors
        assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before

    assert status(run(MODULE, "--resume", "--runs", "2")) == 0
    assert len(read_result(tmp_path / "out").runs) == 2


def test_resume_of_a_run_that_was_broken_off_keeps_to_its_module(run: Callable[..., Running], tmp_path: Path) -> None:
    """No run is finished yet, but the module is there."""
    assert status(run(MODULE)) == 0
    (tmp_path / "out" / "result_0.txt").write_text("")

    running = run(MODULE + "# faster\n", "--resume")

    assert status(running) == 2
    assert "out/code/fast.py: is of an earlier run, but the module fast.py" in running.errors
    assert status(run(MODULE, "--resume")) == 0


def test_every_rank_loads_the_module(run: Callable[..., Running], tmp_path: Path) -> None:
    """Two processes, one module each."""
    text = f"import os, pathlib\n(pathlib.Path({str(tmp_path)!r}) / ('rank' + os.environ['RANK'])).touch()\n{MODULE}"

    running = run(text, "--devices", "2")

    assert status(running) == 0, running.errors
    assert (tmp_path / "rank0").exists()
    assert (tmp_path / "rank1").exists()


def test_module_that_fails_on_every_rank_is_one_sentence(run: Callable[..., Running]) -> None:
    """As with one process."""
    running = run("x = 1 / 0\n" + MODULE, "--devices", "2")

    assert status(running) == 2, running.errors
    assert "fast.py, line 1: cannot be imported: ZeroDivisionError" in running.errors.splitlines()[-1]


def test_result_can_be_checked(run: Callable[..., Running], tmp_path: Path) -> None:
    """A real log of a run with a module says all that the checks look for."""
    assert status(run(MODULE)) == 0
    ruleset = tmp_path / "strict_rules"
    ruleset.mkdir()
    for name in ("toy.yaml", "prices.yaml"):
        (ruleset / name).write_text((tmp_path / "toy_rules" / name).read_text())
    law = (tmp_path / "toy_rules" / "ruleset.yaml").read_text()
    codes = ("LOG021", "HYP004", "HYP005", "HYP006", "HYP010", "RUN013", "PKG014", "PKG015")
    (ruleset / "ruleset.yaml").write_text(law + "".join(f"  {code}: error\n" for code in codes))

    checking = Running(["check", "out", "--ruleset", "strict_rules", "--format", "json"], tmp_path)
    shown, errors = checking.process.communicate(timeout=60)

    assert json.loads(shown)["results"][0]["findings"] == [], errors
