"""Attacks on a result of one of MLPerf's rounds: one change to its folder of logs, at a place that a seed chooses.

Each names the checks and the audit's signals that must find it: the checks in a valid result of RetinaNet of round 5.1,
the signals in a fabricated result that no ruleset judges.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.checker.audit.facts import MIN_TIME_MS
from harness.log.events import TOKEN

Record = dict[str, Any]
PLACES = frozenset({"samples_count", "epoch_num"})
TARGETS = {"llama2_70b_lora": 0.925, "resnet": 0.759, "bert": 0.72, "retinanet": 0.34}
DATED = re.compile("RESULT,|20[0-9]{2}-[0-9]{2}-[0-9]{2}[ T]")
COURSE = ("block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop")


@dataclass
class Log:
    """A log to change: MLPerf's lines as records with the text before them, other programs' lines unchanged."""

    path: Path
    lines: list[tuple[str, Record | None]] = field(default_factory=list)
    separators: tuple[str, str] | None = None  # of JSON, if not the usual ones

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
    """A result whose logs are changed; `log` and `other` are two that the seed chooses."""

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
class Attack:
    """A change to a result, and the codes of the checks and of the audit's signals that must find it.

    Without a code of a check (MLP, MLR, RUN, SYS), no check finds it; without one of the audit (AUD), no signal does.
    """

    name: str
    act: Callable[[Folder], None]
    codes: tuple[str, ...]

    @property
    def checks(self) -> set[str]:
        return {code for code in self.codes if not code.startswith("AUD")}

    @property
    def signals(self) -> set[str]:
        return {code for code in self.codes if code.startswith("AUD")}


ATTACKS: list[Attack] = []


def attack(name: str, *codes: str) -> Callable[[Callable[[Folder], None]], Callable[[Folder], None]]:
    def add(act: Callable[[Folder], None]) -> Callable[[Folder], None]:
        ATTACKS.append(Attack(name, act, codes))
        return act

    return add


def copied(log: Log, other: Log) -> None:
    log.lines = [(text, None if item is None else json.loads(json.dumps(item))) for text, item in other.lines]


def scaled(log: Log, factor: float) -> None:
    first = min(record["time_ms"] for record in log.records() if record["time_ms"] >= MIN_TIME_MS)
    log.move(lambda record: True, lambda time: first + (time - first) * factor)


def raised(value: Any) -> Any:
    """A quality, or each of several, that is a little higher."""
    return {name: raised(item) for name, item in value.items()} if isinstance(value, dict) else value + 0.0123


def without_dates(log: Log) -> None:
    """Deletes the lines of other programs that have a date or a total."""
    log.lines = [(text, item) for text, item in log.lines if item is not None or not DATED.search(text)]


# Times.


@attack("run_stop is moved to half the time", "MLP024", "MLP025", "AUD001", "AUD031")
def _(box: Folder) -> None:
    start, stop = box.log.span
    box.log.one("run_stop")["time_ms"] = round((start + stop) / 2)


@attack("run_stop comes before run_start", "MLP021", "MLP024", "MLP025", "AUD001")
def _(box: Folder) -> None:
    box.log.one("run_stop")["time_ms"] = box.log.span[0] - 60_000


@attack("a second run_start shortly before run_stop", "MLP005", "MLP022", "AUD001")
def _(box: Folder) -> None:
    record = {**box.log.one("run_start"), "time_ms": box.log.span[1] - 10_000}
    box.log.put(record, box.log.evaluations[-1])


@attack("run_start is moved to a later time", "AUD001")
def _(box: Folder) -> None:
    start, stop = box.log.span
    box.log.one("run_start")["time_ms"] = round(start + box.rng.uniform(0.1, 0.5) * (stop - start))


@attack("all times of a run are divided by ten", "MLP034", "AUD007", "AUD031", "AUD032", "AUD035")
def _(box: Folder) -> None:
    scaled(box.log, 0.1)


@attack("all times of all runs are divided by ten", "MLP034", "AUD007", "AUD031")
def _(box: Folder) -> None:
    for log in box.logs:
        scaled(log, 0.1)


@attack("all times of a run are a fifth shorter", "AUD007", "AUD032")
def _(box: Folder) -> None:
    scaled(box.log, 0.8)


@attack("all times of all runs are a fifth shorter", "AUD007")
def _(box: Folder) -> None:
    for log in box.logs:
        scaled(log, 0.8)


@attack("all times of a run are a fifth shorter, and the dates of other programs are deleted", "AUD032", "AUD038")
def _(box: Folder) -> None:
    without_dates(box.log)
    scaled(box.log, 0.8)


@attack("all times of all runs are a fifth shorter, and the dates of other programs are deleted", "AUD038")
def _(box: Folder) -> None:
    for log in box.logs:
        without_dates(log)
        scaled(log, 0.8)


@attack("all times of all runs are a fifth shorter, and written with more spaces", "AUD007")
def _(box: Folder) -> None:
    """JSON permits them."""
    for log in box.logs:
        scaled(log, 0.8)
        log.separators = (" ,  ", " :  ")


@attack("all times of all runs are a fifth shorter, and what the runs state about their speed agrees", "AUD007")
def _(box: Folder) -> None:
    for log in box.logs:
        scaled(log, 0.8)
        for record in log.records("tracked_stats"):
            if isinstance(record["value"], dict):
                times = [name for name in record["value"] if name.endswith("_time")]
                speeds = [name for name in record["value"] if "throughput" in name]
                record["value"] |= {name: 0.8 * record["value"][name] for name in times}
                record["value"] |= {name: record["value"][name] / 0.8 for name in speeds}


@attack("five hours pass between init_stop and run_start", "MLP029", "AUD003")
def _(box: Folder) -> None:
    start = box.log.span[0]
    box.log.move(lambda record: record["time_ms"] >= start, lambda time: time + 18_000_000)


@attack("initialisation takes an hour longer", "MLP009", "MLR003", "AUD004", "AUD037")
def _(box: Folder) -> None:
    stop = box.log.one("init_stop")["time_ms"]
    box.log.move(lambda record: record["time_ms"] >= stop, lambda time: time + 3_600_000)


@attack("an hour passes in the middle of the run", "AUD002", "AUD007", "AUD008", "AUD030", "AUD032", "AUD042")
def _(box: Folder) -> None:
    middle = box.log.evaluations[len(box.log.evaluations) // 2]["time_ms"]
    box.log.move(lambda record: record["time_ms"] >= middle, lambda time: time + 3_600_000)


@attack("the pauses between evaluations of one half are taken out", "AUD007", "AUD030", "AUD031", "AUD032", "AUD035")
def _(box: Folder) -> None:
    middle = box.log.evaluations[len(box.log.evaluations) // 2]["time_ms"]
    box.log.move(lambda record: record["time_ms"] > middle, lambda time: middle + (time - middle) / 10)


@attack("evaluations are given the same distance in time", "AUD019")
def _(box: Folder) -> None:
    """Each evaluation with its lines is moved, by little; what is between them stays."""
    first, second = (record["time_ms"] for record in box.log.evaluations[:2])
    for nth, record in enumerate(box.log.evaluations[2:], 2):
        moved_ms = first + nth * (second - first) - record["time_ms"]
        lines = box.log.records("eval_accuracy", "eval_stop")
        for item in [item for item in lines if 0 <= item["time_ms"] - record["time_ms"] < 10]:
            item["time_ms"] += moved_ms


@attack("all times are whole seconds", "AUD005")
def _(box: Folder) -> None:
    box.log.move(lambda record: True, lambda time: time // 1000 * 1000)


@attack("a header line has the time zero", "AUD006")
def _(box: Folder) -> None:
    box.log.one("submission_division")["time_ms"] = 0


@attack("a made-up monotonic clock makes the runs last a second", "MLP036", "SYS001", "AUD045", "AUD061")
def _(box: Folder) -> None:
    for log in box.logs:
        log.one("run_start")["metadata"]["elapsed_ns"] = 0
        log.one("run_stop")["metadata"]["elapsed_ns"] = 1_000_000_000


@attack("a run is dated ten years ahead", "AUD006", "AUD041")
def _(box: Folder) -> None:
    box.log.move(lambda record: True, lambda time: time + 10 * 365 * 86_400_000)


@attack("a run is moved to overlap with another", "AUD007", "AUD042")
def _(box: Folder) -> None:
    apart = box.other.span[0] - box.log.span[0] + 1_234
    box.log.move(lambda record: True, lambda time: time + apart)


@attack("lines of blocks and evaluations are shuffled", "MLP025", "MLP026", "AUD001", "AUD007", "AUD031", "AUD035")
def _(box: Folder) -> None:
    places = [place for place, (_, item) in enumerate(box.log.lines) if item is not None and item["key"] in COURSE]
    items = [box.log.lines[place] for place in places]
    box.rng.shuffle(items)
    for place, item in zip(places, items, strict=True):
        box.log.lines[place] = item


# Evaluations.


@attack("all evaluations but the last are deleted", "MLP027", "AUD014", "AUD016", "AUD017")
def _(box: Folder) -> None:
    last = box.log.evaluations[-1]
    box.log.keep(lambda record: record["key"] != "eval_accuracy" or record is last)


@attack("all evaluations but the last are deleted, with their eval_start and eval_stop", "MLP027", "AUD014", "AUD017")
def _(box: Folder) -> None:
    keep = [box.log.records(key)[-1] for key in ("eval_start", "eval_accuracy", "eval_stop") if box.log.records(key)]
    keys = ("eval_start", "eval_accuracy", "eval_stop")
    box.log.keep(lambda record: record["key"] not in keys or any(record is item for item in keep))


@attack("an evaluation in the middle is deleted", "AUD014")
def _(box: Folder) -> None:
    doomed = box.log.evaluations[len(box.log.evaluations) // 2]
    box.log.keep(lambda record: record is not doomed)


@attack("the first evaluations of a run are deleted", "MLP027", "AUD014", "AUD016")
def _(box: Folder) -> None:
    doomed = box.log.evaluations[: max(1, len(box.log.evaluations) // 2)]
    box.log.keep(lambda record: not any(record is item for item in doomed))


@attack("every evaluation has the same value", "MLP028", "MLP039", "AUD010", "AUD012", "AUD017")
def _(box: Folder) -> None:
    for record in box.log.evaluations:
        record["value"] = box.log.evaluations[-1]["value"]


@attack("an evaluation has five times its value", "AUD012", "AUD013")
def _(box: Folder) -> None:
    box.log.evaluations[1]["value"] *= 5


@attack("an accuracy is above one", "MLP007", "AUD013", "AUD026")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = 1.02


@attack("the last value is raised, and the framework's is left", "AUD026")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = raised(box.log.evaluations[-1]["value"])


@attack("the last three values are those of another run", "AUD025", "AUD026")
def _(box: Folder) -> None:
    for record, other in zip(box.log.evaluations[-3:], box.other.evaluations[-3:], strict=True):
        record["value"] = other["value"]


@attack("the last evaluations have the times of another run's", "AUD001", "AUD025")
def _(box: Folder) -> None:
    for name in ("eval_stop", "eval_accuracy"):
        for record, other in zip(box.log.records(name)[-2:], box.other.records(name)[-2:], strict=True):
            record["time_ms"] = other["time_ms"]


@attack("the last value is exactly the target", "AUD018")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = TARGETS.get(str(box.log.one("submission_benchmark")["value"]), 0.9)


@attack("the run is cut short at an evaluation that is given the last value", "AUD007", "AUD012", "AUD031")
def _(box: Folder) -> None:
    early, last = box.log.evaluations[1], box.log.evaluations[-1]
    early["value"] = last["value"]
    stop = box.log.one("run_stop")
    after = [item for item in box.log.records() if early["time_ms"] < item["time_ms"] <= stop["time_ms"]]
    box.log.keep(lambda record: record is stop or not any(record is item for item in after))
    stop["time_ms"] = early["time_ms"] + 5


@attack("the target is reached only after run_stop", "MLP024", "AUD002", "AUD030", "AUD032")
def _(box: Folder) -> None:
    last = box.log.evaluations[-1]
    box.log.keep(lambda record: record is not last)
    box.log.put({**last, "time_ms": box.log.span[1] + 3_600_000}, box.log.one("run_stop"))


@attack("the last value is a text", "MLP007", "MLP037")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = str(box.log.evaluations[-1]["value"])


@attack("the last value is NaN", "MLP001", "MLP007", "MLR003", "AUD009")
def _(box: Folder) -> None:
    box.log.evaluations[-1]["value"] = math.nan


@attack("an evaluation is repeated with a better value", "MLP039", "AUD015")
def _(box: Folder) -> None:
    record = box.log.evaluations[-2]
    box.log.put({**record, "value": box.log.evaluations[-1]["value"]}, record)


@attack("an evaluation is inserted between two others", "AUD014", "AUD033")
def _(box: Folder) -> None:
    before, after = box.log.evaluations[-3:-1]
    record = json.loads(json.dumps(before))
    for name in ("samples_count", "epoch_num"):
        if isinstance(before["metadata"].get(name), int | float):
            record["metadata"][name] += (after["metadata"][name] - before["metadata"][name]) // 3
    record["value"] = (before["value"] + after["value"]) / 2
    record["time_ms"] = round((before["time_ms"] + after["time_ms"]) / 2)
    box.log.put(record, before)


@attack("the last evaluation is printed again at half the time, and run_stop is there", "MLP025", "AUD001", "AUD027")
def _(box: Folder) -> None:
    for log in box.whole:
        last, half = log.evaluations[-1], round(sum(log.span) / 2)
        log.put({**last, "time_ms": half}, last)
        log.one("run_stop")["time_ms"] = half


@attack("the keys of all evaluations but the last are empty", "MLP027", "AUD014", "AUD016", "AUD017")
def _(box: Folder) -> None:
    for record in box.log.evaluations[:-1]:
        record["key"] = ""


def farther(record: Record, **changes: Any) -> Record:
    """A copy of an evaluation a fifth farther on in training."""
    metadata = dict(record["metadata"])
    for name in PLACES:
        if isinstance(metadata.get(name), int | float):
            metadata[name] = type(metadata[name])(metadata[name] * 1.2)
    return {**record, "metadata": metadata, **changes}


@attack("an evaluation without a value is added farther on, in all runs", "MLP037", "MLP039", "AUD031")
def _(box: Folder) -> None:
    for log in box.whole:
        log.put(farther(log.evaluations[-1], value=None), log.evaluations[-1])


@attack("an eval_error without a value is added farther on, in all runs", "MLP037", "MLP039", "AUD031")
def _(box: Folder) -> None:
    for log in box.whole:
        log.put(farther(log.evaluations[-1], key="eval_error", value=None), log.evaluations[-1])


@attack("an evaluation is added after the one that reaches the target, in all runs", "MLP039", "AUD031")
def _(box: Folder) -> None:
    for log in box.whole:
        before, last = log.evaluations[-2:]
        record = json.loads(json.dumps(last))
        for name in PLACES:
            if isinstance(last["metadata"].get(name), int | float):
                record["metadata"][name] += last["metadata"][name] - before["metadata"][name]
        record["value"] += (last["value"] - before["value"]) / 100
        log.put(record, last)


@attack("the last evaluation is counted a little farther on, in all runs", "AUD014")
def _(box: Folder) -> None:
    """By a batch, or by 0.28 of an interval where epochs are counted: the mean to target grows."""
    for log in box.whole:
        batch, last = log.one("global_batch_size")["value"], log.evaluations[-1]["metadata"]
        for name in sorted(PLACES & set(last)):
            before = log.evaluations[-2]["metadata"].get(name, 0)
            last[name] += batch if last[name] >= batch else 0.28 * (last[name] - before)


@attack("evaluations take a tenth of their time, in all runs", "AUD035")
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


@attack("the place of the last evaluation is null", "MLP037")
def _(box: Folder) -> None:
    for name in PLACES & box.log.evaluations[-1]["metadata"].keys():
        box.log.evaluations[-1]["metadata"][name] = None


@attack("run_stop comes half an interval before the last evaluation, in all runs", "MLP024", "AUD027")
def _(box: Folder) -> None:
    """The line and its time: at most 50 s, by which a late writer could be behind."""
    for log in box.whole:
        (before, last), stop = log.evaluations[-2:], log.one("run_stop")
        stop["time_ms"] = last["time_ms"] - min(50_000, (last["time_ms"] - before["time_ms"]) // 2)
        line = next(line for line in log.lines if line[1] is stop)
        log.lines.remove(line)
        later = [place for place, (_, item) in enumerate(log.lines) if item and item["time_ms"] > stop["time_ms"]]
        log.lines.insert(later[0], line)


@attack("work before the first evaluation is called initialisation, in all runs", "AUD007", "AUD030")
def _(box: Folder) -> None:
    """init_stop, run_start and what follows move to a second before it; the time between is on no clock."""
    for log in box.whole:
        begin = log.one("run_start")["time_ms"]
        end = min(log.evaluations[0]["time_ms"] - 1000, log.one("init_start")["time_ms"] + 1_100_000)
        log.move(
            lambda record, begin=begin, end=end: begin <= record["time_ms"] < end,  # type: ignore[misc]
            lambda time, end=end: end,  # type: ignore[misc]
        )
        log.one("init_stop")["time_ms"] = log.one("run_start")["time_ms"]


# Samples, batches, throughput.


@attack("a tenth more samples are counted in all runs")
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


@attack("a second batch size is stated below the first, in all runs", "MLP004", "MLR003")
def _(box: Folder) -> None:
    for log in box.logs:
        record = log.one("global_batch_size")
        log.put({**record, "value": record["value"] * 2}, record)


@attack("samples are counted down", "MLP026", "AUD012", "AUD014", "AUD015", "AUD032", "AUD035")
def _(box: Folder) -> None:
    records = box.log.evaluations
    for name in ("samples_count", "epoch_num"):
        values = [record["metadata"].get(name) for record in records]
        for record, value in zip(records, reversed(values), strict=True):
            if value is not None:
                record["metadata"][name] = value


@attack("half the samples of a run are counted", "AUD012", "AUD014", "AUD031", "AUD032")
def _(box: Folder) -> None:
    for record in box.log.records():
        for name in ("samples_count", "epoch_num"):
            if isinstance(record["metadata"].get(name), int):
                record["metadata"][name] //= 2


@attack("half the samples of all runs are counted", "MLR011", "AUD014", "AUD031", "AUD046")
def _(box: Folder) -> None:
    for log in box.logs:
        for record in log.records():
            for name in ("samples_count", "epoch_num"):
                if isinstance(record["metadata"].get(name), int):
                    record["metadata"][name] //= 2


@attack("the batch size is a billion", "MLP030", "MLR004", "MLR012", "AUD033", "AUD034")
def _(box: Folder) -> None:
    box.log.one("global_batch_size")["value"] = 10**9


@attack("the batch size of a run is doubled", "MLR004", "MLR012", "AUD034")
def _(box: Folder) -> None:
    box.log.one("global_batch_size")["value"] *= 2


@attack("train_samples is a word", "MLP030", "AUD034")
def _(box: Folder) -> None:
    box.log.one("train_samples")["value"] = "banana"


@attack("the throughput is ten times as high", "MLP034", "AUD031")
def _(box: Folder) -> None:
    for record in box.log.records("tracked_stats"):
        if isinstance(record["value"], dict) and "throughput" in record["value"]:
            record["value"]["throughput"] *= 10


@attack("the learning rate of a run is changed", "MLR005")
def _(box: Folder) -> None:
    for record in box.log.records("opt_base_learning_rate"):
        record["value"] = record["value"] * 3


# Names.


@attack("the seed of a run is deleted", "MLP033", "MLR007")
def _(box: Folder) -> None:
    box.log.keep(lambda record: record["key"] != "seed")


@attack("a run has the seed of another", "MLR006", "AUD022", "AUD023")
def _(box: Folder) -> None:
    for record in box.log.records("seed"):
        record["value"] = box.other.one("seed")["value"]


@attack("the seed in the log differs from the program's", "AUD023")
def _(box: Folder) -> None:
    for record in box.log.records("seed"):
        record["value"] = box.rng.randrange(10**6, 10**7)


@attack("a run names another organisation", "MLP032", "AUD043")
def _(box: Folder) -> None:
    box.log.one("submission_org")["value"] = "PLACEHOLDER"


@attack("a run names another platform", "MLR004", "AUD043")
def _(box: Folder) -> None:
    box.log.one("submission_platform")["value"] = "a-larger-box"


@attack("all runs name another accelerator", "MLR021", "AUD036")
def _(box: Folder) -> None:
    for log in box.logs:
        log.one("submission_platform")["value"] = "8xZX9000"


@attack("a run names the open division", "MLR004", "MLR009", "AUD043")
def _(box: Folder) -> None:
    box.log.one("submission_division")["value"] = "open"


@attack("a run names another benchmark", "MLP002", "MLR003", "MLR004", "AUD013", "AUD043")
def _(box: Folder) -> None:
    box.log.one("submission_benchmark")["value"] = "bert"


@attack("the division is misspelt in all runs", "MLP002", "MLR003")
def _(box: Folder) -> None:
    for log in box.logs:
        log.one("submission_division")["value"] = "close"


@attack("a run names another program", "AUD043")
def _(box: Folder) -> None:
    for record in box.log.records("run_start", "run_stop"):
        record["metadata"]["file"] = "/home/mallory/other/train.py"


@attack("the status is a meaningless word", "MLP023")
def _(box: Folder) -> None:
    box.log.one("run_stop")["metadata"]["status"] = "banana"


@attack("the status is aborted", "MLP023")
def _(box: Folder) -> None:
    box.log.one("run_stop")["metadata"]["status"] = "aborted"


@attack("cache_clear comes after run_stop", "MLP031")
def _(box: Folder) -> None:
    record = box.log.one("cache_clear")
    box.log.keep(lambda other: other["key"] != "cache_clear")
    box.log.put({**record, "time_ms": box.log.span[1] + 1000}, box.log.one("run_stop"))


@attack("an energy is typed into the log", "AUD053")
def _(box: Folder) -> None:
    stop = box.log.one("run_stop")
    box.log.put({**stop, "event_type": "POINT_IN_TIME", "key": "energy_joules", "value": 12_345.0}, stop)


# Lines and files.


@attack("the framework's output is deleted from a log", "MLP035", "AUD044")
def _(box: Folder) -> None:
    box.log.lines = [line for line in box.log.lines if line[1] is not None]


@attack("the framework's output is deleted from all logs", "MLP035", "AUD044")
def _(box: Folder) -> None:
    for log in box.logs:
        log.lines = [line for line in log.lines if line[1] is not None]


@attack("a log is emptied", "MLR003", "AUD040")
def _(box: Folder) -> None:
    box.log.lines = []


@attack("run_stop is deleted", "MLP003", "AUD024")
def _(box: Folder) -> None:
    box.log.keep(lambda record: record["key"] != "run_stop")


@attack("init_start is deleted", "MLP003", "MLP008", "MLR003")
def _(box: Folder) -> None:
    box.log.keep(lambda record: record["key"] != "init_start")


@attack("the log is cut off in the middle", "MLP003", "MLP007", "AUD024")
def _(box: Folder) -> None:
    box.log.lines = box.log.lines[: len(box.log.lines) // 2]


@attack("an MLPerf line is not JSON", "MLP001", "MLP007", "MLR003", "AUD009")
def _(box: Folder) -> None:
    last = box.log.evaluations[-1]
    place = next(place for place, (_, item) in enumerate(box.log.lines) if item is last)
    box.log.lines[place] = (f'{TOKEN}{{"key": "eval_accuracy", "value": ', None)


@attack("a log is a copy of another", "MLR006", "RUN004", "AUD020", "AUD022")
def _(box: Folder) -> None:
    copied(box.log, box.other)


@attack("a copy with other line numbers", "AUD021", "AUD022", "AUD042")
def _(box: Folder) -> None:
    copied(box.log, box.other)
    for record in box.log.records():
        record["metadata"]["lineno"] = int(record["metadata"].get("lineno", 0)) + 7


@attack("a copy with another seed", "AUD021", "AUD023", "AUD042")
def _(box: Folder) -> None:
    seeds = [record["value"] for record in box.log.records("seed")]
    copied(box.log, box.other)
    for record, seed in zip(box.log.records("seed"), seeds, strict=False):
        record["value"] = seed


@attack("a copy a day later, with another seed", "AUD021", "AUD023", "AUD041")
def _(box: Folder) -> None:
    seeds = [record["value"] for record in box.log.records("seed")]
    copied(box.log, box.other)
    for record, seed in zip(box.log.records("seed"), seeds, strict=False):
        record["value"] = seed
    box.log.move(lambda record: True, lambda time: time + 86_400_000)


@attack("a copy whose times vary by milliseconds", "MLR006", "AUD021", "AUD022", "AUD042")
def _(box: Folder) -> None:
    copied(box.log, box.other)
    box.log.move(lambda record: True, lambda time: time + box.rng.randrange(0, 9))


@attack("all runs are copies of the first with a little noise", "AUD007", "AUD021", "AUD023")
def _(box: Folder) -> None:
    """Values vary by a billionth, times by half a percent; each run keeps its seed and its start."""
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


@attack("a run has the curve of another", "AUD021")
def _(box: Folder) -> None:
    for record, other in zip(box.log.evaluations, box.other.evaluations, strict=False):
        record["value"] = other["value"]


@attack("a run in the middle is removed", "MLR001", "MLR002", "AUD040", "AUD041")
def _(box: Folder) -> None:
    box.logs[len(box.logs) // 2].path.unlink()


@attack("all runs have the same length", "AUD045")
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


@attack("a scaling factor of 0.01 is put next to the logs", "MLR013", "AUD070")
def _(box: Folder) -> None:
    (box.path / "scaling.json").write_text('{"scaling_factor": 0.01}')


@attack("another system description is put next to the logs", "MLR017", "MLR019")
def _(box: Folder) -> None:
    (box.path / "system.json").write_text('{"number_of_nodes": "1"}')


@attack("a copy with another seed, its values a billionth off, half a percent faster", "AUD021", "AUD023", "AUD042")
def _(box: Folder) -> None:
    seeds = [record["value"] for record in box.log.records("seed")]
    copied(box.log, box.other)
    for record, seed in zip(box.log.records("seed"), seeds, strict=False):
        record["value"] = seed
    for record in box.log.evaluations:
        record["value"] *= 1 + box.rng.uniform(-1e-9, 1e-9)
    start = min(int(record["time_ms"]) for record in box.log.records())
    box.log.move(lambda record: True, lambda time: start + (time - start) * 0.995)


@attack("a file that disables checks is put next to the logs", "MLR014", "AUD070")
def _(box: Folder) -> None:
    (box.path / "package_checker_params").write_text("seed-checker-bypass")
