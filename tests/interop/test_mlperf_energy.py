"""MLPerf's formulas: hand-worked, on a synthetic twin of the published logs, and on the logs themselves."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from harness.energy.accounting import run_energy
from harness.errors import LogError
from harness.log import power_log
from tests.interop.published_energies import (
    Formula,
    markdown,
    of_archive,
    olympic_mean,
    published_node_joules,
    rule_node_joules,
    run_joules,
)
from tests.powertrace import WALL_MS, gpu, mlperf_line, mlperf_log, node, ns, power, spec, switch
from tests.shared_files import ROOT, shared

T0 = WALL_MS * 1_000_000


def trace(
    folder: Path, readings: list[tuple[float, float]], start_s: float, stop_s: float, name: str = "node_0"
) -> Path:
    """Readings at seconds after WALL_MS."""
    return mlperf_log(
        folder / f"{name}.txt",
        [(WALL_MS + round(1000 * at_s), watts) for at_s, watts in readings],
        WALL_MS + round(1000 * start_s),
        WALL_MS + round(1000 * stop_s),
        null="null",
        metadata="",
    )


def test_published_formula_is_the_mean_of_the_whole_window_times_the_run(tmp_path: Path) -> None:
    """Logged from 0 to 10 s: 2 s at 100 W, 6 s at 400 W, 2 s at 100 W: a mean of 280 W. The run of 6 s gets 1,680 J."""
    log = power_log.read(trace(tmp_path, [(2, 100), (8, 400), (10, 100)], 0, 0))
    run = (T0 + ns(2), T0 + ns(8))

    assert published_node_joules(log, *run) == pytest.approx(1680.0)
    assert rule_node_joules(log, *run) == pytest.approx(2400.0)


def test_rule_is_the_right_sum_within_the_run(tmp_path: Path) -> None:
    """1 s of the second reading, 3 s of the third, half a second of the fourth."""
    log = power_log.read(trace(tmp_path, [(0, 9), (2, 10), (5, 20), (6, 30)], 0, 6))
    run = (T0 + ns(1), T0 + ns(5.5))

    assert rule_node_joules(log, *run) == pytest.approx(10 + 60 + 15)
    assert run_energy([log], *run).right_riemann_j == pytest.approx(10 + 60 + 15)


def test_published_formula_changes_with_idle_before_and_after_and_tta_s_does_not(tmp_path: Path) -> None:
    """A minute of idling on both sides makes the published energy of a run of a minute smaller by half."""
    run = [(float(second), 600.0) for second in range(-1, 62)]
    idle = [(float(second), 60.0) for second in (*range(-61, -1), *range(62, 122))]
    plain = power_log.read(trace(tmp_path, run, -1, 61))
    padded = power_log.read(trace(tmp_path, sorted(run + idle), -61, 121, "node_1"))
    edges = (T0, T0 + ns(60))

    published = [run_joules("mlperf-v4.0", [log], *edges) for log in (plain, padded)]
    own = [run_energy([log], *edges).joules for log in (plain, padded)]
    assert published[1] < 0.6 * published[0]
    assert own == [pytest.approx(36_000.0)] * 2


def test_conversion_factor_and_switch_are_mlperfs(tmp_path: Path) -> None:
    """conversion_eff multiplies the readings; the switch draws its estimate for as long as the run takes."""
    path = trace(tmp_path, [(0, 300), (10, 300)], 0, 10)
    path.write_text(path.read_text() + mlperf_line(WALL_MS, "conversion_eff", 0.5, {"measurement_type": "AC"}))
    nodes = [power_log.read(path), switch(50.0)]
    edges = (T0, T0 + ns(10))
    formulas: tuple[Formula, ...] = ("mlperf-v4.0", "mlperf-rule")

    assert [run_joules(formula, nodes, *edges) for formula in formulas] == [1500 + 500, 1500 + 500]


def test_run_without_a_reading_is_refused() -> None:
    """A formula needs readings; 0 J would be an energy."""
    with pytest.raises(LogError, match="no node of the run has a power reading"):
        run_joules("mlperf-v4.0", [switch(50.0)], 0, 1)
    with pytest.raises(LogError, match="stops at 0 ns"):
        run_joules("mlperf-v4.0", [node()], 0, 0)
    with pytest.raises(LogError, match="has no readings after a power_measurement_start"):
        published_node_joules(node(), 0, 1)
    with pytest.raises(LogError, match="has no readings"):
        rule_node_joules(node(0, {gpu(): power(1.0)}), 0, 1)
    with pytest.raises(LogError, match="2 power meters; MLPerf's formulas are for one"):
        rule_node_joules(node(0, {spec(): power(1.0), spec(id="other"): power(1.0)}), 0, 1)


def test_olympic_mean_keeps_the_runs_that_the_time_keeps() -> None:
    """Sorted by time, not by energy; the factor of the review multiplies."""
    assert olympic_mean([3.0, 1.0, 2.0, 5.0, 4.0], [30, 999, 20, 0, 40]) == 30.0
    assert olympic_mean([3.0, 1.0, 2.0], [30, 999, 20], scaling_factor=2.0) == 40.0
    assert olympic_mean(range(40), [*[1e9] * 4, *[7.0] * 32, *[0.0] * 4], drop=4) == 7.0
    with pytest.raises(LogError, match="2 times and 2 energies; more than 2 of each are needed"):
        olympic_mean([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(LogError, match="3 times and 2 energies"):
        olympic_mean([1.0, 2.0, 3.0], [1.0, 2.0])


# 9 The replay


def twin(place: Path) -> Path:
    """An archive with the shape and the defects of the published one, whose energies can be worked out by hand.

    Five runs of 100 s to 108 s on two nodes; each logs 600 W within the run, 200 W for 60 s on either side, every 2 s;
    the switch is estimated at 150 W; the review scaled by 1.5.
    """
    benchmark = place / "acme" / "results" / "2xbox" / "resnet"
    for index, length_s in enumerate((104, 100, 108, 102, 106)):
        folder = benchmark / "power" / f"result_{index}"
        for number in (1, 2):
            seconds = range(-60, length_s + 61, 2)
            readings = [(second, (600 if 0 < second <= length_s else 200) + number) for second in seconds]
            trace(folder, [(float(at_s), float(watts)) for at_s, watts in readings], -60, -60, f"node_{number}")
        (folder / "sw_0.txt").write_text(mlperf_line(1_652_749_794_206, "interconnect_power_est", 150, {}))
        (folder / "nodes_1_to_2.png").write_bytes(b"\x89PNG")
        (benchmark / f"result_{index}.txt").write_text(
            mlperf_line(WALL_MS, "run_start", None, {}, "INTERVAL_START")
            + mlperf_line(WALL_MS + 1000 * length_s, "run_stop", None, {"status": "success"}, "INTERVAL_END")
        )
    (benchmark / "scaling.json").write_text(json.dumps({"scaling_factor": 1.5}))
    archive = place / "twin.tar.xz"
    with tarfile.open(archive, "w:xz") as stream:
        stream.add(place / "acme", "acme")
    return archive


def test_synthetic_twin_of_the_published_logs(tmp_path: Path) -> None:
    """By hand, over the runs of 102, 104 and 106 s that are kept: L s at 603 W and 120 s at 203 W for two nodes."""
    (row,) = of_archive(twin(tmp_path))

    lengths = (102, 104, 106)
    switches = [150 * length for length in lengths]
    whole = [sum(600 * length + 200 * 120 + n * (length + 120) for n in (1, 2)) for length in lengths]
    by_formula = [area * length / (length + 120) for area, length in zip(whole, lengths, strict=True)]
    assert row.published_kj == pytest.approx(1.5 * (sum(by_formula) + sum(switches)) / 3 / 1e3)
    assert row.riemann_kj == pytest.approx(1.5 * sum(1203 * length + 150 * length for length in lengths) / 3 / 1e3)
    # The first step of 2 s rises from 200 to 600 W: 400 J of each node less than the sum over right ends.
    assert row.integral_kj == pytest.approx(row.riemann_kj - 1.5 * 0.8)
    assert (row.num_nodes, row.num_runs, row.num_samples) == (2, 5, 51)
    assert (row.median_step_s, row.longest_gap_s, row.coverage) == (2.0, 2.0, 1.0)
    assert row.share_estimated == pytest.approx(150 / 1353, rel=0.01)
    assert row.void == ("estimated_share", "few_samples")
    assert "| 2 | resnet |" in markdown([row])


def test_published_energies_are_replayed_from_the_published_logs() -> None:
    """Four folders of the v4.0 power archive, to 0.01 kJ: as published, and by the rule's own integral."""
    rows = of_archive(shared("mlperf_results/training_v4.0_power.tar.xz"))

    got = {(row.num_nodes, row.benchmark): row for row in rows}
    assert {place: (round(row.published_kj, 2), round(row.integral_kj, 2)) for place, row in got.items()} == {
        (1, "bert"): (1843.07, 2218.98),
        (1, "resnet"): (5671.89, 5666.07),
        (1, "dlrm_dcnv2"): (1309.82, 1628.58),
        (8, "resnet"): (7867.17, 9575.98),
    }
    assert {place: round(row.riemann_kj, 2) for place, row in got.items()} == {
        (1, "bert"): 2222.17,
        (1, "resnet"): 5662.76,
        (1, "dlrm_dcnv2"): 1633.59,
        (8, "resnet"): 9614.88,
    }
    assert all("gap" in row.void for row in rows)
    assert got[8, "resnet"].void == ("estimated_share", "gap", "same_trace", "time_backwards")
    assert got[8, "resnet"].share_estimated == pytest.approx(0.26, abs=0.005)


def test_table_of_the_page_is_up_to_date() -> None:
    """docs/reports/published-training-energies.md shows what `tests.interop.published_energies` prints."""
    rows = of_archive(shared("mlperf_results/training_v4.0_power.tar.xz"))

    assert markdown(rows) in (ROOT / "docs" / "reports" / "published-training-energies.md").read_text()


def test_a_reading_that_goes_back_is_left_out(tmp_path: Path) -> None:
    """Whatever its value, and wherever it is."""
    honest = [(0, 9), (2, 10), (5, 20), (6, 30)]
    run = (T0 + ns(1), T0 + ns(5.5))
    joules = rule_node_joules(power_log.read(trace(tmp_path, honest, 0, 6)), *run)

    for place in (2, 3, 4):
        lying = [*honest[:place], (0.5, 1e6), *honest[place:]]
        assert rule_node_joules(power_log.read(trace(tmp_path, lying, 0, 6)), *run) == joules
