"""The folder of a result: created, or resumed with --resume, never overwritten; unfinished runs are kept."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.errors import OutputError
from harness.run.plan import Plan
from harness.run.result_folder import open_folder
from harness.submission.module import Module
from tests import fabricate, scripted

MODULE = fabricate.MODULE.encode()


def module(text: bytes = MODULE, name: str = fabricate.MODULE_NAME) -> Module:
    return Module(name, hashlib.sha256(text).hexdigest(), ("build_model",))


def plan(given: Module | None = None) -> Plan:
    """The plan that all runs of a result of `toy_mini` share."""
    return scripted.plan(division="closed" if given is None else "open", module=given)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def broken_off(folder: Path, index: int) -> Path:
    """A run whose process was killed: no last line."""
    return fabricate.write_log(folder / f"result_{index}.txt", fabricate.events(index)[:-1])


def test_new_folder_has_the_system_description_and_the_module(tmp_path: Path) -> None:
    """The system description is in the folder before the first run starts."""
    folder = tmp_path / "some" / "out"

    assert open_folder(folder, plan(module()), MODULE, is_resumed=False) == {}

    assert json.loads((folder / "system.json").read_text()) == fabricate.SYSTEM
    assert (folder / "code" / "fast.py").read_bytes() == MODULE
    assert names(folder) == {"system.json", "code/fast.py"}


@pytest.mark.parametrize("is_resumed", [True, False])
def test_result_without_a_module_has_no_code(tmp_path: Path, is_resumed: bool) -> None:
    """The new folder has only the system description, also with --resume, which a job script may always pass."""
    assert open_folder(tmp_path / "out", plan(), b"", is_resumed=is_resumed) == {}

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["system.json"]


def test_folder_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    """The message has both options; the existing files are unchanged."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    before = {path: path.read_bytes() for path in folder.iterdir()}

    with pytest.raises(OutputError, match=r"out: already exists; choose another --out, or .* with --resume"):
        open_folder(folder, plan(), b"", is_resumed=False)

    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("is_resumed", [True, False])
def test_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, is_resumed: bool) -> None:
    """The parent of the folder is a file."""
    (tmp_path / "file").touch()

    with pytest.raises(OutputError, match=r"file/out: cannot be written: Not a directory$"):
        open_folder(tmp_path / "file" / "out", plan(), b"", is_resumed=is_resumed)


def test_finished_runs_are_kept_and_the_others_put_aside(tmp_path: Path) -> None:
    """Run 1 was killed and run 2 has an invalid log: neither counts or is deleted; copies under other names stay."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    kept = (folder / "result_0.txt").read_bytes()
    copies = {"result_0 (copy).txt", "result_00.txt", "result_old.txt"}
    for name in copies:
        (folder / name).write_bytes(kept)
    killed = broken_off(folder, 1).read_bytes()
    (folder / "result_2.txt").write_bytes(b"Segmentation fault\n")

    done = open_folder(folder, plan(), b"", is_resumed=True)

    assert list(done) == [0]
    assert done[0].value("seed") == 100
    assert (folder / "result_0.txt").read_bytes() == kept
    assert {path.name for path in folder.glob("result_*.txt")} == {"result_0.txt", *copies}
    aside = {path.name.split(".")[0]: path.read_bytes() for path in (folder / "unfinished").iterdir()}
    assert aside == {"result_1": killed, "result_2": b"Segmentation fault\n"}


def test_two_attempts_at_one_run_are_both_kept(tmp_path: Path) -> None:
    """The names of files that were moved aside differ by time."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=0)
    for seconds in (1, 2):
        os.utime(broken_off(folder, 0), (seconds, seconds))
        open_folder(folder, plan(), b"", is_resumed=True)

    aside = sorted(path.name for path in (folder / "unfinished").iterdir())
    assert aside == ["result_0.1000000000.txt", "result_0.2000000000.txt"]


def test_power_logs_go_with_their_run_and_the_idle_baseline_stays(tmp_path: Path) -> None:
    """Otherwise the next attempt would find an existing folder; the idle baseline stays valid."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=2, power="node")
    steps = fabricate.events(1, mono_ns=fabricate.MONO_NS)
    fabricate.write_log(folder / "result_1.txt", steps[:-1])

    assert list(open_folder(folder, plan(), b"", is_resumed=True)) == [0]

    assert sorted(path.name for path in (folder / "power").iterdir()) == ["idle", "result_0"]
    (power,) = (folder / "unfinished").glob("result_1.*.power")
    assert (power / "node_0.txt").exists()


def test_runs_of_another_benchmark_are_not_resumed(tmp_path: Path) -> None:
    """Runs of two benchmarks are not one result."""
    other = fabricate.benchmark_rules(workload="other")
    folder = fabricate.write_result(tmp_path / "out", num_runs=1, rules=other)

    with pytest.raises(OutputError, match=r"result_0\.txt: is a run of another benchmark; choose another --out"):
        open_folder(folder, plan(), b"", is_resumed=True)


def unreadable_module(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
    fabricate.find(steps, "tta_config").value["module"] = {"name": "../x.py"}
    return steps


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, module(), r"was run with no module, but the module fast\.py \([0-9a-f]{12}…\) is given now"),
        ({"module": "x = 1\n"}, module(), r"was run with the module fast.* but the module fast\.py \(.* is given now"),
        ({"module": fabricate.MODULE}, None, r"was run with the module fast\.py .*, but no module is given now"),
        ({"change": unreadable_module}, None, r"was run with a module that cannot be read from its log"),
    ],
    ids=["none, now one", "another text", "one, now none", "unreadable"],
)
def test_runs_with_another_module_are_not_resumed(
    tmp_path: Path, options: dict[str, Any], given: Module | None, message: str
) -> None:
    """The message names both with their digests; nothing is moved."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1, **options)
    before = names(folder)

    with pytest.raises(OutputError, match=rf"result_0\.txt: {message}"):
        open_folder(folder, plan(given), MODULE, is_resumed=True)

    assert names(folder) == before


def test_module_that_was_not_copied_is_copied_now(tmp_path: Path) -> None:
    """The copy is missing because the first attempt was killed, or it exists and is identical."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1, module=fabricate.MODULE)
    (folder / "code" / "fast.py").unlink()
    for _ in range(2):
        assert list(open_folder(folder, plan(module()), MODULE, is_resumed=True)) == [0]
        assert (folder / "code" / "fast.py").read_bytes() == MODULE


@pytest.mark.parametrize(
    ("given", "shown"),
    [(None, "no module"), (module(b"y = 2\n"), "the module fast.py"), (module(name="slow.py"), "the module slow.py")],
    ids=["none", "another text", "another name"],
)
def test_module_beside_broken_runs_is_not_replaced(tmp_path: Path, given: Module | None, shown: str) -> None:
    """Without a finished run, the code in the folder is still that of an earlier run."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=0, module=fabricate.MODULE)

    with pytest.raises(OutputError, match=rf"code/fast\.py: is of an earlier run, but {shown}.* is given now"):
        open_folder(folder, plan(given), b"y = 2\n", is_resumed=True)

    assert (folder / "code" / "fast.py").read_text() == fabricate.MODULE
