"""Messages of the checks of power logs: counts, seconds, and their sign."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules.checks.pwr._metered import NOT_RANKED
from tests.rules.box import Case
from tests.rules.fixtures.pwr import CASES

METERED = "were metered (accelerators_per_node of the system description)"
MESSAGES = {
    "in_one_run_only_the_processor_was_metered": [f"0 of 1 {METERED}"],
    "an_accelerator_of_the_second_node_was_not_metered": [f"1 of 2 {METERED}; {NOT_RANKED}"],
    "the_second_of_two_meters_was_read_too_early": [
        f"its readings begin 2.100 s before the run's log; the limit is 2 s; {NOT_RANKED}"
    ],
    "the_first_of_two_meters_was_read_too_late": [
        f"its readings end 2.100 s after the run's log; the limit is 2 s; {NOT_RANKED}"
    ],
    "the_clocks_of_an_analyser_are_farther_apart": [
        f"its clocks are 1.000 s from those of the run; the limit is 1 s; {NOT_RANKED}",
        f"its clocks are -1.001 s from those of the run; the limit is 1 s; {NOT_RANKED}",
    ],
    "an_imported_meter_is_next_to_one_that_was_not_read": [
        f"tta_energy says that nothing was metered; its meters are csv:wall, ipmi:dcmi; {NOT_RANKED}"
    ],
}


@pytest.mark.parametrize("case", [case for case in CASES if case.name in MESSAGES], ids=lambda case: case.label)
def test_a_finding_has_its_numbers(case: Case, tmp_path: Path) -> None:
    """What was seen and what is allowed."""
    box = case.open(tmp_path)
    case.damage(box)
    if not box.is_written:
        box.write()

    assert [finding.message for finding in box.judge() if finding.code == case.code] == MESSAGES[case.name]
