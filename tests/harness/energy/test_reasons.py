"""Void reasons and flags against the checks that report them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checker import registry
from harness.energy.limits import EnergyLimits
from harness.energy.reasons import EnergyFlag, VoidReason
from harness.ruleset import catalog

FOLDER = Path(catalog.__file__).parents[2] / "rules" / "checks" / "pwr"


@pytest.mark.parametrize("reason", [*VoidReason, *EnergyFlag], ids=lambda reason: f"{type(reason).__name__}.{reason}")
def test_the_check_of_a_reason_is_installed(reason: VoidReason | EnergyFlag) -> None:
    """Its words are a clause, without a placeholder left over."""
    words = reason.words(EnergyLimits())

    assert reason.code in registry.checks()
    assert words[0].islower()
    assert not set("{}") & set(words)


@pytest.mark.parametrize("reason", VoidReason)
def test_the_check_of_a_void_reason_knows_it(reason: VoidReason) -> None:
    """PWR016 and PWR022 find theirs log by log; a run that was not metered has no energy to be void."""
    [path] = FOLDER.glob(f"{reason.code.lower()}_*.py")

    assert f"VoidReason.{reason.name}" in path.read_text() or reason in ("other_run", "devices_missing", "unmetered")


def test_words_have_the_limits_of_the_rules() -> None:
    limits = EnergyLimits(min_coverage=0.995, max_gap_s=0.5)

    assert VoidReason.COVERAGE.words(limits) == "a meter's readings cover less than 99.5 % of a run"
    assert VoidReason.GAP.words(limits) == "a meter gave no reading for more than 0.5 s"


def test_values_are_the_names_in_logs() -> None:
    """Python says what it is; the log keeps its words."""
    assert (VoidReason.UNATTRIBUTED, VoidReason.OUTSIDE_RUN) == ("of_nobody", "other_time")
    assert f"{VoidReason.GAP}" == "gap"
