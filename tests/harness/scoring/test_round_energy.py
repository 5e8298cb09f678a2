"""The energy of a result of an MLPerf round: by both of MLPerf's formulas and by the integral, over the runs kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.energy.limits import EnergyLimits
from harness.energy.reasons import VoidReason
from harness.mlperf.score import round_score
from harness.scoring.round_energy import RoundEnergy, RunJoules, mean_energy, round_energy
from tests import mlperflog
from tests.mlperflog import find, round_of
from tests.rules.roundbox import IDLE_S, RoundBox, metered

LENGTHS_S = (1301, 1311, 1321, 1331, 1341)


def energy_of(box: RoundBox) -> RoundEnergy | None:
    round_ = round_of()
    return round_energy(round_score(box.result().runs, round_), round_, EnergyLimits(), 1)


def test_energies_are_means_of_the_runs_that_the_time_keeps(tmp_path: Path) -> None:
    """1,311, 1,321 and 1,331 s: 600 W by the rule; 200 J less for the trapezoid, whose first second rises from 200 W.

    By the published formula, the mean of all that was logged, idle minutes included, times the run.
    """
    found = energy_of(metered(RoundBox(tmp_path)))

    assert found is not None
    assert found.rule_j == pytest.approx(600 * 1321)
    assert found.drawn_j == pytest.approx(600 * 1321 - 200)
    by_formula = [(600 * s + 200 * 2 * IDLE_S) * s / (s + 2 * IDLE_S) for s in LENGTHS_S]
    assert found.published_j == pytest.approx(sum(by_formula[1:4]) / 3)
    assert [run.published_j for run in found.runs] == pytest.approx(by_formula)
    assert (found.void, found.why_not) == ((), None)


def test_factor_multiplies_and_a_failed_run_is_the_slowest() -> None:
    """Sorted by time, not by energy; one of these has no time."""
    runs = [RunJoules(float(joules), 2.0 * joules) for joules in (30, 999, 20, 5, 40)]
    found = mean_energy(runs, [3.0, 1.0, 2.0, None, 4.0], 1, 2.0)

    assert (found.published_j, found.rule_j, found.drawn_j) == (60.0, 120.0, None)
    forty = [RunJoules(joules) for joules in (*[1e9] * 4, *[7.0] * 32, *[0.0] * 4)]
    assert mean_energy(forty, [float(second) for second in range(40)], 4, 1.0).published_j == 7.0


def test_without_power_logs_there_is_no_energy(tmp_path: Path) -> None:
    """Not measured is not zero."""
    assert energy_of(RoundBox(tmp_path)) is None


def without_power(box: RoundBox) -> None:
    (box.folder / "power" / "result_2" / "node_0.txt").unlink()


def without_stop(box: RoundBox) -> None:
    for log in box.logs:
        mlperflog.drop(log, "run_stop")
    box.write()


def without_benchmark(box: RoundBox) -> None:
    for log in box.logs:
        find(log, "submission_benchmark").value = "resnot"
    box.write()


def with_monotonic_time(box: RoundBox) -> None:
    path = box.folder / "power" / "result_2" / "node_0.txt"
    lines = path.read_text().replace('"metadata": {}', '"metadata": {"mono_ns": 1}')
    path.write_text(lines)


@pytest.mark.parametrize(
    ("damage", "why_not"),
    [
        (without_power, "result_2.txt: has no power logs"),
        (with_monotonic_time, "result_2.txt: MLPerf's formulas need power logs with wall time"),
        (without_stop, "5 of 5 runs failed; at most 1 may"),
        (without_benchmark, "the logs name no benchmark of the round"),
    ],
)
def test_what_prevents_a_formula_is_named(damage: Callable[[RoundBox], None], why_not: str, tmp_path: Path) -> None:
    """No mean of the runs that are left."""
    box = metered(RoundBox(tmp_path))
    damage(box)
    found = energy_of(box)

    assert found is not None
    assert (found.published_j, found.rule_j, found.why_not) == (None, None, why_not)


def test_published_formula_needs_the_start_of_the_measurement(tmp_path: Path) -> None:
    """A log without power_measurement_start: the integral does not need it."""
    box = metered(RoundBox(tmp_path))
    path = box.folder / "power" / "result_2" / "node_0.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    found = energy_of(box)

    assert found is not None
    assert (found.published_j, found.rule_j) == (None, None)
    assert found.drawn_j == pytest.approx(600 * 1321 - 200)
    assert "has no readings after a power_measurement_start" in (found.why_not or "")


def test_run_without_time_has_no_energy(tmp_path: Path) -> None:
    """One of five: the mean is of the others, as that of the time is."""
    box = metered(RoundBox(tmp_path))
    mlperflog.drop(box.logs[0], "run_stop")
    box.write()
    found = energy_of(box)

    assert found is not None
    assert found.runs[0].published_j is None
    assert found.runs[0].why_not == "result_0.txt: has no run_start and run_stop between which time passes"
    assert found.rule_j == pytest.approx(600 * (1321 + 1331 + 1341) / 3)
    assert VoidReason.UNPLACED in found.void
