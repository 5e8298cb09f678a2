"""Kinds of change to valid results, made with a seed: what each does, and what finds it.

`RESULTS` are changes to a folder of logs in MLPerf's manner, `OURS` to a submission of this harness as it lies in a
tree, edited as text with the manifest written anew. What a careful forger does to one of ours is in `test_tampering`.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.checker.audit.facts import MIN_TIME_MS
from harness.log.events import TOKEN
from tests import fabricate

Record = dict[str, Any]
PLACES = frozenset({"samples_count", "epoch_num"})
COURSE = ("block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop")


@dataclass
class Log:
    """A log to be changed: other programs' lines as they are, ours as records with what stands before them."""

    path: Path
    lines: list[tuple[str, Record | None]] = field(default_factory=list)
    separators: tuple[str, str] | None = None  # of JSON, where not the usual ones

    def __post_init__(self) -> None:
        for line in self.path.read_bytes().decode("latin-1").splitlines():
            before, token, rest = line.rpartition(TOKEN)
            try:
                self.lines.append((before, json.loads(rest)) if token else (line, None))
            except ValueError:
                self.lines.append((line, None))

    def write(self) -> None:
        texts = [
            text if item is None else f"{text}{TOKEN}{json.dumps(item, separators=self.separators)}"
            for text, item in self.lines
        ]
        self.path.write_bytes("".join(f"{text}\n" for text in texts).encode("latin-1"))

    def records(self, *keys: str) -> list[Record]:
        return [item for _, item in self.lines if item is not None and (not keys or item["key"] in keys)]

    def one(self, key: str) -> Record:
        return self.records(key)[0]

    def keep(self, holds: Callable[[Record], bool]) -> None:
        self.lines = [(text, item) for text, item in self.lines if item is None or holds(item)]

    def put(self, record: Record, after: Record) -> None:
        place = next(place for place, (_, item) in enumerate(self.lines) if item is after)
        self.lines.insert(place + 1, (self.lines[place][0], record))

    def move(self, holds: Callable[[Record], bool], milliseconds: Callable[[float], float]) -> None:
        for record in self.records():
            if holds(record) and record["time_ms"] >= MIN_TIME_MS:
                record["time_ms"] = round(milliseconds(record["time_ms"]))

    @property
    def span(self) -> tuple[float, float]:
        return self.one("run_start")["time_ms"], self.one("run_stop")["time_ms"]

    @property
    def evaluations(self) -> list[Record]:
        return self.records("eval_accuracy")


@dataclass
class Folder:
    """A result whose logs are changed. `log` is the one that is chosen by the seed."""

    path: Path
    rng: random.Random
    logs: list[Log] = field(default_factory=list)
    whole: list[Log] = field(default_factory=list)  # those of runs that ended

    def __post_init__(self) -> None:
        self.logs = [Log(path) for path in sorted(self.path.glob("result_*.txt"))]
        self.whole = [log for log in self.logs if log.records("run_stop") and len(log.evaluations) > 2]
        self.log = self.rng.choice(self.whole)
        self.other = self.rng.choice([log for log in self.whole if log is not self.log])

    def write(self) -> None:
        for log in self.logs:
            if log.path.exists():
                log.write()


@dataclass(frozen=True)
class Kind:
    name: str
    act: Callable[[Folder], None]


RESULTS: list[Kind] = []


def kind(name: str) -> Callable[[Callable[[Folder], None]], Callable[[Folder], None]]:
    def add(act: Callable[[Folder], None]) -> Callable[[Folder], None]:
        RESULTS.append(Kind(name, act))
        return act

    return add


def copied(log: Log, other: Log) -> None:
    log.lines = [(text, None if item is None else json.loads(json.dumps(item))) for text, item in other.lines]


def scaled(log: Log, factor: float) -> None:
    first = min(record["time_ms"] for record in log.records() if record["time_ms"] >= MIN_TIME_MS)
    log.move(lambda record: True, lambda time: first + (time - first) * factor)


# Times.


@kind("run_stop is moved to half the time")
def _(box: Folder) -> None:
    start, stop = box.log.span
    box.log.one("run_stop")["time_ms"] = round((start + stop) / 2)


@kind("run_stop comes before run_start")
def _(box: Folder) -> None:
    box.log.one("run_stop")["time_ms"] = box.log.span[0] - 60_000


@kind("a second run_start shortly before run_stop")
def _(box: Folder) -> None:
    record = {**box.log.one("run_start"), "time_ms": box.log.span[1] - 10_000}
    box.log.put(record, box.log.evaluations[-1])


@kind("run_start is moved to a later time")
def _(box: Folder) -> None:
    start, stop = box.log.span
    box.log.one("run_start")["time_ms"] = round(start + box.rng.uniform(0.1, 0.5) * (stop - start))


@kind("all times of a run are divided by ten")
def _(box: Folder) -> None:
    scaled(box.log, 0.1)


@kind("all times of all runs are divided by ten")
def _(box: Folder) -> None:
    for log in box.logs:
        scaled(log, 0.1)


@kind("all times of a run are a fifth shorter")
def _(box: Folder) -> None:
    scaled(box.log, 0.8)


@kind("all times of all runs are a fifth shorter")
def _(box: Folder) -> None:
    for log in box.logs:
        scaled(log, 0.8)


@kind("all times of all runs are a fifth shorter, and written with more spaces")
def _(box: Folder) -> None:
    """As JSON permits."""
    for log in box.logs:
        scaled(log, 0.8)
        log.separators = (" ,  ", " :  ")


@kind("five hours pass between init_stop and run_start")
def _(box: Folder) -> None:
    start = box.log.span[0]
    box.log.move(lambda record: record["time_ms"] >= start, lambda time: time + 18_000_000)


@kind("initialisation takes an hour longer")
def _(box: Folder) -> None:
    stop = box.log.one("init_stop")["time_ms"]
    box.log.move(lambda record: record["time_ms"] >= stop, lambda time: time + 3_600_000)


@kind("an hour passes in the middle of the run")
def _(box: Folder) -> None:
    middle = box.log.evaluations[len(box.log.evaluations) // 2]["time_ms"]
    box.log.move(lambda record: record["time_ms"] >= middle, lambda time: time + 3_600_000)


@kind("the pauses between evaluations of one half are taken out")
def _(box: Folder) -> None:
    middle = box.log.evaluations[len(box.log.evaluations) // 2]["time_ms"]
    box.log.move(lambda record: record["time_ms"] > middle, lambda time: middle + (time - middle) / 10)


@kind("all times are whole seconds")
def _(box: Folder) -> None:
    box.log.move(lambda record: True, lambda time: time // 1000 * 1000)


@kind("a header line has the time zero")
def _(box: Folder) -> None:
    box.log.one("submission_division")["time_ms"] = 0


@kind("a made-up monotonic clock makes the runs last a second")
def _(box: Folder) -> None:
    for log in box.logs:
        log.one("run_start")["metadata"]["elapsed_ns"] = 0
        log.one("run_stop")["metadata"]["elapsed_ns"] = 1_000_000_000


@kind("a run lies ten years ahead")
def _(box: Folder) -> None:
    box.log.move(lambda record: True, lambda time: time + 10 * 365 * 86_400_000)


@kind("a run is moved into the time of another")
def _(box: Folder) -> None:
    apart = box.other.span[0] - box.log.span[0] + 1_234
    box.log.move(lambda record: True, lambda time: time + apart)


@kind("lines of blocks and evaluations are shuffled")
def _(box: Folder) -> None:
    places = [place for place, (_, item) in enumerate(box.log.lines) if item is not None and item["key"] in COURSE]
    items = [box.log.lines[place] for place in places]
    box.rng.shuffle(items)
    for place, item in zip(places, items, strict=True):
        box.log.lines[place] = item


# Evaluations.


@kind("all evaluations but the last are deleted")
def _(box: Folder) -> None:
    last = box.log.evaluations[-1]
    box.log.keep(lambda record: record["key"] != "eval_accuracy" or record is last)


@kind("all evaluations but the last are deleted, with their edges")
def _(box: Folder) -> None:
    keep = [box.log.records(key)[-1] for key in ("eval_start", "eval_accuracy", "eval_stop") if box.log.records(key)]
    keys = ("eval_start", "eval_accuracy", "eval_stop")
    box.log.keep(lambda record: record["key"] not in keys or any(record is item for item in keep))


@kind("an evaluation in the middle is deleted")
def _(box: Folder) -> None:
    doomed = box.log.evaluations[len(box.log.evaluations) // 2]
    box.log.keep(lambda record: record is not doomed)


@kind("the first evaluations of a run are deleted")
def _(box: Folder) -> None:
    doomed = box.log.evaluations[: max(1, len(box.log.evaluations) // 2)]
    box.log.keep(lambda record: not any(record is item for item in doomed))


@kind("every evaluation has the same value")
def _(box: Folder) -> None:
    for record in box.log.evaluations:
        record["value"] = box.log.evaluations[-1]["value"]


@kind("an evaluation has a value that none ever had")
def _(box: Folder) -> None:
    box.log.evaluations[1]["value"] *= 5


@kind("the last value is exactly the target")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = TARGETS.get(str(box.log.one("submission_benchmark")["value"]), 0.9)


@kind("the run is cut short at an evaluation that is given the last value")
def _(box: Folder) -> None:
    early, last = box.log.evaluations[1], box.log.evaluations[-1]
    early["value"] = last["value"]
    stop = box.log.one("run_stop")
    after = [item for item in box.log.records() if early["time_ms"] < item["time_ms"] <= stop["time_ms"]]
    box.log.keep(lambda record: record is stop or not any(record is item for item in after))
    stop["time_ms"] = early["time_ms"] + 5


@kind("the target is reached after run_stop only")
def _(box: Folder) -> None:
    last = box.log.evaluations[-1]
    box.log.keep(lambda record: record is not last)
    box.log.put({**last, "time_ms": box.log.span[1] + 3_600_000}, box.log.one("run_stop"))


@kind("the last value is a text")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = str(box.log.evaluations[-1]["value"])


@kind("the last value is NaN")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = math.nan


@kind("an evaluation stands twice, with a better value")
def _(box: Folder) -> None:
    record = box.log.evaluations[-2]
    box.log.put({**record, "value": box.log.evaluations[-1]["value"]}, record)


@kind("an evaluation at a moment of its own is put in")
def _(box: Folder) -> None:
    before, after = box.log.evaluations[-3:-1]
    record = json.loads(json.dumps(before))
    for name in ("samples_count", "epoch_num"):
        if isinstance(before["metadata"].get(name), int | float):
            record["metadata"][name] += (after["metadata"][name] - before["metadata"][name]) // 3
    record["value"] = (before["value"] + after["value"]) / 2
    record["time_ms"] = round((before["time_ms"] + after["time_ms"]) / 2)
    box.log.put(record, before)


def farther(record: Record, **changes: Any) -> Record:
    """A copy of an evaluation a fifth farther on in training."""
    metadata = dict(record["metadata"])
    for name in PLACES:
        if isinstance(metadata.get(name), int | float):
            metadata[name] = type(metadata[name])(metadata[name] * 1.2)
    return {**record, "metadata": metadata, **changes}


@kind("an evaluation of no value lies farther on, in all runs")
def _(box: Folder) -> None:
    for log in box.whole:
        log.put(farther(log.evaluations[-1], value=None), log.evaluations[-1])


@kind("an eval_error of no value lies farther on, in all runs")
def _(box: Folder) -> None:
    for log in box.whole:
        log.put(farther(log.evaluations[-1], key="eval_error", value=None), log.evaluations[-1])


@kind("an evaluation farther on follows the one that hits, in all runs")
def _(box: Folder) -> None:
    for log in box.whole:
        before, last = log.evaluations[-2:]
        record = json.loads(json.dumps(last))
        for name in PLACES:
            if isinstance(last["metadata"].get(name), int | float):
                record["metadata"][name] += last["metadata"][name] - before["metadata"][name]
        record["value"] += (last["value"] - before["value"]) / 100
        log.put(record, last)


@kind("the last evaluation is counted a little farther on, in all runs")
def _(box: Folder) -> None:
    """By a batch, or by a tenth of an epoch's part where epochs are counted: the mean to target is larger."""
    for log in box.whole:
        batch, last = log.one("global_batch_size")["value"], log.evaluations[-1]["metadata"]
        for name in sorted(PLACES & set(last)):
            before = log.evaluations[-2]["metadata"].get(name, 0)
            last[name] += batch if last[name] >= batch else 0.28 * (last[name] - before)


@kind("evaluations take a tenth of their time, in all runs")
def _(box: Folder) -> None:
    for log in box.whole:
        for start, stop in zip(log.records("eval_start"), log.records("eval_stop"), strict=False):
            begin, end = start["time_ms"], stop["time_ms"]
            log.move(
                lambda record, begin=begin: record["time_ms"] >= begin,  # type: ignore[misc]
                lambda time, begin=begin, end=end: (  # type: ignore[misc]
                    time - 0.9 * (end - begin) if time >= end else begin + 0.1 * (time - begin)
                ),
            )


@kind("the place of the last evaluation is null")
def _(box: Folder) -> None:
    for name in PLACES & box.log.evaluations[-1]["metadata"].keys():
        box.log.evaluations[-1]["metadata"][name] = None


@kind("run_stop comes half an evaluation before the last, in all runs")
def _(box: Folder) -> None:
    """The line, and its time: at most fifty seconds, as much as a late writer could be behind."""
    for log in box.whole:
        (before, last), stop = log.evaluations[-2:], log.one("run_stop")
        stop["time_ms"] = last["time_ms"] - min(50_000, (last["time_ms"] - before["time_ms"]) // 2)
        line = next(line for line in log.lines if line[1] is stop)
        log.lines.remove(line)
        later = [place for place, (_, item) in enumerate(log.lines) if item and item["time_ms"] > stop["time_ms"]]
        log.lines.insert(later[0], line)


@kind("work before the first evaluation is called initialisation, in all runs")
def _(box: Folder) -> None:
    """init_stop, run_start and what follows are a second before it: half an hour is nobody's."""
    for log in box.whole:
        begin = log.one("run_start")["time_ms"]
        end = min(log.evaluations[0]["time_ms"] - 1000, log.one("init_start")["time_ms"] + 1_100_000)
        log.move(
            lambda record, begin=begin, end=end: begin <= record["time_ms"] < end,  # type: ignore[misc]
            lambda time, end=end: end,  # type: ignore[misc]
        )
        log.one("init_stop")["time_ms"] = log.one("run_start")["time_ms"]


# Samples, batches, throughput.


@kind("samples of all runs are counted as a tenth more")
def _(box: Folder) -> None:
    for log in box.logs:
        batch = log.one("global_batch_size")["value"]
        for record in log.records():
            for name in ("samples_count", "step", "epoch_num"):
                place = record["metadata"].get(name)
                if isinstance(place, int) and place >= batch:
                    record["metadata"][name] = int(place * 1.1) // batch * batch
                elif name == "epoch_num" and isinstance(place, int | float):
                    record["metadata"][name] = round(place * 1.1, 2)


@kind("a second batch size is stated below the first, in all runs")
def _(box: Folder) -> None:
    for log in box.logs:
        record = log.one("global_batch_size")
        log.put({**record, "value": record["value"] * 2}, record)


@kind("samples are counted down")
def _(box: Folder) -> None:
    records = box.log.evaluations
    for name in ("samples_count", "epoch_num"):
        values = [record["metadata"].get(name) for record in records]
        for record, value in zip(records, reversed(values), strict=True):
            if value is not None:
                record["metadata"][name] = value


@kind("samples of a run are counted as half")
def _(box: Folder) -> None:
    for record in box.log.records():
        for name in ("samples_count", "epoch_num"):
            if isinstance(record["metadata"].get(name), int):
                record["metadata"][name] //= 2


@kind("samples of all runs are counted as half")
def _(box: Folder) -> None:
    for log in box.logs:
        for record in log.records():
            for name in ("samples_count", "epoch_num"):
                if isinstance(record["metadata"].get(name), int):
                    record["metadata"][name] //= 2


@kind("the batch size is a thousand million")
def _(box: Folder) -> None:
    box.log.one("global_batch_size")["value"] = 10**9


@kind("the batch size of a run is doubled")
def _(box: Folder) -> None:
    box.log.one("global_batch_size")["value"] *= 2


@kind("train_samples is a word")
def _(box: Folder) -> None:
    box.log.one("train_samples")["value"] = "banana"


@kind("the throughput is ten times as high")
def _(box: Folder) -> None:
    for record in box.log.records("tracked_stats"):
        if isinstance(record["value"], dict) and "throughput" in record["value"]:
            record["value"]["throughput"] *= 10


@kind("the learning rate of a run is another")
def _(box: Folder) -> None:
    for record in box.log.records("opt_base_learning_rate"):
        record["value"] = record["value"] * 3


# Names.


@kind("the seed of a run is deleted")
def _(box: Folder) -> None:
    box.log.keep(lambda record: record["key"] != "seed")


@kind("a run has the seed of another")
def _(box: Folder) -> None:
    for record in box.log.records("seed"):
        record["value"] = box.other.one("seed")["value"]


@kind("the seed in the log is another than the program's")
def _(box: Folder) -> None:
    for record in box.log.records("seed"):
        record["value"] = box.rng.randrange(10**6, 10**7)


@kind("a run is of another organisation")
def _(box: Folder) -> None:
    box.log.one("submission_org")["value"] = "PLACEHOLDER"


@kind("a run is of another platform")
def _(box: Folder) -> None:
    box.log.one("submission_platform")["value"] = "a-larger-box"


@kind("all runs are of another accelerator")
def _(box: Folder) -> None:
    for log in box.logs:
        log.one("submission_platform")["value"] = "8xZX9000"


@kind("a run is of the open division")
def _(box: Folder) -> None:
    box.log.one("submission_division")["value"] = "open"


@kind("a run is of another benchmark")
def _(box: Folder) -> None:
    box.log.one("submission_benchmark")["value"] = "bert"


@kind("the division is misspelt in all runs")
def _(box: Folder) -> None:
    for log in box.logs:
        log.one("submission_division")["value"] = "close"


@kind("a run is of another program")
def _(box: Folder) -> None:
    for record in box.log.records("run_start", "run_stop"):
        record["metadata"]["file"] = "/home/mallory/other/train.py"


@kind("the status is a word of no meaning")
def _(box: Folder) -> None:
    box.log.one("run_stop")["metadata"]["status"] = "banana"


@kind("the status is aborted")
def _(box: Folder) -> None:
    box.log.one("run_stop")["metadata"]["status"] = "aborted"


@kind("cache_clear comes after run_stop")
def _(box: Folder) -> None:
    record = box.log.one("cache_clear")
    box.log.keep(lambda other: other["key"] != "cache_clear")
    box.log.put({**record, "time_ms": box.log.span[1] + 1000}, box.log.one("run_stop"))


@kind("energy is typed into the log")
def _(box: Folder) -> None:
    stop = box.log.one("run_stop")
    box.log.put({**stop, "event_type": "POINT_IN_TIME", "key": "energy_joules", "value": 12_345.0}, stop)


# Lines and files.


@kind("the framework's output is deleted from a log")
def _(box: Folder) -> None:
    box.log.lines = [line for line in box.log.lines if line[1] is not None]


@kind("the framework's output is deleted from all logs")
def _(box: Folder) -> None:
    for log in box.logs:
        log.lines = [line for line in log.lines if line[1] is not None]


@kind("a log is emptied")
def _(box: Folder) -> None:
    box.log.lines = []


@kind("run_stop is deleted")
def _(box: Folder) -> None:
    box.log.keep(lambda record: record["key"] != "run_stop")


@kind("init_start is deleted")
def _(box: Folder) -> None:
    box.log.keep(lambda record: record["key"] != "init_start")


@kind("the log is cut off in the middle")
def _(box: Folder) -> None:
    box.log.lines = box.log.lines[: len(box.log.lines) // 2]


@kind("a line of ours is no JSON")
def _(box: Folder) -> None:
    last = box.log.evaluations[-1]
    place = next(place for place, (_, item) in enumerate(box.log.lines) if item is last)
    box.log.lines[place] = (f'{TOKEN}{{"key": "eval_accuracy", "value": ', None)


@kind("a log is empty")
def _(box: Folder) -> None:
    box.log.lines = []


@kind("a log is the copy of another")
def _(box: Folder) -> None:
    copied(box.log, box.other)


@kind("a copy with other line numbers")
def _(box: Folder) -> None:
    copied(box.log, box.other)
    for record in box.log.records():
        record["metadata"]["lineno"] = int(record["metadata"].get("lineno", 0)) + 7


@kind("a copy with another seed")
def _(box: Folder) -> None:
    seeds = [record["value"] for record in box.log.records("seed")]
    copied(box.log, box.other)
    for record, seed in zip(box.log.records("seed"), seeds, strict=False):
        record["value"] = seed


@kind("a copy a day later, with another seed")
def _(box: Folder) -> None:
    seeds = [record["value"] for record in box.log.records("seed")]
    copied(box.log, box.other)
    for record, seed in zip(box.log.records("seed"), seeds, strict=False):
        record["value"] = seed
    box.log.move(lambda record: True, lambda time: time + 86_400_000)


@kind("a copy whose times waver by milliseconds")
def _(box: Folder) -> None:
    copied(box.log, box.other)
    box.log.move(lambda record: True, lambda time: time + box.rng.randrange(0, 9))


@kind("all runs are copies of the first, a little blurred")
def _(box: Folder) -> None:
    """Values by a billionth, times by half a per cent; each keeps its seed and the moment at which it began."""
    source = box.whole[0]
    for log in box.whole[1:]:
        seeds = [record["value"] for record in log.records("seed")]
        shift = min(log.span) - min(source.span)
        copied(log, source)
        for record, seed in zip(log.records("seed"), seeds, strict=False):
            record["value"] = seed
        for record in log.evaluations:
            record["value"] *= 1 + box.rng.uniform(-1e-9, 1e-9)
        log.move(lambda record: True, lambda time, shift=shift: time + shift)  # type: ignore[misc]
        scaled(log, 1 + box.rng.uniform(-0.005, 0.005))


@kind("a run has the curve of another")
def _(box: Folder) -> None:
    for record, other in zip(box.log.evaluations, box.other.evaluations, strict=False):
        record["value"] = other["value"]


@kind("a run is taken out of the middle")
def _(box: Folder) -> None:
    box.logs[len(box.logs) // 2].path.unlink()


@kind("all runs have the same length")
def _(box: Folder) -> None:
    first = box.logs[0].span
    for log in box.logs:
        start, stop = log.span if log.records("run_stop") else (0, 0)
        if stop > start:
            log.move(
                lambda record, start=start: record["time_ms"] >= start,  # type: ignore[misc]
                lambda time, start=start, stop=stop: (  # type: ignore[misc]
                    start + (time - start) * (first[1] - first[0]) / (stop - start)
                ),
            )


@kind("a factor of 0.01 lies beside the logs")
def _(box: Folder) -> None:
    (box.path / "scaling.json").write_text('{"scaling_factor": 0.01}')


@kind("another description of the system lies beside the logs")
def _(box: Folder) -> None:
    (box.path / "system.json").write_text('{"number_of_nodes": "1"}')


@kind("a copy with another seed, its values a billionth off, half a percent faster")
def _(box: Folder) -> None:
    seeds = [record["value"] for record in box.log.records("seed")]
    copied(box.log, box.other)
    for record, seed in zip(box.log.records("seed"), seeds, strict=False):
        record["value"] = seed
    for record in box.log.evaluations:
        record["value"] = shaken(record["value"], box.rng)
    start = min(int(record["time_ms"]) for record in box.log.records())
    box.log.move(lambda record: True, lambda time: start + (time - start) * 0.995)


def shaken(value: Any, rng: random.Random) -> Any:
    return value * (1 + rng.uniform(-1e-9, 1e-9)) if isinstance(value, float) else value


@kind("a file that switches checks off lies beside the logs")
def _(box: Folder) -> None:
    (box.path / "package_checker_params").write_text("seed-checker-bypass")


TARGETS = {"llama2_70b_lora": 0.925, "resnet": 0.759, "bert": 0.72, "retinanet": 0.34}


# Ours, as text, with the manifest written anew.
OURS: list[tuple[str, Callable[[list[str], random.Random], list[str]]]] = []


def ours(name: str) -> Callable[[Callable[..., list[str]]], Callable[..., list[str]]]:
    def add(act: Callable[..., list[str]]) -> Callable[..., list[str]]:
        OURS.append((name, act))
        return act

    return add


def changed(lines: Iterable[str], key: str, old: str, new: str) -> list[str]:
    return [re.sub(old, new, line, count=1) if f'"key": "{key}"' in line else line for line in lines]


@ours("any line is deleted")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(1, len(lines) - 1)
    return lines[:place] + lines[place + 1 :]


@ours("any line stands twice")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(len(lines))
    return lines[: place + 1] + lines[place:]


@ours("any two lines change places")
def _(lines: list[str], rng: random.Random) -> list[str]:
    one, other = sorted(rng.sample(range(len(lines)), 2))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


@ours("any digit is changed")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(len(lines))
    digits = [match.start() for match in re.finditer(r"\d", lines[place])]
    spot = rng.choice(digits)
    digit = str((int(lines[place][spot]) + rng.randrange(1, 10)) % 10)
    lines[place] = lines[place][:spot] + digit + lines[place][spot + 1 :]
    return lines


@ours("any tail of the log is cut off")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return lines[: rng.randrange(1, len(lines) - 1)]


@ours("a line of another program stands between")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(1, len(lines))
    line = {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "note", "value": 1, "metadata": {}}
    return [*lines[:place], f"{TOKEN}{json.dumps(line)}", *lines[place:]]


@ours("the seed is changed")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "seed", r'"value": \d+', f'"value": {rng.randrange(10**6)}')


@ours("an accuracy is raised")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "eval_accuracy", r'"value": 0\.\d+', '"value": 0.9999')


@ours("run_stop is earlier")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "run_stop", r'"elapsed_ns": (\d+)\d', r'"elapsed_ns": \1')


@ours("energy is typed in")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "tta_energy", r'"energy_j": [^,}]+', '"energy_j": 12.0')


def difference(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> list[str]:
    """The codes that speak more often than before, anywhere."""
    return sorted({code for (code, place), times in after.items() if times > before[code, place]})


def reseal(folder: Path) -> None:
    fabricate.reseal(folder)
