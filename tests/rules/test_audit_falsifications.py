"""Falsifications of a real log that no rule can see and an auditor does (see test_falsifications for the others).

Each is made on a result in MLPerf's manner and, where the published rounds are at hand, on a real one.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checker.audit.facts import Standard
from harness.log.events import TOKEN
from tests import foreign
from tests.auditing import STANDARD, audit, codes
from tests.shared_files import shared

REAL = "Krai/results/Cray-XD670-H200-SXM5-141GB_n2_v5.0/llama2_70b_lora"
REAL_STANDARD = Standard(target=0.925, direction="min", max_init_s=1800, num_runs=10, today_ms=1_764_547_200_000)
_TIME = re.compile(r'"time_ms": (\d+)')
Lines = list[str]


def at(line: str) -> int:
    match = _TIME.search(line)
    assert match is not None
    return int(match.group(1))


def timed(line: str, time_ms: float) -> str:
    return _TIME.sub(f'"time_ms": {round(time_ms)}', line)


def is_ours(line: str, key: str = "") -> bool:
    return TOKEN in line and f'"key": "{key}' in line


def compressed(lines: Lines) -> Lines:
    """All times of MLPerf's lines compressed ten times."""
    start = min(at(line) for line in lines if is_ours(line))
    return [timed(line, start + (at(line) - start) / 10) if is_ours(line) else line for line in lines]


def without_framework(lines: Lines) -> Lines:
    """Only MLPerf's lines are left."""
    return [line for line in lines if is_ours(line)]


def without_evaluations(lines: Lines) -> Lines:
    """All evaluations but the last are deleted, whatever their lines."""
    places = [place for place, line in enumerate(lines) if is_ours(line, "eval_accuracy")]
    return [line for place, line in enumerate(lines) if place not in places[:-1]]


def equal(lines: Lines) -> Lines:
    """Every evaluation has one value."""
    values = [
        json.loads(line[line.index(TOKEN) + len(TOKEN) :])["value"] for line in lines if is_ours(line, "eval_acc")
    ]
    return [re.sub(r'"value": [0-9.]+', f'"value": {values[-1]}', x) if is_ours(x, "eval_acc") else x for x in lines]


def gap(lines: Lines) -> Lines:
    """Five hours pass between init_stop and run_start."""
    start = next(place for place, line in enumerate(lines) if is_ours(line, "run_start"))
    return [
        timed(line, at(line) + 18_000_000) if place >= start and is_ours(line) else line
        for place, line in enumerate(lines)
    ]


def renumbered(lines: Lines) -> Lines:
    """The source lines in the metadata are others; everything else is the same run."""
    return [re.sub(r'"lineno": (\d+)', lambda match: f'"lineno": {int(match.group(1)) + 7}', line) for line in lines]


FALSIFICATIONS: list[tuple[Callable[[Lines], Lines], set[str]]] = [
    (compressed, {"AUD007"}),
    (without_framework, {"AUD044"}),
    (without_evaluations, {"AUD017"}),
    (equal, {"AUD010"}),
    (gap, {"AUD003"}),
]
IDS = [act.__name__ for act, _ in FALSIFICATIONS]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return foreign.write(foreign.result(tmp_path), [foreign.rows(index) for index in range(5)])


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One result of round v5.1 as it was published."""
    place = tmp_path_factory.mktemp("v5.1")
    with tarfile.open(shared("mlperf_results/training_v5.1.tar.xz")) as archive:
        for member in archive:
            if REAL in member.name and member.isfile():
                (place / Path(member.name).name).write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    assert (place / "result_0.txt").exists() or (place / "result_1.txt").exists()
    return place


@pytest.fixture
def real(unpacked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unpacked, tmp_path / REAL))


def falsify(folder: Path, act: Callable[[Lines], Lines]) -> None:
    log = sorted(folder.glob("result_*.txt"))[0]
    log.write_bytes("".join(act(log.read_bytes().decode("latin-1").splitlines(keepends=True))).encode("latin-1"))


@pytest.mark.parametrize(("act", "expected"), FALSIFICATIONS, ids=IDS)
def test_a_falsification_is_suspicious(act: Callable[[Lines], Lines], expected: set[str], made: Path) -> None:
    """Nothing was suspicious before, and what was done is."""
    before = codes(audit(made, STANDARD))
    falsify(made, act)

    assert before == set()
    assert expected <= codes(audit(made, STANDARD))


@pytest.mark.parametrize(("act", "expected"), FALSIFICATIONS, ids=IDS)
def test_a_falsification_of_a_real_log_is_suspicious(
    act: Callable[[Lines], Lines], expected: set[str], real: Path
) -> None:
    """The same on a published result."""
    before = {(item.finding.code, item.finding.path) for item in audit(real, REAL_STANDARD)}
    falsify(real, act)

    found = {(item.finding.code, item.finding.path) for item in audit(real, REAL_STANDARD)} - before

    assert expected & {code for code, _ in found}


@pytest.mark.parametrize("name", ["made", "real"])
def test_copies_with_other_line_numbers_are_suspicious(name: str, request: pytest.FixtureRequest) -> None:
    """One log ten times, each with source lines of its own: seeds, times and curves are the same."""
    folder: Path = request.getfixturevalue(name)
    logs = sorted(folder.glob("result_*.txt"))
    for number, log in enumerate(logs[1:], 1):
        log.write_bytes(logs[0].read_bytes())
        for _ in range(number):
            falsify_one(log)

    found = audit(folder, STANDARD if name == "made" else REAL_STANDARD)

    assert {"AUD021", "AUD022"} <= codes(found)
    assert sum(item.finding.code == "AUD021" for item in found) == len(logs) - 1


def falsify_one(log: Path) -> None:
    lines = log.read_bytes().decode("latin-1").splitlines(keepends=True)
    log.write_bytes("".join(renumbered(lines)).encode("latin-1"))
