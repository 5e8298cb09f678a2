"""MLCommons' compliance checker and `tta` agree on a log: on real ones if available, on small ones always."""

from __future__ import annotations

import copy
import logging
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import mlperflog
from tests.mlperflog import Entry, drop, find, put_after
from tests.shared_files import shared

pytest.importorskip("mlperf_logging")

from tests.interop.agree_logs import ACCEPT, CRASH, REFUSE, Theirs, Tta

ROUNDS = {"v0.7": "0.7.0", "v1.0": "1.0.0", "v4.0": "4.0.0", "v5.1": "5.1.0"}
NUM_LOGS, MAX_BYTES = 5, 2_000_000  # of each round


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", ROUNDS)
def test_both_agree_on_published_logs(name: str, tmp_path: Path) -> None:
    """Evenly spaced logs of a round, as published."""
    theirs, ours = Theirs(ROUNDS[name]), Tta(ROUNDS[name])
    with tarfile.open(shared(f"mlperf_results/training_{name}.tar.xz")) as archive:
        members = [
            item
            for item in archive
            if item.isfile() and Path(item.name).match("result_*.txt") and item.size < MAX_BYTES
        ]
        for member in members[:: len(members) // NUM_LOGS]:
            stream = archive.extractfile(member)
            assert stream is not None
            path = tmp_path / "result_0.txt"
            path.write_bytes(stream.read())

            assert (theirs.opinion(path).verdict == ACCEPT) == (ours.opinion(path)[0].verdict == ACCEPT), member.name


Damage = Callable[[list[Entry]], object]


def value(key: str, other: object, nth: int = 0) -> Damage:
    """Another value of an event."""
    return lambda log: setattr(find(log, key, nth), "value", other)


def first_line(text: str) -> Damage:
    return lambda log: setattr(log[0], "text", text)


def slow_start(log: list[Entry]) -> None:
    for entry in log[log.index(find(log, "init_stop")) :]:
        entry.at_s += 1741


def start_first(log: list[Entry]) -> None:
    stop, start = find(log, "init_stop"), find(log, "run_start")
    here, there = log.index(stop), log.index(start)
    log[here], log[there] = start, stop


def two_values(log: list[Entry]) -> None:
    second = copy.deepcopy(find(log, "global_batch_size"))
    second.value = 512
    put_after(log, find(log, "global_batch_size"), second)


def one_value_twice(log: list[Entry]) -> None:
    put_after(log, find(log, "global_batch_size"), copy.deepcopy(find(log, "global_batch_size")))


def late_division(log: list[Entry]) -> None:
    line = find(log, "submission_division")
    log.remove(line)
    put_after(log, find(log, "run_start"), line)


def open_and_free(log: list[Entry]) -> None:
    find(log, "submission_division").value = "open"
    find(log, "opt_name").value = "sgd"
    find(log, "eval_accuracy", 4).value = 0.3


@pytest.mark.parametrize(
    ("damage", "theirs", "ours"),
    [
        pytest.param(lambda log: None, ACCEPT, ACCEPT, id="as it is"),
        pytest.param(one_value_twice, ACCEPT, ACCEPT, id="one value twice"),
        pytest.param(open_and_free, ACCEPT, ACCEPT, id="open and free"),
        pytest.param(lambda log: drop(log, "run_stop"), REFUSE, REFUSE, id="no run_stop"),
        pytest.param(value("opt_name", "sgd"), REFUSE, REFUSE, id="another optimiser"),
        pytest.param(value("eval_accuracy", 0.3, 4), REFUSE, REFUSE, id="target missed"),
        pytest.param(slow_start, REFUSE, REFUSE, id="slow start"),
        pytest.param(start_first, REFUSE, REFUSE, id="run_start before init_stop"),
        pytest.param(two_values, REFUSE, REFUSE, id="two values"),
        pytest.param(lambda log: find(log, "eval_accuracy").metadata.clear(), REFUSE, REFUSE, id="no place"),
        pytest.param(first_line(":::MLLOG {"), REFUSE, REFUSE, id="a broken line"),
        pytest.param(value("eval_accuracy", "0.1"), CRASH, ACCEPT, id="a text among good numbers"),
        pytest.param(value("submission_benchmark", "resnet"), CRASH, REFUSE, id="an unknown benchmark"),
        pytest.param(
            first_line(':::MLLOG {"key": "lars_epsilon", "time_s": 1.5, "value": 0, "metadata": {}}'),
            CRASH,
            REFUSE,
            id="no time_ms",
        ),
        pytest.param(late_division, REFUSE, ACCEPT, id="the division after run_start"),
    ],
)
def test_verdicts_on_a_small_log(damage: Damage, theirs: str, ours: str, tmp_path: Path) -> None:
    """A RetinaNet of round 5.1, valid or with one fault. `tta` has a verdict where theirs raises; with a late division
    theirs applies a limit of zero minutes, though the limit is the division's, wherever it is stated."""
    log = mlperflog.retinanet()
    damage(log)
    path = mlperflog.write(tmp_path / "result_0.txt", log)

    assert Theirs("5.1.0").opinion(path).verdict == theirs
    assert Tta("5.1.0").opinion(path)[0].verdict == ours


def test_a_second_start_is_refused_by_tta_alone(tmp_path: Path) -> None:
    """They accept it, and so do the checks that mirror theirs; MLP022 refuses it."""
    log = mlperflog.retinanet()
    stop = find(log, "run_stop")
    log.insert(log.index(stop), Entry(stop.at_s - 10, "run_start", None, mlperflog.START))
    path = mlperflog.write(tmp_path / "result_0.txt", log)
    opinion, _ = Tta("5.1.0").opinion(path)

    assert Theirs("5.1.0").opinion(path).verdict == ACCEPT
    assert (opinion.verdict, opinion.codes) == (ACCEPT, ("MLP022",))
