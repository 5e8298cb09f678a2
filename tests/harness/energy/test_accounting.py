"""The energy of a run: nodes are merged, nothing counts twice, and every reason not to rank is named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.energy.accounting import run_energy
from harness.energy.clock_offset import node_clock
from harness.energy.integral import integrate_meter
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import choose
from harness.energy.run_energy import METHOD, RunEnergy
from harness.errors import LogError
from harness.log import power_log
from harness.log.power_format import ClockOffset, Component, MeterClass, MeterSpec, NodePower, Sample, Scope
from tests.powertrace import (
    SECOND_NS,
    WALL_MS,
    counter,
    gpu,
    mlperf_line,
    mlperf_log,
    node,
    ns,
    package,
    power,
    spec,
    switch,
)

STOP_NS = ns(120)
Meters = Mapping[MeterSpec, Sequence[Sample]]


def energy(*nodes: NodePower, **options: Any) -> RunEnergy:
    """The energy of a run from 0 to 120 s."""
    return run_energy(nodes, 0, STOP_NS, **options)


def dram(number: int = 0) -> MeterSpec:
    return package(id=f"powercap:package-{number}/dram", component="dram", device=f"package-{number}/dram")


def model(component: str = "node", name: str = "estimate") -> MeterSpec:
    return spec(id=name, component=component, scope="model", meter_class="E", accuracy_pct=None)


def sampled(number: int = 0) -> MeterSpec:
    """An accelerator's power, next to its counter."""
    return gpu(number, id=f"nvml:GPU-{number}:power", meter_class="D", kind="power_w")


WALL = spec(device="w")
OWN_SENSOR = spec(id="ipmi:local", meter_class="B")
FEEDS = {spec(id=f"snmp:pdu:{feed}", component="pdu", device=f"pdu {feed}"): power(200.0 + feed) for feed in (1, 2)}
VIEWS = {OWN_SENSOR: power(410.0), spec(id="redfish:h", meter_class="B", device="h"): power(405.0)}
FAILED = tuple(replace(sample, value=None) for sample in power(300.0))
RESET = counter(300.0, to_s=60.0) + counter(300.0, from_s=61.0, first_j=0.0)


GAPPED = [sample for sample in counter(10.0, first_j=0.0) if not 50 < sample.mono_ns / SECOND_NS < 60]


def test_calibrated_meter_of_one_node_may_rank() -> None:
    """300 W for two minutes; nothing voids it."""
    result = energy(node())

    assert result.joules == pytest.approx(36_000.0)
    assert result.uncertainty_j == pytest.approx(360.0, rel=1e-3)
    assert (result.meter_class, result.scope, result.source, result.method) == ("A", "node (ac)", "measured", METHOD)
    assert (result.coverage, result.longest_gap_s, result.num_samples, result.num_nodes) == (1.0, 1.0, 121, 1)
    assert (result.void, result.flags, result.share_estimated) == ((), (), 0.0)
    assert result.may_rank


@pytest.mark.parametrize("nodes", [(), (node(0, samples={}),), (node(0, specs={}, samples={}),)])
def test_run_without_a_meter_has_no_energy_and_class_n(nodes: tuple[NodePower, ...]) -> None:
    """None, never 0, and not ranked; no number is infinite."""
    result = energy(*nodes)

    assert (result.joules, result.uncertainty_j, result.mean_w) == (None, None, None)
    assert "no_energy" in result.void
    assert (result.source, result.may_rank) == ("none", False)
    assert all(math.isfinite(value) for value in (result.coverage, result.longest_gap_s, result.share_estimated))


@pytest.mark.parametrize(
    ("meters", "watts", "excluded", "facts"),
    [
        pytest.param(
            {
                package(0): counter(100.0),
                package(1): counter(120.0),
                dram(0): counter(20.0),
                dram(1): counter(25.0),
                package(0, id="powercap:core", component="core", device="package-0/core"): counter(80.0),
                package(0, id="powercap:uncore", component="uncore", device="package-0/uncore"): counter(5.0),
                package(0, id="powercap:psys", component="psys", device="psys"): counter(400.0),
                package(0, id="powercap:mmio:package-0"): counter(100.0),
            },
            100 + 120 + 20 + 25,
            {
                "powercap:core": "is inside its package",
                "powercap:uncore": "is inside its package",
                "powercap:psys": "overlaps with everything on its board",
                "powercap:package-0": "another view of what powercap:mmio:package-0 meters",
            },
            {"scope": "cpu_package (package) + dram (package)", "meter_class": "C", "flags": (), "void": ()},
            id="packages and their memory",
        ),
        pytest.param(
            {WALL: power(500.0), gpu(): counter(300.0), package(): counter(100.0)},
            500,
            dict.fromkeys([gpu().id, package().id], "the node as a whole is metered by csv:wall"),
            {"meter_class": "A", "scope": "node (ac)"},
            id="a whole replaces its parts",
        ),
        pytest.param(
            {WALL: power(500.0), gpu(): counter(600.0)},
            500,
            {gpu().id: "the node as a whole is metered by csv:wall"},
            {"flags": ("parts_exceed_whole",)},
            id="parts that draw more than the whole",
        ),
        pytest.param(FEEDS, 403, {}, {"scope": "node (ac)"}, id="two feeds add up"),
        pytest.param(
            VIEWS,
            410,
            {"redfish:h": "the node as a whole is metered by ipmi:local"},
            {"scope": "node (ac)"},
            id="two views of a node do not",
        ),
        pytest.param(
            {**FEEDS, **VIEWS},
            403,
            dict.fromkeys(["ipmi:local", "redfish:h"], "the node as a whole is metered by snmp:pdu:1"),
            {"meter_class": "A"},
            id="class A before B",
        ),
        pytest.param(
            {WALL: FAILED, OWN_SENSOR: power(410.0)},
            410,
            {"csv:wall": "the node as a whole is metered by ipmi:local"},
            {"meter_class": "B", "flags": ("fallback",)},
            id="own sensor replaces a meter that failed",
        ),
        pytest.param(
            {gpu(scope="module"): counter(700.0), package(): counter(150.0), dram(): counter(30.0)},
            700,
            dict.fromkeys([package().id, dram().id], "is inside the module that the accelerator's meter sees"),
            {},
            id="Grace is inside its module",
        ),
        pytest.param(
            {model(): power(900.0), gpu(): counter(300.0)},
            300,
            {"estimate": "a model of the node, whose parts are measured"},
            {"share_estimated": 0.0},
            id="a model does not fill in what measured parts leave out",
        ),
        pytest.param(
            {gpu(0): counter(300.0), model("gpu"): power(250.0), model("cpu_package", "other"): power(100.0)},
            400,
            {"estimate": "a model; gpu is measured"},
            {"share_estimated": pytest.approx(0.25)},
            id="a model counts for a part that only it has",
        ),
        pytest.param(
            {model("gpu"): power(250.0), model(name="whole"): power(900.0)},
            900,
            {"estimate": "whole models the node"},
            {"source": "estimated"},
            id="the model of a node replaces those of its parts",
        ),
        pytest.param({model("gpu"): power(250.0)}, 250, {}, {"source": "estimated"}, id="the model of a part"),
        pytest.param(
            {model(): power(300.0)},
            300,
            {},
            {
                "meter_class": "E",
                "uncertainty_j": pytest.approx(14_400.0),  # 40 %
                "share_estimated": 1.0,
                "void": ("estimated_share", "uncertain"),
                "may_rank": False,
            },
            id="a model alone never ranks",
        ),
        pytest.param(
            {gpu(): counter(300.0), spec(id="csv:switch", component="switch"): power(150.0)},
            450,
            {},
            {},
            id="a switch is outside the node",
        ),
        pytest.param(
            {gpu(): counter(300.0), spec(id="none", meter_class="N", accuracy_pct=None): power(900.0)},
            300,
            {"none": "measures nothing"},
            {},
            id="class N",
        ),
        pytest.param(
            {gpu(0): counter(300.0), sampled(1): power(300.0)},
            600,
            {},
            {"meter_class": "D", "right_riemann_j": None},
            id="the weakest class that contributes",
        ),
        pytest.param(
            {gpu(): RESET, sampled(): power(300.0)},
            300,
            {gpu().id: f"another view of what {sampled().id} meters"},
            {"meter_class": "D", "flags": ("fallback",), "void": ()},
            id="sampled power replaces a counter that was reset",
        ),
        pytest.param(
            {gpu(): counter(290.0), sampled(): power(300.0)},
            290,
            {sampled().id: f"another view of what {gpu().id} meters"},
            {"flags": ()},
            id="counter and sampled power agree",
        ),
        pytest.param(
            {gpu(): counter(187 / 327 * 300), sampled(): power(300.0)},
            187 / 327 * 300,
            {sampled().id: f"another view of what {gpu().id} meters"},
            {"flags": ("disagree",)},
            id="187 J against 327 J, as has been seen",
        ),
    ],
)
def test_what_is_added_up_of_a_node(
    meters: Meters, watts: float, excluded: dict[str, str], facts: dict[str, object]
) -> None:
    """A whole replaces its parts, a measurement its model, and of several views of one device one counts; each meter
    that is left out has a reason."""
    result = energy(node(0, meters))

    assert result.joules == pytest.approx(watts * 120.0, rel=1e-9)
    assert {meter: why for _, meter, why in result.excluded} == excluded
    assert len(result.parts) == len(meters) - len(excluded)
    assert {name: getattr(result, name) for name in facts} == facts


def jumping_back() -> list[Sample]:
    """A reading 259 ms before the one before it."""
    samples = [*power(300.0)]
    samples[50] = replace(samples[50], mono_ns=samples[49].mono_ns - 259_000_000)
    return samples


@pytest.mark.parametrize(
    ("meters", "void"),
    [
        pytest.param({WALL: power(300.0, 2.0, 118.0)}, {"coverage"}, id="edges of 2 s"),
        pytest.param({WALL: power(300.0, 2.0, 120.0)}, set(), id="98.3 % and 2 s"),
        pytest.param({WALL: power(300.0, 2.4, 125.0)}, {"gap"}, id="98 % and 2.4 s"),
        pytest.param({WALL: power(300.0, step_s=2.0)}, set(), id="every 2 s"),
        pytest.param({WALL: power(300.0, step_s=2.05)}, {"gap", "few_samples"}, id="every 2.05 s"),
        pytest.param({WALL: power(300.0, -5.0, 100.0)}, {"coverage", "gap"}, id="stops early"),
        pytest.param({WALL: jumping_back()}, {"time_backwards"}, id="a clock that goes back"),
        pytest.param({spec(accuracy_pct=5.0): power(300.0)}, set(), id="5 %"),
        pytest.param({spec(accuracy_pct=5.1): power(300.0)}, {"accuracy_poor"}, id="5.1 %"),
        pytest.param({spec(accuracy_pct=10.1): power(300.0)}, {"accuracy_poor", "uncertain"}, id="10.1 %"),
        pytest.param({gpu(): RESET}, {"counter_reset", "no_energy"}, id="a counter that was reset"),
        pytest.param(
            {package(wrap_at_j=4000.0): GAPPED},
            {"double_wrap", "no_energy"},
            id="10 s may hide a wrap of 4,000 J",
        ),
        pytest.param({gpu(): counter(300.0, -1.0, 121.0, 122.0)}, set(), id="a counter read twice, around the run"),
        pytest.param({gpu(): counter(300.0, -4.0, 124.0, 128.0)}, {"uncertain"}, id="at 4 s from its edges"),
        pytest.param({gpu(): counter(300.0, 2.0, 122.0, 120.0)}, set(), id="a counter that begins 2 s late"),
        pytest.param({gpu(): counter(300.0, 2.1, 122.1, 120.0)}, {"gap"}, id="2.1 s"),
    ],
)
def test_a_meter_voids_beyond_the_limits(meters: Meters, void: set[str]) -> None:
    """98 %, 2 s and 5 % are permitted; a counter that was reset, or that may have wrapped twice, leaves no joules."""
    result = energy(node(0, meters))

    assert set(result.void) == void
    assert (result.joules is None) == ("no_energy" in void)


@pytest.mark.parametrize(("seconds", "is_void"), [(59, False), (58, True)])
def test_60_readings_are_enough_and_59_are_not(seconds: int, is_void: bool) -> None:
    """Readings at 0 to 59 s are 60."""
    result = run_energy([node()], 0, ns(seconds))

    assert result.num_samples == seconds + 1
    assert ("few_samples" in result.void) == is_void


def test_a_counter_may_be_read_less_than_once_a_second() -> None:
    """Two readings that bracket the run: no gap, and no slow sampling. Of all the energy between them, 600 J may not be
    the run's at each edge."""
    result = energy(node(0, {gpu(): counter(300.0, -1.0, 121.0, 122.0)}))

    assert result.joules == pytest.approx(122 * 300.0)
    assert result.uncertainty_j == pytest.approx(math.hypot(366, 2 * 600), rel=1e-3)
    assert (result.num_samples, result.coverage, result.longest_gap_s) == (0, 1.0, 0.0)
    assert (result.void, result.flags, result.may_rank) == ((), (), True)


@pytest.mark.parametrize(("meter_class", "void"), [("A", ("accuracy_undeclared",)), ("B", ()), ("C", ())])
def test_external_meter_must_declare_its_accuracy(meter_class: str, void: tuple[str, ...]) -> None:
    """Others are assumed to have 5 %, with a flag."""
    result = energy(node(0, {spec(meter_class=meter_class, accuracy_pct=None, device="w"): power(300.0)}))

    assert (result.void, result.flags) == (void, ("accuracy_assumed",))
    assert result.uncertainty_j == pytest.approx(1800.0, rel=1e-3)


def test_limits_are_those_of_the_rules() -> None:
    """A ruleset may require more or less."""
    strict = EnergyLimits(min_samples=122, max_gap_s=0.9)

    assert energy(node(), limits=strict).void == ("few_samples", "gap")


def test_run_without_duration_is_refused() -> None:
    """The referee's clock did not move."""
    with pytest.raises(LogError, match="the run starts at 5 ns and stops at 5 ns"):
        run_energy([node()], 5, 5)


def test_every_fault_of_the_published_measurements_is_named(tmp_path: Path) -> None:
    """A period of 2 s, a gap of 23 s, -259 ms, coverage of 0.65, and an estimated switch: nothing crashes."""
    times = [second for second in range(-6, 78, 2) if not 20 < second < 43]
    readings = [(WALL_MS + 1000 * second, 300 + second) for second in times]
    readings.insert(10, (readings[9][0] - 259, 300))
    mlperf_log(tmp_path / "node_1.txt", readings, WALL_MS, WALL_MS, null="null", metadata="")
    (tmp_path / "sw_0.txt").write_text(mlperf_line(1_652_749_794_206, "interconnect_power_est", 100, {}))
    start_ns = WALL_MS * 1_000_000

    result = run_energy(power_log.read_folder(tmp_path), start_ns, start_ns + STOP_NS, num_nodes=1)

    assert result.void == ("coverage", "estimated_share", "few_samples", "gap", "time_backwards")
    assert {"slow_sampling", "held_edges", "accuracy_assumed", "clock_unknown"} == set(result.flags)
    assert result.coverage == pytest.approx(76 / 120)
    assert result.longest_gap_s == 44.0
    assert result.joules is not None


@pytest.mark.parametrize("shift_s", [0.2, -0.8, 5.0, 86_400.0])
def test_shifted_node_is_corrected_by_its_offset(shift_s: float) -> None:
    """However far off a node's clock is, with its offset logged the energy is the same within 0.2 %."""
    straight = power(lambda at_s: 300.0 + 3 * at_s)
    shifted = tuple(replace(sample, mono_ns=sample.mono_ns + ns(shift_s)) for sample in straight)
    offsets = [ClockOffset(ns(at_s + shift_s), ns(shift_s), 400_000) for at_s in (0, 60, 120)]

    right = energy(node(0, {WALL: straight}))
    result = energy(node(0, {WALL: shifted}, offsets))

    assert right.joules is not None
    assert result.joules == pytest.approx(right.joules, rel=0.002)
    assert result.void == ()
    assert result.clock_error_s == pytest.approx(0.0002, abs=1e-4)


def test_linear_drift_is_taken_out() -> None:
    """A clock that gains 50 ppm over ten hours is 1.8 s ahead at the end, and correct after correction."""
    stop_s, drift = 36_000, 50e-6
    samples = tuple(Sample(ns(at_s * (1 + drift)), 300.0 + at_s / 100) for at_s in range(-5, stop_s + 6))
    offsets = [ClockOffset(ns(at_s * (1 + drift)), ns(at_s * drift), 500_000) for at_s in range(0, stop_s + 1, 600)]

    result = run_energy([node(0, {WALL: samples}, offsets)], 0, ns(stop_s))

    # The node's seconds are 50 ppm short, so 50 ppm more of them are integrated.
    assert result.joules == pytest.approx((300 * stop_s + stop_s**2 / 200) * (1 + drift), rel=1e-9)
    assert result.clock_error_s < 0.001


@pytest.mark.parametrize(
    ("jump_s", "void", "flags"),
    [
        (0.3, (), ()),
        (0.6, (), ("clock_offset",)),
        (1.5, (), ("clock_offset",)),
        (5.0, ("clocks_apart",), ("clock_offset",)),
    ],
)
def test_offsets_that_contradict_each_other_void_beyond_the_limit(
    jump_s: float, void: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    """A jump of the clock is not a drift: the residual counts, half of the jump on either side."""
    offsets = [ClockOffset(ns(at_s), ns(jump_s if at_s > 60 else 0.0), 100_000) for at_s in (0, 40, 80, 120)]
    result = energy(node(0, {WALL: power(300.0)}, offsets))

    assert result.clock_error_s == pytest.approx(jump_s / 2, rel=0.05)
    assert (result.void, result.flags) == (void, flags)
    assert result.joules == pytest.approx(36_000.0)


@pytest.mark.parametrize(
    ("offsets", "stop_s", "error_s"),
    [
        pytest.param(
            [ClockOffset(0, 0, 100_000), ClockOffset(ns(60), ns(0.9), 2 * SECOND_NS), ClockOffset(STOP_NS, 0, 100_000)],
            120,
            0.00005,
            id="an answer that took two seconds does not affect those that took 0.1 ms",
        ),
        pytest.param([ClockOffset(0, 0, 100_000)], 36_000, 3.60005, id="one measurement: up to 100 ppm of drift"),
    ],
)
def test_the_error_of_a_clock_is_what_its_offsets_do_not_explain(
    offsets: list[ClockOffset], stop_s: int, error_s: float
) -> None:
    """Plus half of the fastest round trip."""
    assert node_clock(offsets, 0, ns(stop_s)).error_s == pytest.approx(error_s, abs=1e-6)


@pytest.mark.parametrize("num_nodes", [2, 64])
def test_nodes_add_up(num_nodes: int) -> None:
    """Meters of one kind are wrong together, so the relative uncertainty does not shrink."""
    hosts = [f"host{number}" for number in range(num_nodes)]
    result = energy(*(node(number) for number in range(num_nodes)), hosts=hosts)

    assert result.joules == pytest.approx(sum((300 + number / 1000) * 120 for number in range(num_nodes)))
    assert result.uncertainty_j == pytest.approx(0.01 * (result.joules or 0), rel=0.01)
    assert (result.num_nodes, result.void) == (num_nodes, ())


SILENT = replace(node(1), samples={})
TWIN = replace(node(0), node="node_1")
LOST = node(1, {spec(device="meter-1"): power(300.0, to_s=60.0)})
ANONYMOUS = [
    node(number, {spec(device=None): power(lambda at_s: 300.0 + at_s)}, host=None, machine=None) for number in (0, 1)
]
MEASURED_SWITCH = node(0, {spec(id="sw", component="switch", device="sw0"): power(50.0)}, node="sw_0")


@pytest.mark.parametrize(
    ("nodes", "options", "watts", "void"),
    [
        pytest.param([node(1)], {"hosts": ["host0", "host1"]}, None, ("node_missing",), id="a host without a log"),
        pytest.param([node(1)], {"num_nodes": 2}, None, ("node_missing",), id="fewer logs than nodes"),
        pytest.param(
            [node(0), SILENT],
            {},
            None,
            ("coverage", "few_samples", "gap", "node_missing"),
            id="a node without readings",
        ),
        pytest.param([node(0), LOST], {}, 600, ("coverage", "gap"), id="an agent that was lost at 60 s of 120"),
        pytest.param([node(0), node(1)], {"hosts": ["host0"]}, 600.001, ("node_extra",), id="a log of another host"),
        pytest.param([node(0), node(1)], {"num_nodes": 1}, 600.001, ("node_extra",), id="more logs than nodes"),
        pytest.param([node(0)], {"hosts": ["host9"]}, None, ("node_extra", "node_missing"), id="another host's only"),
        pytest.param([node(0), TWIN], {}, 300, ("counted_twice",), id="one machine in two logs"),
        pytest.param([node(0), TWIN], {"num_nodes": 2}, None, ("counted_twice", "node_missing"), id="and two nodes"),
        pytest.param(
            [node(0, {gpu(7): counter(300.0)}), node(1, {gpu(7): counter(300.0, first_j=5.0)})],
            {},
            300,
            ("counted_twice",),
            id="one UUID in two logs",
        ),
        pytest.param(
            [node(0, {package(): counter(100.0)}), node(1, {package(): counter(101.0)})],
            {},
            201,
            (),
            id="package-0 of two machines",
        ),
        pytest.param(ANONYMOUS, {}, 2 * (300 + 60), ("same_trace",), id="identical readings, as published: both count"),
        pytest.param([node(0), node(1, offsets=())], {}, 600.001, ("clock_unknown",), id="one without an offset"),
        pytest.param([node(0, offsets=())], {}, 300, (), id="a single node is on the referee's clock"),
        pytest.param(
            [node(0), node(1, {gpu(): counter(200.0)})], {}, 500, ("scope_mixed",), id="metered at different places"
        ),
        pytest.param([node(0), MEASURED_SWITCH], {}, 350, (), id="a switch with a meter is no node"),
    ],
)
def test_logs_that_do_not_fit_the_nodes_void(
    nodes: list[NodePower], options: dict[str, Any], watts: float | None, void: tuple[str, ...]
) -> None:
    """If a node is missing there are no joules, because part of them would look frugal; no meter counts twice."""
    result = energy(*nodes, **options)

    assert result.joules == (None if watts is None else pytest.approx(watts * 120.0))
    assert result.void == void
    assert result.num_nodes == sum(not each.is_switch for each in nodes)


def test_scopes_and_the_weakest_class_of_different_nodes_are_shown() -> None:
    """One node at the wall and one by its parts."""
    result = energy(node(0), node(1, {gpu(): counter(300.0)}))

    assert (result.meter_class, result.scope) == ("C", "gpu (board), node (ac)")


@pytest.mark.parametrize(
    ("power_w", "meter_class", "void"),
    [(33.3, "A", ()), (34.0, "E", ("estimated_share",)), (16_100.0, "E", ("estimated_share",))],
)
def test_estimated_switch_is_shown_and_lowers_the_class(
    power_w: float, meter_class: str, void: tuple[str, ...]
) -> None:
    """One node at 300 W: up to a tenth of the total may be estimated; beyond that, the total counts as estimated."""
    result = energy(node(), switch(power_w))

    assert result.joules == pytest.approx((300 + power_w) * 120.0)
    assert result.share_estimated == pytest.approx(power_w / (300 + power_w))
    assert (result.meter_class, result.void, result.scope) == (meter_class, void, "node (ac)")


COMPONENTS: tuple[Component, ...] = get_args(Component)


@given(
    meters=st.lists(
        st.tuples(
            st.sampled_from(COMPONENTS),
            st.sampled_from(("A", "B", "C", "D", "E", "N")),
            st.sampled_from(("module", "board", "ac")),
            st.sampled_from((None, "one", "two")),
            st.sampled_from((0.0, 300.0, 330.0, 900.0)),
        ),
        max_size=6,
    )
)
def test_every_meter_is_added_or_left_out_and_nothing_twice(
    meters: list[tuple[Component, MeterClass, Scope, str | None, float]],
) -> None:
    """Each with a reason if left out; a whole is never added to its parts, nor a model to a measurement."""
    specs = {
        spec(id=f"meter-{number}", component=component, meter_class=meter_class, scope=scope, device=device): watts
        for number, (component, meter_class, scope, device, watts) in enumerate(meters)
    }
    log = node(0, {each: power(watts) for each, watts in specs.items()} or None)
    integrals = {name: integrate_meter(each, log.samples[name], 0, ns(60)) for name, each in log.specs.items()}

    chosen = choose(log, integrals)

    assert sorted([*chosen.chosen, *chosen.excluded]) == sorted(log.specs)
    assert all(chosen.excluded.values())
    added = [log.specs[name] for name in chosen.chosen if log.specs[name].component != "switch"]
    components = {each.component for each in added}
    assert not components & {"cooling", "psys", "core", "uncore"}
    assert not (components & {"node", "pdu"} and components & {"gpu", "cpu_package", "dram"})
    assert "N" not in {each.meter_class for each in added}
    for component in components:
        assert len({each.meter_class == "E" for each in added if each.component == component}) == 1
    devices = [(each.component, each.device) for each in added if each.device is not None]
    assert len(devices) == len(set(devices))


@pytest.mark.parametrize(
    ("changes", "may_rank", "source"),
    [
        ({}, True, "measured"),
        ({"meter_class": "D"}, True, "measured"),
        ({"meter_class": "E"}, False, "estimated"),
        ({"meter_class": "N"}, False, "measured"),
        ({"void": ("gap",)}, False, "measured"),
        ({"joules": None}, False, "none"),
        ({"joules": 0.0}, True, "measured"),
    ],
)
def test_what_may_rank_is_measured_and_not_void(changes: dict[str, Any], may_rank: bool, source: str) -> None:
    """Each of the three conditions alone prevents a rank; measured zero joules do not."""
    result = replace(energy(node()), **changes)

    assert (result.may_rank, result.source) == (may_rank, source)
