"""What the audit finds in MLPerf results that were made to look better, up to the limits of its signals."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checker.audit.signals import Suspicion
from harness.mlperf import formula
from tests import foreign
from tests.auditing import STANDARD, audit
from tests.foreign import Row, of

RUNS = 5


def found(place: Path, code: str, **standard: object) -> list[Suspicion]:
    """What one signal finds in the result at `place`."""
    rules = dataclasses.replace(STANDARD, **standard)  # type: ignore[arg-type]
    return [item for item in audit(place, rules) if item.finding.code == code]


def write(place: Path, change: Callable[[list[Row]], None]) -> Path:
    runs = [foreign.rows(index) for index in range(RUNS)]
    for run in runs:
        change(run)
    return foreign.write(foreign.result(place), runs)


@pytest.mark.parametrize(("factor", "is_found"), [(1.5, False), (1.7, True), (10.0, True)])
def test_work_before_the_clock_makes_the_first_piece_fast(factor: float, is_found: bool, tmp_path: Path) -> None:
    """The clock starts so late that the first 5,000 samples seem `factor` times as fast as the others."""

    def late(run: list[Row]) -> None:
        begin, first = of(run, "run_start").at_s, of(run, "eval_accuracy").at_s
        usual_s = of(run, "eval_accuracy", 2).at_s - of(run, "eval_accuracy", 1).at_s
        shift_s = first - usual_s / factor - begin
        for row in run:
            if begin - 1 < row.at_s < begin + shift_s:
                row.at_s = begin + shift_s

    signals = found(write(tmp_path, late), "AUD030")

    assert bool(signals) == is_found
    assert all("from run_start to the first evaluation" in item.finding.message for item in signals)


def test_epochs_that_are_counted_from_one_are_not_fast(tmp_path: Path) -> None:
    """DLRM's logs: the first evaluation is at epoch 1.05, the next at 1.1, and each piece is a twentieth."""

    def in_epochs(run: list[Row]) -> None:
        for row in run:
            if (samples := row.metadata.pop("samples_count", None)) is not None:
                row.metadata["epoch_num"] = 1 + samples / 100_000

    assert found(write(tmp_path, in_epochs), "AUD030") == []


@pytest.mark.parametrize(
    ("distance", "is_found"),
    [(5_000, False), (4_900, False), (4_545, True), (7_500, True), (2_500, False), (12_000, True), (0, False)],
)
def test_a_schedule_unlike_the_references_is_found(distance: int, is_found: bool, tmp_path: Path) -> None:
    """Evaluations are 5,000 samples apart; the reference's runs ended at `distance` and twice that."""
    place = write(tmp_path, lambda run: None)

    assert len(found(place, "AUD014", reference=(distance, 2 * distance))) == RUNS * is_found


def test_a_schedule_is_compared_in_one_unit(tmp_path: Path) -> None:
    place = write(tmp_path, lambda run: None)

    assert found(place, "AUD014", reference=(7_500, 15_000), reference_unit="epochs") == []


@pytest.mark.parametrize(("factor", "is_found"), [(1.0, False), (1.02, False), (1.04, True), (1.1, True), (0.9, True)])
def test_samples_that_are_multiplied_are_off_the_schedule_of_the_rules(
    factor: float, is_found: bool, tmp_path: Path
) -> None:
    """More samples to target pass convergence; every distance is multiplied, too. A batch of 100 is allowed for."""

    def multiplied(run: list[Row]) -> None:
        for row in run:
            if "samples_count" in row.metadata:
                row.metadata["epoch_num"] = round(row.metadata.pop("samples_count") * factor)

    schedule = formula.parse("abs(value - 5000) <= global_batch_size")
    signals = found(write(tmp_path, multiplied), "AUD014", has_samples=True, distance=schedule, reference=(800, 1600))

    assert len(signals) == RUNS * is_found
    assert all("the rules require abs(value - 5000) <= global_batch_size" in item.finding.message for item in signals)


def test_epochs_are_not_compared_with_a_schedule_in_samples(tmp_path: Path) -> None:
    """Some BERT logs count epochs in `epoch_num`, where others have samples: the numbers are below one batch."""

    def in_epochs(run: list[Row]) -> None:
        for row in run:
            if "samples_count" in row.metadata:
                row.metadata["epoch_num"] = row.metadata.pop("samples_count") / 1000

    schedule = formula.parse("value == 5000")

    assert found(write(tmp_path, in_epochs), "AUD014", has_samples=True, distance=schedule) == []


def test_a_log_without_a_batch_size_is_off_schedule(tmp_path: Path) -> None:
    """The schedule cannot be computed, which is no excuse."""

    def without(run: list[Row]) -> None:
        run.remove(of(run, "global_batch_size"))

    signals = found(
        write(tmp_path, without), "AUD014", distance=formula.parse("abs(value - 5000) <= global_batch_size")
    )

    assert len(signals) == RUNS
    assert all("(batch size not stated)" in item.finding.message for item in signals)


@pytest.mark.parametrize(("num_nodes", "is_found"), [("1", True), ("2", False), ("some", False)])
def test_more_hosts_than_the_system_has_nodes_are_found(num_nodes: str, is_found: bool, tmp_path: Path) -> None:
    """Each log says hello from node1 and node2."""
    place = write(tmp_path, lambda run: run.insert(2, Row(0.0, text=" 1: Hello from: node2")))
    (tmp_path / "Toy" / "systems").mkdir()
    (tmp_path / "Toy" / "systems" / "toybox.json").write_text(json.dumps({"number_of_nodes": num_nodes}))

    signals = found(place, "AUD043")

    assert len(signals) == is_found
    assert all("2 hosts, node1, node2; the system has 1 nodes" in item.finding.message for item in signals)


@pytest.mark.parametrize(
    "written",
    [
        lambda line: line,
        lambda line: line.replace('"time_ms": ', '"time_ms" :   '),
        lambda line: re.sub(r'"time_ms": (\d+)', r'"time_ms": \1e0', line),
        lambda line: re.sub(r'"time_ms": (\d+)', lambda match: f'"time_ms": {int(match[1]) / 1e12!r}e12', line),
        lambda line: line.replace(":::MLLOG", f"{'.' * 70_000}:::MLLOG") if "run_start" in line else line,
    ],
    ids=["as usual", "spaces", "exponent", "digits", "long line"],
)
def test_two_clocks_disagree_however_the_time_is_written(written: Callable[[str], str], tmp_path: Path) -> None:
    """MLPerf's times are a fifth shorter than the framework's; JSON writes them in many ways, and all are read."""
    place = write(tmp_path, lambda run: None)
    for path in place.glob("result_*.txt"):
        lines = path.read_text().splitlines()
        times = [int(match[1]) for line in lines if (match := re.search(r'"time_ms": (\d+)', line))]

        def shorter(match: re.Match[str], first: int = times[0]) -> str:
            return f'"time_ms": {first + (int(match[1]) - first) * 4 // 5}'

        path.write_text("".join(written(re.sub(r'"time_ms": (\d+)', shorter, line)) + "\n" for line in lines))

    assert len(found(place, "AUD007")) == RUNS


@pytest.mark.parametrize("number", [5e-324, 1e308, -1e308, 0, 2**63])
@pytest.mark.parametrize("name", ["samples_count", "throughput", "value"])
def test_extreme_numbers_end_no_audit(name: str, number: float, tmp_path: Path) -> None:
    """In every other evaluation: ratios and means of such numbers are not finite."""

    def extreme(run: list[Row]) -> None:
        for nth in range(0, foreign.NUM_EVALUATIONS, 2):
            match name:
                case "samples_count":
                    of(run, "eval_accuracy", nth).metadata[name] = number
                case "throughput":
                    for row in run:
                        if row.key == "tracked_stats":
                            row.value = {name: number}
                case _:
                    of(run, "eval_accuracy", nth).value = number

    place = write(tmp_path, extreme)

    assert all(item.finding.message for item in audit(place))
