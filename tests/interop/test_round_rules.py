"""The rounds are those of MLCommons' rule files: every key and count, and the verdicts on fabricated logs."""

from __future__ import annotations

import ast
import copy
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.mlperf.formula import Line
from harness.mlperf.model import KeyRule, LogRules
from harness.ruleset import catalog
from tests.interop.agree_logs import ACCEPT, Theirs, Tta
from tests.mlperflog import START, STOP, Entry, drop, find, put_after, round_of, write

mlp_compliance = pytest.importorskip("mlperf_logging.compliance_checker.mlp_compliance")

INSTALLED = Path(mlp_compliance.__file__).parent
VERSIONS = ("6.0.0", "6.1.0")
CASES = [
    (version, name, division)
    for version in VERSIONS
    for name, benchmark in round_of(version).benchmarks.items()
    for division in benchmark.divisions
]
OLDEST = (0, 7, 0)  # v0.6 has a parser and rules of its own, which `tta` does not have
VALUES: tuple[Any, ...] = (1, 0.5, 0.9, 0.72, 3.2, 0.0001, 16, 0, 8192, "x")


def test_every_round_of_the_installed_package_has_rules_here() -> None:
    """If this fails, mlperf-logging knows a newer round: docs/how-to/add-a-round.md says how to add it."""
    folders = (re.fullmatch(r"training_([0-9]+\.[0-9]+\.[0-9]+)", path.name) for path in INSTALLED.iterdir())
    theirs = {match.group(1) for match in folders if match is not None}
    ours = {Path(name).name for name, _ in catalog.ruleset_folders() if name.startswith("mlperf_training/")}

    assert {name for name in theirs if tuple(map(int, name.split("."))) >= OLDEST} - ours == set()


def their_rules(version: str, division: str, benchmark: str) -> dict[str, str]:
    """What their rule files require of each key of a log; a later file replaces what an earlier one says."""
    found: dict[str, str] = {}
    for name in ("common", f"{division}_common", f"{division}_{benchmark}"):
        text = (INSTALLED / f"training_{version}" / f"{name}.yaml").read_text()
        for rule in yaml.load(text, Loader=yaml.BaseLoader):
            if "KEY" in rule:
                found[rule["KEY"]["NAME"]] = rule["KEY"].get("REQ", "OPTIONAL")
    return found


def required(rules: LogRules, rule: KeyRule) -> str:
    """The same in their words."""
    others = [key for group in rules.either for key in group if rule.key in group and key != rule.key]
    if rule.count.at_least == 0 and others:
        return f"AT_LEAST_ONE_OR({others[0]})"
    return {(0, None): "OPTIONAL", (1, None): "AT_LEAST_ONE", (1, 1): "EXACTLY_ONE"}[
        (rule.count.at_least, rule.count.at_most)
    ]


@pytest.mark.parametrize(("version", "benchmark", "division"), CASES)
def test_every_key_and_count_is_theirs(version: str, benchmark: str, division: str) -> None:
    """No key more, none less."""
    rules = round_of(version).benchmarks[benchmark].divisions[division]

    assert {key: required(rules, rule) for key, rule in rules.keys.items()} == their_rules(version, division, benchmark)


class Builder:
    """A sound log of a benchmark: for each key the first of some values that meets its constraints."""

    def __init__(self, version: str, benchmark: str, division: str, batch_size: int) -> None:
        self.benchmark = round_of(version).benchmarks[benchmark]
        self.rules = self.benchmark.divisions[division]
        self.earlier: dict[str, Any] = {
            "submission_benchmark": benchmark,
            "submission_org": "Toymaker",
            "submission_division": division,
            "submission_status": "onprem",
            "submission_platform": "toybox",
            "global_batch_size": batch_size,
            "num_prompts_per_step": batch_size // 16,
        }
        self.log: list[Entry] = []

    def build(self) -> list[Entry]:
        self.put(0.0, "cache_clear", True)
        self.put(1.0, "init_start", None, START)
        special = {"cache_clear", *(key for key in self.rules.keys if key.startswith(("init_st", "run_st")))}
        special |= {key for key in self.rules.keys if key.startswith(("block_", "epoch_", "eval_st"))}
        special |= {rule.key for rule in self.rules.keys.values() if rule.target is not None} | {"eval_accuracy"}
        waiting = [rule for rule in self.rules.keys.values() if rule.key not in special and rule.count.at_least]
        while waiting:
            rule = next(rule for rule in waiting if self.names(rule).isdisjoint(other.key for other in waiting))
            waiting.remove(rule)
            self.earlier[rule.key] = self.earlier.get(rule.key, self.value(rule))
            self.put(2.0, rule.key, self.earlier[rule.key])
        self.put(60.0, "init_stop", None, STOP)
        self.put(61.0, "run_start", None, START)
        now, samples = 61.0, self.samples()
        for at, following in pairwise(samples):
            self.put(now, "block_start", None, START, samples_count=following - at)
            now += 600.0
            self.put(now, "block_stop", None, STOP, samples_count=following)
            self.put(now, "eval_start", None, START, samples_count=following)
            for key in special & self.rules.keys.keys():
                rule = self.rules.keys[key]
                if key == "eval_accuracy" or rule.target is not None:
                    self.put(
                        now, key, self.quality(rule, following == samples[-1]), samples_count=following, epoch_num=1
                    )
            self.put(now, "eval_stop", None, STOP, samples_count=following)
        self.put(now + 1.0, "run_stop", None, STOP, status="success")
        return self.log

    def put(self, at_s: float, key: str, value: Any = None, event_type: str = "POINT_IN_TIME", **metadata: Any) -> None:
        self.log.append(Entry(at_s, key, value, event_type, metadata))

    @staticmethod
    def names(rule: KeyRule) -> set[str]:
        return {*rule.after}.union(*(formula.names for formula in (*rule.each, *rule.first)))

    def value(self, rule: KeyRule) -> Any:
        """A value for the header, in the log of which each key is there once."""
        texts = [formula.text for formula in (*rule.each, *rule.first)]
        values = [*map(self.computed, texts), *(value for text in texts for value in literals(text)), *VALUES]
        return next(value for value in values if self.meets(rule, Line(value, {}, self.earlier)))

    def computed(self, text: str) -> Any:
        """What `value` equals, or is close to, or is between."""
        text = re.sub(r"^abs\(value - (.*)\) < 1e-9$", r"\1", text).removeprefix("value == ").split(" <= value")[0]
        text = text if not text.startswith("value * 1152 == ") else f"({text.removeprefix('value * 1152 == ')}) / 1152"
        names = {"ceil": lambda number: -int(-number // 1), "__builtins__": {}, **self.earlier}
        try:
            return eval(text, names)
        except (NameError, SyntaxError, TypeError):
            return None

    @staticmethod
    def meets(rule: KeyRule, line: Line) -> bool:
        return all(formula.holds(line) for formula in (*rule.each, *rule.first))

    def samples(self) -> list[int]:
        """0 and the places of three evaluations: each the first multiple of the batch that may be one."""
        places, previous, rule = [0], {}, self.rules.keys["eval_accuracy"]
        batch_size = self.earlier["global_batch_size"]
        for _ in range(3):
            rule = rule if len(places) == 1 else replace(rule, first=())
            for samples in range(places[-1] + batch_size, 1 << 31, batch_size):
                fields = {"samples_count": samples, "epoch_num": 1}
                if any(self.meets(rule, Line(value, fields, self.earlier, previous)) for value in VALUES):
                    break
            places.append(samples)
            previous = fields
        return places

    def quality(self, rule: KeyRule, is_last: bool) -> Any:
        """One that meets the target in the last evaluation, and none before."""
        bounds = [formula for formula in rule.each if formula.names | formula.present == set()]
        bounds = [formula for formula in bounds if "samples_count" not in formula.text]
        lines = [Line(value, {"samples_count": 1}, self.earlier) for value in VALUES if not isinstance(value, str)]
        return next(
            line.value
            for line in lines
            if all(bound.holds(line) for bound in bounds)
            and (rule.target is None or rule.target.holds(line) == is_last)
        )


def literals(text: str) -> list[Any]:
    """The numbers and texts in a constraint."""
    return [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]


def edits(log: list[Entry], rules: LogRules) -> Iterator[tuple[str, list[Entry]]]:
    """The log without each key, with each key twice, with other values, and with each evaluation elsewhere."""
    # A text as the quality ends their program, see docs/reports/mlperf-agreement.md.
    evaluated = {rule.key for rule in rules.keys.values() if rule.target is not None}
    for key in rules.keys:
        if not (lines := [entry for entry in log if entry.key == key]):
            continue
        without = copy.deepcopy(log)
        drop(without, key)
        yield f"{key}: absent", without
        twice = copy.deepcopy(log)
        again = copy.deepcopy(find(twice, key))
        again.value = 7 if key in evaluated else "another"
        put_after(twice, find(twice, key), again)
        yield f"{key}: twice", twice
        values: list[Any] = [7] if key in evaluated else ["other"]
        if rules.keys[key].each or rules.keys[key].first:
            values += [0, -1, 1.5] if key in evaluated else ["", 0, -1, 1.5]
        if len(values) > 1 and isinstance(value := lines[0].value, int | float):
            values += [value * 1.01, value * 0.99, value + 1, value * 2, value / 2]
        for value in values:
            other = copy.deepcopy(log)
            find(other, key).value = value
            yield f"{key}: {value!r}", other
    for rule in rules.keys.values():
        for value in literals(rule.target.text) if rule.target is not None else ():
            for bound in (value, value + 1e-6, value - 1e-6):
                other = copy.deepcopy(log)
                find(other, rule.key, -1).value = bound
                yield f"the last {rule.key}: {bound!r}", other
    evaluations = [place for place, entry in enumerate(log) if entry.key == "eval_accuracy"]
    for place in evaluations:
        for moved in (-1, 1, 1000):
            elsewhere = copy.deepcopy(log)
            elsewhere[place].metadata["samples_count"] += moved
            yield f"evaluation in line {place} moved by {moved}", elsewhere
        bare = copy.deepcopy(log)
        bare[place].metadata = {"epoch_num": 1}
        yield f"evaluation in line {place} by epochs", bare


@pytest.mark.parametrize(("version", "benchmark", "division"), CASES)
def test_both_agree_on_fabricated_logs(version: str, benchmark: str, division: str, tmp_path: Path) -> None:
    """A sound log at each batch size of the reference, and edits of the smallest one: both accept a log, or neither."""
    theirs, ours = Theirs(version), Tta(version)
    found = round_of(version).benchmarks[benchmark]
    sizes = sorted({reference.global_batch_size for reference in found.convergence}, reverse=True)
    path = tmp_path / "result_0.txt"
    differing = []
    logging.disable(logging.CRITICAL)
    try:
        for size in sizes:
            log = Builder(version, benchmark, division, size).build()
            write(path, log)
            assert theirs.opinion(path).verdict == ACCEPT, theirs.opinion(path).reasons
            assert ours.opinion(path)[0].verdict == ACCEPT, ours.opinion(path)[0].reasons
        for name, edited in edits(log, found.divisions[division]):
            write(path, edited)
            their, our = theirs.opinion(path), ours.opinion(path)[0]
            if (their.verdict == ACCEPT) != (our.verdict == ACCEPT):
                differing.append((name, their, our.reasons))
    finally:
        logging.disable(logging.NOTSET)

    assert differing == []
