"""A valid log of one of MLPerf's rounds to damage; the cases are of the same kind as those of `box`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from harness.checker import engine, registry
from harness.findings import Finding
from harness.mlperf.formula import Line
from harness.mlperf.model import KeyRule
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import result
from tests import mlperflog
from tests.mlperflog import Entry, drop, find, put_after
from tests.rules.box import TODAY, Box

ROUND = "mlperf_training/5.1.0"
ROUND_4_0 = "mlperf_training/4.0.0"
ROUND_2_0 = "mlperf_training/2.0.0"


@cache
def ruleset(name: str = ROUND) -> RuleSet:
    """The round with its checks of single logs, as it comes with the harness."""
    rules = load.load_ruleset(catalog.ruleset_folder(name), name)
    return dataclasses.replace(rules, codes={code: rules.codes[code] for code in rules.codes if code.startswith("MLP")})


def _has(log: list[Entry], key: str) -> bool:
    return any(entry.key == key for entry in log)


def _permitted(rule: KeyRule) -> object:
    """A value that every constraint on it permits; the constraints name it."""
    words = [word for demand in rule.each for word in re.findall(r"[\w.-]+", demand.text)]
    values = [True, *words, *(float(word) for word in words if re.fullmatch(r"[\d.]+(e-?\d+)?", word))]
    return next(value for value in values if all(demand.holds(Line(value, {"tensor": ""})) for demand in rule.each))


def of_benchmark(name: str, round_name: str, division: str) -> list[Entry]:
    """A log that has what the round requires of a benchmark, and evaluates like RetinaNet."""
    log = mlperflog.retinanet(division)
    round_ = ruleset(round_name).round
    assert round_ is not None
    benchmark = round_.benchmarks[name]
    find(log, "submission_benchmark").value = name
    anchor = find(log, "seed")
    for key, rule in benchmark.divisions[division].keys.items():
        if benchmark.join is not None and key == benchmark.join.into:
            continue  # no log has it: it is made of others
        if key.startswith(("opt_", "data_", "model_", "weights_", "eval_samples")) or (
            rule.count.at_least and not _has(log, key)
        ):
            drop(log, key)
            for tensor in rule.lists[1] if rule.lists is not None else [""] * rule.count.at_least:
                metadata = {"tensor": tensor} if tensor else {}
                put_after(log, anchor, Entry(2.0, key, _permitted(rule), metadata=metadata))
    return log


class MlperfBox(Box):
    """One log, `result_0.txt`, of RetinaNet; or `make(division)` of another round."""

    def __init__(
        self,
        place: Path,
        make: Callable[[str], list[Entry]] = mlperflog.retinanet,
        division: str = "closed",
        round_name: str = ROUND,
    ) -> None:
        self.place = place
        self.entries = make(division)
        self.runs = [self.entries]  # type: ignore[list-item]  # as far as `Found.at` looks, the same
        self.ruleset = ruleset(round_name)
        self.is_written = False

    @property
    def shown(self) -> list[Entry]:
        return self.entries

    def log(self, index: int = 0) -> Path:
        return self.place / f"result_{index}.txt"

    def write(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        mlperflog.write(self.log(), self.entries)
        self.is_written = True

    def judge(self) -> list[Finding]:
        return engine.judge(result.read_result(self.log()), self.ruleset, registry.checks().values(), TODAY)
