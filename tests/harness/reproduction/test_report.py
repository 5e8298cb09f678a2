"""What is said before, during and after the runs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.log.run_log import read
from harness.reproduction import report
from harness.reproduction.claim import Claim
from harness.reproduction.reproduction import Outlook, Reproduction, Terms, length_s, mean_length_s
from harness.reproduction.screening import Screening, screen
from harness.scoring.non_inferiority import Scatter
from harness.scoring.prospect import prospect
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, Recomputed
from harness.submission.result import read_result
from tests import fabricate

OUTLOOK = Outlook(0.06, prospect(5, Scatter(0.06**2, 19), 0.1), 100.0, Decimal("3.60"))


def test_estimate_has_the_runs_their_time_and_their_price() -> None:
    """About eight runs of 100 s, as facts of the plan; at $3.60 an hour a second costs a tenth of a cent."""
    seconds = OUTLOOK.seconds
    assert seconds is not None
    assert seconds == pytest.approx(810, rel=0.05)

    text = report.estimate_text(OUTLOOK)

    assert text.startswith("plan: about 8 runs until the verdict: 13 min")
    assert text.endswith(f", ${seconds / 1000:.2f}")


def test_estimate_without_a_pace_says_when_it_comes() -> None:
    """On another system the claim's time says nothing; without a reference the number of runs is not known either."""
    assert report.estimate_text(replace(OUTLOOK, run_s=None)).endswith("the time is known after the first run")
    assert report.estimate_text(Outlook(None, None, 100.0, None)) == "plan: 1 min 40 s a run"


def curves(factors: list[float]) -> list[list[tuple[float, float]]]:
    """Runs that rise to 1 as 1 - exp(-samples / 1000), slower by these factors."""
    return [[(100.0 * k, 1 - math.exp(-k / 10 / factor)) for k in range(1, 11)] for factor in factors]


@pytest.mark.parametrize(
    ("factors", "doubtful"), [([1.0, 1.02, 0.98], False), ([1.4, 1.45, 1.42], True), ([1.06, 1.04, 1.05], False)]
)
def test_screening_speaks_against_what_is_slower_by_the_tolerance(factors: list[float], doubtful: bool) -> None:
    found = screen(curves([1.0, 1.03, 0.97, 1.01, 0.99]), curves(factors), 1000)

    assert found is not None
    assert found.ratio == pytest.approx(math.prod(factors) ** (1 / 3), rel=0.02)
    assert report.is_doubtful(found, 0.1) is doubtful
    said = "that speaks" if doubtful else "nothing speaks"
    assert f"{said} against the claim" in report.screening_text(1000, found, 0.1)
    assert report.screening_facts(1000, found)["ratio"] == found.ratio


def test_screening_of_curves_too_short_or_of_one_run_says_so() -> None:
    assert screen(curves([1.0]), [[(100.0, 0.1)]], 1000) is None
    assert "too few evaluations within 1,000 samples" in report.screening_text(1000, None, 0.1)
    assert report.screening_facts(1000, None)["ratio"] is None

    single = screen(curves([1.0]), curves([1.2]), 1000)

    assert single is not None
    assert single.interval is None
    assert "scatter is not known" in report.screening_text(1000, single, 0.1)
    assert not report.is_doubtful(single, 0.1)
    assert report.screening_facts(1000, Screening(1.2, None, 1, 1))["interval_90"] is None


def test_kept_predictions_and_weights_are_said(tmp_path: Path) -> None:
    """How many were computed again, why others were not, and what contradicts the logs."""
    result = read_result(fabricate.write_result(tmp_path, 3))
    recomputed = {"result_0.txt": Recomputed(COMPUTED, "", 0.95, 500)}
    reevaluated = {
        "result_0.txt": Recomputed(COMPUTED, "", 0.95, 500),
        "result_1.txt": Recomputed(COMPUTED, "", 0.8, 500, margin=0.01),
        "result_2.txt": Recomputed(IMPOSSIBLE, "the data are not prepared here"),
    }
    found = SimpleNamespace(
        claim=SimpleNamespace(runs=result.runs, result=result), recomputed=recomputed, reevaluated=reevaluated
    )

    lines = list(report.quality_lines(cast("Reproduction", found)))

    assert lines == [
        "qualities: 1 of 3 computed again from the claim's kept predictions",
        "weights: 2 of 3 evaluated again; 1 make the claim's predictions, bit by bit",
        "weights: the data are not prepared here",
        "qualities: result_1.txt: the quality is 0.951; the kept weights have 0.8, of 500 examples",
    ]


@pytest.mark.parametrize(("gap_s", "counted_s"), [(1.2, 1.2), (1.6, 1.0), (0.5, 1.0), (-5.0, 1.0)])
def test_length_of_a_run_reaches_to_the_next_that_was_begun_right_after(
    tmp_path: Path, gap_s: float, counted_s: float
) -> None:
    """Not over a pause, and never less than the run itself. In units of its length."""
    steps = fabricate.events(0)
    own_s = length_s(read(fabricate.write_log(tmp_path / "alone.txt", steps)))
    assert own_s is not None
    starts_s = (10**9, 10**9 + gap_s * own_s)
    logs = [
        read(fabricate.write_log(tmp_path / f"result_{index}.txt", steps, round(1000 * start)))
        for index, start in enumerate(starts_s)
    ]

    assert mean_length_s(logs) == pytest.approx(own_s * (counted_s + 1) / 2, rel=0.001)


def test_plan_says_what_new_runs_can_show() -> None:
    """With which probability each look confirms an exact claim, by so many runs; of a single look and run, too."""
    for looks, expected in (
        ((5, 10, 20), r"with a probability of \d+ % by 5 new runs, \d+ % by 10, \d+ % by 20"),
        ((1,), r"with a probability of \d+ % by 1 new run"),
    ):
        outlook = replace(OUTLOOK, prospect=prospect(5, Scatter(0.06**2, 19), 0.1, looks, num_draws=100))
        claim = cast("Claim", SimpleNamespace(samples=[100.0] * 5))

        first, second = report.outlook_lines(claim, Terms(0.1, looks), outlook)

        plan = "plan: samples to target vary by 6.0 %; at a tolerance of 10 % an exact claim of 5 runs is confirmed"
        assert re.fullmatch(f"{plan} {expected}", first), first
        assert (" 1 run until" in second) == (looks == (1,))
