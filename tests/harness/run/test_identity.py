"""What ran: lists of code and packages, the commit, and the files that a process has loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
import types
from pathlib import Path
from typing import Any

import pytest

from harness.base.files import sha256_of
from harness.base.processes import SOURCE_ROOT
from harness.errors import SubmissionError
from harness.run import identity, loaded
from harness.run.identity import identify
from harness.submission.provenance import code_files
from tests.harness.submission.test_provenance import source

GIT = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")


def commit(root: Path) -> str:
    """Commit everything in `root`."""
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "m")):
        subprocess.run([*GIT, *arguments], cwd=root, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def site(folder: Path, files: dict[str, str], name: str = "torch-2.14.1", **digests: str) -> Path:
    """A site-packages with one distribution; its RECORD has the digests of `files`, or those given by name."""
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    rows = [f"{info.name}/RECORD,,"]
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return folder


def installed(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Make these the folders of the installation."""
    monkeypatch.setattr(identity, "isolated_paths", lambda: (list(map(str, folders)), "", ""))


def test_identity_of_a_checkout_has_its_commit_and_whether_it_is_clean(tmp_path: Path) -> None:
    """Files outside the code make it no less clean; a file of the code that is not committed does."""
    root = source(tmp_path)
    head = commit(root)
    (root / "results").mkdir()
    (root / "results" / "notes.txt").touch()

    clean = identify(root)
    (root / "workloads" / "toy" / "extra.py").touch()
    dirty = identify(root)

    assert (clean.commit, clean.is_clean) == (head, True)
    assert (dirty.commit, dirty.is_clean) == (head, False)
    assert dirty.code_event["num_files"] == clean.code_event["num_files"] + 1  # type: ignore[operator]


def test_installed_package_in_another_projects_checkout_has_no_commit(tmp_path: Path) -> None:
    """A virtual environment is often a folder of a repository."""
    root = source(tmp_path / "venv" / "site-packages")
    commit(tmp_path)

    assert (identify(root).commit, identify(root).is_clean) == (None, None)


@pytest.mark.parametrize("what", ["no_repository", "no_git", "slow"])
def test_commit_is_unknown_where_git_does_not_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A .git that is not a repository, no git on the machine, and one that does not answer."""
    root = source(tmp_path)
    (root / ".git").mkdir()
    (root / "bin").mkdir()
    if what == "slow":
        (root / "bin" / "git").write_text("#!/bin/sh\nexec sleep 60\n")
        (root / "bin" / "git").chmod(0o755)
        monkeypatch.setattr(identity, "_GIT_LIMIT_S", 0.1)
    if what != "no_repository":
        monkeypatch.setenv("PATH", str(root / "bin") + (":/bin:/usr/bin" if what == "slow" else ""))

    assert identify(root).commit is None


def test_variables_of_git_do_not_point_it_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIT_DIR of another repository, as in a hook."""
    head = commit(source(tmp_path / "a"))
    other = source(tmp_path / "b")
    (other / "rules" / "more.yaml").touch()
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))

    assert identify(tmp_path / "a").commit == head


def test_packages_are_the_records_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two with one name the first is taken, as Python does; without RECORD the digest is zeros."""
    first = site(tmp_path / "first", {"torch/__init__.py": "a"})
    second = site(tmp_path / "second", {"torch/__init__.py": "b"})
    (second / "old-1.0.egg-info").mkdir()
    installed(monkeypatch, first, second, tmp_path / "gone")

    found = identify(source(tmp_path / "source"))

    assert found.packages == {
        f"python-{sys.version.split()[0]}": sha256_of(Path(os.path.realpath(sys.executable))),
        "torch-2.14.1": sha256_of(first / "torch-2.14.1.dist-info" / "RECORD"),
        "old-1.0": identity.NO_RECORD,
    }
    assert found.packages_event["num_packages"] == 3
    assert found.packages_event["digest"] == hashlib.sha256(found.lists[1].encode()).hexdigest()


def test_code_that_cannot_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is named."""

    def fail(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("harness.submission.provenance.sha256_of", fail)
    monkeypatch.setattr(identity, "_packages", lambda: iter(()))

    with pytest.raises(SubmissionError, match=r"cli.py: cannot be read: Permission denied"):
        identify(source(tmp_path))


def judge(paths: list[str], code: dict[str, str], root: Path, **known: Any) -> dict[str, Any]:
    found = loaded.Judge(code, root, **known).judge(paths)
    assert found["num_files"] == len(paths)
    return found


def test_code_packages_python_and_system_account_for_what_is_loaded() -> None:
    """A program that imports numpy; what it has loaded is judged here."""
    program = "import json, numpy; from harness.run.loaded import loaded_files; print(json.dumps(loaded_files()))"
    environment = {"PYTHONPATH": str(SOURCE_ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-P", "-c", program], env=environment, check=True, capture_output=True)

    found = judge(json.loads(done.stdout), code_files(SOURCE_ROOT), SOURCE_ROOT)

    assert (found["outside"], found["changed"]) == ([], [])
    assert found["num_files"] > 100
    assert [name for name in found["system"] if name.startswith("libc.so")]


def test_changed_files_and_files_from_elsewhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the code, in a distribution (same length, another length, gone), and next to both."""
    root = source(tmp_path / "source")
    code = code_files(root)
    names = ("same", "edited", "longer", "gone", "unlisted")
    packages = site(tmp_path / "site", {f"torch/{name}.py": "x = 1\n" for name in names})
    installed(monkeypatch, packages)
    (packages / "old-1.0.egg-info").mkdir()
    (packages / "torch" / "edited.py").write_text("x = 2\n")
    (packages / "torch" / "longer.py").write_text("x = 11\n")
    (packages / "torch" / "gone.py").unlink()
    record = packages / "torch-2.14.1.dist-info" / "RECORD"
    lines = [line for line in record.read_text().splitlines() if "unlisted" not in line]
    record.write_text("\n".join([*lines, "torch/unlisted.py,,", "odd row", "../bin/tool,,"]) + "\n")
    (root / "workloads" / "toy" / "workload.py").write_text("other")
    (packages / "sitecustomize.py").write_text("evil")
    paths = [
        str(root / "harness" / "cli.py"),
        str(root / "workloads" / "toy" / "workload.py"),
        *(str(packages / "torch" / f"{name}.py") for name in names),
        str(packages / "sitecustomize.py"),
        str(tmp_path / "bin" / "tool"),
        "/memfd:hidden (deleted)",
        "a\0b",
    ]

    found = judge(paths, code, root)

    assert found["changed"] == sorted(
        [str(root / "workloads" / "toy" / "workload.py")]
        + [str(packages / "torch" / f"{name}.py") for name in ("edited", "longer", "gone")]
    )
    assert found["outside"] == [
        {"path": "/memfd:hidden (deleted)", "sha256": None},
        {"path": str(packages / "sitecustomize.py"), "sha256": hashlib.sha256(b"evil").hexdigest()},
        {"path": "a\\x00b", "sha256": None},
    ]
    assert (found["num_changed"], found["num_outside"]) == (4, 3)


def test_judging_needs_memory_for_what_is_loaded_not_for_all_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 rows of a RECORD, which are 5 MB as objects; in every run, their places in the heap stayed in pieces."""
    packages = site(tmp_path / "site", {"torch/a.py": "x = 1\n"})
    installed(monkeypatch, packages)
    with (packages / "torch-2.14.1.dist-info" / "RECORD").open("a") as record:
        record.writelines(f"torch/{number}.py,sha256={number:043},1\n" for number in range(20_000))
    tracemalloc.start()
    try:
        found = judge([str(packages / "torch" / "a.py"), str(packages / "torch" / "1.py")], {}, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found["changed"] == [str(packages / "torch" / "1.py")]
    assert found["num_outside"] == 0
    assert peak < 1 << 20


def test_large_libraries_of_a_distribution_are_compared_by_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashing all of torch would take seconds."""
    packages = site(tmp_path / "site", {"torch/lib/a.so": "1234", "torch/lib/b.so": "1234"})
    installed(monkeypatch, packages)
    monkeypatch.setattr(loaded, "_MAX_HASHED_BYTES", 3)
    (packages / "torch" / "lib" / "a.so").write_text("4321")
    (packages / "torch" / "lib" / "b.so").write_text("12345")

    found = judge([str(packages / "torch" / "lib" / name) for name in ("a.so", "b.so")], {}, tmp_path)

    assert found["changed"] == [str(packages / "torch" / "lib" / "b.so")]


def test_module_of_the_open_division_may_be_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its digest, which the log has. A file too large to read has none, and is outside."""
    for name in ("fast.py", "other.py"):
        (tmp_path / name).write_text(name)
    known = [hashlib.sha256(b"fast.py").hexdigest()]

    found = judge([str(tmp_path / "fast.py"), str(tmp_path / "other.py")], {}, tmp_path, known=known)
    monkeypatch.setattr(loaded, "_MAX_READ_BYTES", 3)
    large = judge([str(tmp_path / "fast.py")], {}, tmp_path, known=known)

    assert [entry["path"] for entry in found["outside"]] == [str(tmp_path / "other.py")]
    assert large["outside"] == [{"path": str(tmp_path / "fast.py"), "sha256": None}]


def test_file_in_the_folder_of_the_standard_library_is_pythons_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A usercustomize.py there is not, nor is what is in its site-packages; the interpreter's own libraries are."""
    library, prefix = Path(os.__file__).parent, Path(os.path.realpath(sys.base_prefix))
    paths = {
        "python": [library / "json" / "__init__.py", library / "lib-dynload" / "_json.cpython-311-x86_64-linux-gnu.so"],
        "outside": [library / "usercustomize.py", library / "site-packages" / "evil.so"],
        "system": [
            prefix / "lib" / "libmkl.so.2",
            Path("/usr/lib/libc.so.6"),
            Path("/etc/python3.11/sitecustomize.py"),
        ],
    }
    monkeypatch.setattr(loaded, "SYSTEM_FOLDERS", ("/usr/lib/libc", "/etc/python3"))  # this Python may be in /usr/lib

    found = judge([str(path) for of_kind in paths.values() for path in of_kind], {}, Path("/nowhere"))

    assert [entry["path"] for entry in found["outside"]] == sorted(map(str, paths["outside"]))
    assert found["system"] == ["libc.so.6", "libmkl.so.2", "sitecustomize.py"]


def test_compiled_kernels_are_counted_apart(tmp_path: Path) -> None:
    """torch.compile writes them, in other files with every version; checks ask whether the run compiles."""
    found = judge(["/tmp/torchinductor_me/ab/c.so", "/home/me/.triton/cache/x/y.so", "/tmp/torch/z.so"], {}, tmp_path)

    assert (found["num_compiled"], found["num_outside"]) == (2, 1)


def test_many_files_are_counted_and_some_are_named(tmp_path: Path) -> None:
    """The log's line stays short."""
    found = judge([str(tmp_path / f"{number}.py") for number in range(60)], {}, tmp_path)

    assert (found["num_outside"], len(found["outside"])) == (60, loaded.MAX_NAMED)


def test_lazy_module_is_not_imported_by_being_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what is no module, or has no file, get in the way."""

    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    lazy = Lazy("lazy")
    types.ModuleType.__getattribute__(lazy, "__dict__")["__file__"] = "/somewhere/lazy.py"
    for name, module in (("lazy", lazy), ("odd", object()), ("bare", types.ModuleType("bare"))):
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    monkeypatch.setattr(loaded, "_MAPS", Path("/nowhere"))

    assert "/somewhere/lazy.py" in loaded.loaded_files()


def test_process_that_could_not_be_asked_is_null(tmp_path: Path) -> None:
    """The referee's own files are judged all the same, and those of others after it."""
    found = loaded.judged(loaded.Judge({}, tmp_path), {"worker": None, "evaluator": ["/nowhere/a.py"]})

    assert list(found) == ["referee", "worker", "evaluator"]
    assert found["worker"] is None
    assert found["evaluator"]["num_outside"] == 1
    assert found["referee"]["num_files"] > 10
