"""The seeds by source of chance that a log states: read as they were written, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.seeds import MAX_SEED, SOURCES, Seeds, parse_seeds, seeds_of
from tests import fabricate
from tests.fabricate import Step
from tests.rules.box import put

FIXED = {"order": 2, "noise": MAX_SEED}


def test_what_is_written_is_read() -> None:
    """A seed for each source, whether it is fixed or this run's own."""
    seeds = parse_seeds(Seeds(FIXED, {"weights": 0}).record())

    assert seeds == Seeds(FIXED, {"weights": 0})
    assert [seeds[source] for source in SOURCES] == [0, 2, MAX_SEED]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "not two mappings, fixed and varied"),
        ({"fixed": FIXED}, "not two mappings, fixed and varied"),
        ({"fixed": [], "varied": FIXED}, "not two mappings, fixed and varied"),
        ({"fixed": FIXED, "varied": {}}, "not one seed for each of weights, order, noise"),
        ({"fixed": FIXED, "varied": {"weights": 1, "order": 1}}, "not one seed for each of weights, order, noise"),
        ({"fixed": FIXED, "varied": {"luck": 1}}, "not one seed for each of weights, order, noise"),
        ({"fixed": FIXED, "varied": {"weights": -1}}, "the seed of weights is not a whole number from 0 to 2147483647"),
        ({"fixed": FIXED, "varied": {"weights": 2**31}}, "the seed of weights is not a whole number"),
        ({"fixed": FIXED, "varied": {"weights": True}}, "the seed of weights is not a whole number"),
        ({"fixed": FIXED, "varied": {"weights": 1.0}}, "the seed of weights is not a whole number"),
    ],
)
def test_what_is_malformed_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_seeds(value)


def test_only_runs_of_variance_have_them(tmp_path: Path) -> None:
    """Any other run has one seed."""
    steps = fabricate.events()
    plain = fabricate.write_log(tmp_path / "result_0.txt", steps)
    assert seeds_of(run_log.read(plain)) is None

    put(steps, Step(0.0, "tta_seeds", Seeds(FIXED, {"weights": 5}).record()), "tta_rules")
    varied = fabricate.write_log(tmp_path / "result_1.txt", steps)
    assert seeds_of(run_log.read(varied)) == Seeds(FIXED, {"weights": 5})
