"""Follows logs while they grow and writes what they contain to an MLflow store.

The mirror process of `tta run` and `tta sync` share this code: one calls it until the runs are over, the other once.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.base.files import small_file
from harness.base.values import mapping_or_empty
from harness.cost.price_book import PriceBook
from harness.errors import InputError, LogError, OutputError, RulesError
from harness.log.keys import PRICES_FIELD
from harness.log.tail import Tail
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import RESULT_PATTERN
from harness.tracking.power_record import PowerFollower, billed_usd, power_files, read_energy
from harness.tracking.record import COST_BILLED, COST_LIST, ENERGY, MlflowRun, add_billed, add_cost, add_energy

if TYPE_CHECKING:
    from harness.tracking.store import Store, StoredRun

MAX_REFUSALS = 3  # by a store that answers other requests; then the run is at fault


@cache
def ruleset_called(name: str) -> RuleSet | None:
    """Return the ruleset of that name in the harness; None if there is none or it cannot be read."""
    folder = dict(catalog.ruleset_folders()).get(name)  # by name only: a log must not choose a folder
    try:
        return None if folder is None else load.load_ruleset(folder, name)
    except RulesError:
        return None  # `tta check` reports it; a curve without its target is still a curve


def _prices(record: MlflowRun) -> PriceBook | None:
    """Return the price book that the log names; if it names none, the first of its ruleset."""
    ruleset, digest = ruleset_called(record.ruleset), record.tags.get(f"tta.{PRICES_FIELD}")
    if ruleset is None or ruleset.prices is None:
        return None
    return ruleset.prices.first if digest is None else ruleset.prices.named(digest)


def rules_of(ruleset: str, benchmark: str) -> BenchmarkRules | None:
    """Return the rules of a benchmark under a ruleset in the harness; None if there are none."""
    found = ruleset_called(ruleset)
    return None if found is None else found.benchmarks.get(benchmark)


@dataclass(frozen=True, slots=True)
class Report:
    """What was added to the store for one log. why_not: why the log is not in the store; None if it is."""

    log: Path
    run: str
    is_new: bool = False
    params: int = 0
    metrics: int = 0
    artifacts: int = 0
    why_not: str | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.is_new or self.params or self.metrics or self.artifacts)


@dataclass(slots=True)
class _Followed:
    """One log, and how much of it is in the store."""

    tail: Tail
    record: MlflowRun
    power: PowerFollower
    stored: StoredRun | None = None
    is_done: bool = False
    is_totalled: bool = False
    num_refusals: int = 0

    @property
    def has_news(self) -> bool:
        """Whether there is something to send now."""
        return (
            not self.is_done
            and self.record.is_configured
            and (
                self.stored is None
                or self.record.is_closed
                or self.stored.num_points < len(self.record.points)
                or len(self.stored.params) < len(self.record.params)
            )
        )


@dataclass(slots=True)
class Follower:
    """Follows the logs that `logs` returns.

    system: path of the system description. open_store: called until it succeeds once.
    """

    logs: Callable[[], Iterable[Path]]
    system: Path | None
    open_store: Callable[[], Store]
    verdict: str | None = None
    reports: list[Report] = field(default_factory=list)
    _followed: dict[Path, _Followed] = field(default_factory=dict)
    _store: Store | None = None

    def read(self) -> None:
        """Read what the logs have gained since the last call; without news this costs one `stat` per file."""
        for path in self.logs():
            if path not in self._followed:
                self._followed[path] = _Followed(Tail(path), MlflowRun(rules_of), PowerFollower(path))
        for followed in self._followed.values():
            if followed.is_done:
                continue
            try:
                for event in followed.tail.events():
                    followed.record.take(event)
                followed.power.read(followed.record)
            except LogError as error:
                self._give_up(followed, str(error))

    def measure(self, values: Mapping[str, float], time_ms: int) -> None:
        """Add what was measured of the machine to the runs that are going on."""
        for followed in self._followed.values():
            followed.record.measured(values, time_ms)

    @property
    def is_complete(self) -> bool:
        """Whether every log that was found is in the store."""
        return self.is_finished and not any(report.why_not for report in self.reports)

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to try."""
        return all(followed.is_done for followed in self._followed.values())

    @property
    def has_news(self) -> bool:
        """Whether `send` has something to do."""
        return any(followed.has_news for followed in self._followed.values())

    def open(self) -> None:
        """Open the store, once.

        Raises:
            OutputError: it cannot be reached. MissingDependencyError: mlflow is not installed.
        """
        if self._store is None:
            self._store = self.open_store()

    def send(self, is_last: bool) -> None:
        """Send what is new to the store; with `is_last`, also close the runs whose logs have no end.

        Raises:
            OutputError: the store cannot be reached, or refused one of the runs; the others were sent.
                Nothing is lost: the next call continues where this one failed.
        """
        self.open()
        assert self._store is not None
        refused: OutputError | None = None
        for followed in self._followed.values():
            if followed.has_news or (is_last and not followed.is_done):
                try:
                    self._send(followed, is_last)
                except OutputError as error:
                    self._store.ping()  # raises if the store is down: the other runs need not wait for it as well
                    refused = error
                    followed.num_refusals += 1
                    if followed.num_refusals == MAX_REFUSALS:
                        self._give_up(followed, str(error))
        if refused is not None:
            raise refused

    def _send(self, followed: _Followed, is_last: bool) -> None:
        assert self._store is not None
        record, path = followed.record, followed.tail.path
        if not record.is_placed:
            if is_last:
                self._give_up(followed, f"{path}: does not identify its run (`tta_format`, benchmark, division)")
            return
        try:
            if followed.stored is None:
                followed.stored = self._store.open_run(record, path)
            stored, is_over = followed.stored, is_last or record.is_closed
            if is_over and not followed.is_totalled:
                followed.is_totalled = True
                self._total(followed, {point.name for point in stored.points})
            added = self._store.add(record, stored, self._files(path) if is_over else None)
            self._store.draw_target(record)
            if is_over and self.verdict is not None:
                self._store.tag(stored, "tta.verdict", self.verdict)
        except LogError as error:
            self._give_up(followed, str(error))
        except OutputError:
            followed.stored = None  # what has arrived is unknown: query it again
            raise
        else:
            if is_over:
                followed.is_done = True
                self.reports.append(
                    Report(path, record.name, stored.is_new, added.params, added.metrics, added.artifacts)
                )

    def _total(self, followed: _Followed, known: set[str]) -> None:
        """Add the totals that are not in the log. Those in the store (`known`) stay: prices may have changed since."""
        record, path = followed.record, followed.tail.path
        ruleset = ruleset_called(record.ruleset)
        followed.power.finish(record)
        if ENERGY not in known:
            energy = read_energy(path, None if ruleset is None else ruleset.energy)
            if energy is not None:
                add_energy(record, energy)
        book = _prices(record)
        if COST_LIST not in known and book is not None and self.system is not None and record.seconds is not None:
            with contextlib.suppress(InputError, ValueError, RecursionError):  # `tta check` reports what is wrong
                cost = book.cost(mapping_or_empty(json.loads(small_file(self.system))), record.seconds)
                if cost is not None:
                    add_cost(record, cost)
        if COST_BILLED not in known and ruleset is not None:
            add_billed(record, billed_usd(path, ruleset.prices))

    def _files(self, log: Path) -> dict[str, Path]:
        files = {"tta.log_sha256": log, **power_files(log)}
        if self.system is not None and self.system.is_file() and not self.system.is_symlink():
            files["tta.system_sha256"] = self.system
        return files

    def _give_up(self, followed: _Followed, why: str) -> None:
        followed.is_done = True
        self.reports.append(Report(followed.tail.path, followed.record.name, why_not=why))


def logs_in(folder: Path) -> Sequence[Path]:
    """Return the logs in `folder` by number; empty while the folder does not exist."""
    try:
        with os.scandir(folder) as entries:
            names = [match for entry in entries if (match := RESULT_PATTERN.fullmatch(entry.name))]
    except OSError:
        return []
    return [folder / match.group(0) for match in sorted(names, key=lambda match: int(match.group(1)))]
