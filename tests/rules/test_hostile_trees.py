"""Malicious trees: every verb that reads one exits with 0, 1 or 2 and prints sentences.

Each kind is a function that damages a valid submission. No link is followed, nothing blocks, nothing is printed that a
terminal would obey, and limits of CPU and memory are kept.
"""

from __future__ import annotations

import copy
import errno
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.base import files
from harness.base.files import MAX_SMALL_FILE_BYTES, line_of, sha256_of, small_file
from harness.errors import LogError, SubmissionError, TtaError
from harness.log import run_log
from harness.submission import result as results
from tests import fabricate
from tests.fabricate import Step
from tests.rules_folder import write_ruleset

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\n\u202e\x9b31m<script>alert(1)</script>${oc.env:HOME}\ud800"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
MAX_CPU_S, MAX_BYTES = 60, 1 << 30
VERBS = (
    ["check"],
    ["check", "--format", "json"],
    ["check", "--format", "sarif"],
    ["score"],
    ["summary"],
    ["audit"],
    ["derive"],
)
Damage = Callable[[Path], object]
KINDS: list[Damage] = []


def kind(damage: Damage) -> Damage:
    """Registers a kind of damage."""
    KINDS.append(damage)
    return damage


def system_of(folder: Path) -> Path:
    return folder.parents[2] / "systems/box1.json"


def listening_socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def hostile(value: Any) -> Any:
    """`value` with every string in it replaced."""
    if isinstance(value, dict):
        return {name: hostile(item) for name, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return HOSTILE if isinstance(value, str) else value


@kind
def every_text_of_a_log_is_hostile(folder: Path) -> None:
    steps = copy.deepcopy(fabricate.events())
    for step in steps:
        step.value, step.metadata = hostile(step.value), hostile(step.metadata)
    fabricate.write_log(folder / "result_0.txt", [*steps, Step(99, HOSTILE, HOSTILE)])


@kind
def every_text_of_the_claim_is_hostile(folder: Path) -> None:
    lines = (folder / "submission.yaml").read_text().splitlines()
    names = [line.split(":")[0] for line in lines]
    text = json.dumps(HOSTILE.replace("\ud800", ""))
    (folder / "submission.yaml").write_text("".join(f"{name}: {text}\n" for name in [*names, text]))


@kind
def every_text_of_the_description_is_hostile(folder: Path) -> None:
    system = hostile(json.loads(system_of(folder).read_text()))
    system_of(folder).write_text(json.dumps({**system, HOSTILE: HOSTILE}))


@kind
def every_text_of_the_billing_is_hostile(folder: Path) -> None:
    text = json.dumps(HOSTILE.replace("\ud800", ""))
    (folder / "billing.yaml").write_text(f"purchase: {text}\nattempts: [{{node: {text}}}]\n{text}: {text}\n")


@kind
def names_of_files_are_hostile(folder: Path) -> None:
    for name in (b"result_0.txt\n", b"a\nb: PKG001 error: x", b"\x1b[2J", b"\xff\xfe", "\u202etxt".encode(), b"-rf"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("x")
    (folder / "..." / "\x1b[2J").mkdir(parents=True)


@kind
def the_manifest_lists_what_is_outside(folder: Path) -> None:
    names = ("../../../../../../etc/passwd", "/etc/passwd", "a/../../b", HOSTILE.replace("\ud800", ""), ".", "x" * 9000)
    (folder / "MANIFEST.sha256").write_text("".join(f"{'0' * 64}  {name}\n" for name in names))


@kind
def the_manifest_has_half_a_million_lines_that_are_none(folder: Path) -> None:
    (folder / "MANIFEST.sha256").write_text("x\n" * 500_000)


@kind
def the_manifest_lists_ten_thousand_files_that_are_not_there(folder: Path) -> None:
    (folder / "MANIFEST.sha256").write_text("".join(f"{'0' * 64}  {number}\n" for number in range(10_000)))


@kind
def the_claim_leads_out_of_the_tree(folder: Path) -> None:
    text = (folder / "submission.yaml").read_text()
    (folder / "submission.yaml").write_text(text.replace("box1", "../../../../etc").replace("toy_mini", "/etc"))


@kind
def links_lead_out_of_the_tree(folder: Path) -> None:
    for name, target in (
        ("result_0.txt", "/etc/passwd"),
        ("result_1.txt", "/dev/zero"),
        ("result_2.txt", "result_2.txt"),
        ("submission.yaml", "/dev/zero"),
        ("MANIFEST.sha256", "/dev/zero"),
        ("MANIFEST.sha256.sig", "/dev/zero"),
        ("billing.yaml", "/dev/zero"),
        ("loop", "."),
        ("power", "/proc/self"),
    ):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)


@kind
def the_folder_of_descriptions_is_a_link(folder: Path) -> None:
    shutil.rmtree(folder.parents[2] / "systems")
    (folder.parents[2] / "systems").symlink_to("/proc/self")


@kind
def pipes_lie_where_files_should(folder: Path) -> None:
    for path in (
        *(folder / name for name in ("result_0.txt", "submission.yaml", "MANIFEST.sha256", "MANIFEST.sha256.sig")),
        *(folder / name for name in ("billing.yaml", "power/result_0/node_0.txt", "power/idle/node_0.txt")),
        system_of(folder),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)


@kind
def a_socket_and_folders_lie_where_files_should(folder: Path) -> None:
    (folder / "result_0.txt").unlink()
    listening_socket(folder / "result_0.txt")
    for name in ("result_1.txt", "submission.yaml", "MANIFEST.sha256"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()


@kind
def a_line_has_a_hundred_megabytes(folder: Path) -> None:
    with (folder / "result_0.txt").open("ab") as stream:
        for _ in range(100):
            stream.write(b":::MLLOG {" + b"x" * (1 << 20))


@kind
def a_log_is_half_a_million_events(folder: Path) -> None:
    line = (folder / "result_0.txt").read_bytes().splitlines(keepends=True)[-2]
    (folder / "result_0.txt").write_bytes(line * 200_000)


@kind
def a_file_of_holes_has_a_terabyte(folder: Path) -> None:
    (folder / "notes.txt").touch()
    os.truncate(folder / "notes.txt", 1 << 40)


@kind
def a_log_has_lines_that_json_leaves_open(folder: Path) -> None:
    values = [
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"9" * 5000,
        b"[" * 100_000,
        b'{"a":1,"a":2}',
        b'"\xff"',
        b'"\\ud800"',
        b"",
    ]
    head = b':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "seed", "value": '
    lines = b"".join(head + value + b', "metadata": {}}\n' for value in values)
    (folder / "result_0.txt").write_bytes(lines + b"\x00" * 5000 + b"\r\r\n" + lines[:-9])


def description(data: bytes, name: str) -> None:
    def damage(folder: Path) -> None:
        system_of(folder).write_bytes(data)

    damage.__name__ = f"the_description_{name}"
    kind(damage)


description(b"[" * 500_000, "is_deep")
description(b'{"a":' * 400 + b"1" + b"}" * 400, "is_just_less_deep_than_python_reads")
description(b'{"system_name": NaN, "number_of_nodes": 1e999}', "has_no_numbers")
description(b'{"system_name": "box1", "system_name": "box2"}', "says_it_twice")
description(b"{" + b'"number_of_nodes": ' + b"9" * 5000 + b"}", "has_an_endless_number")
description(b" " * 900_000 + b'{"submitter": "", "x": 1}', "is_all_blanks")
description(b"\xff\xfe\x00", "is_no_text")


def yaml_file(text: str, name: str) -> None:
    """The same text as the claim and as the bill."""

    def damage(folder: Path) -> None:
        for file in ("submission.yaml", "billing.yaml"):
            (folder / file).write_text(text)

    damage.__name__ = f"the_yaml_{name}"
    kind(damage)


LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
YAML = {
    "laughs": LAUGHS + "".join(f"{name}: *a29\n" for name in ("submitter", "attempts", "notes")),
    "holds_itself": "submitter: &a [*a]\nattempts: &b {node: *b}\n",
    "is_deep": "a: " + "[" * 20_000,
    "is_deep_in_blocks": "".join(f"{' ' * n}a:\n" for n in range(1200)),
    "has_tags": "submitter: !!python/object/apply:os.system [id]\nattempts: !!int x\nnotes: !!timestamp x\n",
    "merges": "submitter: &a {x: 1}\n<<: *a\n<<: [*a, *a]\n",
    "has_keys_that_are_no_texts": "? [a, b]\n: 1\n? {a: b}\n: 2\n",
    "is_half_a_megabyte_of_keys": "".join(f"k{number}: v\n" for number in range(40_000)),
    "is_two_documents": "a: 1\n---\nb: 2\n",
    "is_a_directive": "%YAML 9.9\n%TAG ! tag:x,2000:\n--- !x\n",
    "has_control_characters": 'submitter: "\\x1b[2J\\0\\u202e"\nattempts: \x07\n',
    "says_it_twice": "submitter: a\nsubmitter: b\nattempts: []\nattempts: []\n",
}
for _name, _text in YAML.items():
    yaml_file(_text, _name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid submission with one run, next to another that stays valid."""
    fabricate.write_submission(tmp_path / "tree", 1, system={**fabricate.SYSTEM, "submitter": "valid"})
    return fabricate.write_submission(tmp_path / "tree", 1)


@pytest.fixture(scope="session")
def ruleset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ruleset of one benchmark: v1 takes much longer to read."""
    return str(write_ruleset(tmp_path_factory.mktemp("ruleset")))


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


# The kinds of which every verb says something of its own; the others are read by the same code.
SEEN_EVERYWHERE = [
    item for item in KINDS if item.__name__.startswith(("every_", "names_", "links_", "pipes_", "a_socket_"))
]


@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
def test_every_verb_ends_with_sentences(
    damage: Damage, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0, 1 or 2, no traceback, nothing a terminal obeys, within a minute and a gigabyte; check never finds it valid."""
    damage(folder)
    tree = folder.parents[3]
    started_s, before_kb = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for verb in VERBS if damage in SEEN_EVERYWHERE else VERBS[:1]:
        status, out, err = run([verb[0], str(tree), "--ruleset", ruleset, *verb[1:]], capsys)

        assert status in (0, 1, 2), err
        assert "Traceback" not in err
        assert OBEYED.search(out + err) is None
        assert len(out) < 8 << 20
        if verb[0] == "check":
            assert status in (1, 2)
            assert out.startswith("{") is ("--format" in verb)

    assert time.process_time() - started_s < MAX_CPU_S
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) << 10 < MAX_BYTES


@pytest.mark.parametrize("damage", SEEN_EVERYWHERE, ids=lambda damage: damage.__name__)
def test_the_pages_of_the_board_obey_nothing(
    damage: Damage, folder: Path, ruleset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pages are written, without markup or control characters from a submission."""
    damage(folder)

    words = ["board", "build", str(folder.parents[3]), "--ruleset", ruleset, "--out", str(tmp_path / "site")]
    status, out, err = run(words, capsys)

    assert status in (0, 1, 2)
    assert "Traceback" not in err
    assert OBEYED.search(out + err) is None
    pages = sorted((tmp_path / "site").rglob("*.html")) if status != 2 else []
    assert pages or status == 2
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert OBEYED.search(text) is None, page


@pytest.fixture
def impatient() -> Iterator[None]:
    """A reader that waits for a pipe fails after 20 s."""

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError("it waits for something that never comes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


READERS = (
    ["check", "{}"],
    ["score", "{}"],
    ["summary", "{}"],
    ["audit", "{}"],
    ["derive", "{}"],
    ["submit", "{}", "--to", "{new}"],
    ["board", "build", "{}", "--out", "{new}"],
    ["derive", "{good}", "--against", "{}"],
    ["derive", "{good}", "--tree", "{}"],
    ["audit", "{good}", "--mirror", "{}"],
    ["check", "{good}", "--ruleset", "{}"],
    ["board", "build", "{tree}", "--out", "{}"],
)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("make", [pipe, link_to_a_device, listening_socket])
@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
def test_no_reader_waits_for_a_special_file(
    arguments: list[str], make: Damage, tmp_path: Path, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, wherever a file or folder is expected: status 2 and one sentence that names it."""
    make(tmp_path / "odd")
    places = {"good": folder, "tree": folder.parents[3], "new": tmp_path / "new"}

    rules = [] if "--ruleset" in arguments else ["--ruleset", ruleset]
    status, out, err = run([*(item.format(tmp_path / "odd", **places) for item in arguments), *rules], capsys)

    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert f"{tmp_path}/odd" in err or "/dev/zero: is not a regular file" in err


def test_a_board_may_be_named_by_a_link(
    tmp_path: Path, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user chose it; an empty board is compared, and lacks the result."""
    (tmp_path / "board.json").write_text('{"tables": []}')
    (tmp_path / "link").symlink_to("board.json")

    found = [
        run(["derive", str(folder), "--ruleset", ruleset, "--against", str(tmp_path / name)], capsys)
        for name in ("board.json", "link")
    ]

    assert [status for status, _, _ in found] == [1, 1]
    assert found[0][1].replace("board.json", "link") == found[1][1]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("make", [pipe, link_to_a_device, listening_socket])
@pytest.mark.parametrize("name", ["result_0.txt", "system.json", "billing.yaml"])
def test_a_special_file_is_never_submitted(
    name: str, make: Damage, tmp_path: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the folder of a run: nothing is submitted."""
    result = fabricate.write_result(tmp_path / "result")
    (result / name).unlink(missing_ok=True)
    make(result / name)
    (tmp_path / "tree").mkdir()

    status, _, err = run(["submit", str(result), "--to", str(tmp_path / "tree"), "--ruleset", ruleset], capsys)

    assert status in (1, 2)
    assert "Traceback" not in err
    assert list((tmp_path / "tree").iterdir()) == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("verb", ["audit", "derive"])
@pytest.mark.parametrize("make", [pipe, link_to_a_device, listening_socket])
def test_a_result_without_a_log_is_not_clean(
    verb: str, make: Damage, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file with the log's name is reported, and that no log is left; the result is not called clean."""
    (folder / "result_0.txt").unlink()
    make(folder / "result_0.txt")

    status, out, err = run([verb, str(folder), "--ruleset", ruleset], capsys)

    assert (status, out) == (2, "")
    assert err.splitlines()[0].startswith(f"tta: {folder}/result_0.txt: ")
    assert err.splitlines()[1:] == [f"tta: {folder}: no run log (result_<k>.txt) in it can be read"]


TREE_VERBS = ("check", "score", "summary", "audit", "derive")


def _gone(folder: Path) -> Path:
    shutil.rmtree(folder.parents[3])
    return folder.parents[3]


def _papers_alone(folder: Path) -> None:
    _gone(folder).mkdir()
    (folder.parents[3] / "README.md").write_text("nothing was run\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_gone, "there is no such file or folder"),
        (lambda folder: _gone(folder).write_text("hello\n"), "no line has ':::MLLOG': not a run log"),
        (lambda folder: _gone(folder).mkdir(), "there is no result (no result_<k>.txt in it or below it)"),
        (_papers_alone, "there is no result (no result_<k>.txt in it or below it)"),
    ],
)
def test_every_reader_reports_a_tree_without_results(
    damage: Damage, said: str, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, nothing on standard output, and the same sentence from all."""
    damage(folder)
    tree = folder.parents[3]

    found = {verb: run([verb, str(tree), "--ruleset", ruleset], capsys) for verb in TREE_VERBS}

    assert found == dict.fromkeys(TREE_VERBS, (2, "", f"tta: {tree}: {said}\n"))


@pytest.mark.parametrize("verb", ["summary", "audit", "derive"])
def test_a_result_without_a_log_does_not_hide_others(
    verb: str, tmp_path: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The valid one is shown, the two others are named, and the status is 2."""
    valid = fabricate.write_submission(tmp_path / "tree", 1)
    lost = [valid.with_name(name) for name in ("lost", "stolen")]
    for folder in lost:
        folder.mkdir()
        (folder / "submission.yaml").write_text("submitter: acme\n")

    status, out, err = run([verb, str(tmp_path / "tree"), "--ruleset", ruleset], capsys)

    assert status == 2
    assert "toy_mini" in out
    for folder in lost:
        assert f"tta: {folder}: no run log (result_<k>.txt) in it can be read\n" in err


def _folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("place", "damage", "why"),
    [
        ("log", lambda path: path.write_bytes(b""), "is empty"),
        ("log", lambda path: path.write_bytes(b"\xff\xfe\0"), "not a run log"),
        ("system", _folder_instead, "is not a readable system description: is not a regular file"),
        ("system", lambda path: path.write_bytes(b'{"a": "\xff"}'), "not UTF-8"),
        ("system", lambda path: path.write_bytes(b"[" * 100_000), "nested too deeply"),
        ("system", lambda path: path.write_bytes(b'{"a": 1, "a": 2}'), "the key 'a' occurs twice"),
        ("claim", lambda path: path.write_bytes(b"submitter: \xff"), "not YAML: unacceptable character"),
        ("claim", lambda path: path.write_bytes(b"a: " + b"[" * 20_000), "not YAML: nested too deeply"),
        ("claim", lambda path: path.write_bytes(b"a: 1\na: 2\n"), "not YAML: the key 'a' occurs twice"),
    ],
)
def test_every_reader_names_unreadable_files(
    place: str, damage: Damage, why: str, tmp_path: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By check as an error on the file, by the others in one line on standard error; the rest is read."""
    folder = fabricate.write_submission(tmp_path / "tree", 2)
    path = {"log": folder / "result_1.txt", "claim": folder / "submission.yaml", "system": system_of(folder)}[place]
    damage(path)

    status, out, _ = run(["check", str(folder), "--ruleset", ruleset], capsys)
    found = {verb: run([verb, str(folder), "--ruleset", ruleset], capsys) for verb in ("summary", "audit", "derive")}

    assert status == 1
    assert [line for line in out.splitlines() if str(path) in line and why in line and " error: " in line]
    for verb, (_, _, err) in found.items():
        lines = [line for line in err.splitlines() if line.startswith(f"tta: {path}: ")]
        assert len(lines) == 1, (verb, err)
        assert why in lines[0]


RULES = {
    **YAML,
    "asks_the_environment": "codes: {LOG001: '${oc.env:HOME}'}\n",
    "is_a_round_that_laughs": f"kind: mlperf\n{LAUGHS}",
    "is_a_round_that_is_deep": "kind: mlperf\nbase: " + "[" * 20_000,
    "is_a_round_that_leads_out": "kind: mlperf\nfrom: ../../../../etc/passwd\n",
    "has_a_signature_setting_of_its_own": "divisions: [closed]\ncodes: {LOG001: error}\nsignatures: {a: \x1b[2J}\n",
    "is_a_number": "7\n",
    "is_empty": "",
}


@pytest.mark.parametrize("name", ["ruleset.yaml", "prices.yaml", "toy.yaml"])
def test_a_malformed_ruleset_is_refused_in_a_sentence(
    name: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In any of its files, with any content: status 2 and one line."""
    for number, text in enumerate(RULES.values()):
        rules = tmp_path / str(number)
        rules.mkdir()
        for file in ("ruleset.yaml", "prices.yaml"):
            shutil.copyfile(Path("rules/v1", file), rules / file)
        (rules / name).write_text(text)
        started_s = time.process_time()

        status, out, err = run(["check", str(folder), "--ruleset", str(rules)], capsys)

        assert status == 2, (text[:80], out)
        assert err.count("\n") == 1
        assert OBEYED.search(err) is None
        assert time.process_time() - started_s < MAX_CPU_S


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither if it is named, nor if a walk over a tree finds it."""
    outside = fabricate.write_log(tmp_path / "outside.txt", fabricate.events())
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/result_x.txt").symlink_to(outside)

    (found,) = results.find_results(tmp_path / "tree")

    with pytest.raises(SubmissionError, match="is a symbolic link"):
        results.read_result(found)


def test_folders_can_be_deeper_than_paths_are_long(tmp_path: Path, folder: Path) -> None:
    """3,000 nested folders: what cannot be listed is reported as a folder."""
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        for _ in range(3000):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.fchdir(here)
        os.close(here)

    try:
        entries = results.read_result(folder).files

        assert [entry.kind for name, entry in entries.items() if name.startswith("d/")] == ["folder"]
        assert folder in results.find_results(tmp_path / "tree")
    finally:
        subprocess.run(["rm", "-rf", "--", folder / "d"], check=False)


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path) -> None:
    """A folder that cannot be listed is found as a result, so that it is not passed over in silence."""
    if os.geteuid() == 0:
        pytest.skip("root may list everything")
    closed = tmp_path / "tree/acme"
    closed.mkdir(parents=True)
    closed.chmod(0)

    assert results.find_results(tmp_path / "tree") == [closed]
    with pytest.raises(SubmissionError, match="cannot be listed: Permission denied"):
        results.read_result(closed)


def test_there_can_be_too_many_files(folder: Path) -> None:
    """One sentence; a hundred thousand take no longer than ten thousand."""
    for number in range(results.MAX_FILES):
        (folder / str(number)).touch()

    with pytest.raises(SubmissionError, match=r"more than 10,000 files; no result has as many"):
        results.read_result(folder)


def test_there_can_be_too_many_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directly in the tree; folders without files count too."""
    monkeypatch.setattr(files, "MAX_FOLDERS", 20)
    for number in range(20):
        (tmp_path / str(number)).mkdir()

    with pytest.raises(SubmissionError, match="more than 20 folders; no tree has as many"):
        results.find_results(tmp_path)


def _too_many_folders(folder: Path) -> Path:
    for number in range(40):
        (folder.parents[2] / "results" / f"zz{number}").mkdir()
    return folder.parents[2]


def _too_many_files(folder: Path) -> Path:
    for number in range(40):
        (folder.parents[2] / f"{number}.txt").touch()
    return folder.parents[2]


@pytest.mark.parametrize("verb", TREE_VERBS)
@pytest.mark.parametrize("damage", [_too_many_folders, _too_many_files])
def test_one_submitter_with_too_much_does_not_hide_others(
    damage: Callable[[Path], Path],
    verb: str,
    tmp_path: Path,
    folder: Path,
    ruleset: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its results that were found and those of the others are shown, it is named, and the status is 2."""
    monkeypatch.setattr(files, "MAX_FOLDERS", 30)
    monkeypatch.setattr(results, "MAX_TREE_FILES", 30)
    monkeypatch.setattr(results, "MAX_FILES", 30)
    submitter = damage(folder)

    status, out, err = run([verb, str(tmp_path / "tree"), "--ruleset", ruleset, "--format", "json"], capsys)

    assert status == 2
    assert f"tta: {submitter}: more than 30 " in err
    assert str(tmp_path / "tree/valid/results") in out
    json.loads(out)


SCALINGS: dict[str, Damage] = {
    "link": link_to_a_device,
    "pipe": pipe,
    "folder": Path.mkdir,
    "broken": lambda path: path.write_text("{"),
    "deep": lambda path: path.write_text("[" * 100_000),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("kind_of_file", "verb"), [*((name, "derive") for name in SCALINGS), *(("pipe", verb) for verb in TREE_VERBS[:-1])]
)
def test_a_control_file_does_not_hide_anything(
    kind_of_file: str, verb: str, tmp_path: Path, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both results are shown; of `derive`, which compares the file's number, it is an unreadable input."""
    SCALINGS[kind_of_file](folder / "scaling.json")

    status, out, err = run([verb, str(tmp_path / "tree"), "--ruleset", ruleset, "--format", "json"], capsys)

    assert {item for item in (str(folder), str(tmp_path / "tree/valid")) if item in out} == {
        str(folder),
        str(tmp_path / "tree/valid"),
    }
    is_listed = kind_of_file != "folder"  # an empty folder is not an entry of the result
    assert (f"tta: {folder}/scaling.json: " in err) is (verb == "derive" and is_listed)
    assert (status == 2) is (verb == "derive" and is_listed)


def test_a_result_among_which_others_are_ranked_may_be_unreadable(
    tmp_path: Path, folder: Path, ruleset: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`derive --tree`: the numbers are shown, the other result is named, and the status is 2."""
    monkeypatch.setattr(results, "MAX_FILES", 30)
    for number in range(40):
        (folder / str(number)).touch()
    valid = next((tmp_path / "tree/valid/results/box1").iterdir())

    status, out, err = run(["derive", str(valid), "--tree", str(tmp_path / "tree"), "--ruleset", ruleset], capsys)

    assert (status, "numbers derived" in out) == (2, True)
    assert f"tta: {folder}: more than 30 files" in err


def test_results_beyond_the_limit_of_a_tree_are_named(
    tmp_path: Path, folder: Path, ruleset: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By each verb and on the board; the other result is shown, and by itself each one is."""
    (folder / "notes.txt").write_text("x" * 10_000)
    valid = next((tmp_path / "tree/valid/results/box1").iterdir())
    monkeypatch.setattr(results, "MAX_TREE_BYTES", sum(file.stat().st_size for file in valid.iterdir()))

    for verb in TREE_VERBS:
        status, out, err = run([verb, str(tmp_path / "tree"), "--ruleset", ruleset, "--format", "json"], capsys)
        assert (status, str(valid) in out) == (2, True), verb
        assert f"tta: {folder}: is not read: it is among the largest of results" in err
    site = tmp_path / "site"
    run(["board", "build", str(tmp_path / "tree"), "--ruleset", ruleset, "--out", str(site)], capsys)
    assert "is not read: it is among the largest of results" in (site / "index.html").read_text()
    monkeypatch.setattr(results, "MAX_TREE_BYTES", 1 << 30)
    assert str(folder) in run(["check", str(folder), "--ruleset", ruleset], capsys)[1]


def sparse(path: Path, num_bytes: int, data: bytes = b"", every: int = 0) -> Path:
    """A file with `data` at its end, or once in `every` bytes, and holes between."""
    with path.open("wb") as stream:
        for at in range(0, num_bytes - len(data), every) if every else [num_bytes - len(data)]:
            stream.seek(at)
            stream.write(data)
    os.truncate(path, num_bytes)
    with path.open("rb") as stream:
        if os.lseek(stream.fileno(), 0, os.SEEK_HOLE) == num_bytes:
            pytest.skip("this file system writes holes out")
    return path


LINE = fabricate.text_of(fabricate.events()[:1]).encode()


@pytest.mark.parametrize(
    ("data", "every", "is_refused"),
    [
        (b"", 0, True),
        (LINE, 0, True),
        (b"x" * 4096, 8192, True),
        (b"x" * (15 << 20), 0, True),
        (LINE + b"x" * (17 << 20), 0, False),
    ],
    ids=["nothing else", "a line at the end", "holes everywhere", "less than half data", "more than half data"],
)
def test_a_file_of_holes_is_not_read(data: bytes, every: int, is_refused: bool, tmp_path: Path) -> None:
    """32 MiB in all; whether it is hollow does not depend on how many blocks its data need."""
    path = sparse(tmp_path / "result_0.txt", 32 << 20, data, every)

    if is_refused:
        with pytest.raises(LogError, match="is a sparse file: most of its 33,554,432 bytes were never written"):
            run_log.read(path)
    else:
        assert run_log.read(path).num_bytes == 32 << 20


def test_a_file_system_that_cannot_tell_has_no_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a hollow file of 16 MiB is small enough to be read."""

    def cannot(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    assert run_log.read(sparse(tmp_path / "small.txt", 16 << 20, LINE)).num_bytes == 16 << 20
    path = sparse(tmp_path / "result_0.txt", (16 << 20) + 1, LINE)
    monkeypatch.setattr(os, "lseek", cannot)
    assert run_log.read(path).num_bytes == (16 << 20) + 1


@pytest.mark.parametrize("verb", TREE_VERBS)
def test_three_results_of_gigabytes_of_holes_end_in_seconds(
    verb: str, tmp_path: Path, folder: Path, ruleset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two logs, and a power log and a file of no use: each is named, or makes its result unreadable."""
    for name in ("b", "c"):
        shutil.copytree(tmp_path / "tree/acme", tmp_path / "tree" / name)
    logs = [
        tmp_path / "tree" / name / "results/box1/toy_mini" / file
        for name, file in (("acme", "result_0.txt"), ("b", "result_1.txt"), ("c", "power/result_0/node_0.txt"))
    ]
    for log, num_bytes in zip(logs, (20 << 30, 3 << 30, 500 << 20), strict=True):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        sparse(log, num_bytes, LINE)
    sparse(logs[2].parents[2] / "notes.txt", 3 << 30)
    started_s = time.process_time()

    status, out, err = run([verb, str(tmp_path / "tree"), "--ruleset", ruleset, "--format", "json"], capsys)

    assert time.process_time() - started_s < 5
    assert status == 2
    assert "tree/valid/results" in out
    assert f"tta: {folder}: more than 4,294,967,296 bytes; no result is that large" in err
    for name in ("b", "c"):
        assert f"tree/{name}/results" in out + err


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    """Up to its end when it was opened; a small file up to one byte over a megabyte."""
    path = tmp_path / "grows"
    path.write_bytes(b"x" * 1000)
    is_over = threading.Event()

    def grow() -> None:
        with path.open("ab") as stream:
            for _ in range(2000):
                if is_over.is_set():
                    return
                stream.write(b"x" * (1 << 16))

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert len(sha256_of(path)) == 64
        while path.stat().st_size <= MAX_SMALL_FILE_BYTES:
            time.sleep(0.001)
        with pytest.raises(SubmissionError, match="at most 1,048,576 are read"):
            small_file(path)
    finally:
        is_over.set()
        writer.join()


def test_a_file_may_vanish(folder: Path) -> None:
    """While one thread writes and removes files, another reads the result; it is read, or refused in a sentence."""
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            for name in ("result_1.txt", "a", "b"):
                (folder / name).write_text("x")
                (folder / name).unlink()

    writer = threading.Thread(target=come_and_go)
    writer.start()
    try:
        for _ in range(50):
            try:
                results.read_result(folder)
            except TtaError as error:
                assert "\n" not in str(error)  # noqa: PT017  (it may come or not)
    finally:
        is_over.set()
        writer.join()


def test_a_line_is_found_in_linear_time(tmp_path: Path) -> None:
    """With a regular expression 20,000 blanks took a second, and a megabyte of them 45 minutes."""
    path = tmp_path / "system.json"
    path.write_text(" " * 1_000_000 + '\n  {"x": 1}\n')
    started_s = time.process_time()

    assert line_of(path, "x") == 2
    assert time.process_time() - started_s < 5


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from harness import cli
sys.exit(cli.main(sys.argv[1:]))
"""


def test_limits_of_the_process_are_kept(folder: Path) -> None:
    """All at once, in a separate process with a minute of CPU and 2 GiB of address space."""
    for damage in (a_line_has_a_hundred_megabytes, the_manifest_has_half_a_million_lines_that_are_none):
        damage(folder)
    (folder / "submission.yaml").write_text(YAML["laughs"])
    (folder / "billing.yaml").write_text(YAML["is_deep"])
    system_of(folder).write_text("[" * 500_000)

    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "check", str(folder.parents[3]), "--ruleset", "v1"],
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )

    assert done.returncode == 1, done.stderr[-2000:]
    assert b"Traceback" not in done.stderr
