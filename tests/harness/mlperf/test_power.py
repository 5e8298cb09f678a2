"""MLPerf's two formulas for the energy of a run, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from harness.energy.accounting import run_energy
from harness.errors import LogError
from harness.log import power_log
from harness.mlperf.power import Formula, published_node_joules, rule_node_joules, run_joules
from tests.powertrace import WALL_MS, gpu, mlperf_line, mlperf_trace, node, ns, power, spec, switch

T0 = WALL_MS * 1_000_000


def test_published_formula_is_the_mean_of_the_whole_window_times_the_run(tmp_path: Path) -> None:
    """Logged from 0 to 10 s: 2 s at 100 W, 6 s at 400 W, 2 s at 100 W: a mean of 280 W. The run of 6 s gets 1,680 J."""
    log = power_log.read(mlperf_trace(tmp_path, [(2, 100), (8, 400), (10, 100)], 0, 0))
    run = (T0 + ns(2), T0 + ns(8))

    assert published_node_joules(log, *run) == pytest.approx(1680.0)
    assert rule_node_joules(log, *run) == pytest.approx(2400.0)


def test_rule_is_the_right_sum_within_the_run(tmp_path: Path) -> None:
    """1 s of the second reading, 3 s of the third, half a second of the fourth; one that goes back is left out,
    whatever its value and wherever it is."""
    readings: list[tuple[float, float]] = [(0, 9), (2, 10), (5, 20), (6, 30)]
    run = (T0 + ns(1), T0 + ns(5.5))
    log = power_log.read(mlperf_trace(tmp_path, readings, 0, 6))

    assert rule_node_joules(log, *run) == pytest.approx(10 + 60 + 15)
    assert run_energy([log], *run).right_riemann_j == pytest.approx(10 + 60 + 15)
    for place in (2, 3, 4):
        lying = [*readings[:place], (0.5, 1e6), *readings[place:]]
        assert rule_node_joules(power_log.read(mlperf_trace(tmp_path, lying, 0, 6)), *run) == pytest.approx(
            10 + 60 + 15
        )


def test_conversion_factor_and_switch_are_mlperfs(tmp_path: Path) -> None:
    """conversion_eff multiplies the readings; the switch draws its estimate for as long as the run takes."""
    path = mlperf_trace(tmp_path, [(0, 300), (10, 300)], 0, 10)
    path.write_text(path.read_text() + mlperf_line(WALL_MS, "conversion_eff", 0.5, {"measurement_type": "AC"}))
    nodes = [power_log.read(path), switch(50.0)]
    edges = (T0, T0 + ns(10))

    assert [run_joules(formula, nodes, *edges) for formula in get_args(Formula)] == [1500 + 500, 1500 + 500]


def test_run_without_a_reading_is_refused() -> None:
    """A formula needs readings; 0 J would be an energy."""
    with pytest.raises(LogError, match="no node of the run has a power reading"):
        run_joules("published", [switch(50.0)], 0, 1)
    with pytest.raises(LogError, match="stops at 0 ns"):
        run_joules("published", [node()], 0, 0)
    with pytest.raises(LogError, match="has no readings after a power_measurement_start"):
        published_node_joules(node(), 0, 1)
    with pytest.raises(LogError, match="has no readings"):
        rule_node_joules(node(0, {gpu(): power(1.0)}), 0, 1)
    with pytest.raises(LogError, match="2 power meters; MLPerf's formulas are for one"):
        rule_node_joules(node(0, {spec(): power(1.0), spec(id="other"): power(1.0)}), 0, 1)
