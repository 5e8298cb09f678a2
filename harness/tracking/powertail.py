"""Follows the power logs of one run while they grow, and reads them whole once it is over.

A folder that is not there, or a log that cannot be read, costs the mirror its watts and nothing else.
"""

from __future__ import annotations

import contextlib
import stat
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from harness.cost.price_book import PriceBooks
from harness.energy.from_logs import energy_of
from harness.energy.run_energy import EnergyLimits, RunEnergy
from harness.errors import InputError, LogError
from harness.log import power_files as log_power_files
from harness.log import power_log, run_log
from harness.log.power_files import IDLE_FOLDER, POWER_FOLDER
from harness.log.tail import Tail
from harness.submission.billing import BILLING_NAME, bill_of
from harness.submission.result import read_result
from harness.tracking.power_record import PowerPicture
from harness.tracking.record import RunPicture

MAX_LOGS = 1_024


@dataclass(slots=True)
class PowerFollowing:
    """The power logs of the run whose log is `log`, and how far they were read."""

    log: Path
    _tails: dict[str, Tail] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    _picture: PowerPicture = field(default_factory=PowerPicture)

    def read(self, picture: RunPicture) -> None:
        """Takes in what is new and adds the seconds that are complete to `picture`."""
        if picture.clock is None:
            return  # nothing can be laid over the run yet
        for path in _logs(self.log.parent / POWER_FOLDER / self.log.stem):
            self._tails.setdefault(path.stem, Tail(path))
        for name, tail in self._tails.items():
            if name in self._lost:
                continue
            try:
                for event in tail.events():
                    self._picture.take(name, event, picture)
            except LogError:
                self._lost.add(name)
        self._picture.tell(picture, is_last=False)

    def finish(self, picture: RunPicture) -> None:
        """Adds what is left: no more lines will come."""
        self.read(picture)
        self._picture.tell(picture, is_last=True)


def energy_beside(log: Path, limits: EnergyLimits | None) -> RunEnergy | None:
    """The energy of a run by the power logs beside its log; None where there are none, or the log cannot be read."""
    if not _logs(log.parent / POWER_FOLDER / log.stem):
        return None
    try:
        return energy_of(log_power_files.with_power(run_log.read(log), idle=()), limits or EnergyLimits())
    except LogError:
        return None


def billed_beside(log: Path, prices: PriceBooks | None) -> Decimal | None:
    """What the whole result is declared to have taken, at list prices; None where nothing is, or cannot be read."""
    if not (log.parent / BILLING_NAME).is_file():
        return None
    try:
        bill = bill_of(read_result(log.parent), prices)
    except (InputError, OSError):
        return None
    return None if bill is None else bill.usd


def power_files(log: Path) -> dict[str, Path]:
    """The power logs of the run and of the idle baseline, by the names of the tags with their SHA-256."""
    power = log.parent / POWER_FOLDER
    files = {f"tta.power/{path.stem}_sha256": path for path in _logs(power / log.stem)}
    return files | {f"tta.power/idle/{path.stem}_sha256": path for path in _logs(power / IDLE_FOLDER)}


def _logs(folder: Path) -> list[Path]:
    """The power logs in a folder; none where it is none, or it or the one above it is a link."""
    with contextlib.suppress(OSError):
        if all(stat.S_ISDIR(place.lstat().st_mode) for place in (folder.parent, folder)):
            paths = [folder / name for name in power_log.log_names(entry.name for entry in folder.iterdir())[:MAX_LOGS]]
            return [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return []
