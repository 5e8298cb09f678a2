"""Power samples to joules: exact where the power is linear, None where it was not measured."""

from __future__ import annotations

import math

import pytest

from harness.energy.accounting import integrate, run_energy
from harness.errors import LogError

Samples = list[tuple[float, float]]


def sampled(watts: dict[int, float]) -> Samples:
    return [(float(at_s), power_w) for at_s, power_w in watts.items()]


def test_constant_power_is_watts_times_seconds() -> None:
    """300 W over 10 s are 3,000 J."""
    reading = integrate([(float(s), 300.0) for s in range(11)], 0.0, 10.0, source="measured", scope="node")

    assert reading.joules == 3000.0
    assert (reading.source, reading.scope) == ("measured", "node")
    assert (reading.coverage, reading.longest_gap_s, reading.sample_hz) == (1.0, 1.0, 1.0)
    assert reading.num_samples == 11


def test_ramp_is_exact_at_any_rate() -> None:
    """A ramp from 0 to 100 W over 10 s is 500 J, whether read eleven times or twice."""
    often = integrate([(float(s), 10.0 * s) for s in range(11)], 0.0, 10.0)
    rarely = integrate([(0.0, 0.0), (10.0, 100.0)], 0.0, 10.0)

    assert often.joules == pytest.approx(500.0)
    assert rarely.joules == pytest.approx(500.0)
    assert rarely.longest_gap_s == 10.0


def test_step_is_a_ramp_between_its_two_samples() -> None:
    """100 W until 4 s, 200 W from 5 s: 400 + 150 + 1,000 J."""
    reading = integrate(sampled({0: 100, 4: 100, 5: 200, 10: 200}), 0.0, 10.0)

    assert reading.joules == pytest.approx(1550.0)


def test_edges_are_interpolated_onto_the_run() -> None:
    """On the ramp P = 10 t, the run from 2.5 s to 7.5 s draws 250 J of the 500 J."""
    reading = integrate([(float(s), 10.0 * s) for s in range(11)], 2.5, 7.5)

    assert reading.joules == pytest.approx(250.0)
    assert reading.num_samples == 5


def test_run_within_one_gap_has_energy_and_no_sample_of_its_own() -> None:
    """Two samples around a short run measure it; that none lies inside is said."""
    reading = integrate([(0.0, 100.0), (10.0, 200.0)], 4.0, 6.0)

    assert reading.joules == pytest.approx(300.0)
    assert (reading.num_samples, reading.longest_gap_s, reading.coverage) == (0, 10.0, 1.0)


@pytest.mark.parametrize("idle_s", [1, 60, 3600])
def test_idle_before_and_after_changes_nothing(idle_s: int) -> None:
    """A minute of idling logged on both sides leaves the whole reading as it is."""
    run = [(float(s), 250.0 + s % 3) for s in range(-1, 12)]
    before = [(float(s), 40.0) for s in range(-1 - idle_s, -1)]
    after = [(float(s), 40.0) for s in range(12, 12 + idle_s)]

    assert integrate([*before, *run, *after], 0.25, 10.5) == integrate(run, 0.25, 10.5)


@pytest.mark.parametrize(
    ("samples", "coverage", "longest_gap_s", "num_samples"),
    [
        pytest.param([], 0.0, 10.0, 0, id="no sample"),
        pytest.param([(5.0, 100.0)], 0.0, 5.0, 1, id="one sample inside"),
        pytest.param([(-1.0, 100.0)], 0.0, 10.0, 0, id="one sample before"),
        pytest.param([(0.0, 100.0)], 0.0, 10.0, 1, id="one sample on run_start"),
        pytest.param([(12.0, 100.0), (13.0, 100.0)], 0.0, 10.0, 0, id="all after"),
        pytest.param([(1.0, 100.0), (2.0, 100.0), (11.0, 100.0)], 0.9, 9.0, 2, id="first one second late"),
        pytest.param([(0.0, 100.0), (5.0, 100.0)], 0.5, 5.0, 2, id="stops half-way"),
    ],
)
def test_uncovered_run_has_no_energy(samples: Samples, coverage: float, longest_gap_s: float, num_samples: int) -> None:
    """Nothing is extrapolated, and what was not measured is None, never 0 and never a part of the whole."""
    reading = integrate(samples, 0.0, 10.0, source="measured", scope="node")

    assert reading.joules is None
    assert reading.coverage == pytest.approx(coverage)
    assert reading.longest_gap_s == longest_gap_s
    assert reading.num_samples == num_samples


@pytest.mark.parametrize(
    "samples",
    [[], [(0.0, 100.0)], [(1.0, 100.0), (5.0, 200.0), (11.0, 50.0)], [(-1.0, 50.0), (3.0, 60.0), (12.0, 70.0)]],
)
@pytest.mark.parametrize("shift_s", [100.0, -100.0])
def test_where_the_clock_has_its_zero_changes_nothing(samples: Samples, shift_s: float) -> None:
    """A run at 100 s is read like one at 0."""
    shifted = integrate([(at_s + shift_s, power_w) for at_s, power_w in samples], shift_s, shift_s + 10.0)

    assert shifted == integrate(samples, 0.0, 10.0)


def test_zero_watts_are_a_measurement() -> None:
    """A meter that says 0 W has measured 0 J."""
    assert integrate([(0.0, 0.0), (10.0, 0.0)], 0.0, 10.0).joules == 0.0


def test_gap_in_the_middle_is_said() -> None:
    """Samples that a failed sensor did not give show as the longest gap."""
    reading = integrate(sampled({0: 100, 1: 100, 8: 100, 9: 100, 10: 100}), 0.0, 10.0)

    assert reading.joules == pytest.approx(1000.0)
    assert reading.longest_gap_s == 7.0
    assert reading.sample_hz == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        pytest.param([(0.0, 1.0), (2.0, 1.0), (1.0, 1.0)], "sample 3 is at 1.0 s", id="out of order"),
        pytest.param([(0.0, 1.0), (0.0, 2.0)], "sample 2 is at 0.0 s", id="one time twice"),
        pytest.param([(math.nan, 1.0)], "sample 1 is at nan s", id="time is not a number"),
        pytest.param([(0.0, math.nan)], "has nan W", id="power is not a number"),
        pytest.param([(0.0, math.inf)], "has inf W", id="power is infinite"),
        pytest.param([(0.0, -1.0)], "has -1.0 W", id="power is negative"),
    ],
)
def test_disorder_is_refused(samples: Samples, message: str) -> None:
    """A trace that cannot be one is an error, not a smaller number."""
    with pytest.raises(LogError, match=message):
        integrate(samples, 0.0, 10.0)


@pytest.mark.parametrize(
    ("start_s", "stop_s"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf), (-math.inf, 1.0)]
)
def test_run_without_duration_is_refused(start_s: float, stop_s: float) -> None:
    """A run that does not stop after its start has no energy to speak of."""
    with pytest.raises(LogError, match="the run starts at"):
        integrate([(0.0, 1.0)], start_s, stop_s)


@pytest.mark.parametrize("stop_ns", [5, 4])
def test_a_run_without_length_has_no_energy_to_ask_for(stop_ns: int) -> None:
    """Stop at start, or before it: an error, whatever was metered."""
    with pytest.raises(LogError, match="starts at 5 ns and stops at"):
        run_energy([], 5, stop_ns)
