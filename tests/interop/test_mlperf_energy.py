"""MLPerf's energies: the formulas by hand, on a twin of the published logs, on those themselves, by its program."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import check
from harness.energy.accounting import run_energy
from harness.errors import LogError
from harness.log import power_format, power_log
from harness.log.power_format import Sample
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
from tests.rules.box import TODAY
from tests.shared_files import ROOT, shared, unpack

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
    """1 s of the second reading, 3 s of the third, half a second of the fourth; one that goes back is left out,
    whatever its value and wherever it is."""
    readings: list[tuple[float, float]] = [(0, 9), (2, 10), (5, 20), (6, 30)]
    run = (T0 + ns(1), T0 + ns(5.5))
    log = power_log.read(trace(tmp_path, readings, 0, 6))

    assert rule_node_joules(log, *run) == pytest.approx(10 + 60 + 15)
    assert run_energy([log], *run).right_riemann_j == pytest.approx(10 + 60 + 15)
    for place in (2, 3, 4):
        lying = [*readings[:place], (0.5, 1e6), *readings[place:]]
        assert rule_node_joules(power_log.read(trace(tmp_path, lying, 0, 6)), *run) == pytest.approx(10 + 60 + 15)


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


def test_table_of_the_page_is_up_to_date() -> None:
    """docs/reports/published-training-energies.md shows what `tests.interop.published_energies` prints: the energies as
    published and by the rule's own integral, and why each is void."""
    rows = of_archive(shared("mlperf_results/training_v4.0_power.tar.xz"))

    assert markdown(rows) in (ROOT / "docs" / "reports" / "published-training-energies.md").read_text()


@pytest.fixture
def mlperf_joules() -> Callable[[Path, int], float]:
    """The joules of a node by MLPerf's own program, for a run of some milliseconds."""
    mlp_parser = pytest.importorskip("mlperf_logging.compliance_checker.mlp_parser")
    summarizer = pytest.importorskip("mlperf_logging.result_summarizer.result_summarizer")

    def compute(path: Path, run_ms: int) -> float:
        events, errors = mlp_parser.parse_file(str(path), "4.0.0")
        assert errors == []
        return float(summarizer._compute_power_node(events, run_ms))

    return compute


def test_power_log_with_one_meter_is_read_by_mlperfs_program(
    tmp_path: Path, mlperf_joules: Callable[[Path, int], float]
) -> None:
    """300 W for two minutes, with `tta`'s own keys between the readings: 36,000 J by MLPerf's program."""
    path = tmp_path / "node_0.txt"
    lines = [power_format.opening_line(WALL_MS, node="node_0", host="h"), power_format.meter_line(WALL_MS, spec())]
    lines.append(power_format.start_line(WALL_MS, 0))
    lines += [power_format.reading_line(WALL_MS + 1000 * at, spec(), Sample(ns(at), 300.0), at) for at in range(121)]
    lines.append(power_format.stop_line(WALL_MS + 120_000, ns(120)))
    path.write_text("".join(lines))

    assert mlperf_joules(path, 120_000) == pytest.approx(36_000.0)
    assert power_log.read(path).defects == ()


def test_formula_is_the_one_of_mlperfs_program(tmp_path: Path, mlperf_joules: Callable[[Path, int], float]) -> None:
    """A trace that starts before the run and stops after it, with a stop of its own: the same joules."""
    readings = [(WALL_MS + 2006 * index, 200 + 37 * (index % 11)) for index in range(1, 90)]
    path = mlperf_log(tmp_path / "node_0.txt", readings, WALL_MS, readings[-1][0])
    start_ns = (WALL_MS + 20_000) * 1_000_000

    own = published_node_joules(power_log.read(path), start_ns, start_ns + ns(90))

    assert own == pytest.approx(mlperf_joules(path, 90_000), rel=1e-9)


@pytest.mark.slow
def test_published_submission_with_power_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By folder and code, how many runs have the finding; by folder, the defects of the files."""
    unpack(shared("mlperf_results/training_v4.0_power.tar.xz"), tmp_path)

    check.run([tmp_path], "v1", "json", TODAY)

    runs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    kinds: dict[str, set[str]] = defaultdict(set)
    for result in json.loads(capsys.readouterr().out)["results"]:
        place = "/".join(Path(result["path"]).parts[-2:])
        found = [finding for finding in result["findings"] if finding["code"].startswith("PWR")]
        for finding in found:
            runs[place][finding["code"]].add(Path(finding["path"]).relative_to(result["path"]).parts[1])
        kinds[place].update(finding["evidence"]["kind"] for finding in found if finding["code"] == "PWR014")
    slow = {"PWR005", "PWR014", "PWR015", "PWR021"}  # gaps, marks, 2 s between readings, no accuracy and no clock
    assert {place: {code: len(names) for code, names in found.items()} for place, found in runs.items()} == {
        "1xSMC-H100-SXM-80GB/bert": dict.fromkeys(slow, 10),
        "1xSMC-H100-SXM-80GB/dlrm_dcnv2": dict.fromkeys(slow, 10),
        "1xSMC-H100-SXM-80GB/resnet": dict.fromkeys(slow | {"PWR019"}, 5),  # there is a picture among its power logs
        # Two nodes with one log, a quarter of the energy a constant for the switches, times that go back.
        "8xSMC-H100-SXM-80GB/resnet": {**dict.fromkeys(slow | {"PWR009", "PWR011"}, 5), "PWR013": 2},
    }
    marks = {"metadata_empty", "null_as_text", "stop_equals_start"}
    assert kinds == {
        "1xSMC-H100-SXM-80GB/bert": marks,
        "1xSMC-H100-SXM-80GB/dlrm_dcnv2": marks,
        "1xSMC-H100-SXM-80GB/resnet": {"metadata_empty", "numbered_from_one"},
        "8xSMC-H100-SXM-80GB/resnet": marks | {"stamp_far"},
    }
