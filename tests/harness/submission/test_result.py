"""Which folders are results, and what is read of each: logs, description, claim, files, modules."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.base.files import MAX_SMALL_FILE_BYTES, Level
from harness.errors import LogError, SubmissionError
from harness.findings import LogPlace
from harness.log import run_log
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.submission import result
from harness.submission.claim import FileEntry
from harness.submission.result import find_results, read_result
from tests import fabricate, mlperflog

PLACE = "acme/results/box/bert"


def put(path: Path, text: str | bytes = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def ours(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return fabricate.write_log(path, fabricate.events())


def theirs(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return mlperflog.write(path, mlperflog.retinanet())


@pytest.mark.parametrize(
    ("names", "results"),
    [
        (["a/result_0.txt", "b/result_1.txt"], ["a", "b"]),
        (["a/result_0.txt", "a/notes.txt", "a/deeper/result_0.txt"], ["a"]),
        (["a/submission.yaml"], ["a"]),
        (["a/MANIFEST.sha256"], ["a"]),
        (["a/submission.yaml/x"], ["a"]),
        ([".git/result_0.txt", "a/result_0.txt"], ["a"]),
        (["s/systems/x.json", "s/results/x/b/result_0.txt", "s/reference/result_0.txt"], ["s/results/x/b"]),
        (["s/systems/result_0.txt", "s/results/x/b/result_0.txt"], ["s/results/x/b"]),
        (["s/results/x/b/result_0.txt", "s/reference/result_0.txt"], ["s/reference", "s/results/x/b"]),
        (["s/systems/x.json", "s/results/x/b/scaling.json"], ["s/results/x/b"]),
        (["f/result_x.txt", "f/result_y.txt", "f/sub/result_0.txt"], ["f/result_x.txt", "f/result_y.txt", "f/sub"]),
        (["s/systems/x.json", "s/results/x/b/result_a.txt"], ["s/results/x/b"]),
        (["s/results/x/a/result_0.txt", "s/results/x/b/scaling.json"], ["s/results/x/a", "s/results/x/b"]),
        (["s/results/x/b/result_0.txt", "t/results/x/b/scaling.json"], ["s/results/x/b"]),
        (["s/systems/x.json", "s/results/x/b/unfinished/result_0.5.txt"], ["s/results/x/b"]),
        (["s/systems/x.json", "s/results/o/x/b/result_a.txt"], ["s/results/o/x/b/result_a.txt"]),
        (["results/r/s/results/x/b/result_0.txt", "systems/y.json"], ["results/r/s/results/x/b"]),
        (
            ["systems/y.json", "results/y/b/result_0.txt", "t/results/x/b/result_0.txt", "t/systems/x.json"],
            ["results/y/b", "t/results/x/b"],
        ),
        (
            ["s/systems/x.json", "s/results/x/b/result_0.txt", "s/benchmarks/results/x/b/result_0.txt"],
            ["s/results/x/b"],
        ),
    ],
)
def test_what_is_a_result(tmp_path: Path, names: list[str], results: list[str]) -> None:
    """The topmost folder with logs or a claim is one; MLPerf's names count only where MLPerf has them."""
    for name in names:
        put(tmp_path / name)

    assert [path.relative_to(tmp_path).as_posix() for path in find_results(tmp_path)] == results


def test_logs_of_a_result_are_all_that_are_called_so(tmp_path: Path) -> None:
    """Those below its folder, too, and those of another program's name; of a log that was named, itself alone."""
    log = ours(tmp_path / "a" / "result_0.txt")
    copy, other = put(tmp_path / "a" / "b" / "result_x.txt"), put(tmp_path / "a" / "notes.txt")
    other.with_name("result_2.txt").symlink_to(log)

    found = read_result(tmp_path / "a").log_places

    digests = {place: hashlib.sha256(place.read_bytes()).hexdigest() for place in (log, copy)}
    assert sorted(found, key=lambda place: place.path) == [
        LogPlace(str(tmp_path / "a"), str(place), digests[place], "toy_mini") for place in (copy, log)
    ]
    assert read_result(log).log_places == (LogPlace(str(log), str(log), digests[log], "toy_mini"),)


def test_a_path_without_a_result_is_an_error(tmp_path: Path) -> None:
    """A file is taken for a log; a missing path and a folder without a result are errors."""
    log = put(tmp_path / "a" / "readme")

    assert find_results(log) == [log]
    with pytest.raises(SubmissionError, match="there is no result"):
        find_results(tmp_path)
    with pytest.raises(SubmissionError, match="there is no such file or folder"):
        find_results(tmp_path / "gone")


def test_a_folder_that_cannot_be_listed_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never passed over; within a result it is an entry, as a result it is an error."""
    closed = Level(tmp_path / "a", [], [], "Permission denied")
    monkeypatch.setattr(result, "walk", lambda *args: iter([Level(tmp_path, ["a"], ["gone"]), closed]))

    assert find_results(tmp_path) == [tmp_path / "a"]
    assert read_result(tmp_path).files == {"a": FileEntry("folder", 0, None), "gone": FileEntry("file", 0, None)}
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(result, "walk", lambda *args: iter([closed]))
    with pytest.raises(SubmissionError, match="a: cannot be listed: Permission denied"):
        read_result(tmp_path / "a")


def test_a_log_alone(tmp_path: Path) -> None:
    """A log has the number of nodes of the description next to it; a link is not read."""
    log = ours(tmp_path / "result_3.txt")
    put(tmp_path / "system.json", '{"number_of_nodes": "4"}')
    (tmp_path / "link.txt").symlink_to(log)
    (tmp_path / "folder").symlink_to(tmp_path)
    found = read_result(log)

    assert (found.kind, len(found.runs), found.num_nodes, found.benchmark) == ("log", 1, 4, "toy_mini")
    assert (found.run_number(found.runs[0]), found.system, found.files) == (3, None, {})
    unnumbered = read_result(theirs(tmp_path / "result_a.txt"))
    assert unnumbered.run_number(unnumbered.runs[0]) is None
    with pytest.raises(SubmissionError, match="is a symbolic link"):
        read_result(tmp_path / "link.txt")
    assert read_result(tmp_path / "folder").kind == "result"


@pytest.mark.parametrize(
    ("folder", "logs", "read"),
    [
        (PLACE, {"result_a.txt": theirs, "result_b.txt": theirs}, ["result_a.txt", "result_b.txt"]),
        (PLACE, {"result_0.txt": theirs, "result_b.txt": theirs}, ["result_0.txt", "result_b.txt"]),
        (PLACE, {"result_0.txt": ours, "result_b.txt": theirs}, ["result_0.txt"]),
        (
            PLACE,
            {"result_0.txt": ours, "result_1.txt": theirs, "result_b.txt": theirs},
            ["result_0.txt", "result_1.txt"],
        ),
        (PLACE, {"result_007.txt": theirs, "result_8.txt": ours}, ["result_8.txt"]),
        ("a/b", {"result_0.txt": theirs, "result_b.txt": theirs}, ["result_0.txt"]),
        ("a/b", {"result_2.txt": ours, "result_10.txt": ours}, ["result_2.txt", "result_10.txt"]),
    ],
)
def test_which_logs_are_runs(
    tmp_path: Path, folder: str, logs: dict[str, Callable[[Path], Path]], read: list[str]
) -> None:
    """Numbered logs are; MLPerf's other names are only in its place, and never next to a log of `tta`."""
    for name, write in logs.items():
        write(tmp_path / folder / name)
    found = read_result(tmp_path / folder)

    assert [log.path.name for log in found.runs] == read
    assert set(found.files) == set(logs)
    for name, entry in found.files.items():
        data = (tmp_path / folder / name).read_bytes()
        assert entry == FileEntry("file", len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(("text", "is_log"), [("Lines begin with `:::MLLOG {`\n", False), ("a\n:::MLLOG {\n", True)])
def test_a_text_about_logs_is_not_a_log(text: str, is_log: bool, tmp_path: Path) -> None:
    """A file that was named; one with a line of a log that cannot be read is a damaged log, which the checks judge."""
    put(tmp_path / "notes.md", text)

    if is_log:
        assert read_result(tmp_path / "notes.md").runs[0].num_unread == 1
    else:
        with pytest.raises(LogError, match="no line begins with ':::MLLOG': not a run log"):
            read_result(tmp_path / "notes.md")


def test_everything_in_a_result_is_an_entry(tmp_path: Path) -> None:
    """Each has a kind, size and digest; an unreadable log or a link is not a run, and hides nothing."""
    ours(tmp_path / "result_0.txt")
    put(tmp_path / "result_1.txt", "")
    put(tmp_path / "notes", "abc")
    put(tmp_path / "sub" / "result_2.txt", "abc")
    (tmp_path / "sub" / "deeper").mkdir()
    (tmp_path / "result_3.txt").symlink_to("result_0.txt")
    os.mkfifo(tmp_path / "pipe")
    found = read_result(tmp_path)
    abc = FileEntry("file", 3, hashlib.sha256(b"abc").hexdigest())

    assert [log.path.name for log in found.runs] == ["result_0.txt"]
    assert [(part.path.name, part.message) for part in result.unreadable_parts(found)] == [
        ("result_1.txt", "is empty: not a run log"),
        ("result_3.txt", "is a symbolic link"),
    ]
    result.require_runs(found)
    with pytest.raises(SubmissionError, match="no run log"):
        result.require_runs(read_result(tmp_path / "sub" / "deeper"))
    assert list(found.files) == ["notes", "pipe", "result_0.txt", "result_1.txt", "result_3.txt", "sub/result_2.txt"]
    assert (found.files["notes"], found.files["sub/result_2.txt"]) == (abc, abc)
    assert found.files["result_1.txt"] == FileEntry("file", 0, hashlib.sha256(b"").hexdigest())
    assert found.files["pipe"] == FileEntry("other", 0, None)
    assert found.files["result_3.txt"] == FileEntry("link", 0, None)


def test_a_file_that_cannot_be_read_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that vanishes after the look at it has its size; the rest of the result is read."""

    def vanish(path: Path) -> str:
        raise FileNotFoundError

    ours(tmp_path / "result_0.txt")
    put(tmp_path / "a", "abc")
    monkeypatch.setattr(result, "sha256_of", vanish)
    found = read_result(tmp_path)

    assert found.files["a"] == FileEntry("file", 3, None)
    assert len(found.runs) == 1


def test_a_result_has_no_more_bytes_than_are_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files together, some of them in a folder, may have exactly the limit and not one byte more."""
    for name in ("a", "b", "more/c"):
        put(tmp_path / name, "abc")
    monkeypatch.setattr(result, "MAX_RESULT_BYTES", 9)
    assert all(entry.sha256 is not None for entry in read_result(tmp_path).files.values())

    monkeypatch.setattr(result, "MAX_RESULT_BYTES", 8)
    with pytest.raises(SubmissionError, match="more than 8 bytes; no result is that large"):
        read_result(tmp_path)


def test_the_largest_results_are_left_out_of_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as must be; one that is too large by itself takes no share; a log alone counts, a lost one does not."""
    sizes = {"a": 30, "b": 50, "c": 40, "huge": 101}
    found = [put(tmp_path / name / "result_0.txt", "x" * size).parent for name, size in sizes.items()]
    found += [put(tmp_path / "result_0.txt", "x" * 10), tmp_path / "lost.txt"]
    monkeypatch.setattr(result, "MAX_RESULT_BYTES", 100)

    refused = {}
    for limit in (130, 129, 80, 79, 29, 0):
        monkeypatch.setattr(result, "MAX_TREE_BYTES", limit)
        refused[limit] = [path.name for path in result.beyond_limit(found)]

    assert refused == {
        130: [],
        129: ["b"],
        80: ["b"],
        79: ["b", "c"],
        29: ["b", "c", "a"],
        0: ["b", "c", "a", "result_0.txt"],
    }
    assert result.beyond_limit([]) == {}
    message = str(result.beyond_limit(found)[tmp_path / "a"])
    assert message.startswith(f"{tmp_path}/a: is not read: it is among the largest of results that have more than 0 ")


def test_a_claim_or_a_manifest_makes_a_submission(tmp_path: Path) -> None:
    """The claim decides where description and modules are; a claimed description may be missing."""
    folder = fabricate.write_submission(tmp_path, 1, module="x = 1\n")
    submitter = folder.parents[2]
    found = read_result(folder)
    (submitter / "systems").rename(tmp_path / "elsewhere")
    undescribed = read_result(folder)
    (tmp_path / "elsewhere").rename(submitter / "systems")
    (folder / "submission.yaml").unlink()
    sealed = read_result(folder)
    (folder / "MANIFEST.sha256").unlink()

    assert (found.kind, sealed.kind, read_result(folder).kind) == ("submission", "submission", "result")
    assert found.claim is not None
    assert found.system_path == submitter / "systems" / f"{found.claim.system}.json"
    assert found.system_sha256 == hashlib.sha256(found.system_path.read_bytes()).hexdigest()
    assert found.code_path == submitter / "benchmarks" / found.claim.benchmark
    assert found.code == {fabricate.MODULE_NAME: FileEntry("file", 6, hashlib.sha256(b"x = 1\n").hexdigest())}
    assert (sealed.claim, sealed.system_path, sealed.code_path) == (None, None, folder / "code")
    assert undescribed.system_path == found.system_path
    assert (undescribed.system, undescribed.system_sha256, undescribed.unreadable) == (None, None, ())


def test_a_result_near_the_root_has_no_submitter(tmp_path: Path) -> None:
    """Without a third folder above, description and modules are looked for next to the logs."""
    claim = read_result(fabricate.write_submission(tmp_path, 1)).claim
    assert claim is not None

    assert result._code_path(Path("/a/b"), claim) == Path("/a/b/code")
    assert result._code_path(Path("/a/b/c"), claim) == Path("/benchmarks") / claim.benchmark
    assert result._system_path(Path("/a/b"), claim, False) is None
    assert result._system_path(Path("/a/b/c"), claim, False) == Path(f"/systems/{claim.system}.json")
    assert result._num_nodes(Path("/a/b"), None) is None


@pytest.mark.parametrize("field", ["system", "benchmark"])
def test_a_claim_of_a_path_leads_nowhere(tmp_path: Path, field: str) -> None:
    """Names have no separators; for an invalid one, the files next to the logs are used."""
    folder = fabricate.write_submission(tmp_path, 1, claim={field: "../x"})
    put(folder / "system.json", "{}")
    found = read_result(folder)

    assert (found.system_path == folder / "system.json") is (field == "system")
    assert (found.code_path == folder / "code") is (field == "benchmark")
    (folder / "system.json").unlink()
    assert (read_result(folder).system_path is None) is (field == "system")
    put(folder / "submission.yaml", "[")  # an unreadable claim: the description is looked for by the folders
    assert read_result(folder).system_path == folder.parents[2] / "systems" / f"{folder.parent.name}.json"


@pytest.mark.parametrize(
    ("write", "beside", "path"),
    [
        (ours, True, f"{PLACE}/system.json"),
        (ours, False, None),
        (theirs, True, f"{PLACE}/system.json"),
        (theirs, False, "acme/systems/box.json"),
    ],
)
def test_where_the_description_is(
    tmp_path: Path, write: Callable[[Path], Path], beside: bool, path: str | None
) -> None:
    """It is next to the logs; if all logs are MLPerf's, it may also be below systems/."""
    write(tmp_path / PLACE / "result_1.txt")
    theirs(tmp_path / PLACE / "result_2.txt")
    if beside:
        put(tmp_path / PLACE / "system.json", "{}")

    assert read_result(tmp_path / PLACE).system_path == (None if path is None else tmp_path / path)


@pytest.mark.parametrize(
    ("number", "num_nodes"),
    [
        *(("8", 8), (8, 8), ("1", 1), ("999999", 999_999), ("1000000", None), ("0", None), ("08", None), (0, None)),
        *((True, None), (1.0, None), ("", None), (None, None), ("-1", None), ([1], None), ("8\n", None)),
    ],
)
def test_the_number_of_nodes_is_a_count(tmp_path: Path, number: object, num_nodes: int | None) -> None:
    """It counts from one up, as a whole number in digits."""
    put(tmp_path / "system.json", json.dumps({"number_of_nodes": number}))

    assert read_result(tmp_path).num_nodes == num_nodes


def test_the_nodes_are_those_of_the_nearest_description(tmp_path: Path) -> None:
    """The description next to the log has priority over the one in MLPerf's place, even without a number."""
    log = theirs(tmp_path / PLACE / "result_0.txt")
    below = put(tmp_path / "acme" / "systems" / "box.json", '{"number_of_nodes": 2}')
    assert (read_result(log).num_nodes, read_result(log.parent).num_nodes) == (2, 2)

    beside = put(log.parent / "system.json", '{"number_of_nodes": 3}')
    assert (read_result(log).num_nodes, read_result(log.parent).num_nodes) == (3, 3)
    beside.write_text('{"name": "box"}')
    assert (read_result(log).num_nodes, read_result(log.parent).num_nodes) == (None, None)
    beside.unlink()
    below.unlink()
    assert read_result(log).num_nodes is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the system description is not a JSON object"),
        ('"box1"', "the system description is not a JSON object"),
        ("{", "is not a readable system description: not JSON"),
        ('{"a": 1, "a": 1}', "is not a readable system description: the key 'a' occurs twice"),
    ],
)
def test_an_invalid_description_is_unreadable(tmp_path: Path, text: str, message: str) -> None:
    """It gives neither a system nor a number of nodes; the message does not repeat its path, and the runs are read."""
    ours(tmp_path / "result_0.txt")
    put(tmp_path / "system.json", text)
    found = read_result(tmp_path)

    assert (found.system, found.system_sha256, found.num_nodes, len(found.runs)) == (None, None, None, 1)
    assert [(part.path.name, part.message[: len(message)]) for part in found.unreadable] == [("system.json", message)]


def naming(*modules: str) -> list[RunLog]:
    """Logs that name modules."""
    events = [
        Event(0.0, "POINT_IN_TIME", "tta_config", {"module": fabricate.module_record("", name)}, {}) for name in modules
    ]
    return [RunLog(Path("x"), (event,), (), "", 0, 1, {}, {event.key: (event,)}, False) for event in events]


def test_the_modules_are_those_that_logs_name(tmp_path: Path) -> None:
    """Each has a kind, size and digest; a missing one hides no other, one that is too large has no digest."""
    put(tmp_path / "b.py", "abc")
    put(tmp_path / "c.py", b"x" * MAX_SMALL_FILE_BYTES)
    put(tmp_path / "d.py", b"x" * (MAX_SMALL_FILE_BYTES + 1))
    (tmp_path / "e.py").symlink_to("b.py")
    os.mkfifo(tmp_path / "f.py")
    put(tmp_path / "unnamed.py")
    code = result._code(tmp_path, naming(*(f"{name}.py" for name in "fedcba")))

    assert list(code) == ["b.py", "c.py", "d.py", "e.py", "f.py"]
    assert code["b.py"] == FileEntry("file", 3, hashlib.sha256(b"abc").hexdigest())
    assert code["c.py"].sha256 is not None
    assert code["d.py"] == FileEntry("file", MAX_SMALL_FILE_BYTES + 1, None)
    assert [(code[name].kind, code[name].sha256) for name in ("e.py", "f.py")] == [("link", None), ("other", None)]


@pytest.mark.parametrize(
    ("link", "folder", "is_read"),
    [
        (None, "benchmarks/toy", True),
        ("benchmarks/toy", "benchmarks/toy", False),
        ("benchmarks", "benchmarks/toy", False),
        ("elsewhere", "elsewhere/toy", True),
    ],
)
def test_modules_behind_a_link_are_not_read(tmp_path: Path, link: str | None, folder: str, is_read: bool) -> None:
    """Neither the folder of a benchmark nor benchmarks/ may be a link; the folders above are the organiser's."""
    real = tmp_path / "real" / folder
    put(real / "b.py", "abc")
    if link is None:
        (tmp_path / "benchmarks").mkdir()
        real.rename(tmp_path / folder)
    else:
        (tmp_path / link).parent.mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / "real" / link)

    assert list(result._code(tmp_path / folder, naming("b.py"))) == ["b.py"] * is_read


def test_a_log_that_names_no_module(tmp_path: Path) -> None:
    """Neither an invalid module nor its absence gives one."""
    [strange] = naming("b.py")
    strange.events[0].value["module"] = 5

    assert result.named_module(strange) is None
    assert result.named_module(run_log.read(ours(tmp_path / "result_0.txt"))) is None


def test_the_benchmark_is_that_of_the_first_log_that_names_one() -> None:
    """A value that is not text is skipped."""
    events = [Event(0.0, "POINT_IN_TIME", "submission_benchmark", value, {}) for value in (5, "bert", "ssd")]
    runs = [RunLog(Path("x"), (event,), (), "", 0, 1, {}, {event.key: (event,)}, False) for event in events]

    assert result.Result(Path("x"), "result", tuple(runs)).benchmark == "bert"
    assert result.Result(Path("x"), "result", tuple(runs[:1])).benchmark is None
