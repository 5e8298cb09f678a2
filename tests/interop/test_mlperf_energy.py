"""MLPerf's energies: on a twin of the published logs, on those themselves, and by its program."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import check, derive, score
from harness.errors import ExitStatus
from harness.log import power_format, power_log
from harness.log.power_format import Sample
from harness.mlperf.power import published_node_joules
from tests.interop.published_energies import markdown, of_archive
from tests.powertrace import WALL_MS, mlperf_line, mlperf_log, mlperf_trace, ns, spec
from tests.rules.box import TODAY
from tests.shared_files import ROOT, shared, unpack


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
            mlperf_trace(folder, [(float(at_s), float(watts)) for at_s, watts in readings], -60, -60, f"node_{number}")
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


def test_score_of_the_published_round_has_the_published_energies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kilojoules by the published formula, by the rule's sum and by the integral, as in the report; each derived."""
    unpack(shared("mlperf_results/training_v4.0_power.tar.xz"), tmp_path)

    assert score.run([tmp_path], "mlperf_training/4.0.0", "json", TODAY) is ExitStatus.OK
    results = json.loads(capsys.readouterr().out)["results"]
    derive.run([tmp_path], "mlperf_training/4.0.0", "json", None, None, TODAY)
    derived = json.loads(capsys.readouterr().out)["results"]

    names = ("published_j", "rule_j", "drawn_j")
    energies = {
        "/".join(Path(result["path"]).parts[-2:]): tuple(round(result["energy"][name] / 1e3, 2) for name in names)
        for result in results
    }
    assert energies == {
        "1xSMC-H100-SXM-80GB/bert": (1843.07, 2222.17, 2218.98),
        "1xSMC-H100-SXM-80GB/dlrm_dcnv2": (1309.82, 1633.59, 1628.58),
        "1xSMC-H100-SXM-80GB/resnet": (5671.89, 5662.76, 5666.07),
        "8xSMC-H100-SXM-80GB/resnet": (7867.17, 9614.88, 9575.98),
    }
    for result, derivation in zip(results, derived, strict=True):
        numbers = {item["name"]: item for item in derivation["numbers"]}
        for name in names:
            assert numbers[f"round.energy.{name}"]["value"] == result["energy"][name]
        assert all(item["formula"] and item["places"] for item in numbers.values())


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
