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


def without_stop(log: list[Entry]) -> None:
    drop(log, "run_stop")


def other_optimiser(log: list[Entry]) -> None:
    find(log, "opt_name").value = "sgd"


def missed(log: list[Entry]) -> None:
    find(log, "eval_accuracy", 4).value = 0.3


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


def no_place(log: list[Entry]) -> None:
    find(log, "eval_accuracy").metadata.clear()


def broken_line(log: list[Entry]) -> None:
    log[0].text = ":::MLLOG {"


def as_it_is(log: list[Entry]) -> None:
    pass


def open_and_free(log: list[Entry]) -> None:
    find(log, "submission_division").value = "open"
    find(log, "opt_name").value = "sgd"
    find(log, "eval_accuracy", 4).value = 0.3


@pytest.mark.parametrize(
    ("damage", "verdict"),
    [
        (as_it_is, ACCEPT),
        (one_value_twice, ACCEPT),
        (open_and_free, ACCEPT),
        (without_stop, REFUSE),
        (other_optimiser, REFUSE),
        (missed, REFUSE),
        (slow_start, REFUSE),
        (start_first, REFUSE),
        (two_values, REFUSE),
        (no_place, REFUSE),
        (broken_line, REFUSE),
    ],
    ids=lambda item: getattr(item, "__name__", item),
)
def test_both_agree_on_a_small_log(damage: Callable[[list[Entry]], None], verdict: str, tmp_path: Path) -> None:
    """A RetinaNet of round 5.1, valid or with one fault."""
    log = mlperflog.retinanet()
    damage(log)
    path = mlperflog.write(tmp_path / "result_0.txt", log)

    assert Theirs("5.1.0").opinion(path).verdict == verdict
    assert Tta("5.1.0").opinion(path)[0].verdict == verdict


def text_for_a_number(log: list[Entry]) -> None:
    find(log, "eval_accuracy").value = "0.1"


def unknown_benchmark(log: list[Entry]) -> None:
    find(log, "submission_benchmark").value = "resnet"


def no_time(log: list[Entry]) -> None:
    log[0].text = ':::MLLOG {"key": "lars_epsilon", "time_s": 1.5, "value": 0, "metadata": {}}'


@pytest.mark.parametrize("damage", [text_for_a_number, unknown_benchmark, no_time], ids=lambda item: item.__name__)
def test_tta_judges_what_crashes_their_checker(damage: Callable[[list[Entry]], None], tmp_path: Path) -> None:
    """Where theirs raises, `tta` refuses, or, for a text among good numbers, accepts."""
    log = mlperflog.retinanet()
    damage(log)
    path = mlperflog.write(tmp_path / "result_0.txt", log)

    assert Theirs("5.1.0").opinion(path).verdict == CRASH
    assert Tta("5.1.0").opinion(path)[0].verdict == (ACCEPT if damage is text_for_a_number else REFUSE)


def test_the_division_may_stand_after_init_stop(tmp_path: Path) -> None:
    """They then apply a limit of zero minutes and refuse; the limit is the division's, wherever it is stated."""
    log = mlperflog.retinanet()
    line = find(log, "submission_division")
    log.remove(line)
    put_after(log, find(log, "run_start"), line)
    path = mlperflog.write(tmp_path / "result_0.txt", log)

    assert Theirs("5.1.0").opinion(path).verdict == REFUSE
    assert Tta("5.1.0").opinion(path)[0].verdict == ACCEPT


def test_a_second_start_is_refused_by_tta_alone(tmp_path: Path) -> None:
    """They accept it, and so do the checks that mirror theirs; MLP022 refuses it."""
    log = mlperflog.retinanet()
    stop = find(log, "run_stop")
    log.insert(log.index(stop), Entry(stop.at_s - 10, "run_start", None, mlperflog.START))
    path = mlperflog.write(tmp_path / "result_0.txt", log)
    opinion, _ = Tta("5.1.0").opinion(path)

    assert Theirs("5.1.0").opinion(path).verdict == ACCEPT
    assert (opinion.verdict, opinion.codes) == (ACCEPT, ("MLP022",))
