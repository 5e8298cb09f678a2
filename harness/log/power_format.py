"""What a meter is, what it says, and what a node's power log holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

# node: the whole of it; two such meters are two views of one thing. pdu: an outlet; a node's outlets add up.
# psys, core and uncore overlap with packages and cooling is not the machine: they are logged and never summed.
Component = Literal["node", "pdu", "gpu", "cpu_package", "dram", "switch", "cooling", "psys", "core", "uncore"]
# unstated: a log of MLPerf's that has no conversion_eff does not say on which side of the power supply it was read.
Scope = Literal["ac", "dc", "module", "board", "package", "model", "unstated"]
# A external calibrated meter, B the node's own sensor (BMC, power supply, PDU outlet), C a component's energy counter,
# D a component's sampled power, E modelled, N none.
MeterClass = Literal["A", "B", "C", "D", "E", "N"]
Kind = Literal["power_w", "energy_j"]
Dialect = Literal["tta", "mlperf"]


# An agent shows the referee that it was sent by the same person: both have this in their environment.
TOKEN_VARIABLE = "TTA_POWER_TOKEN"  # noqa: S105  (the variable's name)


@dataclass(frozen=True, slots=True)
class MeterSpec:
    """One thing that is metered, and how.

    id: unique on its node, for example "powercap:intel-rapl:0" or "nvml:GPU-5f1c…:energy".
    kind: watts at (or averaged up to) an instant, or a counter of joules that only grows but for wraps and resets.
    device: the hardware's own identity, by which double counting is found; None if it has none. Unique in its machine
        ("package-0"), and in the world for nodes, outlets, switches and what begins with "GPU-" or "MIG-".
    accuracy_pct: half width of the maker's or calibration's 95 % interval, per cent of reading; None is undeclared.
    period_s: time between two readings as planned.
    averaging_s: the time over which the meter itself averages; 0 for an instantaneous value or a counter.
    wrap_at_j: where a counter begins at zero again; None if it does not, or if that cannot be known.
    max_power_w: what the device cannot exceed, by which wraps are told from resets; None: a generous bound is taken.
    source: what is read, for a person: a path, a command, a library with its version.
    """

    id: str
    component: Component
    scope: Scope
    meter_class: MeterClass
    kind: Kind
    period_s: float
    source: str
    device: str | None = None
    accuracy_pct: float | None = None
    averaging_s: float = 0.0
    wrap_at_j: float | None = None
    max_power_w: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading. mono_ns: monotonic time of its node. value: watts or joules, as the meter's kind says; None: the
    read failed."""

    mono_ns: int
    value: float | None


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A node's clock against the referee's, by a round trip: node minus referee at `mono_ns` of the node.

    round_trip_ns: how long question and answer took together; half of it bounds the error.
    """

    mono_ns: int
    offset_ns: int
    round_trip_ns: int


@dataclass(frozen=True, slots=True)
class PowerDefect:
    """What is wrong with a line of a power log; `kind` is a short name a check can ask for."""

    kind: str
    lineno: int
    message: str


@dataclass(frozen=True, slots=True)
class NodePower:
    """The power log of one node (or switch) of one run, as far as it can be read.

    node: "node_0", "sw_1": the file's stem. host, run_id: as the log says; None in MLPerf's. machine: a digest of
        the machine's id, by which one node that was metered twice is found; None where none is logged.
    dialect: "mlperf" where no line has monotonic time: then a sample's mono_ns is its wall time in nanoseconds.
    samples: by meter id, in the order of the file. start_ns, stop_ns: `power_measurement_start` and `_stop`.
    conversion_eff: the factor MLPerf's logs state for a DC reading; None where none is stated.
    interconnect_w: MLPerf's `interconnect_power_est`; None where there is none.
    wall_ms: wall time of the first line that has one, in milliseconds; None without one.
    sampler_cpu_s: processor seconds that the sampler itself took; None where it does not say.
    defects: at most 100 of a kind; defect_counts: how many there are of each.
    """

    node: str
    path: Path
    host: str | None
    specs: dict[str, MeterSpec]
    samples: dict[str, tuple[Sample, ...]]
    offsets: tuple[ClockOffset, ...] = ()
    start_ns: int | None = None
    stop_ns: int | None = None
    conversion_eff: float | None = None
    interconnect_w: float | None = None
    defects: tuple[PowerDefect, ...] = field(default=())
    dialect: Dialect = "tta"
    machine: str | None = None
    run_id: str | None = None
    wall_ms: float | None = None
    sampler_cpu_s: float | None = None
    defect_counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_switch(self) -> bool:
        return self.node.startswith("sw_")

    def defects_of(self, kind: str) -> tuple[PowerDefect, ...]:
        """The defects of one kind, in the order of the file."""
        return tuple(defect for defect in self.defects if defect.kind == kind)
