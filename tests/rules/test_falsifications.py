"""The eighteen falsifications that MLCommons' checker lets pass, each found by a named check.

Made of a small log in MLPerf's manner, and of a real one of round 5.1 where the published results are at hand.
Those of which no line of the log itself can tell are the audit's: see test_audit_falsifications.
"""

from __future__ import annotations

import functools
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import engine
from harness.log.events import TOKEN
from harness.ruleset import catalog, load
from harness.submission import result
from tests import mlperflog
from tests.rules.box import TODAY
from tests.rules.mlperfbox import ruleset
from tests.shared_files import shared

ARCHIVE = "mlperf_results/training_v5.1.tar.xz"
MEMBER = "Cisco/results/1xC885A_M8-8xMI350X-OAM-288GB/llama2_70b_lora/result_0.txt"
TRAINING = ("block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop", "eval_accuracy")


class Lines(list[dict[str, Any] | str]):
    """A log: MLPerf's lines as records, others as texts."""

    def all(self, key: str) -> list[dict[str, Any]]:
        return [line for line in self if isinstance(line, dict) and line["key"] == key]

    def one(self, key: str) -> dict[str, Any]:
        return self.all(key)[0]

    def move(self, line: dict[str, Any], place: int) -> None:
        del self[next(i for i, other in enumerate(self) if other is line)]
        self.insert(place, line)

    def drop(self, lines: list[dict[str, Any]]) -> None:
        self[:] = [line for line in self if not any(line is other for other in lines)]


def read(text: str) -> Lines:
    lines = Lines()
    for line in text.splitlines():
        _, token, record = line.rpartition(TOKEN)
        lines.append(json.loads(record) if token else line)
    return lines


def half_the_time(log: Lines) -> None:
    start, stop = log.one("run_start"), log.one("run_stop")
    stop["time_ms"] = (start["time_ms"] + stop["time_ms"]) // 2


def stop_before_start(log: Lines) -> None:
    log.one("run_stop")["time_ms"] = log.one("run_start")["time_ms"] - 60_000


def second_start(log: Lines) -> None:
    stop = log.one("run_stop")
    second = {**log.one("run_start"), "time_ms": stop["time_ms"] - 10_000}
    log.insert(next(i for i, line in enumerate(log) if line is stop), second)


def compressed(log: Lines) -> None:
    records = [line for line in log if isinstance(line, dict)]
    first = records[0]["time_ms"]
    for line in records:
        line["time_ms"] = first + (line["time_ms"] - first) // 10


def gap(log: Lines) -> None:
    start = next(i for i, line in enumerate(log) if line is log.one("run_start"))
    for line in log[start:]:
        if isinstance(line, dict):
            line["time_ms"] += 5 * 3_600_000


def aborted(log: Lines) -> None:
    log.one("run_stop")["metadata"]["status"] = "aborted"


def banana_status(log: Lines) -> None:
    log.one("run_stop")["metadata"]["status"] = "banana"


def one_evaluation(log: Lines) -> None:
    log.drop(log.all("eval_accuracy")[:-1])


def equal_evaluations(log: Lines) -> None:
    last = log.all("eval_accuracy")[-1]["value"]
    for line in log.all("eval_accuracy"):
        line["value"] = last


def late_target(log: Lines) -> None:
    last = log.all("eval_accuracy")[-1]
    log.move(last, len(log))
    last["time_ms"] = log.one("run_stop")["time_ms"] + 3_600_000


def banana_samples(log: Lines) -> None:
    log.one("train_samples")["value"] = "banana"


def giant_batch(log: Lines) -> None:
    log.one("global_batch_size")["value"] = 1_000_000_000


def placeholder(log: Lines) -> None:
    log.one("submission_org")["value"] = "SUBMISSION_ORG_PLACEHOLDER"


def shuffled(log: Lines) -> None:
    places = [i for i, line in enumerate(log) if isinstance(line, dict) and line["key"] in TRAINING]
    turned = [log[i] for i in places][::-1]
    for i, line in zip(places, turned, strict=True):
        log[i] = line


def samples_backwards(log: Lines) -> None:
    lines = log.all("eval_accuracy")
    name = next(name for name in ("samples_count", "epoch_num") if name in lines[0]["metadata"])
    places = [line["metadata"][name] for line in lines][::-1]
    for line, place in zip(lines, places, strict=True):
        line["metadata"][name] = place


def framework_deleted(log: Lines) -> None:
    log[:] = [line for line in log if isinstance(line, dict)]


def late_cache_clear(log: Lines) -> None:
    clear = log.one("cache_clear")
    log.drop(log.all("cache_clear"))
    clear["time_ms"] = log.one("run_stop")["time_ms"] + 1000
    log.append(clear)


def no_seed(log: Lines) -> None:
    log.drop(log.all("seed"))


FALSIFICATIONS: dict[Callable[[Lines], None], str] = {
    half_the_time: "MLP025",
    stop_before_start: "MLP021",
    second_start: "MLP022",
    compressed: "MLP034",
    gap: "MLP029",
    aborted: "MLP023",
    banana_status: "MLP023",
    one_evaluation: "MLP027",
    equal_evaluations: "MLP028",
    late_target: "MLP024",
    banana_samples: "MLP030",
    giant_batch: "MLP030",
    placeholder: "MLP032",
    shuffled: "MLP025",
    samples_backwards: "MLP026",
    framework_deleted: "MLP035",
    late_cache_clear: "MLP031",
    no_seed: "MLP033",
}


@functools.cache
def fabricated() -> str:
    return "".join(entry.line() + "\n" for entry in mlperflog.retinanet())


@functools.cache
def real() -> str:
    with tarfile.open(shared(ARCHIVE)) as archive:
        for member in archive:
            if member.name.endswith(MEMBER):
                stream = archive.extractfile(member)
                assert stream is not None
                return stream.read().decode()
    pytest.fail(f"{ARCHIVE} has no {MEMBER}")


def codes_of(log: Lines, path: Path) -> set[str]:
    path.write_text("".join((line if isinstance(line, str) else TOKEN + json.dumps(line)) + "\n" for line in log))
    findings = engine.judge(result.read_result(path), ruleset(), catalog.checks().values(), TODAY)
    return {finding.code for finding in findings}


def test_the_list_has_all_eighteen() -> None:
    """As many as were tried on MLCommons' checker, which passes each."""
    assert len(FALSIFICATIONS) == 18


@pytest.mark.parametrize("source", [fabricated, real], ids=["fabricated", "real"])
@pytest.mark.parametrize("falsify", FALSIFICATIONS, ids=lambda falsify: falsify.__name__)
def test_a_falsification_is_found(falsify: Callable[[Lines], None], source: Callable[[], str], tmp_path: Path) -> None:
    """By the check that is named for it, which finds nothing in the log as it was."""
    code = FALSIFICATIONS[falsify]
    log = read(source())
    before = codes_of(log, tmp_path / "before.txt")
    falsify(log)

    assert code not in before
    assert code in codes_of(log, tmp_path / "after.txt")


def test_each_may_be_put_out_of_force() -> None:
    """A ruleset decides: all the codes are its own, with a severity each."""
    law = load.load_ruleset(catalog.ruleset_folder("mlperf_training/0.7.0"), "mlperf_training/0.7.0")

    assert set(FALSIFICATIONS.values()) <= set(law.codes)
