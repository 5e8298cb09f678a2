"""The interval of a score of an MLPerf round: what it is made of, and where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.stats import trimmed_error, trimming_cost, variance
from harness.log import run_log
from harness.log.run_log import RunLog
from harness.mlperf.model import LogRules, Round, RoundBenchmark, RoundReference
from harness.mlperf.score import RoundRun, RoundScore
from harness.scoring.round_estimate import round_estimate
from tests import mlperflog

REFERENCE = RoundReference("ref", "toy", 64, "epochs", (10.0, 11.0, 12.0, 11.0))
TIMES = (600.0, 606.0, 612.0, 618.0, 624.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    path: Path = tmp_path_factory.mktemp("log") / "result_0.txt"
    return run_log.read(mlperflog.write(path, mlperflog.retinanet()))


def round_of(drop: int = 1, num_runs: int = 5, convergence: tuple[RoundReference, ...] = (REFERENCE,)) -> Round:
    toy = RoundBenchmark("toy", num_runs, drop, {"closed": LogRules()}, convergence=convergence)
    return Round("5.1.0", LogRules(), {}, {}, {"toy": toy})


def scored(
    log: RunLog,
    seconds: Sequence[float | None] = TIMES,
    amounts: Sequence[float | None] = (10.0, 11.0, 12.0, 11.0, 10.0),
    batch_size: object = 64,
    division: str = "closed",
    complies: Sequence[bool] | None = None,
) -> RoundScore:
    runs = tuple(
        RoundRun(log, ok, time, amount, "success")
        for time, amount, ok in zip(seconds, amounts, complies or [True] * len(seconds), strict=True)
    )
    return RoundScore("toy", division, batch_size, runs, 5, 600.0, 612.0, None, None, None)


def test_no_score_has_no_estimate(log: RunLog) -> None:
    assert round_estimate(replace(scored(log), seconds=None), round_of()) is None
    assert round_estimate(replace(scored(log), benchmark="lost"), round_of()) is None


def test_the_epochs_scatter_is_pooled_with_the_reference(log: RunLog) -> None:
    """And the seconds per epoch scatter as the runs' do; each with its degrees of freedom."""
    amounts = (10.0, 11.0, 12.0, 11.0, 10.0)
    found = round_estimate(scored(log, amounts=amounts), round_of())

    own = [math.log(amount) for amount in amounts]
    reference = [math.log(point) for point in REFERENCE.points]
    pooled = (3 * variance(reference) + 4 * variance(own)) / 7
    paces = [math.log(time / amount) for time, amount in zip(TIMES, amounts, strict=True)]
    share = trimming_cost(5, 1) / 5
    assert found is not None
    assert found.value == 612.0
    assert found.errors == (pytest.approx((pooled * share, 7)), pytest.approx((variance(paces) * share, 4)))


@pytest.mark.parametrize(
    ("change", "rounds"),
    [
        pytest.param({"division": "open"}, round_of(), id="open division"),
        pytest.param({"batch_size": None}, round_of(), id="no batch size"),
        pytest.param({"batch_size": 100_000}, round_of(), id="beyond the reference"),
        pytest.param({}, round_of(convergence=()), id="no reference"),
        pytest.param({"amounts": (None,) * 5}, round_of(), id="no epochs stated"),
        pytest.param({"amounts": (0.0,) * 5}, round_of(), id="no epoch"),
    ],
)
def test_without_a_reference_the_times_say_how_they_scatter(
    log: RunLog, change: dict[str, object], rounds: Round
) -> None:
    """By Tukey and McLaughlin, as for `tta`'s own results."""
    found = round_estimate(scored(log, **change), rounds)  # type: ignore[arg-type]

    assert found is not None
    assert found.errors == trimmed_error([math.log(time) for time in TIMES], 1)


def test_a_failed_run_is_the_slowest(log: RunLog) -> None:
    """Whether it has no time or does not comply: its time does not count."""
    complies = (True, True, True, True, False)
    fast = round_estimate(scored(log, (*TIMES[:4], 1.0), batch_size=None, complies=complies), round_of())
    none = round_estimate(scored(log, (*TIMES[:4], None), batch_size=None), round_of())

    assert fast is not None
    assert fast == none
    assert fast.errors == trimmed_error([*map(math.log, TIMES[:4]), math.inf], 1)


def test_three_runs_have_an_interval_only_with_a_reference(log: RunLog) -> None:
    """Of three runs one is averaged: alone it says nothing of its scatter."""
    three = scored(log, TIMES[:3], (10.0, 11.0, 12.0))
    alone = round_estimate(replace(three, division="open"), round_of(num_runs=3))
    pooled = round_estimate(three, round_of(num_runs=3))

    assert alone is not None
    assert alone.interval() is None
    assert pooled is not None
    assert pooled.interval() is not None
