"""A valid result of an MLPerf round in its place, to damage: five runs of RetinaNet in round 5.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.checker import engine, parallel, registry
from harness.checker.report import text
from harness.checker.results import Rulesets
from harness.commands import check
from harness.findings import Finding
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import result as results
from harness.submission import system
from tests import mlperflog
from tests.mlperflog import Entry
from tests.powertrace import mlperf_log
from tests.rules.box import TODAY, Box

ROUND = "mlperf_training/5.1.0"
IDLE_S = 60


def round_rules(name: str = ROUND) -> RuleSet:
    """The round with all its checks, as it comes with the harness."""
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def runs(num_runs: int = 5, division: str = "closed") -> list[list[Entry]]:
    """Runs of 1,301 s, 1,311 s, ... from run_start to run_stop, each with its own seed."""
    found = []
    for index in range(num_runs):
        log = mlperflog.retinanet(division)
        mlperflog.find(log, "seed").value = 4711 + index
        for entry in log[-2:]:
            entry.at_s += 10.0 * index
        found.append(log)
    return found


class RoundBox(Box):
    """<place>/Toymaker/results/toybox/retinanet with systems/toybox.json; with `is_single`, its first log alone."""

    def __init__(
        self,
        place: Path,
        num_runs: int = 5,
        division: str = "closed",
        round_name: str = ROUND,
        power: bool = False,
        is_single: bool = False,
    ) -> None:
        self.place = place
        self.logs = runs(num_runs, division)
        self.runs = self.logs  # type: ignore[assignment]  # as far as `Found.at` looks, the same
        self.ruleset = round_rules(round_name)
        self.folder = place / "Toymaker" / "results" / "toybox" / "retinanet"
        self.description: dict[str, Any] = dict.fromkeys(system.FIELDS, "some")
        self.description.update(
            submitter="Toymaker", division=division, status="Available on-premise", number_of_nodes="1"
        )
        self.is_written = False
        self.power = power
        self.is_single = is_single

    @property
    def system_path(self) -> Path:
        return self.folder.parents[2] / "systems" / "toybox.json"

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for index, entries in enumerate(self.logs):
            mlperflog.write(self.log(index), entries)
            if self.power:
                self.put(f"power/result_{index}/node_0.txt", "")
        self.system_path.parent.mkdir(exist_ok=True)
        self.system_path.write_text(json.dumps(self.description, indent=1))
        self.is_written = True

    def put(self, name: str, text: str) -> Path:
        """Writes a file into the result's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def result(self) -> results.Result:
        if not self.is_written:
            self.write()
        return results.read_result(self.log() if self.is_single else self.folder)

    def judge(self) -> list[Finding]:
        return engine.judge(self.result(), self.ruleset, registry.checks().values(), TODAY)


class TreeBox(RoundBox):
    """Two results, judged together: the one of `RoundBox` and, on otherbox, one whose runs end a second later."""

    @property
    def other(self) -> Path:
        return self.folder.parents[1] / "otherbox" / "retinanet"

    def write(self) -> None:
        super().write()
        self.other.mkdir(parents=True)
        for index, entries in enumerate(runs()):
            entries[-2].at_s += 1.0
            mlperflog.write(self.other / f"result_{index}.txt", entries)
        self.system_path.with_name("otherbox.json").write_text(json.dumps(self.description, indent=1))

    def judge(self) -> list[Finding]:
        judge = parallel.Judge(Rulesets(self.ruleset.version, None), TODAY, text.judged)
        judged = [judge.judged(path) for path in results.find_results(self.place)]
        found = [item for item in judged if isinstance(item, text.Judged)]
        assert len(found) == len(judged)
        return [finding for item in check.together(found, judge) for finding in item.findings]


def metered(box: RoundBox) -> RoundBox:
    """Writes it with power logs, a reading a second: 600 W in a run, 200 W for IDLE_S before and after it."""
    box.write()
    for index, log in enumerate(box.logs):
        start_s, stop_s = (mlperflog.find(log, key).at_s for key in ("run_start", "run_stop"))
        length_s = round(stop_s - start_s)
        readings = [
            (mlperflog.START_MS + round(1000 * (start_s + at_s)), 600 if 0 < at_s <= length_s else 200)
            for at_s in range(-IDLE_S, length_s + IDLE_S + 1)
        ]
        mlperf_log(box.folder / "power" / f"result_{index}" / "node_0.txt", readings)
    return box
