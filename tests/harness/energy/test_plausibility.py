"""Energy from another time or device, or from some devices only, is void exactly if a check reports it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.board import leaderboard
from harness.energy.plausibility import Missing
from harness.submission import result as results
from rules.checks.pwr._metered import NOT_RANKED
from tests import powertrace
from tests.rules.box import Box, Case
from tests.rules.fixtures import pwr

REASONS = {"PWR022": "devices_missing", "PWR023": "other_time", "PWR024": "of_nobody"}


@pytest.mark.parametrize("case", pwr.CASES, ids=lambda case: case.label)
def test_what_is_reported_as_not_ranked_is_void(case: Case, tmp_path: Path) -> None:
    """And nothing else: an energy is void for a reason if and only if a finding of a run that counts gives it."""
    box = case.open(tmp_path)
    case.damage(box)
    if not box.is_written:
        box.write()
    result = results.read_result(box.folder)
    row = leaderboard.rate(result, box.ruleset, box.judge(), None)
    energy, left_out = row.score.energy, {result.runs[index].path.stem for index in row.score.left_out}

    reported = {
        REASONS[finding.code]
        for finding in row.findings
        if finding.code in REASONS and NOT_RANKED in finding.message and Path(finding.path).parent.name not in left_out
    }
    void = set() if energy is None else set(energy.void) & set(REASONS.values())

    assert void == reported or row.score.seconds is None
    assert energy is None or not reported or not energy.may_rank


@pytest.mark.parametrize(
    ("name", "metered", "voids"),
    [
        ("accelerators_per_node", 1, True),
        ("accelerators_per_node", 0, False),
        ("host_processors_per_node", 1, False),
    ],
)
def test_missing_accelerators_void_and_missing_processors_do_not(name: str, metered: int, voids: bool) -> None:
    """If no accelerator was metered, the scope shows it; processors may be counted in packages or in modules."""
    assert Missing(powertrace.node(), name, 2, metered).voids is voids


@pytest.mark.parametrize("index", range(5))
def test_a_run_that_was_not_metered_lacks_no_devices(index: int, tmp_path: Path) -> None:
    """It has a reason of its own; all runs of a pace score count."""
    box = Box(tmp_path, options=pwr.COUNTERS)
    box.write()
    shutil.rmtree(box.folder / "power" / f"result_{index}")
    row = leaderboard.rate(results.read_result(box.folder), box.ruleset, [], None)

    assert row.score.energy is not None
    assert "unmetered" in row.score.energy.void
    assert "devices_missing" not in row.score.energy.void
