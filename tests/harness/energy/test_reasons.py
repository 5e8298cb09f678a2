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
def test_the_check_of_a_reason_is_installed_and_knows_it(reason: VoidReason | EnergyFlag) -> None:
    """Its words are a clause, without a placeholder left over. PWR016 and PWR022 find theirs log by log; a run that was
    not metered has no energy to be void."""
    words = reason.words(EnergyLimits())
    [path] = FOLDER.glob(f"{reason.code.lower()}_*.py")

    assert reason.code in registry.checks()
    assert words[0].islower()
    assert not set("{}") & set(words)
    if isinstance(reason, VoidReason) and reason not in ("other_run", "devices_missing", "unmetered"):
        assert f"VoidReason.{reason.name}" in path.read_text()


def test_words_have_the_limits_of_the_rules() -> None:
    """Not the defaults."""
    limits = EnergyLimits(min_coverage=0.995, max_gap_s=0.5)

    assert VoidReason.COVERAGE.words(limits) == "a meter's readings cover less than 99.5 % of a run"
    assert VoidReason.GAP.words(limits) == "a meter gave no reading for more than 0.5 s"
