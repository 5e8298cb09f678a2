"""What MLflow should have of a run's power: watts by the second while the power logs grow, then the totals.

A second is added once every node has readings beyond it, and never changes afterwards: the same logs give the same
points, however often and in however many pieces they are read. The step is whole seconds of the referee's clock.
`harness.energy.meter_selection` selects the meters to add up, from what a node declares; the totals are those of
`harness.energy.from_logs`. A folder that is missing, or a log that cannot be read, costs the mirror its watts only.
"""

from __future__ import annotations

import contextlib
import math
import stat
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from harness.base.values import finite_number, is_whole, mapping_or_empty, storable_int
from harness.cost.price_book import PriceBooks
from harness.energy.from_logs import energy_of
from harness.energy.integral import MeterIntegral
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import choose
from harness.energy.run_energy import RunEnergy
from harness.errors import InputError, LogError
from harness.log import power_files as log_power_files
from harness.log import power_format, power_log, run_log
from harness.log.events import Event
from harness.log.keys import POWER_READING
from harness.log.power_files import IDLE_FOLDER, POWER_FOLDER
from harness.log.power_format import MeterSpec, NodePower
from harness.log.tail import Tail
from harness.scoring.cost import bill_of
from harness.submission.layout import BILLING_NAME
from harness.submission.result import read_result
from harness.tracking.record import MlflowRun, Point
from harness.tracking.sanitize import word

WATTS = "power/watts"
MAX_NODE_METRICS = 16  # nodes with a curve of their own in addition to the sum
MAX_METERS = 1_000
MAX_LOGS = 1_024
MAX_GAP_S = 5.0  # two readings further apart are not connected
LATE_S = 30  # a node that is further behind the others is not waited for
# Every second has a point up to the first limit, every tenth up to the second, then every hundredth: at most 10,000
# points in about five days.
_FINE_S, _COARSE_S = 5_000, 50_000
_MLPERF = "mlperf:node"


@dataclass(slots=True)
class _Series:
    """One meter: its last good reading, and the joules and covered seconds in each second of the run."""

    last_s: float | None = None
    last: float = 0.0
    area: dict[int, float] = field(default_factory=dict)
    covered: dict[int, float] = field(default_factory=dict)

    def add(self, at_s: float, value: float, *, is_counter: bool) -> None:
        before_s, before, self.last_s, self.last = self.last_s, self.last, at_s, value
        if before_s is None or at_s <= before_s or at_s - before_s > MAX_GAP_S:
            return
        if is_counter:
            if value < before:
                return  # it wrapped or restarted: part of a second is lost
            before = value = (value - before) / (at_s - before_s)
        slope = (value - before) / (at_s - before_s)
        for second in range(math.floor(before_s), math.floor(at_s) + 1):
            left_s, right_s = max(before_s, second), min(at_s, second + 1)
            if right_s > left_s:
                mean_w = before + slope * ((left_s + right_s) / 2 - before_s)
                self.area[second] = self.area.get(second, 0.0) + mean_w * (right_s - left_s)
                self.covered[second] = self.covered.get(second, 0.0) + right_s - left_s

    def watts(self, second: int) -> float | None:
        """Return the mean of one second and discard it; None if less than half of the second is covered."""
        area, covered = self.area.pop(second, 0.0), self.covered.pop(second, 0.0)
        return area / covered if covered >= 0.5 else None


@dataclass(slots=True)
class _Node:
    specs: dict[str, MeterSpec] = field(default_factory=dict)
    offset_ns: int | None = None
    chosen: dict[str, _Series] | None = None

    @property
    def last_s(self) -> float | None:
        """The second up to which every meter has readings; None while one has none."""
        times = [series.last_s for series in (self.chosen or {}).values()]
        known = [at_s for at_s in times if at_s is not None]
        return min(known) if known and len(known) == len(times) else None


@dataclass(slots=True)
class PowerRecord:
    """The readings of one run's power logs that are not yet in the run's record."""

    _nodes: dict[str, _Node] = field(default_factory=dict)
    _next_second: int | None = None

    def take(self, name: str, event: Event, record: MlflowRun) -> None:
        """Add one line of the power log `name`. Invalid lines are skipped: checks report them."""
        node = self._nodes.setdefault(name, _Node())
        if event.key == power_format.METER:
            try:
                spec = power_format.spec_of(event.value)
            except ValueError:
                return
            if node.chosen is None and len(node.specs) < MAX_METERS:
                node.specs.setdefault(spec.id, spec)
        elif event.key == power_format.CLOCK_OFFSET and node.offset_ns is None:
            offset_ns = mapping_or_empty(event.value).get("offset_ns")
            if isinstance(offset_ns, int) and abs(offset_ns) < 1 << 63:
                node.offset_ns = offset_ns
        elif event.key in (POWER_READING, power_format.ENERGY_COUNTER):
            self._reading(node, event, record)

    def _reading(self, node: _Node, event: Event, record: MlflowRun) -> None:
        meter, value = event.metadata.get("meter", _MLPERF), finite_number(event.value)
        if node.chosen is None:
            node.chosen = {name: _Series() for name in _chosen(node.specs)} or {_MLPERF: _Series()}
        series = node.chosen.get(meter) if isinstance(meter, str) else None
        at_s = _seconds(event, node, record)
        if series is not None and value is not None and value >= 0 and at_s is not None:
            series.add(at_s, value, is_counter=event.key == power_format.ENERGY_COUNTER)

    def add_seconds(self, record: MlflowRun, *, is_last: bool) -> None:
        """Add the complete seconds to `record`; all seconds if `is_last`."""
        nodes = {name: node for name, node in sorted(self._nodes.items()) if node.chosen is not None}
        ends = {name: end for name, node in nodes.items() if (end := node.last_s) is not None}
        if not ends or record.clock is None or not (record.is_initialised or is_last):
            return  # before `init_start`, some node may not have started its log
        newest = max(ends.values())
        slowest = newest if is_last else min([newest, *(ends.get(name, -math.inf) for name in nodes)])
        until = math.floor(newest) + 1 if is_last else max(math.floor(slowest), math.floor(newest) - LATE_S)
        if self._next_second is None:
            first = [min(s.area) for node in nodes.values() for s in (node.chosen or {}).values() if s.area]
            self._next_second = min(first, default=until)
        # Only seconds with readings: the clock of a log may be years ahead.
        read = {second for node in nodes.values() for series in (node.chosen or {}).values() for second in series.area}
        for second in sorted(second for second in read if self._next_second <= second < until):
            self._second(second, nodes, record)
        self._next_second = max(self._next_second, until)

    def _second(self, second: int, nodes: dict[str, _Node], record: MlflowRun) -> None:
        assert record.clock is not None
        by_node: dict[str, float | None] = {}
        for name, node in nodes.items():
            watts = [series.watts(second) for series in (node.chosen or {}).values()]
            has_all = None not in watts
            by_node[name] = math.fsum(item for item in watts if item is not None) if has_all else None
        if second < 0 or (second >= _FINE_S and second % (10 if second < _COARSE_S else 100)):
            return
        time_ms = storable_int(record.clock.wall_ms + 1000 * second + 500)
        if time_ms is None:
            return
        known = {name: watts for name, watts in by_node.items() if watts is not None}
        if len(known) == len(by_node):
            record.points.append(Point(WATTS, round(math.fsum(known.values()), 3), time_ms, second))
        if 1 < len(by_node) <= MAX_NODE_METRICS:
            for name, power_w in known.items():
                record.points.append(Point(f"{WATTS}_{word(name)}", round(power_w, 3), time_ms, second))


def _seconds(event: Event, node: _Node, record: MlflowRun) -> float | None:
    """Return the seconds on the referee's clock; None if the run's log does not have its zero yet."""
    if record.clock is None:
        return None
    mono_ns = event.metadata.get("mono_ns")
    if mono_ns is None:
        at_ms = finite_number(event.time_ms)
        return None if at_ms is None else (at_ms - record.clock.wall_ms) / 1e3
    if not is_whole(mono_ns):
        return None
    at_s = (mono_ns - (node.offset_ns or 0) - record.clock.mono_ns) / 1e9
    return at_s if abs(at_s) < 1e8 else None


def _chosen(specs: dict[str, MeterSpec]) -> tuple[str, ...]:
    """Return the meters of a node that are added up, provided that each yields joules."""
    seen = MeterIntegral(1.0, 1.0, None, 1.0, 0.0, None, 0)
    node = NodePower("node_0", Path(), None, specs, {})
    return choose(node, dict.fromkeys(specs, seen)).chosen


@dataclass(slots=True)
class PowerFollower:
    """The power logs of the run whose log is `log`, and how far they were read."""

    log: Path
    _tails: dict[str, Tail] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    _record: PowerRecord = field(default_factory=PowerRecord)

    def read(self, record: MlflowRun) -> None:
        """Read what is new and add the complete seconds to `record`."""
        if record.clock is None:
            return  # readings have no time on the referee's clock yet
        for path in _logs(self.log.parent / POWER_FOLDER / self.log.stem):
            self._tails.setdefault(path.stem, Tail(path))
        for name, tail in self._tails.items():
            if name in self._lost:
                continue
            try:
                for event in tail.events():
                    self._record.take(name, event, record)
            except LogError:
                self._lost.add(name)
        self._record.add_seconds(record, is_last=False)

    def finish(self, record: MlflowRun) -> None:
        """Add the rest: the logs are complete."""
        self.read(record)
        self._record.add_seconds(record, is_last=True)


def read_energy(log: Path, limits: EnergyLimits | None) -> RunEnergy | None:
    """Return the energy of a run from the power logs next to its log; None without any, or if a log cannot be read."""
    if not _logs(log.parent / POWER_FOLDER / log.stem):
        return None
    try:
        return energy_of(log_power_files.with_power(run_log.read(log), idle=()), limits or EnergyLimits())
    except LogError:
        return None


def billed_usd(log: Path, prices: PriceBooks | None) -> Decimal | None:
    """Return the cost at list prices of the usage that the whole result declares; None without a valid declaration."""
    if not (log.parent / BILLING_NAME).is_file():
        return None
    try:
        bill = bill_of(read_result(log.parent), prices)
    except (InputError, OSError):
        return None
    return None if bill is None else bill.usd


def power_files(log: Path) -> dict[str, Path]:
    """Return the power logs of the run and of the idle baseline, by the name of the tag with their SHA-256."""
    power = log.parent / POWER_FOLDER
    files = {f"tta.power/{path.stem}_sha256": path for path in _logs(power / log.stem)}
    return files | {f"tta.power/idle/{path.stem}_sha256": path for path in _logs(power / IDLE_FOLDER)}


def _logs(folder: Path) -> list[Path]:
    """Return the power logs in a folder; empty if it is not a folder, or it or its parent is a link."""
    with contextlib.suppress(OSError):
        if all(stat.S_ISDIR(place.lstat().st_mode) for place in (folder.parent, folder)):
            paths = [folder / name for name in power_log.log_names(entry.name for entry in folder.iterdir())[:MAX_LOGS]]
            return [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return []
