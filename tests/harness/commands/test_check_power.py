"""`tta check` on power logs: those in MLPerf's format with the defects that published ones have, and hostile ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from harness.commands import check
from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.log import power_files
from harness.submission import result as results
from rules.checks.pwr._metered import metered
from tests import fabricate
from tests.powertrace import WALL_MS, mlperf_line, mlperf_log
from tests.rules.box import TODAY, codes

SYSTEM = "9xBOX"
RUN_S = 120


def submission_of(tree: Path, num_nodes: int = 1, names: tuple[str, ...] = ("result_0.txt",)) -> Path:
    """A submission in MLPerf's layout: run logs of two minutes, a system, and nothing metered yet."""
    folder = tree / "smc" / "results" / SYSTEM / "bert"
    folder.mkdir(parents=True)
    for name in names:
        lines = [mlperf_line(WALL_MS, "submission_benchmark", "bert", {"lineno": 1})]
        lines.append(mlperf_line(WALL_MS + 10_000, "run_start", None, {"lineno": 1}, "INTERVAL_START"))
        stop_ms = WALL_MS + 10_000 + 1000 * RUN_S
        lines.append(mlperf_line(stop_ms, "run_stop", None, {"lineno": 1, "status": "success"}, "INTERVAL_END"))
        (folder / name).write_text("".join(lines))
    (tree / "smc" / "systems").mkdir()
    (tree / "smc" / "systems" / f"{SYSTEM}.json").write_text(json.dumps({"number_of_nodes": str(num_nodes)}))
    return folder


def readings(step_ms: int = 1000, node: int = 0, from_s: float = 0.0, to_s: float = 140.0) -> list[tuple[int, Any]]:
    """Watts at every step of two minutes and ten seconds on either side."""
    count = math.floor((to_s - from_s) * 1000 / step_ms) + 1
    return [(WALL_MS + round(from_s * 1000) + step_ms * index, 3000 + 10 * node + index % 7) for index in range(count)]


def found_in(tree: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Code and message of every finding about energy."""
    check.run([tree], "v1", "json", TODAY)
    document = json.loads(capsys.readouterr().out)
    findings = [finding for result in document["results"] for finding in result["findings"]]
    return [(item["code"], item["message"]) for item in findings if item["code"].startswith("PWR")]


def test_sound_logs_of_mlperfs_kind_have_one_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They cannot log a clock offset, nor how accurate their meter is."""
    folder = submission_of(tmp_path)
    mlperf_log(folder / "power" / "result_0" / "node_0.txt", readings())

    assert [code for code, _ in found_in(tmp_path, capsys)] == ["PWR021"]


def node_of(folder: Path, number: int = 0) -> Path:
    return folder / "power" / "result_0" / f"node_{number}.txt"


def test_all_defects_at_once_are_all_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of nine nodes: none hides another, and nothing crashes."""
    folder = submission_of(tmp_path, num_nodes=8)
    items = readings(step_ms=2006)
    items = [item for item in items if not 50_500 < item[0] - WALL_MS < 73_000]
    items[20] = (items[19][0] - 259, items[20][1])
    for number in range(1, 9):
        shifted = [(at_ms, watts + number) for at_ms, watts in items]
        shifted = shifted[:40] if number == 8 else shifted
        mlperf_log(node_of(folder, number), shifted, stop_ms=shifted[0][0], null="null", metadata="")
    a_switch = mlperf_line(WALL_MS - 63_072_000_000, "interconnect_power_est", 16_100, "")
    (folder / "power" / "result_0" / "sw_0.txt").write_text(a_switch)

    found = found_in(tmp_path, capsys)
    kinds = {message.partition(":")[0] for code, message in found if code == "PWR014"}

    assert {code for code, _ in found} >= {"PWR004", "PWR005", "PWR011", "PWR013", "PWR014", "PWR015"}
    assert kinds >= {"stop_equals_start", "null_as_text", "metadata_empty", "numbered_from_one", "stamp_far"}


def test_logs_named_as_mlperf_permits_are_one_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """result_5119-2405_06.txt with its power logs in power/result_5119-2405_06/; the nodes are those described."""
    names = ("result_5119-2405_06.txt", "result_5119-2405_07.txt")
    folder = submission_of(tmp_path, num_nodes=2, names=names)
    mlperf_log(folder / "power" / "result_5119-2405_06" / "node_0.txt", readings())

    found = found_in(tmp_path, capsys)

    assert results.find_results(tmp_path) == [folder]
    assert [code for code, _ in found] == ["PWR008", "PWR020", "PWR021"]
    assert "power logs: 1, described nodes: 2" in found[0][1]


def test_lone_log_is_judged_with_its_power_logs(tmp_path: Path) -> None:
    """As it is in the folder of its result."""
    folder = fabricate.write_result(tmp_path / "out", power="node")
    alone = results.read_result(folder / "result_1.txt").runs[0]
    among = results.read_result(folder).runs[1]

    assert len(alone.nodes) == len(alone.idle) == 1
    assert energy_of(alone, EnergyLimits(), 1) == energy_of(among, EnergyLimits(), 1)


@pytest.mark.parametrize("place", ["power", "power/result_0", "power/result_0/node_0.txt"])
def test_links_are_not_followed(tmp_path: Path, place: str) -> None:
    """Neither the folder of the power logs, nor that of a run, nor a log."""
    folder = fabricate.write_result(tmp_path / "out", power="node")
    (folder / place).rename(tmp_path / "elsewhere")
    (folder / place).symlink_to(tmp_path / "elsewhere")

    assert not any(node.specs for node in results.read_result(folder).runs[0].nodes)


def test_too_much_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many bytes in a result and too many logs in a run are defects."""
    folder = fabricate.write_result(tmp_path / "out", power="node", num_nodes=2)
    monkeypatch.setattr(power_files, "MAX_LOGS", 1)
    spent = power_files.read_nodes(folder / "power" / "result_0", power_files.Budget(1000))
    many = power_files.read_nodes(folder / "power" / "result_0", power_files.Budget())

    assert [node.defect_counts for node in spent] == [{"unreadable": 1, "too_many": 1}]
    assert [node.defect_counts for node in many] == [{"too_many": 1}]


def test_energies_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many checks need them."""
    from harness.energy import from_logs

    result = results.read_result(fabricate.write_result(tmp_path / "out", power="node"))
    ruleset = fabricate.ruleset(codes())
    first = list(metered(result, ruleset))
    monkeypatch.setattr(from_logs, "run_energy", None)

    assert [run.energy for run in metered(result, ruleset)] == [run.energy for run in first]
