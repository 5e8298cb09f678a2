"""The folder of a result: created, or resumed with --resume, locked, never overwritten; unfinished runs are kept."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.errors import OutputError
from harness.run.identity import Identity
from harness.run.plan import Plan
from harness.run.result_folder import Contents, opened
from harness.submission.claim import digest_lines
from harness.submission.module import Module
from tests import fabricate, scripted

MODULE = fabricate.MODULE.encode()
LISTS = {"provenance/code.txt", "provenance/packages.txt"}


def module(text: bytes = MODULE, name: str = fabricate.MODULE_NAME) -> Module:
    return Module(name, hashlib.sha256(text).hexdigest(), ("build_model",))


def plan(given: Module | None = None) -> Plan:
    """The plan that all runs of a result of `toy_mini` share."""
    return as_written(division="closed" if given is None else "open", module=given)


def open_folder(folder: Path, plan: Plan, module_text: bytes, is_resumed: bool) -> Contents:
    """Open the folder and let go of it again."""
    with opened(folder, plan, module_text, is_resumed) as contents:
        return contents


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def broken_off(folder: Path, index: int) -> Path:
    """A run whose process was killed: no last line."""
    return fabricate.write_log(folder / f"result_{index}.txt", fabricate.events(index)[:-1])


def test_new_folder_has_the_system_description_and_the_module(tmp_path: Path) -> None:
    """The system description is in the folder before the first run starts."""
    folder = tmp_path / "some" / "out"

    assert open_folder(folder, plan(module()), MODULE, is_resumed=False) == Contents({}, {})

    assert json.loads((folder / "system.json").read_text()) == fabricate.SYSTEM
    assert (folder / "code" / "fast.py").read_bytes() == MODULE
    assert (folder / "provenance" / "code.txt").read_text() == digest_lines(fabricate.CODE)
    assert (folder / "provenance" / "packages.txt").read_text() == digest_lines(fabricate.PACKAGES)
    assert names(folder) == {"system.json", "code/fast.py", *LISTS}


@pytest.mark.parametrize("is_resumed", [True, False])
def test_result_without_a_module_has_no_code(tmp_path: Path, is_resumed: bool) -> None:
    """The new folder is the same with --resume, which a job script may always pass."""
    assert open_folder(tmp_path / "out", plan(), b"", is_resumed=is_resumed) == Contents({}, {})

    assert names(tmp_path / "out") == {"system.json", *LISTS}


def test_folder_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    """The message has both options; the existing files are unchanged."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    before = {name: (folder / name).read_bytes() for name in names(folder)}

    with pytest.raises(OutputError, match=r"out: already exists; choose another --out, or .* with --resume"):
        open_folder(folder, plan(), b"", is_resumed=False)

    assert {name: (folder / name).read_bytes() for name in names(folder)} == before


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

    found = open_folder(folder, plan(), b"", is_resumed=True)

    assert list(found.runs) == [0]
    assert found.runs[0].value("seed") == 100
    assert found.attempts == {1: 1, 2: 1}
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
    assert open_folder(folder, plan(), b"", is_resumed=True).attempts == {0: 2}


def test_power_logs_go_with_their_run_and_the_idle_baseline_stays(tmp_path: Path) -> None:
    """Otherwise the next attempt would find an existing folder; the idle baseline stays valid."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=2, power="node")
    steps = fabricate.events(1, mono_ns=fabricate.MONO_NS)
    fabricate.write_log(folder / "result_1.txt", steps[:-1])

    assert list(open_folder(folder, plan(), b"", is_resumed=True).runs) == [0]

    assert sorted(path.name for path in (folder / "power").iterdir()) == ["idle", "result_0"]
    (power,) = (folder / "unfinished").glob("result_1.*.power")
    assert (power / "node_0.txt").exists()


def test_predictions_go_with_their_run(tmp_path: Path) -> None:
    """A run was killed after they were kept, and one of them before its log; those of the finished run stay."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=2)
    broken_off(folder, 1)
    for index in range(3):
        (folder / f"predictions_{index}.npz").write_bytes(b"kept")

    assert list(open_folder(folder, plan(), b"", is_resumed=True).runs) == [0]

    assert [path.name for path in folder.glob("predictions_*")] == ["predictions_0.npz"]
    aside = sorted(path.name.split(".")[0] for path in (folder / "unfinished").iterdir())
    assert aside == ["predictions_1", "predictions_2", "result_1"]


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
    folder = fabricate.write_result(tmp_path / "out", num_runs=1, module=fabricate.MODULE, division="open")
    (folder / "code" / "fast.py").unlink()
    for _ in range(2):
        assert list(open_folder(folder, plan(module()), MODULE, is_resumed=True).runs) == [0]
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


def test_second_writer_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    """It moves nothing, not even the log that the first one is writing, and the lock ends with the first."""
    folder = tmp_path / "out"
    with opened(folder, plan(), b"", is_resumed=False):
        broken_off(folder, 0)
        before = names(folder)
        with pytest.raises(OutputError, match=r"out: another `tta run` is writing to it; wait for its end$"):
            open_folder(folder, plan(), b"", is_resumed=True)
        assert names(folder) == before

    assert open_folder(folder, plan(), b"", is_resumed=True).attempts == {0: 1}


def test_file_system_without_locks_takes_new_results_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new folder has one writer, for only one can make it; to resume without a lock would be a guess."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    assert open_folder(tmp_path / "out", plan(), b"", is_resumed=False) == Contents({}, {})
    with pytest.raises(OutputError, match=r"out: cannot be locked against a second .* \(No locks available\); move it"):
        open_folder(tmp_path / "out", plan(), b"", is_resumed=True)


SLOW = scripted.plan().hyperparameters | {"opt_base_learning_rate": 0.2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": {**fabricate.SYSTEM, "cooling": "water"}}, r"system\.json: cooling is air, but water is given now"),
        ({"system": {**fabricate.SYSTEM, "rack": "7"}}, r"system\.json: rack is absent, but 7 is given now"),
        (
            {"hyperparameters": SLOW},
            r"result_0\.txt: hyperparameters\.opt_base_learning_rate is 0\.1, but 0\.2 is",
        ),
        ({"precision": "bf16"}, r"result_0\.txt: precision is fp32, but bf16 is given now"),
        ({"num_devices": 2}, r"result_0\.txt: num_devices is 1, but 2 is given now"),
        ({"execution": {"compile": True}}, r"result_0\.txt: execution\.compile is False, but True is given now"),
        ({"division": "open"}, r"result_0\.txt: division is closed, but open is given now"),
        ({"full_curve": True}, r"result_0\.txt: full_curve is False, but True is given now"),
        ({"ruleset": "v2"}, r"result_0\.txt: tta_rules\.ruleset is v1, but v2 is given now"),
        ({"rules": fabricate.benchmark_rules(max_seconds=9.0)}, r"result_0\.txt: tta_rules\.terms_digest is"),
        (
            {"identity": Identity({**fabricate.CODE, "new.py": "5" * 64}, fabricate.PACKAGES)},
            r"result_0\.txt: tta_code\.digest is",
        ),
        (
            {"identity": Identity(fabricate.CODE, {**fabricate.PACKAGES, "new-1": "5" * 64})},
            r"result_0\.txt: tta_packages\.digest is",
        ),
        (
            {"data": {"digest": "e" * 64, "num_files": 5, "num_bytes": 1}},
            r"result_0\.txt: tta_data\.digest is d{64}",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("is_ended", [True, False], ids=["ended", "killed"])
def test_runs_that_were_made_otherwise_are_not_resumed(
    tmp_path: Path, changes: dict[str, Any], message: str, is_ended: bool
) -> None:
    """The message names the field, the folder's value and the one given; nothing is moved, not even a killed run."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    if not is_ended:
        broken_off(folder, 0)
    before = names(folder)

    with pytest.raises(OutputError, match=message):
        open_folder(folder, as_written(**changes), b"", is_resumed=True)

    assert names(folder) == before


def as_written(**changes: Any) -> Plan:
    """The plan of the runs that `fabricate` writes."""
    return scripted.plan(**{"execution": {"compile": False}, **changes})


def test_run_that_was_killed_in_its_header_is_compared_as_far_as_it_got(tmp_path: Path) -> None:
    """Its division agrees; the rest was never written."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    fabricate.write_log(folder / "result_0.txt", fabricate.events()[:4])

    assert open_folder(folder, as_written(), b"", is_resumed=True).attempts == {0: 1}


def test_prices_seed_commit_and_ids_of_the_runs_may_differ(tmp_path: Path) -> None:
    """They are of one run, or of the result that is resumed; the same files may have been committed since."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    since = Identity(fabricate.CODE, fabricate.PACKAGES, "f" * 40, is_clean=False)
    other = as_written(
        identity=since, seed=8, index=3, run_id="0" * 32, result_id="1" * 32, prices_digest="2" * 64, attempt=2
    )

    assert list(open_folder(folder, other, b"", is_resumed=True).runs) == [0]


def test_system_description_that_was_not_written_yet_is_written(tmp_path: Path) -> None:
    """The first attempt was killed between the folder and its description."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "system.json").touch()

    open_folder(tmp_path / "out", plan(), b"", is_resumed=True)

    assert json.loads((tmp_path / "out" / "system.json").read_text()) == fabricate.SYSTEM


def test_system_description_that_is_not_json_is_named(tmp_path: Path) -> None:
    """It is not replaced."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    (folder / "system.json").write_text("{")

    with pytest.raises(OutputError, match=r"system\.json: is not a system description: not JSON"):
        open_folder(folder, plan(), b"", is_resumed=True)


def interrupted(folder: Path, rules: Any) -> Plan:
    """A run with a checkpoint, whose process was killed; the plan that goes on with it."""
    steps = fabricate.events(0, rules=rules)
    fabricate.interrupt(steps)
    last = next(place for place, step in enumerate(steps) if step.key == "tta_interrupted")
    text = json.dumps({"run": {}, "files": {}, "boot_id": "b"}).encode()
    fabricate.find(steps, "tta_checkpoint_stop").metadata["digest"] = hashlib.sha256(text).hexdigest()
    fabricate.write_log(folder / "result_0.txt", steps[: last + 1])
    place = folder / "checkpoints" / "run_0" / "checkpoint_1"
    place.mkdir(parents=True)
    (place / "manifest.json").write_bytes(text)
    return as_written(rules=rules)


@pytest.mark.parametrize("is_permitted", [True, False])
def test_interrupted_run_goes_on_where_the_rules_permit_it(tmp_path: Path, is_permitted: bool) -> None:
    """It stays where it is; else it is put aside as any attempt without an end. Its power logs are, in either case."""
    rules = fabricate.benchmark_rules(permits_resume=is_permitted)
    shared = interrupted(tmp_path, rules)
    (tmp_path / "power" / "result_0").mkdir(parents=True)

    found = open_folder(tmp_path, shared, b"", is_resumed=True)

    assert list(found.interrupted) == ([0] if is_permitted else [])
    assert found.attempts == ({} if is_permitted else {0: 1})
    assert (tmp_path / "result_0.txt").exists() == is_permitted
    assert not (tmp_path / "power" / "result_0").exists()
    if is_permitted:
        assert found.interrupted[0].number == 1


@pytest.mark.parametrize("is_reproduction", [True, False])
def test_run_that_a_signal_ended_counts_in_a_result_and_not_in_a_reproduction(
    tmp_path: Path, is_reproduction: bool
) -> None:
    """What a submitter could break off because it goes badly counts; a reproduction goes on as if nothing had been."""
    steps, repeats = fabricate.events(0), {"digest": "ab" * 32}
    if is_reproduction:
        place = next(place for place, step in enumerate(steps) if step.key == "tta_code")
        steps.insert(place, fabricate.Step(steps[place].at_s, "tta_reproduces", repeats))
    fabricate.find(steps, "run_stop").metadata.update(status="aborted", reason="interrupted")
    fabricate.write_log(tmp_path / "result_0.txt", steps)
    shared = as_written(reproduces=repeats["digest"] if is_reproduction else None)

    found = open_folder(tmp_path, shared, b"", is_resumed=True)

    assert list(found.runs) == ([] if is_reproduction else [0])
    assert found.attempts == ({0: 1} if is_reproduction else {})
    assert (tmp_path / "result_0.txt").exists() != is_reproduction
