"""MLPerf's own program reads `tta`'s power logs, and agrees with the formula in `published_energies`."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.log import power_format, power_log
from harness.log.power_format import Sample
from tests.interop.published_energies import published_node_joules
from tests.powertrace import WALL_MS, mlperf_log, ns, spec

mlp_parser = pytest.importorskip("mlperf_logging.compliance_checker.mlp_parser")
summarizer = pytest.importorskip("mlperf_logging.result_summarizer.result_summarizer")

RULESET = "4.0.0"


def test_power_log_with_one_meter_is_read_by_mlperfs_program(tmp_path: Path) -> None:
    """300 W for two minutes, with `tta`'s own keys between the readings: 36,000 J by MLPerf's program."""
    path = tmp_path / "node_0.txt"
    lines = [power_format.opening_line(WALL_MS, node="node_0", host="h"), power_format.meter_line(WALL_MS, spec())]
    lines.append(power_format.start_line(WALL_MS, 0))
    lines += [power_format.reading_line(WALL_MS + 1000 * at, spec(), Sample(ns(at), 300.0), at) for at in range(121)]
    lines.append(power_format.stop_line(WALL_MS + 120_000, ns(120)))
    path.write_text("".join(lines))

    events, errors = mlp_parser.parse_file(str(path), RULESET)

    assert errors == []
    assert summarizer._compute_power_node(events, 120_000) == pytest.approx(36_000.0)
    assert power_log.read(path).defects == ()


def test_formula_is_the_one_of_mlperfs_program(tmp_path: Path) -> None:
    """A trace that starts before the run and stops after it, with a stop of its own: the same joules."""
    readings = [(WALL_MS + 2006 * index, 200 + 37 * (index % 11)) for index in range(1, 90)]
    path = mlperf_log(tmp_path / "node_0.txt", readings, WALL_MS, readings[-1][0])
    start_ns = (WALL_MS + 20_000) * 1_000_000

    events, _ = mlp_parser.parse_file(str(path), RULESET)

    theirs = summarizer._compute_power_node(events, 90_000)
    assert published_node_joules(power_log.read(path), start_ns, start_ns + ns(90)) == pytest.approx(theirs, rel=1e-9)
