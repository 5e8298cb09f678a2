"""One meter's energy: exact if possible, None if not, without the mistakes of other libraries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.energy.integral import integrate_meter
from harness.errors import LogError
from harness.log.power_format import MeterSpec, Sample
from tests.powertrace import counter, gpu, ns, package, power, spec

RANGE_J = 262_143.0


def series(values: dict[float, float]) -> list[Sample]:
    return [Sample(ns(at_s), value) for at_s, value in values.items()]


@pytest.mark.parametrize(
    "wrap_at_s",
    [
        pytest.param(60.0, id="mid-run"),
        pytest.param(119.95, id="50 ms before the stop"),
        pytest.param(119.05, id="in the last second"),
        pytest.param(0.5, id="in the first second"),
        pytest.param(0.0, id="at the start"),
        pytest.param(-3.0, id="before the run"),
    ],
)
def test_counter_that_wraps_loses_nothing(wrap_at_s: float) -> None:
    """300 W for 120 s are 36,000 J wherever the counter wraps; other libraries give -260,914 J."""
    first_j = RANGE_J - 300.0 * (wrap_at_s + 5.0)
    samples = counter(300.0, first_j=first_j, wrap_at_j=RANGE_J)

    result = integrate_meter(package(), samples, 0, ns(120))

    assert result.joules == pytest.approx(36_000.0, rel=1e-9)
    assert result.mean_w == pytest.approx(300.0)
    assert result.num_wraps == (1 if wrap_at_s > 0 else 0)
    assert (result.num_resets, result.num_unsure, result.num_failed) == (0, 0, 0)


def test_counter_that_wraps_many_times_loses_nothing() -> None:
    """AMD's range at 400 W wraps every 164 s; 20 minutes have seven wraps."""
    samples = counter(400.0, to_s=1205.0, wrap_at_j=65_533.0)

    result = integrate_meter(package(wrap_at_j=65_533.0), samples, 0, ns(1200))

    assert result.joules == pytest.approx(480_000.0)
    assert result.num_wraps == 7


@given(
    watts=st.floats(0.1, 450.0), first_j=st.floats(0.0, RANGE_J - 1), start_s=st.floats(0.0, 30.0),
    stop_s=st.floats(35.0, 119.0), step_s=st.sampled_from([0.1, 0.5, 1.0, 2.0]),
)  # fmt: skip
def test_constant_power_is_exact_whatever_the_counter_shows(
    watts: float, first_j: float, start_s: float, stop_s: float, step_s: float
) -> None:
    """Any phase of the wrap, any edge between two ticks."""
    samples = counter(watts, first_j=first_j, wrap_at_j=RANGE_J, step_s=step_s)

    result = integrate_meter(package(), samples, ns(start_s), ns(stop_s))

    assert result.joules == pytest.approx(watts * (stop_s - start_s), rel=1e-6, abs=1e-3)
    assert result.num_resets == 0


@given(
    steps_j=st.lists(st.floats(0, 499), min_size=3, max_size=60), first_j=st.floats(0, 262_000),
    lost=st.sets(st.integers(1, 58), max_size=20),
)  # fmt: skip
def test_any_load_is_counted_whatever_reads_fail(steps_j: list[float], first_j: float, lost: set[int]) -> None:
    """A load that changes every second, with wraps anywhere and failed reads anywhere between the first and last."""
    total_j, samples = first_j, [Sample(0, first_j)]
    for index, step_j in enumerate(steps_j, 1):
        total_j += step_j
        value = None if index in lost and index < len(steps_j) else total_j % RANGE_J
        samples.append(Sample(ns(index), value))

    result = integrate_meter(package(), samples, 0, ns(len(steps_j)))

    assert result.joules == pytest.approx(math.fsum(steps_j), rel=1e-9, abs=1e-6)
    assert result.num_failed == sum(sample.value is None for sample in samples)
    assert (result.num_resets, result.num_unsure) == (0, 0)


def test_without_a_range_a_wrap_gives_no_energy() -> None:
    """max_energy_range_uj unreadable: a step down is a reset, and the joules are None, never negative."""
    samples = counter(300.0, first_j=RANGE_J - 300 * 60, wrap_at_j=RANGE_J)

    result = integrate_meter(package(wrap_at_j=None), samples, 0, ns(120))

    assert (result.joules, result.mean_w, result.uncertainty_j) == (None, None, None)
    assert (result.num_wraps, result.num_resets) == (0, 1)


def test_meter_that_never_answers_has_no_energy() -> None:
    """energy_uj unreadable: None, with the failed reads counted, never 0."""
    samples = tuple(Sample(sample.mono_ns, None) for sample in counter(300.0))

    result = integrate_meter(package(), samples, 0, ns(120))

    assert result.joules is None
    assert (result.num_failed, result.num_samples, result.coverage, result.longest_gap_s) == (121, 0, 0.0, 120.0)


@pytest.mark.parametrize("garbage_j", [None, 0.0, 17.0, 1e12])
def test_one_failed_or_garbage_read_changes_nothing(garbage_j: float | None) -> None:
    """The next good read covers it; other libraries give 263,143 J instead of 1,000."""
    samples = list(counter(300.0))
    samples[60] = Sample(samples[60].mono_ns, garbage_j)

    result = integrate_meter(package(), samples, 0, ns(120))

    assert result.joules == pytest.approx(36_000.0)
    assert (result.num_failed, result.num_resets, result.num_wraps) == (1, 0, 0)
    assert result.longest_gap_s == 0.0


def test_garbage_next_to_a_wrap_changes_nothing() -> None:
    """A 0 two ticks before the wrap is garbage; the wrap remains a wrap."""
    samples = list(counter(300.0, first_j=RANGE_J - 300 * 65, wrap_at_j=RANGE_J))
    samples[63] = Sample(samples[63].mono_ns, 0.0)

    result = integrate_meter(package(), samples, 0, ns(120))

    assert result.joules == pytest.approx(36_000.0)
    assert (result.num_failed, result.num_wraps, result.num_resets) == (1, 1, 0)


@pytest.mark.parametrize(
    ("meter", "longest_s"),
    [
        pytest.param(package(), 582, id="262,143 J"),
        pytest.param(package(wrap_at_j=65_000.0), 144, id="65,000 J"),
        pytest.param(package(wrap_at_j=None), 144, id="a processor's, undeclared: the smallest in use"),
        pytest.param(gpu(), None, id="an accelerator's, which does not wrap"),
    ],
)
def test_readings_so_far_apart_that_a_wrap_may_be_hidden_void_the_counter(
    meter: MeterSpec, longest_s: int | None
) -> None:
    """At 50 W and at most 500 W, 450 J a second more may have been drawn than were counted."""
    found = {
        gap_s: integrate_meter(meter, series({0.0: 7.0, 1.0: 57.0, gap_s + 1: 57.0 + 50 * gap_s}), 0, ns(gap_s + 1))
        for gap_s in ([1000] if longest_s is None else [longest_s, longest_s + 1])
    }

    for gap_s, result in found.items():
        is_sure = longest_s is None or gap_s == longest_s
        assert result.joules == (pytest.approx(50 * (gap_s + 1)) if is_sure else None)
        assert (result.num_unsure, result.longest_gap_s) == (int(not is_sure), 0.0)


def test_reset_is_not_a_wrap() -> None:
    """The driver is reloaded at 60 s: from 19,000 J to 0. No device draws a whole range in a second: void."""
    before = counter(300.0, to_s=60.0)
    after = counter(300.0, from_s=61.0, first_j=0.0)

    result = integrate_meter(package(), before + after, 0, ns(120))

    assert result.joules is None
    assert (result.num_resets, result.num_wraps, result.num_failed) == (1, 0, 0)


@pytest.mark.parametrize(
    ("meter", "most_w"),
    [
        (package(), 500.0),
        *((package(component=name, max_power_w=None), 2_000.0) for name in ("cpu_package", "core", "uncore")),
        (package(component="dram", max_power_w=None), 500.0),
        *((package(component=name, max_power_w=None), 5_000.0) for name in ("gpu", "psys")),
        (package(component="node", max_power_w=None, wrap_at_j=2e6), 1_000_000.0),
    ],
    ids=lambda value: value.component if isinstance(value, MeterSpec) else "",
)
def test_a_step_down_is_a_wrap_up_to_what_the_device_can_draw(meter: MeterSpec, most_w: float) -> None:
    """In a second: a reset as near to the end of the range as that passes for a wrap. Undeclared: a generous bound."""
    found = []
    for short_j in (most_w, most_w + 0.5):
        last_j = (meter.wrap_at_j or 0.0) - short_j
        samples = series({0.0: last_j - 100, 1.0: last_j, 2.0: 0.0, 3.0: 100.0})
        found.append(integrate_meter(meter, samples, 0, ns(3)))

    assert [(each.num_wraps, each.num_resets) for each in found] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    ("meter", "joules_at", "expected"),
    [
        pytest.param(package(), {0: 100.5, 1: 100.0}, (0, 1, 0), id="half a joule less is a reset"),
        pytest.param(package(), {0: RANGE_J, 1: 100.0}, (1, 0, 0), id="from the very end of the range"),
        pytest.param(package(), {0: RANGE_J + 0.5, 1: 100.0}, (0, 1, 0), id="from beyond it"),
        pytest.param(package(), {0: 7.0, 600: 7.0}, (0, 0, 1), id="nothing counted, and time for a whole range"),
        pytest.param(package(wrap_at_j=45_000.0), {0: 0, 100: 5_000}, (0, 0, 1), id="exactly time for a range more"),
        pytest.param(package(wrap_at_j=45_000.0), {0: 0, 100: 5_001}, (0, 0, 0), id="almost"),
        pytest.param(package(wrap_at_j=None), {0: 0, 200: 35_000}, (0, 0, 1), id="time for the smallest range"),
        pytest.param(package(wrap_at_j=None), {0: 0, 200: 35_001}, (0, 0, 0), id="almost for the smallest"),
    ],
)
def test_what_two_readings_of_a_counter_say(
    meter: MeterSpec, joules_at: dict[float, float], expected: tuple[int, int, int]
) -> None:
    """Wraps, resets, and intervals that may hide a wrap; with either of the latter there is no energy."""
    result = integrate_meter(meter, series(joules_at), 0, ns(max(joules_at)))

    assert (result.num_wraps, result.num_resets, result.num_unsure) == expected
    assert (result.joules is None) == (expected[1:] != (0, 0))


@pytest.mark.parametrize(("from_s", "resets"), [(-2.0, 0), (-1.0, 0), (0.0, 1), (9.0, 1), (10.0, 0)])
def test_a_reset_counts_if_its_interval_is_within_the_run(from_s: float, resets: int) -> None:
    """One that ends at the start, or begins at the stop, is outside and changes nothing."""
    samples = counter(300.0, -4.0, from_s) + counter(300.0, from_s + 1, 14.0, first_j=0.0)

    result = integrate_meter(gpu(), samples, 0, ns(10))

    assert result.num_resets == resets
    assert (result.joules is None) == bool(resets)


@pytest.mark.parametrize("watts", [300.0, 0.0])
def test_constant_power_is_watts_times_seconds(watts: float) -> None:
    """300 W for 120 s are 36,000 J by every formula, and 0 W are a measurement of 0 J."""
    result = integrate_meter(spec(), power(watts), 0, ns(120))

    assert (result.joules, result.right_riemann_j) == (watts * 120, watts * 120)
    assert (result.mean_w, result.coverage, result.longest_gap_s, result.num_samples) == (watts, 1.0, 1.0, 121)
    assert (result.u_sampling_j, result.u_gap_j, result.u_sync_j) == (0.0, 0.0, 0.0)
    assert result.uncertainty_j == pytest.approx(watts * 1.2)  # 1 % is what the meter says


def test_sine_is_within_the_uncertainty() -> None:
    """A sine with a period of 10 s, read once a second, is 0.8 % too flat; the uncertainty covers it."""
    exact = 300.0 * 115 + 100 * 10 / (2 * math.pi) * (1 - math.cos(2 * math.pi * 11.5))
    samples = power(lambda at_s: 300 + 100 * math.sin(math.pi * at_s / 5))

    result = integrate_meter(spec(accuracy_pct=0.001), samples, 0, ns(115))

    assert result.joules == pytest.approx(exact, rel=0.001)
    assert abs((result.joules or 0) - exact) < result.u_sampling_j


def test_right_riemann_is_mlperfs_sum_within_the_run() -> None:
    """sum(P_i x (t_i - t_before)), cut readings as far as they are in the run."""
    result = integrate_meter(spec(), series({0.0: 9.0, 2.0: 10.0, 5.0: 20.0, 6.0: 30.0}), ns(1), ns(5.5))

    assert result.right_riemann_j == 1 * 10 + 3 * 20 + 0.5 * 30


@given(
    a=st.floats(0, 1000), slope=st.floats(0, 10), start_s=st.floats(-5, 59), length_s=st.floats(0.5, 60),
    step_s=st.sampled_from([0.25, 0.5, 1.0, 2.0]),
)  # fmt: skip
def test_linear_power_is_exact(a: float, slope: float, start_s: float, length_s: float, step_s: float) -> None:
    """Whatever the slope, the edges and the rate."""
    samples = power(lambda at_s: a + slope * (at_s + 5), step_s=step_s)
    exact = a * length_s + slope * ((start_s + 5 + length_s) ** 2 - (start_s + 5) ** 2) / 2

    result = integrate_meter(spec(), samples, ns(start_s), ns(start_s + length_s))

    assert result.joules == pytest.approx(exact, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize(
    ("samples", "gap_s", "num_samples"),
    [
        pytest.param({}, 10.0, 0, id="none"),
        pytest.param({5.0: 100.0}, 5.0, 1, id="one inside"),
        pytest.param({-2.0: 100.0, -1.0: 100.0}, 10.0, 0, id="all before"),
        pytest.param({12.0: 100.0, 13.0: 100.0}, 10.0, 0, id="all after"),
        pytest.param({10.0: 100.0, 13.0: 100.0}, 10.0, 1, id="one at the stop"),
    ],
)
def test_too_few_readings_have_no_energy(samples: dict[float, float], gap_s: float, num_samples: int) -> None:
    """None, never 0."""
    result = integrate_meter(spec(), series(samples), 0, ns(10))

    assert result.joules is None or 10.0 in samples
    assert (result.coverage, result.longest_gap_s, result.num_samples) == (0.0, gap_s, num_samples)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("meter", [spec(), package()], ids=["power", "counter"])
def test_impossible_reading_is_refused(value: float, meter: MeterSpec) -> None:
    """The reader lets none through; samples from elsewhere raise an error."""
    with pytest.raises(LogError, match="it must be finite and from 0 up"):
        integrate_meter(meter, (Sample(0, value),), 0, 1)


def test_run_without_duration_is_refused() -> None:
    """A run that does not stop after its start has no energy."""
    with pytest.raises(LogError, match="the run starts at 5 ns and stops at 5 ns"):
        integrate_meter(spec(), power(300.0), 5, 5)


@pytest.mark.parametrize(
    ("meter", "run", "idle"),
    [
        (spec(), power(lambda at_s: 250.0 + at_s % 3), power(40.0, -65.0, -6.0)),
        (package(), counter(300.0, first_j=3000.0), counter(50.0, -65.0, -6.0, 1.0, RANGE_J - 20.0, RANGE_J)),
    ],
    ids=["power", "a counter that wraps while idle"],
)
def test_idle_before_and_after_changes_nothing(meter: MeterSpec, run: Sequence[Sample], idle: Sequence[Sample]) -> None:
    """A minute of idling changes no field; MLPerf's published formula fails this."""
    after = power(40.0, 126.0, 185.0) if meter.kind == "power_w" else ()
    padded = [*idle, *run, *after]

    assert integrate_meter(meter, padded, ns(0.25), ns(119.5)) == integrate_meter(meter, run, ns(0.25), ns(119.5))


def test_uncertainties_add_in_squares() -> None:
    """The half width is the root of the sum of the four squares."""
    samples = power(lambda at_s: 300.0 + 50 * (round(at_s) % 2), 3.0)

    result = integrate_meter(spec(), samples, 0, ns(120), sync_s=0.1)

    parts = (result.u_meter_j, result.u_sampling_j, result.u_sync_j, result.u_gap_j)
    assert min(parts) > 0
    assert result.uncertainty_j == pytest.approx(math.sqrt(sum(part**2 for part in parts)))


@pytest.mark.parametrize(("meter_class", "percent"), [("A", 5.0), ("D", 5.0), ("E", 40.0)])
def test_undeclared_accuracy_is_assumed_and_never_zero(meter_class: str, percent: float) -> None:
    """5 %, and 40 % for a model."""
    meter = spec(accuracy_pct=None, meter_class=meter_class)

    assert integrate_meter(meter, power(300.0), 0, ns(120)).u_meter_j == pytest.approx(36_000 * percent / 100)


def test_readings_one_clock_tick_apart_add_nothing() -> None:
    """After a year, a double does not resolve a nanosecond: such a pair adds nothing, and divides by nothing."""
    year_ns = 2**55
    samples = [Sample(at_ns, 100.0) for at_ns in (0, year_ns, year_ns + 1, 2 * year_ns)]

    result = integrate_meter(spec(), samples, 0, 2 * year_ns)

    assert result.joules == pytest.approx(100.0 * 2 * year_ns / 1e9, rel=1e-12)


@pytest.mark.parametrize(("at_s", "is_counted"), [(-1, False), (0, True), (5, True), (10, True), (11, False)])
def test_what_fails_from_start_to_stop_is_counted_and_changes_no_joules(at_s: int, is_counted: bool) -> None:
    """Failed, garbage, twice (the first counts), backwards; both edges are included, and the rest does not matter."""
    sound = [Sample(ns(second), 100.0) for second in range(-3, 14)]
    place = at_s + 3
    failed = [*sound[:place], Sample(ns(at_s), None), *sound[place + 1 :]]
    twice = [*sound[: place + 1], Sample(ns(at_s), 9999.0), *sound[place + 1 :]]
    back = [*sound[: place + 2], Sample(ns(at_s), 9999.0), *sound[place + 2 :]]
    counted = list(counter(300.0, -3.0, 13.0))
    counted[place] = Sample(ns(at_s), 1e6)

    found = [integrate_meter(spec(), samples, 0, ns(10)) for samples in (failed, twice, back)]
    garbage = integrate_meter(package(), counted, 0, ns(10))

    assert [(each.num_failed, each.num_duplicates, each.num_backwards) for each in found] == [
        (is_counted, 0, 0),
        (0, is_counted, 0),
        (0, 0, is_counted),
    ]
    assert [each.joules for each in found] == [pytest.approx(1000.0)] * 3
    assert [each.num_samples for each in found] == [11 - is_counted, 11, 11]
    assert garbage.num_failed == is_counted


@pytest.mark.parametrize("start_s", [0.0, 0.5])
def test_readings_far_outside_are_not_a_gap(start_s: float) -> None:
    """Only the last before the start and the first after the stop are used."""
    far = [Sample(ns(-50), 900.0), *power(100.0, -0.5, 9.5, 0.5), Sample(ns(10.25), 100.0), Sample(ns(90), 900.0)]

    result = integrate_meter(spec(), far, ns(start_s), ns(10))

    assert result.joules == pytest.approx(100 * (10 - start_s))
    assert (result.longest_gap_s, result.median_step_s, result.coverage) == (0.75, 0.5, 1.0)
    assert (result.num_samples, result.u_gap_j, result.u_sampling_j) == (20 - (start_s > 0), 0.0, 0.0)


def test_two_readings_around_a_run_measure_it() -> None:
    """None is within, but one before and one after cover it; the watts at the edges are interpolated."""
    result = integrate_meter(spec(), series({-1.0: 100.0, 11.0: 220.0}), 0, ns(10), sync_s=0.2)

    assert result.joules == pytest.approx(1600.0)
    assert (result.start_w, result.stop_w) == pytest.approx((110.0, 210.0))
    assert result.u_sync_j == pytest.approx(0.2 * math.hypot(110, 210))
    assert (result.coverage, result.num_samples, result.median_step_s, result.longest_gap_s) == (1.0, 0, 12.0, 12.0)


@pytest.mark.parametrize(("first_s", "last_s", "coverage"), [(0, 10, 1.0), (1, 10, 0.9), (0, 8, 0.8), (3, 4, 0.1)])
def test_coverage_is_the_share_between_the_first_and_the_last_reading(
    first_s: float, last_s: float, coverage: float
) -> None:
    """Of the run alone."""
    result = integrate_meter(spec(), power(100.0, first_s, last_s), 0, ns(10))

    assert result.coverage == pytest.approx(coverage)


@pytest.mark.parametrize(
    ("watts", "u_sampling_j"),
    [((0, 10, 40, 20, 80, 30, 60), 300 - 210), ((0, 10, 40, 20, 80, 90, 60), 270 - 220), ((5, 7), 0.0)],
)
def test_the_uncertainty_of_power_is_the_larger_of_two_halves(watts: tuple[float, ...], u_sampling_j: float) -> None:
    """The trapezoid over every other reading, from the second or from the third, ends included."""
    result = integrate_meter(spec(), series(dict(enumerate(watts))), 0, ns(len(watts) - 1))

    assert result.u_sampling_j == pytest.approx(u_sampling_j)


def test_a_gap_in_power_is_more_than_two_periods_within_the_run() -> None:
    """With a period of 1.5 s: 3 s are not, 3.5 s are; time before the start does not count."""
    watts = {-9.0: 100.0, 1.0: 150.0, 2.0: 100.0, 5.0: 200.0, 6.0: 260.0, 9.5: 120.0, 10.0: 180.0}

    result = integrate_meter(spec(period_s=1.5), series(watts), 0, ns(10))
    late = integrate_meter(spec(period_s=1.5), series(watts), ns(-4), ns(8))

    assert result.u_gap_j == pytest.approx((260 - 100) / 2 * 3.5)
    assert late.u_gap_j == pytest.approx((260 - 100) / 2 * 5.0)  # 5 s before the second reading; 2 s of the other gap


def test_a_counter_is_uncertain_at_its_edges() -> None:
    """100, 200, 300, 100 and 400 W in intervals of one and two seconds; half a second of the first and the last is
    outside. Between the first whole second and the last, 900 J in 4 s: at that power 1.5 s would take more than the
    first interval has, and less than the last one's share."""
    joules_at = {0.0: 0.0, 2.0: 200.0, 3.0: 400.0, 5.0: 1000.0, 6.0: 1100.0, 8.0: 1900.0}

    result = integrate_meter(gpu(), series(joules_at), ns(0.5), ns(7.5), sync_s=0.1)

    assert result.joules == pytest.approx(200 + 900 + 600)
    assert (result.start_w, result.stop_w) == pytest.approx((100.0, 400.0))
    assert result.u_edge_j == pytest.approx(200 + 200)  # 0 to 200 J, and 400 to 800 J
    assert result.u_sync_j == pytest.approx(0.1 * math.hypot(100, 400))
    assert (result.u_sampling_j, result.u_gap_j, result.u_counter_j, result.right_riemann_j) == (0.0, 0.0, 0.0, None)
    assert result.longest_gap_s == 0.0


@pytest.mark.parametrize(
    ("joules_at", "joules", "u_edge_j"),
    [
        pytest.param({0: 5, 10: 3005}, 3000, 0, id="two readings at the edges"),
        pytest.param({-0.1: 0, 10.1: 3060}, 3060, 120, id="a tenth of a second outside: up to 2 x 300 W there"),
        pytest.param({-10: 0, 20: 3000}, 3000, 3000, id="far outside: nothing is known"),
        pytest.param({-2: 0, 5: 700, 11: 2500}, 700 + 1800, 600 + 600, id="one within: all of both intervals"),
        pytest.param({-3: 0, 1: 480, 9: 2880, 13: 3360}, 2400 + 600, 600, id="idle at 60 W before and after"),
        pytest.param(
            {-1: 0, 1: 800, 9: 2400, 11: 3200}, 1600 + 800, 800, id="busy before and after: its share by time"
        ),
        pytest.param({-1: 0, 1: 100, 9: 4100, 10: 4600}, 4000 + 500 + 100, 100, id="less than the run: all of it"),
        pytest.param(
            {-4.5: 0, 0.5: 1000, 1.5: 1500, 8.5: 2200, 10: 2350}, 100 + 1350, 150, id="up to the greatest power seen"
        ),
    ],
)
def test_what_a_run_is_given_of_a_counters_joules_around_its_edges(
    joules_at: dict[float, float], joules: float, u_edge_j: float
) -> None:
    """Never less than its share by time, nor than at its mean power, nor more than there is; the half width covers what
    the power at most twice the interval's mean, or the greatest seen, allows."""
    result = integrate_meter(gpu(), series(joules_at), 0, ns(10))

    assert (result.joules, result.u_edge_j) == pytest.approx((joules, u_edge_j))
    assert (result.coverage, result.longest_gap_s) == (1.0, 0.0)


@given(
    busy_w=st.floats(100, 500), before_w=st.floats(0, 900), after_w=st.floats(0, 900), before_s=st.floats(0, 60),
    after_s=st.floats(0, 60), inside_s=st.lists(st.floats(0.01, 99.99), max_size=4),
)  # fmt: skip
def test_a_counter_that_is_rarely_read_never_makes_a_run_look_frugal(
    busy_w: float, before_w: float, after_w: float, before_s: float, after_s: float, inside_s: list[float]
) -> None:
    """100 s at one power; whatever the machine drew before and after, and whenever its counter was read. It is exact if
    the machine drew no more then, and two readings are in the run."""
    times = sorted({-before_s, *inside_s, 100 + after_s})
    counted = {
        at_s: max(0.0, before_s + min(at_s, 0)) * before_w
        + min(max(at_s, 0), 100) * busy_w
        + max(0.0, at_s - 100) * after_w
        for at_s in times
    }

    result = integrate_meter(gpu(), series(counted), 0, ns(100))

    assert result.joules is not None
    assert result.joules >= 100 * busy_w * (1 - 1e-6)
    if max(before_w, after_w) <= busy_w and max(inside_s, default=0) - min(inside_s, default=0) > 0.01:
        assert result.joules == pytest.approx(100 * busy_w)


@pytest.mark.parametrize("joules_at", [{0: 0, 1: 100, 2: 500}, {0: 0, 1: 400, 2: 500}])
def test_a_counters_resolution_and_refresh_are_part_of_its_uncertainty(joules_at: dict[float, float]) -> None:
    """Steps of 30 J, and a value that is up to 0.1 s old, at 400 W at one of the edges."""
    result = integrate_meter(gpu(resolution_j=30.0, averaging_s=0.1, accuracy_pct=1e-9), series(joules_at), 0, ns(2))

    assert result.u_counter_j == pytest.approx(50.0)
    assert result.uncertainty_j == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("joules_at", "coverage", "gap_s"),
    [
        ({0.5: 0.0, 1.5: 100.0, 2.5: 300.0, 3.5: 600.0}, 2.5 / 3, 0.5),
        ({-0.5: 0.0, 0.5: 300.0, 1.5: 500.0, 2.5: 600.0}, 2.5 / 3, 0.5),
        ({0.5: 0.0, 1.5: 150.0, 2.5: 300.0}, 2 / 3, 0.5),
    ],
    ids=["late", "early", "both"],
)
def test_a_counter_that_begins_late_or_ends_early_is_held_there(
    joules_at: dict[float, float], coverage: float, gap_s: float
) -> None:
    """Half a second at 100 W next to 300 W, and half of a second at 300 W; or half a second at 150 W twice."""
    result = integrate_meter(gpu(), series(joules_at), 0, ns(3))

    assert result.joules == pytest.approx(500 if len(joules_at) == 4 else 450)
    assert (result.coverage, result.longest_gap_s) == pytest.approx((coverage, gap_s))
    assert result.u_edge_j == pytest.approx(100 + 150 if len(joules_at) == 4 else 75 + 75)


@pytest.mark.parametrize("meter", [spec(), gpu()], ids=["power", "counter"])
def test_two_readings_at_one_instant_of_a_double_are_one(meter: MeterSpec) -> None:
    """After a year, a double does not resolve a nanosecond."""
    year_ns = 2**55

    result = integrate_meter(meter, [Sample(year_ns, 100.0), Sample(year_ns + 1, 100.0)], 0, 2 * year_ns)

    assert result.joules is None


def test_a_counter_may_have_two_readings_at_one_instant_of_a_double() -> None:
    """Among others, or as the first two of three."""
    year_ns = 2**55
    pair = [Sample(year_ns, 50.0), Sample(year_ns + 1, 50.0)]

    among = integrate_meter(gpu(), [Sample(0, 0.0), *pair, Sample(2 * year_ns, 100.0)], 0, 2 * year_ns)
    first = integrate_meter(gpu(), [*pair, Sample(2 * year_ns, 100.0)], 0, 2 * year_ns)

    assert (among.joules, first.joules) == pytest.approx((100.0, 100.0))


def counted(watts: Sequence[float], idle_w: float, at_s: float) -> float:
    """Joules at `at_s` of a run of one load a second, and of the idle machine around it."""
    whole = max(0, min(math.floor(at_s), len(watts)))
    part = watts[whole] * (at_s - whole) if 0 < at_s < len(watts) else 0.0
    return math.fsum(watts[:whole]) + part + idle_w * (100 + min(at_s, 0.0) + max(0.0, at_s - len(watts)))


@pytest.mark.parametrize(
    ("length_s", "step_s", "bias", "half_width"),
    [(10, 0.2, 0.001, 0.02), (10, 1.0, 0.003, 0.1), (60, 1.0, 0.001, 0.02), (60, 5.0, 0.002, 0.1)],
)
def test_how_often_a_counter_is_read_does_not_bias_its_energy(
    length_s: int, step_s: float, bias: float, half_width: float
) -> None:
    """Idle at 60 W around a run at 300 ± 40 W, read at any phase: 300 simulated runs are right on average, and each is
    within its half width. Divided by time alone, those of 10 s would be 2.7 % too frugal if read once a second."""
    random = Random(7)
    errors = []
    for _ in range(300):
        watts = [random.gauss(300, 40) for _ in range(length_s)]
        first_s = -step_s * random.random()
        times = [first_s + step_s * number for number in range(math.ceil((length_s - first_s) / step_s) + 1)]
        samples = series({at_s: counted(watts, 60.0, at_s) for at_s in times})
        result = integrate_meter(gpu(), samples, 0, ns(length_s))

        assert result.joules is not None
        assert abs(result.joules - math.fsum(watts)) <= result.u_edge_j + 1e-3
        assert result.u_edge_j <= half_width * result.joules * (1 + 1e-9)
        errors.append(result.joules / math.fsum(watts) - 1)

    assert abs(fmean(errors)) < bias


def test_power_that_begins_late_or_ends_early_is_held_at_its_nearest_reading() -> None:
    """At its first and its last reading, with the uncertainty of the gaps."""
    result = integrate_meter(spec(), series({1.0: 100.0, 2.0: 110.0, 3.0: 150.0, 4.0: 300.0}), 0, ns(6), sync_s=1.0)

    assert (result.start_w, result.stop_w, result.longest_gap_s) == (100.0, 300.0, 2.0)
    assert result.joules == pytest.approx(100 + 105 + 130 + 225 + 2 * 300)
    assert result.right_riemann_j == pytest.approx(110 + 150 + 300)
    assert result.u_gap_j == pytest.approx(100 * math.hypot(1, 2))
