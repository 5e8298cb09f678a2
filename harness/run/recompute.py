"""The quality of kept predictions, computed again where the data they are about are prepared.

A process of its own reads the predictions, `python -m harness.run.evaluator --again`, isolated and with limits of time
and memory: they are a submitter's files.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.base.processes import die_with_parent, isolated_python
from harness.errors import DataError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run import data_cache
from harness.run.workloads import workload_names
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, REFUSED, Recomputed, predictions_name, wrong_with
from harness.submission.result import Result

LIMIT_S = 300.0  # for all runs of a result; those of a mini suite take seconds
MAX_MEMORY_BYTES = 8 << 30  # of addresses; numpy and its libraries take about one


class Recomputation:
    """Adds to results what becomes of their kept predictions.

    cache: where data are prepared. is_same_system: this is the system of the results, with the same packages; what is
    played again then must end as in the logs.
    """

    def __init__(self, cache: Path, is_same_system: bool = False) -> None:
        self._cache, self._is_same_system = cache, is_same_system
        self._data: dict[str, data_cache.DataSet | str] = {}

    def __call__(self, result: Result, ruleset: RuleSet) -> Result:
        """Return the result with the quality of each run whose log has `tta_predictions`, or why it has none.

        A single log, and a result of a workload that this installation does not have, stay as they are.
        """
        rules = ruleset.benchmarks.get(result.benchmark or "")
        if rules is None or result.kind == "log" or rules.workload not in workload_names():
            return result
        found: dict[str, Recomputed] = {}
        waiting: list[tuple[RunLog, Path]] = []
        for log in result.runs:
            number = result.run_number(log)
            if number is None or log.first(keys.TTA_PREDICTIONS) is None or not log.all(keys.EVAL_ACCURACY):
                continue
            if log.field(keys.TTA_PREDICTIONS, "file") is None:
                found[log.path.name] = Recomputed(IMPOSSIBLE, "the predictions were not kept")
            elif wrong_with(log, number, result.files):
                continue  # QUA015 reports it
            elif why := self._missing(rules, log):
                found[log.path.name] = Recomputed(IMPOSSIBLE, why)
            else:
                waiting.append((log, result.path / predictions_name(number)))
        if waiting:
            data = self._data[rules.name]
            assert isinstance(data, data_cache.DataSet)
            answers = _evaluate(rules, data, [place for _, place in waiting])
            for (log, _), answer in zip(waiting, answers, strict=True):
                found[log.path.name] = _compared(log, answer, self._is_same_system)
        return replace(result, recomputed=found)

    def _missing(self, rules: BenchmarkRules, log: RunLog) -> str:
        """Return why the data of a log are not at hand; empty if they are."""
        if rules.name not in self._data:
            self._data[rules.name] = self._prepared(rules)
        data = self._data[rules.name]
        if isinstance(data, str):
            return data
        if log.field(keys.TTA_DATA, "digest") != data.digest:
            return f"the data of {rules.name} that are prepared here are not those of the run"
        return ""

    def _prepared(self, rules: BenchmarkRules) -> data_cache.DataSet | str:
        prepared = self._cache / rules.name / "prepared"
        if not (prepared / data_cache.LABELS_NAME).is_dir():
            return f"the data of {rules.name} are not prepared here"
        try:
            return data_cache.read(prepared, is_noted=False)
        except DataError as error:
            return str(error)


def _compared(log: RunLog, again: Recomputed, is_same_system: bool = False) -> Recomputed:
    """Return what was computed; impossible, if the log names another library, or if episodes end otherwise than in it,
    as they may on another system.
    """
    event = log.all(keys.EVAL_ACCURACY)[-1]
    logged = event.metadata.get("signature")
    if again.state == COMPUTED and again.signature != logged:
        mine, theirs = printable(again.signature, 100), printable(logged, 100)
        return Recomputed(IMPOSSIBLE, f"the metric here is {mine!r}; in the run it was {theirs!r}")
    if again.state == COMPUTED and again.is_played and not (is_same_system or again.agrees_with(event.value)):
        # An episode amplifies the last digit in which two processors differ: what is played again may end otherwise.
        there = printable(event.value, 40)
        why = f"the episodes of the kept actions, played again here, have {again.value:.6g}, the log {there}"
        return Recomputed(IMPOSSIBLE, f"{why}: nothing follows from that on another processor")
    return again


def _evaluate(rules: BenchmarkRules, data: data_cache.DataSet, places: Sequence[Path]) -> list[Recomputed]:
    """Return the quality of each file of predictions; one that ends the process keeps no other from its turn."""
    deadline = time.monotonic() + LIMIT_S
    found: list[Recomputed] = []
    while len(found) < len(places):
        answers, end = _answers(rules, data, places[len(found) :], deadline - time.monotonic())
        if not answers or not answers[0]["ok"]:
            why = answers[0]["message"] if answers else f"the evaluator {end}"
            return [*found, *[Recomputed(IMPOSSIBLE, why)] * (len(places) - len(found))]
        found += [_recomputed(answer) for answer in answers[1:]]
        if len(found) < len(places):
            state = REFUSED if end.startswith("failed") else IMPOSSIBLE
            found.append(Recomputed(state, f"the evaluator {end}"))
    return found


def _recomputed(answer: dict[str, Any]) -> Recomputed:
    if not answer["ok"] and answer["is_played"]:
        # Episodes that end otherwise here ask for more actions than were kept, or for fewer at a time.
        return Recomputed(IMPOSSIBLE, f"the kept actions do not fit the episodes as they go here: {answer['message']}")
    if not answer["ok"]:
        return Recomputed(REFUSED, answer["message"])
    if not math.isfinite(answer["value"]):
        return Recomputed(REFUSED, f"their quality is {answer['value']}")
    is_played = answer["is_played"]
    return Recomputed(COMPUTED, "", answer["value"], answer["num_examples"], answer["signature"], is_played)


def _answers(
    rules: BenchmarkRules, data: data_cache.DataSet, places: Sequence[Path], limit_s: float
) -> tuple[list[dict[str, Any]], str]:
    """Return what the process answered, one for the opening and one per file, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="tta-again-") as folder:
        command = {
            "workload": rules.workload,
            "suite": rules.suite,
            "data_dir": str(data.path.absolute()),
            "labels_dir": str(data.labels.absolute()),
            "predictions": [str(place.absolute()) for place in places],
        }
        file = Path(folder) / "command.json"
        file.write_text(json.dumps(command))
        try:
            done = subprocess.run(
                isolated_python("harness.run.evaluator", "--again", str(file)),
                cwd=folder,
                env={"PATH": os.defpath, "HOME": folder, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=max(0.0, limit_s),
                preexec_fn=_confine,
                check=False,
            )
            output, status = done.stdout, done.returncode
            end = f"failed (exit status {status})" if status >= 0 else f"was ended by signal {-status}"
        except subprocess.TimeoutExpired as error:
            output, end = error.stdout or b"", f"took longer than {LIMIT_S:.0f} s"
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")], end


def _confine() -> None:
    """Limit the memory of the process that this is called in, and end it with its parent."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
