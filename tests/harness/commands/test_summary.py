"""`tta summary`: one row per result next to the rules' values, from fabricated logs whose numbers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.energy.limits import EnergyLimits
from harness.ruleset.model import Constraint, ReferenceConvergence, Timing
from harness.scoring.summary import as_text, best_baseline, reference_variation, summarise
from harness.submission.result import Result, read_result
from tests.fabricate import (
    METRIC,
    Metric,
    benchmark_rules,
    events,
    find,
    interrupt,
    write_log,
    write_result,
    write_submission,
)
from tests.rules_folder import write_ruleset

BASELINES = {"knn": 0.5, "forest": 0.6, "chance": 0.1}


def result_of(folder: Path, **options: Any) -> Result:
    return read_result(write_result(folder, **options))


def test_row_has_the_numbers_of_the_logs(tmp_path: Path) -> None:
    """Five runs reach the target at the third evaluation, in 7.7, 7.73, ... s; 0.1 s of each block was waiting."""
    row = summarise(result_of(tmp_path), benchmark_rules(baselines=BASELINES))

    assert (row.benchmark, row.division, row.target, row.direction) == ("toy_mini", "closed", 0.9, "max")
    assert (row.num_runs, row.num_reached, row.is_reached) == (5, 5, True)
    assert row.quality == pytest.approx((0.95, 0.954))
    assert row.mean_samples == 3000
    assert row.median_s == pytest.approx(0.2 + 3 * 2.52)
    waits = [0.1 / (2.0 + 0.01 * index) for index in range(5)]
    assert row.data_wait_fraction == pytest.approx(sum(waits) / 5)
    assert row.baseline == ("forest", 0.6)


@pytest.mark.parametrize(
    ("power", "cell"), [("node", " kJ (class B)"), ("model", " kJ (estimated)"), (None, "not measured")]
)
def test_row_has_the_energy_with_the_class_of_its_meters(tmp_path: Path, power: str | None, cell: str) -> None:
    """Added up from the power logs next to the runs; without any it is not 0."""
    row = summarise(result_of(tmp_path, power=power), benchmark_rules(), limits=EnergyLimits())

    assert cell in as_text([row])
    assert (row.energy is None) == (power is None)
    if row.energy is not None:
        assert row.energy.mean_w is not None
        assert row.median_s is not None
        assert row.energy.joules == pytest.approx(row.energy.mean_w * row.median_s, rel=0.01)


def test_run_that_missed_counts_as_a_run_and_for_nothing_else(tmp_path: Path) -> None:
    """Its best quality is in the range; its time and samples are in no mean."""

    def miss(index: int, steps: list[Any]) -> list[Any]:
        if index == 1:
            find(steps, "eval_accuracy", 2).value = 0.89
            find(steps, "run_stop").metadata.update(status="aborted", reason="budget")
            for step in steps:
                step.at_s *= 10
        return steps

    row = summarise(result_of(tmp_path, change=miss, num_runs=2), benchmark_rules())

    assert (row.num_runs, row.num_reached, row.is_reached) == (2, 1, False)
    assert row.quality == pytest.approx((0.89, 0.95))
    assert (row.mean_samples, row.median_s) == (3000, pytest.approx(7.7))


def test_logs_that_cannot_be_used_are_runs_that_missed(tmp_path: Path) -> None:
    """One is not a log, one has a text instead of a quality, one was cut off."""

    def spoil(index: int, steps: list[Any]) -> list[Any]:
        if index == 1:
            find(steps, "eval_accuracy", 0).value = "high"
        return steps[:30] if index == 2 else steps

    write_result(tmp_path, num_runs=3, change=spoil)
    (tmp_path / "result_3.txt").write_text("nothing\n")

    row = summarise(read_result(tmp_path), benchmark_rules())

    assert (row.num_runs, row.num_reached) == (4, 1)


def test_nothing_is_unknown_and_never_zero(tmp_path: Path) -> None:
    """No run, no baseline, no reference: None; and no target has been reached."""
    rules = benchmark_rules(reference_convergence=())

    row = summarise(Result(tmp_path, "result", ()), rules)

    assert (row.num_runs, row.num_reached, row.is_reached) == (0, 0, False)
    assert (row.quality, row.mean_samples, row.median_s, row.data_wait_fraction) == (None, None, None, None)
    assert (row.baseline, row.variation) == (None, None)
    cells = " ".join(as_text([row]).splitlines()[1].split("0.9", 1)[1].split())
    assert cells == "- - - - not measured - not measured not measured"


def test_run_without_a_block_has_no_share_of_waiting(tmp_path: Path) -> None:
    """It crashed while its data were opened."""
    log = write_log(tmp_path / "log", events(qualities=(), status="aborted", reason="crashed"))

    row = summarise(read_result(log), benchmark_rules())

    assert (row.num_runs, row.data_wait_fraction) == (1, None)


def full_curve(index: int, steps: list[Any]) -> list[Any]:
    """The first run is a reference run over the full curve."""
    find(steps, "tta_config").value["full_curve"] = index == 0
    return steps


def test_reference_runs_over_the_full_curve_are_not_results(tmp_path: Path) -> None:
    """They are left out."""
    assert summarise(result_of(tmp_path, change=full_curve, num_runs=2), benchmark_rules()).num_runs == 1


def test_evaluation_is_counted_as_the_rules_count_it(tmp_path: Path) -> None:
    """Three evaluations of half a second are subtracted where they do not count."""
    timing = Timing(max_init_s={"closed": 1800.0, "open": 14400.0}, count_evaluation=False)

    row = summarise(result_of(tmp_path, num_runs=1), benchmark_rules(), timing)

    assert row.median_s == pytest.approx(7.7 - 1.5)


@pytest.mark.parametrize(("direction", "best"), [("max", ("forest", 0.6)), ("min", ("chance", 0.1))])
def test_best_without_training_goes_by_the_metrics_direction(direction: str, best: tuple[str, float]) -> None:
    """An error rate of 0.1 is better than one of 0.6."""
    metric = Metric("m", "fraction", "max" if direction == "max" else "min")

    assert best_baseline(benchmark_rules(metric=metric, baselines=BASELINES)) == best


@pytest.mark.parametrize(
    ("points", "variation"),
    [
        ([(100, (2, 4))], 2**0.5 / 3),
        ([(100, (3, 3, 3))], 0.0),
        ([(50, (2, 9)), (100, (2, 4)), (200, (1, 1))], 2**0.5 / 3),
        ([(100, (3,))], None),
        ([(50, (2, 4))], None),
        ([(100, (0, 0))], None),
        ([], None),
    ],
)
def test_variation_is_that_of_the_reference_batch_size(
    points: list[tuple[int, tuple[int, ...]]], variation: float | None
) -> None:
    """Sample deviation over mean; other batch sizes do not count, and one run has none."""
    rules = benchmark_rules(reference_convergence=tuple(ReferenceConvergence(*point) for point in points))

    assert reference_variation(rules) == (None if variation is None else pytest.approx(variation))


def test_table_has_direction_division_and_place_where_needed(tmp_path: Path) -> None:
    """An error rate has `<=`, an open result its division, and two results of one benchmark their places."""
    rules = benchmark_rules(metric=Metric("wer", "fraction", "min"), target=0.96)
    open_row = summarise(result_of(tmp_path / "a", division="open"), rules)
    closed_row = summarise(result_of(tmp_path / "b", num_runs=1), rules)

    table = as_text([open_row, closed_row])
    assert "toy_mini (open)" in table
    assert "wer <= 0.96" in table
    assert str(tmp_path) not in table
    assert str(tmp_path / "b")[:20] in as_text([closed_row, closed_row])
    assert as_text([closed_row]).splitlines()[1].split()[4:6] == ["1/1", "0.5"]


@pytest.fixture
def rules(tmp_path: Path) -> str:
    return str(write_ruleset(tmp_path / "rules", benchmark_rules(baselines=BASELINES)))


def test_verb_prints_a_table_of_a_tree(tmp_path: Path, rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Submissions are found in their places; JSON is one document with the numbers as they are."""
    write_submission(tmp_path / "tree")

    assert main(["summary", str(tmp_path / "tree"), "--ruleset", rules]) == 0

    shown, errors = capsys.readouterr()
    assert [" ".join(line.split()) for line in shown.splitlines()[:2]] == [
        "benchmark target reached quality samples seconds energy waiting best without training variation",
        "toy_mini top1_accuracy >= 0.9 5/5 0.95 to 0.954 3,000 7.8 not measured 5.0% 0.6 forest 14.7%",
    ]
    assert errors == ""
    assert main(["summary", str(tmp_path / "tree"), "--ruleset", rules, "--format", "json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["results"]
    assert (row["benchmark"], row["num_reached"], row["metric"]) == ("toy_mini", 5, METRIC.name)
    assert row["baseline"] == ["forest", 0.6]


def test_verb_is_1_where_a_run_missed_and_2_where_something_cannot_be_read(
    tmp_path: Path, rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are still shown."""
    write_result(tmp_path / "run", num_runs=1)
    write_result(tmp_path / "missed", num_runs=1, status="aborted", reason="budget")
    (tmp_path / "noise").write_text("nothing\n")
    other = benchmark_rules(hyperparameters={"global_batch_size": Constraint(100)}, workload="other")
    write_log(tmp_path / "foreign", events(rules=other))

    def summary(*names: str) -> int:
        return main(["summary", *(str(tmp_path / name) for name in names), "--ruleset", rules])

    assert summary("run", "missed") == 1
    assert summary("run", "noise") == 2
    assert summary("run", "foreign") == 2

    shown, errors = capsys.readouterr()
    assert shown.count("1/1") == 3
    assert "not a run log" in errors
    assert "foreign: left out: ruleset" in errors


def test_verb_leaves_reference_runs_out_and_says_so(
    tmp_path: Path, rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are for `tta target`."""
    write_result(tmp_path / "convergence", num_runs=1, change=full_curve)

    assert main(["summary", str(tmp_path / "convergence"), "--ruleset", rules]) == 1

    shown, errors = capsys.readouterr()
    assert shown == ""
    assert "left out: only reference runs over the full curve" in errors


def test_resumed_runs_are_counted_and_their_absence_is_stated(tmp_path: Path) -> None:
    """Two of five, 15 s and 20 s away; a result without any says nothing of it."""

    def resume(index: int, steps: list[Any]) -> list[Any]:
        if index < 2:
            interrupt(steps, away_s=15.0 + 5 * index)
        return steps

    row = summarise(result_of(tmp_path / "a", change=resume), benchmark_rules(permits_resume=True))

    assert (row.num_resumed, row.away_s, row.num_reached) == (2, pytest.approx(35.0), 5)
    assert "toy_mini: 2 of 5 runs went on after an interruption; the time away, 35.0 s, counts\n" in as_text([row])
    assert "interruption" not in as_text([summarise(result_of(tmp_path / "b"), benchmark_rules())])
