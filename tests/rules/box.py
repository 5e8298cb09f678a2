"""A valid submission to damage, and the cases: how it is damaged and what must be found.

A case is a function that takes a `Box`. It edits the events of the runs (`box.runs[0]`), or calls `box.write()`
and edits files. What it does not damage stays valid: logs are chained again, the manifest is written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from harness.base import files, typed_yaml
from harness.checker import engine, registry
from harness.findings import Finding
from harness.log import run_log
from harness.log.events import digest_of
from harness.mlperf.load import RULESET_FILE
from harness.ruleset import catalog
from harness.ruleset.model import ReferenceConvergence, RuleSet
from harness.scoring.run_result import derive_ledger
from harness.submission import layout as submission_claim
from harness.submission import result as submission_result
from harness.submission.predictions import Recomputed
from tests import fabricate
from tests.fabricate import Step, find

TODAY = date(2025, 12, 1)
DAY_MS = 86_400_000
Damage = TypeVar("Damage", bound=Callable[..., None])
MORNING_MS = 1_763_686_800_000  # 21 November 2025, 01:00 UTC


@cache
def codes() -> dict[str, str]:
    """The codes of version 1, without its benchmarks."""
    content = typed_yaml.load_yaml(catalog.ruleset_folder("v1") / RULESET_FILE)
    return dict(content["codes"])


class Box:
    """A valid submission of `toy_mini` with five runs, in its own tree."""

    def __init__(
        self,
        place: Path,
        rules: dict[str, Any] | None = None,
        ruleset: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        num_runs: int = 5,
    ) -> None:
        self.place = place
        self.rules = fabricate.benchmark_rules(**(rules or {}))
        self.ruleset: RuleSet = fabricate.ruleset(codes(), self.rules, **(ruleset or {}))
        self.runs: list[list[Step]] = []
        self.is_written = False
        self.recomputed: dict[str, Recomputed] = {}
        self.receipt_faults: tuple[tuple[str, str], ...] = ()

        def keep(index: int, steps: list[Step]) -> list[Step]:
            self.runs.append(steps)
            return steps

        self.folder = fabricate.write_submission(place / "tree", num_runs, keep, rules=self.rules, **(options or {}))
        self.wall_starts_ms = [fabricate.WALL_START_MS + 60_000 * index for index in range(num_runs)]

    @property
    def shown(self) -> Any:
        """What the function of a case is given."""
        return self

    @property
    def system_path(self) -> Path:
        return self.folder.parents[2] / "systems" / "box1.json"

    @property
    def module_path(self) -> Path:
        """The module of a box with the option `module`."""
        return self.folder.parents[2] / "benchmarks" / self.rules.name / fabricate.MODULE_NAME

    def log(self, index: int = 0) -> Path:
        return self.folder / f"result_{index}.txt"

    def write(self) -> None:
        """Writes the runs in their present state, with valid chains and a valid manifest."""
        for index, (steps, wall_start_ms) in enumerate(zip(self.runs, self.wall_starts_ms, strict=True)):
            fabricate.write_log(self.log(index), steps, wall_start_ms)
        self.reseal()
        self.is_written = True

    def reseal(self) -> None:
        fabricate.reseal(self.folder)

    def lines(self, index: int = 0) -> list[str]:
        return self.log(index).read_text().splitlines()

    def put_lines(self, lines: list[str], index: int = 0) -> None:
        self.log(index).write_text("".join(line + "\n" for line in lines))

    def claim(self, **changes: str) -> None:
        """Changes fields of the claim."""
        path = self.folder / submission_claim.CLAIM_NAME
        fields = dict(line.split(": ", 1) for line in path.read_text().splitlines())
        fields.update({name: json.dumps(value) for name, value in changes.items()})
        path.write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
        self.reseal()

    def describe(self, is_consistent: bool = True, **changes: Any) -> None:
        """Changes the system description; `is_consistent` makes logs and claim agree with it."""
        system = {**json.loads(self.system_path.read_text()), **changes}
        system = {name: value for name, value in system.items() if value is not ...}
        self.system_path.write_text(json.dumps(system, indent=2))
        if is_consistent:
            for steps in self.runs:
                find(steps, "tta_system").value["digest"] = digest_of(system)
            self.write()
            self.claim(system_sha256=files.sha256_of(self.system_path))

    def judge(self) -> list[Finding]:
        result = replace(submission_result.read_result(self.folder), recomputed=self.recomputed)
        result = replace(result, receipt_faults=self.receipt_faults)
        return engine.judge(result, self.ruleset, registry.checks().values(), TODAY)


def drop(steps: list[Step], key: str, nth: int | None = None) -> None:
    """Removes the nth event of `key`, or all of them."""
    doomed = [step for step in steps if step.key == key]
    doomed = doomed if nth is None else [doomed[nth]]
    steps[:] = [step for step in steps if not any(step is other for other in doomed)]


def put(steps: list[Step], step: Step, after: str, nth: int = 0) -> None:
    """Puts `step` right after the nth event of `after`, at its time."""
    anchor = find(steps, after, nth)
    step.at_s = anchor.at_s
    place = next(place for place, other in enumerate(steps) if other is anchor)
    steps.insert(place + 1, step)


def lose(box: Box, key: str, index: int = 0, nth: int | None = None) -> None:
    """Removes the nth event of `key` in a run, or all of them, and counts again."""
    drop(box.runs[index], key, nth)
    recount(box.runs[index])


def recount(steps: list[Step]) -> None:
    """Makes `tta_end` count the present events."""
    find(steps, "tta_end").value["num_events"] = len(steps)


def agree(steps: list[Step], place: Path) -> None:
    """Makes count, ledger and throughput agree with the events, as a careful forger would."""
    recount(steps)
    log = run_log.read(fabricate.write_log(place / "forged.txt", steps))
    ledger = derive_ledger(log)
    run_s = find(steps, "run_stop").at_s - find(steps, "run_start").at_s
    find(steps, "tta_ledger").value.update({f"{phase}_s": round(s, 6) for phase, s in ledger.items()}, run_s=run_s)
    start: Step | None = None
    throughput = 0.0
    for step in steps:
        if step.key == "block_start":
            start = step
        elif step.key == "block_stop" and start is not None and step.at_s > start.at_s:
            num_samples = step.metadata["samples_count"] - start.metadata["samples_count"]
            throughput = num_samples / (step.at_s - start.at_s)
        elif step.key == "tracked_stats":
            step.value["throughput"] = throughput


def configure(steps: list[Step], **changes: Any) -> None:
    """Changes fields of the configuration, declared and resolved, with their digests and their header lines.

    With the seed, the initial weights change, too.
    """
    header = {"benchmark": "submission_benchmark", "division": "submission_division", "seed": "seed"}
    for key in ("tta_config", "tta_resolved"):
        step = find(steps, key)
        step.value = {**step.value, **changes}
        step.metadata["digest"] = digest_of(step.value)
    for name, value in {**changes, **changes.get("hyperparameters", {})}.items():
        for step in steps:
            if step.key == header.get(name, name):
                step.value = value
    for step in steps if "seed" in changes else ():
        for part in (step.value, step.metadata):
            if isinstance(part, dict) and "weights_digest" in part:
                part["weights_digest"] = fabricate.weights_digest(changes["seed"])


def hyperparameters(steps: list[Step], **changes: Any) -> None:
    """Changes hyperparameters everywhere in the log."""
    found = {**find(steps, "tta_config").value["hyperparameters"], **changes}
    configure(steps, hyperparameters={name: value for name, value in found.items() if value is not ...})


@dataclass(frozen=True)
class Found:
    """An expected finding. line: a number, or the event on it: a key, or a key and its index; in a manifest, a path."""

    code: str
    line: int | str | tuple[str, int] | None = None
    file: str = "result_0.txt"

    def at(self, box: Box) -> tuple[str, str, int | None]:
        if self.line is None or isinstance(self.line, int):
            return (self.code, self.file, self.line)
        if self.file == submission_claim.MANIFEST_NAME:
            lines = (box.folder / self.file).read_text().splitlines()
            return (self.code, self.file, 1 + [line.split("  ", 1)[1] for line in lines].index(str(self.line)))
        key, nth = (self.line, 0) if isinstance(self.line, str) else self.line
        steps = box.runs[int(self.file.removeprefix("result_").removesuffix(".txt"))]
        return (self.code, self.file, [place for place, step in enumerate(steps, 1) if step.key == key][nth])


def line_in_description(field: str) -> int:
    """The line of a field in systems/box1.json, whose first line is a brace."""
    return list(fabricate.SYSTEM).index(field) + 2


def described(field: str, code: str) -> Found:
    return Found(code, line_in_description(field), "box1.json")


def in_runs(code: str, key: str | int | tuple[str, int] | None, *indices: int) -> tuple[Found, ...]:
    return tuple(Found(code, key, f"result_{index}.txt") for index in indices)


def in_all(code: str, key: str | int | tuple[str, int] | None) -> tuple[Found, ...]:
    return in_runs(code, key, 0, 1, 2, 3, 4)


def ranks(num: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank,
            "world_size": num,
            "host": "h",
            "pid": 40 + rank,
            "device": "cpu",
            "versions": {"torch": "2.14.1"},
            **changes,
        }
        for rank in range(num)
    ]


def world(box: Box, value: Any, num_devices: Any) -> None:
    """Every run states `value` as its processes, and `num_devices` as declared."""
    for steps in box.runs:
        configure(steps, num_devices=num_devices)
        find(steps, "tta_world").value = value


def shift(box: Box, key: str, seconds: float, index: int = 0, nth: int = 0) -> None:
    """Moves the nth event of `key` and everything after it by `seconds`."""
    steps = box.runs[index]
    for step in steps[steps.index(find(steps, key, nth)) :]:
        step.at_s += seconds


def compress(box: Box, index: int, factor: float) -> None:
    """Divides all times of a run by `factor` and makes the log agree with itself."""
    for step in box.runs[index]:
        step.at_s /= factor
        if step.key == "tracked_stats":
            step.value["data_wait_s"] /= factor
    agree(box.runs[index], box.place)


def missing(index: int) -> Found:
    return Found("LOG011", file=f"result_{index}.txt")


def malformed(index: int, key: str = "tta_format") -> Found:
    return Found("LOG021", key, f"result_{index}.txt")


def shortened(box: Box, index: int, num_evaluations: int) -> None:
    """Removes the last blocks of a run with their evaluations; the last remaining evaluation has 0.95."""
    steps = box.runs[index]
    begin, stop = find(steps, "block_start", num_evaluations), find(steps, "run_stop")
    removed_s = stop.at_s - begin.at_s
    first = next(place for place, step in enumerate(steps) if step is begin)
    last = next(place for place, step in enumerate(steps) if step is stop)
    del steps[first:last]
    for step in steps[first:]:
        step.at_s -= removed_s
    last_evaluation = find(steps, "eval_accuracy", num_evaluations - 1)
    last_evaluation.value = 0.95
    stop.metadata["samples_count"] = last_evaluation.metadata["samples_count"]
    agree(steps, box.place)


def reference(samples: int, batch_size: int = 100) -> dict[str, Any]:
    """Twenty reference runs that need about `samples`: 100 less to 100 more."""
    values = tuple(samples + 100 * (index % 3 - 1) for index in range(20))
    return {"reference_convergence": (ReferenceConvergence(batch_size, values),)}


def each_rank(box: Box, change: Callable[[dict[str, Any]], object]) -> None:
    for steps in box.runs:
        for rank in find(steps, "tta_world").value:
            change(rank)


@dataclass(frozen=True)
class Case:
    """One way to damage a submission. `expected` is exactly what is found."""

    code: str
    name: str
    damage: Callable[[Box], None]
    expected: tuple[Found, ...]
    opens: Callable[..., Box]
    box: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.code}-{self.name}"

    def open(self, place: Path) -> Box:
        """What the case damages."""
        return self.opens(place, **self.box)


class Cases(list[Case]):
    """Collects cases: `@cases("LOG001", Found("LOG001", "tta_end"))` over a function that damages a box.

    With `values`, each value is a case by its name: the function takes it after the box, a tuple as several arguments.
    """

    def __init__(self, opens: Callable[..., Box] = Box) -> None:
        super().__init__()
        self.opens = opens

    def __call__(
        self, code: str, *expected: Found, values: dict[str, Any] | None = None, **box: Any
    ) -> Callable[[Damage], Damage]:
        def add(damage: Damage) -> Damage:
            for name, value in {"": ()}.items() if values is None else values.items():
                self.append(self._case(code, damage, name, value, expected, box))
            return damage

        return add

    def _case(
        self, code: str, damage: Damage, name: str, value: Any, expected: tuple[Found, ...], box: dict[str, Any]
    ) -> Case:
        arguments = value if isinstance(value, tuple) else (value,)
        names = [damage.__name__, name] if name else [damage.__name__]
        return Case(code, "_".join(names), lambda opened: damage(opened.shown, *arguments), expected, self.opens, box)


def findings_of(case: Case, place: Path) -> tuple[list[tuple[str, str, int | None]], list[tuple[str, str, int | None]]]:
    """The expected and the actual findings of a case, both sorted, as (code, file, line)."""
    box = case.open(place)
    case.damage(box)
    if not box.is_written:
        box.write()
    found = [(finding.code, Path(finding.path).name, finding.line) for finding in box.judge()]

    def order(item: tuple[str, str, int | None]) -> tuple[str, str, int]:
        return (item[0], item[1], item[2] or 0)

    return sorted((item.at(box) for item in case.expected), key=order), sorted(found, key=order)
