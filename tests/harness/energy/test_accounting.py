"""The energy of a run: nodes are merged, nothing counts twice, and every reason not to rank is named."""

from __future__ import annotations

import math
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


def energy(*nodes: NodePower, **options: Any) -> RunEnergy:
    """The energy of a run from 0 to 120 s."""
    return run_energy(nodes, 0, STOP_NS, **options)


def dram(number: int = 0, **changes: Any) -> MeterSpec:
    fields: dict[str, Any] = {
        "id": f"powercap:package-{number}/dram",
        "component": "dram",
        "device": f"package-{number}/dram",
        "wrap_at_j": 65_713.0,
        "max_power_w": 100.0,
    }
    return package(**{**fields, **changes})


def test_calibrated_meter_of_one_node_may_rank() -> None:
    """300 W for two minutes; nothing voids it."""
    result = energy(node())

    assert result.joules == pytest.approx(36_000.0)
    assert result.uncertainty_j == pytest.approx(360.0, rel=1e-3)
    assert (result.meter_class, result.scope, result.source, result.method) == ("A", "node (ac)", "measured", METHOD)
    assert (result.coverage, result.longest_gap_s, result.num_samples, result.num_nodes) == (1.0, 1.0, 121, 1)
    assert (result.void, result.flags, result.share_estimated) == ((), (), 0.0)
    assert result.may_rank


# 1 Nothing metered


@pytest.mark.parametrize("nodes", [(), (node(0, samples={}),), (node(0, specs={}, samples={}),)])
def test_run_without_a_meter_has_no_energy_and_class_n(nodes: tuple[NodePower, ...]) -> None:
    """None, never 0, and not ranked."""
    result = energy(*nodes)

    assert (result.joules, result.uncertainty_j, result.mean_w) == (None, None, None)
    assert "no_energy" in result.void
    assert result.source == "none"
    assert not result.may_rank


# 3 What is added up


def test_packages_and_their_memory_are_added_and_nothing_else() -> None:
    """Two packages at 100 and 120 W, DRAM at 20 and 25 W; and core, uncore, psys and a memory-mapped twin."""
    meters = {
        package(0): counter(100.0),
        package(1): counter(120.0),
        dram(0): counter(20.0),
        dram(1): counter(25.0),
        package(0, id="powercap:core", component="core", device="package-0/core"): counter(80.0),
        package(0, id="powercap:uncore", component="uncore", device="package-0/uncore"): counter(5.0),
        package(0, id="powercap:psys", component="psys", device="psys"): counter(400.0),
        package(0, id="powercap:mmio:package-0"): counter(100.0),
    }

    result = energy(node(0, meters))

    assert result.joules == pytest.approx((100 + 120 + 20 + 25) * 120.0, rel=1e-12)
    assert result.scope == "cpu_package (package) + dram (package)"
    assert (result.meter_class, result.flags, result.void) == ("C", (), ())
    assert len(result.parts) == 4
    reasons = {meter: why for _, meter, why in result.excluded}
    assert set(reasons) == {"powercap:core", "powercap:uncore", "powercap:psys", "powercap:package-0"}
    assert reasons["powercap:package-0"] == "another view of what powercap:mmio:package-0 meters"


def test_meter_of_the_whole_node_replaces_its_parts() -> None:
    """A 500 W node with a 300 W accelerator in it draws 500 W."""
    wall = spec(device="w")
    result = energy(node(0, {wall: power(500.0), gpu(): counter(300.0), package(): counter(100.0)}))

    assert result.joules == pytest.approx(60_000.0)
    assert (result.meter_class, result.scope) == ("A", "node (ac)")
    assert {why for _, _, why in result.excluded} == {"the node as a whole is metered by csv:wall"}


def test_parts_that_draw_more_than_their_node_are_flagged() -> None:
    """One of the two meters is wrong."""
    result = energy(node(0, {spec(device="w"): power(500.0), gpu(): counter(600.0)}))

    assert result.flags == ("parts_exceed_whole",)
    assert result.joules == pytest.approx(60_000.0)


def test_outlets_add_up_and_views_of_a_node_do_not() -> None:
    """A node on two feeds draws both; its own sensor and Redfish are two views of that."""
    feeds = {spec(id=f"snmp:pdu:{feed}", component="pdu", device=f"pdu {feed}"): power(200.0 + feed) for feed in (1, 2)}
    views = {
        spec(id="ipmi:local", meter_class="B"): power(410.0),
        spec(id="redfish:h", meter_class="B", device="h"): power(405.0),
    }

    both, own = energy(node(0, feeds)), energy(node(0, views))

    assert both.joules == pytest.approx(403 * 120.0)
    assert both.scope == own.scope == "node (ac)"
    assert own.joules == pytest.approx(410 * 120.0)
    assert energy(node(0, {**feeds, **views})).joules == both.joules  # A before B


def test_own_sensor_replaces_a_meter_that_failed_and_is_flagged() -> None:
    """An analyser that never answered, and the node's own sensor: class B, with a flag."""
    failed = tuple(replace(sample, value=None) for sample in power(300.0))
    result = energy(node(0, {spec(device="w"): failed, spec(id="ipmi:local", meter_class="B"): power(410.0)}))

    assert result.joules == pytest.approx(410 * 120.0)
    assert (result.meter_class, result.flags) == ("B", ("fallback",))


def test_processor_inside_a_module_is_not_added_to_it() -> None:
    """Grace: the accelerator's meter of module scope sees the processor and its memory."""
    result = energy(node(0, {gpu(scope="module"): counter(700.0), package(): counter(150.0), dram(): counter(30.0)}))

    assert result.joules == pytest.approx(700 * 120.0)


def test_model_of_a_node_with_measured_parts_is_not_added() -> None:
    """An estimate of the whole node does not fill in what its parts leave out."""
    model = spec(id="estimate", scope="model", meter_class="E", accuracy_pct=None)
    result = energy(node(0, {model: power(900.0), gpu(): counter(300.0)}))

    assert result.joules == pytest.approx(36_000.0)
    assert result.share_estimated == 0.0


def test_model_of_a_part_is_not_added_to_what_is_measured_of_it() -> None:
    """An estimated accelerator next to a measured one is left out; packages with only a model count by it."""
    estimated = gpu(1, id="estimate:gpu", meter_class="E", scope="model", accuracy_pct=None)
    packages = spec(id="estimate:package", component="cpu_package", meter_class="E", scope="model", accuracy_pct=None)
    result = energy(node(0, {gpu(0): counter(300.0), estimated: power(250.0), packages: power(100.0)}))

    assert result.joules == pytest.approx(400 * 120.0)
    assert {meter: why for _, meter, why in result.excluded} == {"estimate:gpu": "a model; gpu is measured"}
    assert result.share_estimated == pytest.approx(0.25)


def test_model_of_the_node_replaces_models_of_its_parts() -> None:
    """Without measurements, one model: of the node if there is one, else of each part."""
    model = spec(id="estimate:node", scope="model", meter_class="E", accuracy_pct=None)
    part = spec(id="estimate:gpu", component="gpu", scope="model", meter_class="E", accuracy_pct=None)

    both, alone = energy(node(0, {part: power(250.0), model: power(900.0)})), energy(node(0, {part: power(250.0)}))

    assert both.joules == pytest.approx(900 * 120.0)
    assert {meter: why for _, meter, why in both.excluded} == {"estimate:gpu": "estimate:node models the node"}
    assert alone.joules == pytest.approx(250 * 120.0)
    assert (both.source, alone.source) == ("estimated", "estimated")


def test_switch_is_added_to_the_parts_of_its_node() -> None:
    """It is outside the node, however the node is metered."""
    result = energy(node(0, {gpu(): counter(300.0), spec(id="csv:switch", component="switch"): power(150.0)}))

    assert result.joules == pytest.approx(450 * 120.0)
    assert result.excluded == ()


def test_meter_of_class_n_is_left_out() -> None:
    """It declares that nothing was metered."""
    nothing = spec(id="none", meter_class="N", accuracy_pct=None)
    result = energy(node(0, {gpu(): counter(300.0), nothing: power(900.0)}))

    assert result.joules == pytest.approx(300 * 120.0)
    assert {meter: why for _, meter, why in result.excluded} == {"none": "measures nothing"}


# 4, 5, 6 Meters that fail


def test_counter_that_was_reset_voids_and_has_no_joules() -> None:
    """If no other meter saw the device, its energy is unknown."""
    result = energy(node(0, {gpu(): counter(300.0, to_s=60.0) + counter(300.0, from_s=61.0, first_j=0.0)}))

    assert result.joules is None
    assert "counter_reset" in result.void


def test_sampled_power_replaces_a_counter_that_was_reset_and_is_flagged() -> None:
    """The same device's power: class D instead of C, with a flag."""
    sampled = gpu(id="nvml:GPU-0:power", meter_class="D", kind="power_w")
    broken = counter(300.0, to_s=60.0) + counter(300.0, from_s=61.0, first_j=0.0)
    result = energy(node(0, {gpu(): broken, sampled: power(300.0)}))

    assert result.joules == pytest.approx(36_000.0)
    assert result.meter_class == "D"
    assert "fallback" in result.flags
    assert result.void == ()


def test_counter_that_may_have_wrapped_twice_voids() -> None:
    """A gap of 20 minutes in a counter of 262,143 J at up to 500 W."""
    meter, samples = package(), counter(50.0, to_s=1505.0)
    gapped = [sample for sample in samples if not ns(100) < sample.mono_ns < ns(1300)]
    result = run_energy([node(0, {meter: gapped})], 0, ns(1500))

    assert result.joules is None
    assert {"double_wrap", "gap"} <= set(result.void)


# 7 Counter and sampled power


@pytest.mark.parametrize(("watts", "is_flagged"), [(300.0, False), (290.0, False), (187 / 327 * 300, True)])
def test_counter_and_sampled_power_of_one_device_are_compared(watts: float, is_flagged: bool) -> None:
    """187 J against 327 J has been seen; the counter is used, once."""
    sampled = gpu(id="nvml:GPU-0:power", meter_class="D", kind="power_w")
    result = energy(node(0, {gpu(): counter(watts), sampled: power(300.0)}))

    assert result.joules == pytest.approx(watts * 120)
    assert ("disagree" in result.flags) == is_flagged


def test_one_uuid_in_two_logs_is_counted_once() -> None:
    """Two ranks of one node each metered its accelerator."""
    result = energy(node(0, {gpu(7): counter(300.0)}), node(1, {gpu(7): counter(300.0, first_j=5.0)}))

    assert result.joules == pytest.approx(36_000.0)
    assert result.void == ("counted_twice",)


# Void conditions, at their limits


@pytest.mark.parametrize(
    ("samples", "void"),
    [
        (power(300.0, 2.0, 118.0), set()),  # edges of 2 s, but coverage 116/120
        (power(300.0, 2.5, 125.0), {"gap"}),
        (power(300.0, step_s=2.0), set()),
        (power(300.0, step_s=2.05), {"gap", "few_samples"}),
        (power(300.0, -5.0, 100.0), {"coverage", "gap"}),
    ],
)
def test_coverage_and_gaps_at_their_limits(samples: tuple[Sample, ...], void: set[str]) -> None:
    """98 % and 2 s are permitted."""
    result = energy(node(0, {spec(device="w"): samples}))
    expected = void | ({"coverage"} if result.coverage < 0.98 else set())

    assert set(result.void) == expected
    assert result.joules is not None


@pytest.mark.parametrize(("seconds", "is_void"), [(59, False), (58, True)])
def test_readings_are_enough_and_59_are_not(seconds: int, is_void: bool) -> None:
    """Readings at 0 to 59 s are 60."""
    result = run_energy([node()], 0, ns(seconds))

    assert result.num_samples == seconds + 1
    assert ("few_samples" in result.void) == is_void


def test_clock_that_goes_back_voids() -> None:
    """A reading 259 ms before the one before it."""
    samples = [*power(300.0)]
    samples[50] = replace(samples[50], mono_ns=samples[49].mono_ns - 259_000_000)

    assert energy(node(0, {spec(device="w"): samples})).void == ("time_backwards",)


@pytest.mark.parametrize(("meter_class", "void"), [("A", ("accuracy_undeclared",)), ("B", ()), ("C", ())])
def test_external_meter_must_declare_its_accuracy(meter_class: str, void: tuple[str, ...]) -> None:
    """Others are assumed to have 5 %, with a flag."""
    result = energy(node(0, {spec(meter_class=meter_class, accuracy_pct=None, device="w"): power(300.0)}))

    assert result.void == void
    assert result.flags == ("accuracy_assumed",)
    assert result.uncertainty_j == pytest.approx(1800.0, rel=1e-3)


@pytest.mark.parametrize(
    ("accuracy_pct", "void"), [(5.0, ()), (5.1, ("accuracy_poor",)), (10.1, ("accuracy_poor", "uncertain"))]
)
def test_meter_that_may_be_far_off_does_not_rank(accuracy_pct: float, void: tuple[str, ...]) -> None:
    """With a declared 50 %, it would tie with any leader."""
    result = energy(node(0, {spec(accuracy_pct=accuracy_pct, device="w"): power(300.0)}))

    assert result.void == void


def test_limits_are_those_of_the_rules() -> None:
    """A ruleset may require more or less."""
    strict = EnergyLimits(min_samples=122, max_gap_s=0.9)

    assert energy(node(), limits=strict).void == ("few_samples", "gap")


def test_run_without_duration_is_refused() -> None:
    """The referee's clock did not move."""
    with pytest.raises(LogError, match="the run starts at 5 ns and stops at 5 ns"):
        run_energy([node()], 5, 5)


# 10 Logs as they were published


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


# 12 Clocks


@pytest.mark.parametrize("shift_s", [0.2, -0.2, 0.8, -0.8, 5.0, -5.0, 86_400.0])
def test_shifted_node_is_corrected_by_its_offset(shift_s: float) -> None:
    """However far off a node's clock is, with its offset logged the energy is the same within 0.2 %."""
    signal = lambda at_s: 300.0 + 3 * at_s  # noqa: E731
    straight = power(signal)
    shifted = tuple(replace(sample, mono_ns=sample.mono_ns + ns(shift_s)) for sample in straight)
    offsets = [ClockOffset(ns(at_s + shift_s), ns(shift_s), 400_000) for at_s in (0, 60, 120)]

    right = energy(node(0, {spec(device="w"): straight}))
    result = energy(node(0, {spec(device="w"): shifted}, offsets))

    assert right.joules is not None
    assert result.joules == pytest.approx(right.joules, rel=0.002)
    assert result.void == ()
    assert result.clock_error_s == pytest.approx(0.0002, abs=1e-4)


def test_linear_drift_is_taken_out() -> None:
    """A clock that gains 50 ppm over ten hours is 1.8 s ahead at the end, and correct after correction."""
    stop_s, drift = 36_000, 50e-6
    samples = tuple(Sample(ns(at_s * (1 + drift)), 300.0 + at_s / 100) for at_s in range(-5, stop_s + 6))
    offsets = [ClockOffset(ns(at_s * (1 + drift)), ns(at_s * drift), 500_000) for at_s in range(0, stop_s + 1, 600)]

    result = run_energy([node(0, {spec(device="w"): samples}, offsets)], 0, ns(stop_s))

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
    result = energy(node(0, {spec(device="w"): power(300.0)}, offsets))

    assert result.clock_error_s == pytest.approx(jump_s / 2, rel=0.05)
    assert (result.void, result.flags) == (void, flags)
    assert result.joules == pytest.approx(36_000.0)


def test_slow_round_trip_is_not_a_contradiction() -> None:
    """An answer that took two seconds says little, and does not affect those that took 0.1 ms."""
    offsets = [ClockOffset(ns(at_s), 0, 100_000) for at_s in (0, 120)]
    offsets.insert(1, ClockOffset(ns(60), ns(0.9), 2 * SECOND_NS))

    assert node_clock(offsets, 0, STOP_NS).error_s == pytest.approx(0.00005, abs=1e-5)


def test_single_offset_leaves_the_drift_unknown() -> None:
    """One measurement, ten hours before: up to 100 ppm of drift are assumed."""
    clock = node_clock([ClockOffset(0, 0, 100_000)], 0, ns(36_000))

    assert clock.error_s == pytest.approx(3.6, rel=0.01)


def test_wall_clock_of_the_node_does_not_matter() -> None:
    """The integral uses only monotonic time: `wall_ms` may be anything."""
    result = energy(replace(node(), wall_ms=0.0))

    assert result.joules == energy(node()).joules


def test_one_of_several_nodes_without_an_offset_voids() -> None:
    """When it was metered is unknown; a single node is on the referee's own clock."""
    assert energy(node(0), node(1, offsets=())).void == ("clock_unknown",)
    assert energy(node(0, offsets=())).void == ()


# 13 Many nodes


@pytest.mark.parametrize("num_nodes", [2, 8, 64])
def test_nodes_add_up(num_nodes: int) -> None:
    """Meters of one kind are wrong together, so the relative uncertainty does not shrink."""
    nodes = [node(number) for number in range(num_nodes)]
    hosts = [f"host{number}" for number in range(num_nodes)]

    result = energy(*nodes, hosts=hosts)

    assert result.joules == pytest.approx(sum((300 + number / 1000) * 120 for number in range(num_nodes)))
    assert result.uncertainty_j == pytest.approx(0.01 * (result.joules or 0), rel=0.01)
    assert (result.num_nodes, result.void) == (num_nodes, ())


@pytest.mark.parametrize("num_nodes", [2, 8, 64])
def test_missing_node_voids(num_nodes: int) -> None:
    """The log of one is missing or has no readings: no joules, because part of them would look frugal."""
    nodes = [node(number) for number in range(num_nodes)]
    hosts = [f"host{number}" for number in range(num_nodes)]
    silent = replace(nodes[1], samples={})

    assert energy(*nodes[1:], hosts=hosts).void == ("node_missing",)
    assert energy(*nodes[1:], num_nodes=num_nodes).joules is None
    assert "node_missing" in energy(nodes[0], silent, *nodes[2:]).void
    assert energy(nodes[0], silent, *nodes[2:]).joules is None


def test_agent_lost_during_the_run_voids() -> None:
    """Its readings stop at 60 s of 120."""
    lost = node(1, {spec(device="meter-1"): power(300.0, to_s=60.0)})

    assert set(energy(node(0), lost).void) == {"coverage", "gap"}


def test_doubled_node_voids_and_counts_once() -> None:
    """One machine in two logs: its meter is added once; if two nodes are expected, one is missing."""
    twin = replace(node(0), node="node_1")

    assert energy(node(0), twin).joules == pytest.approx(36_000.0)
    assert energy(node(0), twin).void == ("counted_twice",)
    assert energy(node(0), twin, num_nodes=2).void == ("counted_twice", "node_missing")


def test_packages_of_two_machines_are_two() -> None:
    """`package-0` is a name on one machine."""
    result = energy(node(0, {package(): counter(100.0)}), node(1, {package(): counter(101.0)}))

    assert result.joules == pytest.approx(201 * 120.0)
    assert result.void == ()


def test_identical_readings_in_two_logs_void() -> None:
    """In the published 8-node logs, one node's trace is there twice in every run. Both are added."""
    meters = {spec(device=None): power(lambda at_s: 300.0 + at_s)}
    result = energy(node(0, meters, host=None, machine=None), node(1, meters, host=None, machine=None))

    assert result.void == ("same_trace",)
    assert result.joules == pytest.approx(2 * (300 * 120 + 7200))


def test_log_of_another_node_voids() -> None:
    """More logs than nodes, or of another host."""
    assert energy(node(0), node(1), hosts=["host0"]).void == ("node_extra",)
    assert set(energy(node(0), hosts=["host9"]).void) == {"node_extra", "node_missing"}
    assert energy(node(0), node(1), num_nodes=1).void == ("node_extra",)


def test_nodes_metered_at_different_places_void() -> None:
    """One at the wall and one by its parts add up to nothing meaningful."""
    result = energy(node(0), node(1, {gpu(): counter(300.0)}))

    assert result.void == ("scope_mixed",)
    assert result.meter_class == "C"
    assert result.scope == "gpu (board), node (ac)"


@pytest.mark.parametrize(
    ("power_w", "meter_class", "void"),
    [(30.0, "A", ()), (33.3, "A", ()), (34.0, "E", ("estimated_share",)), (16_100.0, "E", ("estimated_share",))],
)
def test_estimated_switch_is_shown_and_lowers_the_class(
    power_w: float, meter_class: str, void: tuple[str, ...]
) -> None:
    """One node at 300 W: up to a tenth of the total may be estimated; beyond that, the total counts as estimated."""
    result = energy(node(), switch(power_w))

    assert result.joules == pytest.approx((300 + power_w) * 120.0)
    assert result.share_estimated == pytest.approx(power_w / (300 + power_w))
    assert (result.meter_class, result.void) == (meter_class, void)
    assert result.scope == "node (ac)"


def test_measured_switch_is_added() -> None:
    """It has a meter like any other."""
    meter = spec(id="sw", component="switch", device="sw0")
    measured = node(0, {meter: power(50.0)}, node="sw_0")
    result = energy(node(), measured)

    assert result.joules == pytest.approx(350 * 120.0)
    assert (result.num_nodes, result.share_estimated, result.void) == (1, 0.0, ())


def test_class_of_the_whole_is_the_weakest_that_contributes() -> None:
    """A counter and sampled power give D; excluded meters do not count."""
    sampled = gpu(1, id="nvml:GPU-1:power", meter_class="D", kind="power_w")
    result = energy(node(0, {gpu(0): counter(300.0), sampled: power(300.0)}))

    assert result.meter_class == "D"
    assert result.joules == pytest.approx(72_000.0)
    assert result.right_riemann_j is None


def test_model_alone_is_an_estimate_and_never_ranks() -> None:
    """Class E, ± 40 %."""
    model = spec(id="estimate", scope="model", meter_class="E", accuracy_pct=None)
    result = energy(node(0, {model: power(300.0)}))

    assert (result.joules, result.meter_class, result.source) == (36_000.0, "E", "estimated")
    assert result.uncertainty_j == pytest.approx(14_400.0)
    assert (result.share_estimated, result.void, result.may_rank) == (1.0, ("estimated_share", "uncertain"), False)


# 11 Idle


@pytest.mark.parametrize("idle_s", [60.0, 600.0])
def test_idle_padding_does_not_change_the_energy(idle_s: float) -> None:
    """A minute of idling before and after, on every meter."""
    padded = power(40.0, -5.0 - idle_s, -6.0) + power(300.0) + power(40.0, 126.0, 125.0 + idle_s)

    assert energy(node(0, {spec(device="w"): padded})) == energy(node(0, {spec(device="w"): power(300.0)}))


def test_nothing_is_negative_or_infinite() -> None:
    """Not even without any reading."""
    result = energy(node(0, samples={}))

    assert all(math.isfinite(value) for value in (result.coverage, result.longest_gap_s, result.share_estimated))


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
