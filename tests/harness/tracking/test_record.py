"""The record of a run from irregular logs: invalid values are left out, and the rest is complete."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.cost.price_book import Cost
from harness.log import run_log
from harness.log.events import Event
from harness.tracking.experiment_view import experiment_tags, is_newer
from harness.tracking.record import COLORS, MAX_PARAMS, ClockZero, MlflowRun, Point, add_billed, add_cost
from harness.tracking.sanitize import clean, flat, param_name, word
from tests import fabricate


def event(key: str, value: Any = None, time_ms: float = 1_000_000, **metadata: Any) -> Event:
    return Event(time_ms, "POINT_IN_TIME", key, value, metadata, 1)


RULES = fabricate.benchmark_rules()


def record_of(*events: Event) -> MlflowRun:
    record = MlflowRun(lambda ruleset, benchmark: RULES if (ruleset, benchmark) == ("v1", RULES.name) else None)
    for each in events:
        record.take(each)
    return record


def points_of(record: MlflowRun, name: str) -> list[tuple[float, int]]:
    return [(point.value, point.step) for point in record.points if point.name == name]


@pytest.mark.parametrize("mono_ns", [None, "5", 5.5, 1 << 63, -(1 << 63)])
def test_invalid_clock_has_no_zero(mono_ns: Any) -> None:
    """An invalid one is ignored; the first valid one counts, and another changes nothing."""
    record = record_of(event("tta_clock", {"mono_ns": mono_ns}, elapsed_ns=0), event("tta_clock", [], elapsed_ns=0))
    assert record.clock is None
    record.take(event("tta_clock", {"mono_ns": 5}))  # it does not say when, on its own clock
    assert record.clock is None
    for zero in (7, 9):
        record.take(event("tta_clock", {"mono_ns": zero}, elapsed_ns=2_000_000))

    assert record.clock == ClockZero(7, 1_000_000 - 2)


@pytest.mark.parametrize("value", [None, 5, {"digest": 5}, {"num_files": 3}])
def test_data_set_needs_a_digest(value: Any) -> None:
    """MLflow would accept any text; counts beyond a store's range are absent, and the digest is printable."""
    assert record_of(event("tta_data", value)).data is None

    found = record_of(event("tta_data", {"digest": "ab\x1b", "num_files": 2**60, "num_bytes": 5})).data
    assert found is not None
    assert (found.digest, found.num_files, found.num_bytes) == ("ab\\x1b", None, 5)


def test_statistics_without_a_curve_are_skipped() -> None:
    """A submission may track anything; three statistics are drawn."""
    record = record_of(event("tracked_stats", {"train_loss": 0.5, "gpu_heat": 90.0, "data_wait_s": "long"}))

    assert [(point.name, point.value) for point in record.points] == [("train/loss", 0.5)]


@pytest.mark.parametrize(
    ("metadata", "state", "status", "reached"),
    [
        ({"status": "success"}, "success", "FINISHED", 1.0),
        ({"status": "aborted", "reason": "full_curve"}, "aborted", "FINISHED", 0.0),
        ({"status": "aborted", "reason": "interrupted"}, "aborted", "KILLED", 0.0),
        ({"status": "aborted", "reason": "diverged"}, "aborted", "FAILED", 0.0),
        ({"status": "splendid"}, "started", "KILLED", 0.0),
        ({}, "started", "KILLED", 0.0),
    ],
)
def test_state_of_a_run_is_a_known_word(metadata: dict[str, Any], state: str, status: str, reached: float) -> None:
    """A completed reference run is not a failure, and a `run_stop` without a status is not a success."""
    record = record_of(event("run_start", elapsed_ns=0), event("run_stop", elapsed_ns=10**9, **metadata))

    assert (record.tags["tta.state"], record.status) == (state, status)
    assert points_of(record, "result/reached") == [(reached, 0)]
    assert points_of(record, "result/time_to_target_s") == [(1.0, 0)] * int(reached)


def test_run_without_a_start_has_no_time_to_target() -> None:
    """Nor has a run whose start has no time; its quality and samples are known."""
    for start in ([], [event("run_start")]):
        stop = event("run_stop", status="success", elapsed_ns=10**9)
        record = record_of(*start, event("eval_accuracy", 0.95, samples_count=300, elapsed_ns=10**9), stop)

        assert record.seconds is None
        assert points_of(record, "eval/elapsed_s") == points_of(record, "result/time_to_target_s") == []
        assert points_of(record, "result/quality") == [(0.95, 0)]
        assert points_of(record, "result/samples_to_target") == [(300.0, 0)]


COST = Cost(Decimal("1.50"), Decimal("36"), "aws/x/us/on_demand", "p" * 64, None)


def test_totals_are_of_runs_that_have_ended() -> None:
    """The cost of an unfinished run would soon be wrong, and MLflow keeps every value."""
    record = record_of(event("run_start", elapsed_ns=0))
    add_cost(record, COST)
    add_billed(record, Decimal("60.01"))
    assert record.points == []
    assert "tta.price" not in record.tags
    record.take(event("run_stop", elapsed_ns=10**9))
    for _ in range(2):
        add_cost(record, COST)
        add_billed(record, Decimal("60.01"))
        add_billed(record, None)

    assert points_of(record, "result/cost_list") == [(1.5, 0)]
    assert points_of(record, "result/cost_billed") == [(60.01, 0)]
    record.take(event("tta_energy", {"energy_j": 7.0, "method": "tta-1"}))  # computed from power logs, or not at all
    record.take(event("tta_energy", {"energy_j": 1234.5}))  # older than power logs: the log states the total
    assert points_of(record, "result/energy_j") == [(1234.5, 0)]
    assert record.tags["tta.price"] == "aws/x/us/on_demand as of an unknown date"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", "a\nb"),
        ("a\x1b[31m", "a\\x1b[31m"),
        ("\ud800", "\\ud800"),
        (None, "None"),
        ({"a": "\0"}, "{'a': '\\x00'}"),
    ],
)
def test_text_is_made_safe_for_every_store(value: object, text: str) -> None:
    """No control characters or lone surrogates; a line end may stay."""
    assert clean(value) == text


def test_two_names_never_become_one() -> None:
    """A name that had to change gets a digest; a valid name stays unchanged."""
    assert (word("a/b c"), word("..."), word("")) == ("a_b_c", "_", "_")
    names = ["a_b", "a/b", "a b", "x" * 100, "x" * 101, "x" * 102]

    made = [param_name(name) for name in names]

    assert len(set(made)) == len(names)
    assert [name for name in made if name in names] == ["a_b", "x" * 100]
    assert all(len(name) <= 100 and word(name) == name for name in made)


def test_nested_mapping_is_one_of_dotted_names() -> None:
    """A configuration that is not a mapping has no names."""
    assert flat({"a": 1, "b": {"c": {"d": [2]}, "e": {}}}) == {"a": 1, "b.c.d": [2]}
    assert flat([1]) == flat(None) == {}


@pytest.mark.parametrize("run_id", ["' OR 1=1", "a" * 65, "", 7, None, "../../../x"])
def test_run_id_must_be_a_plain_word(run_id: object) -> None:
    """A value in a search must not be able to terminate its string."""
    assert record_of(event("tta_format", {"run_id": run_id})).run_id is None


def test_parameters_beyond_the_limit_are_not_dropped() -> None:
    """Those beyond 99 go into the artifact; the runs of a result have one colour."""
    record = record_of(event("tta_config", {f"p{number}": number for number in range(300)}))

    assert len(record.params) == MAX_PARAMS
    assert {f"p{number}" for number in range(300)} == set(record.params) | set(record.overflow)
    assert record.tags["mlflow.runColor"] in COLORS


def test_only_values_that_the_worker_resolved_otherwise_are_parameters() -> None:
    """A value equal to the configuration is not repeated."""
    config = {"precision": "fp32", "seed": 7}
    record = record_of(event("tta_config", config), event("tta_resolved", {**config, "precision": "bf16"}))

    assert record.params == {"precision": "fp32", "seed": "7", "resolved.precision": "bf16"}


def test_numerics_are_parameters() -> None:
    """By part and name; what is not there is none."""
    value = {"flags": {"cudnn_conv_fp32": "ieee"}, "versions": {"cudnn": 92400, "hip": None}, "environment": {}}

    record = record_of(event("tta_numerics", value))

    assert record.params == {"numerics.flags.cudnn_conv_fp32": "ieee", "numerics.versions.cudnn": "92400"}


@pytest.mark.parametrize(
    ("named", "curves", "target"),
    [
        ({"ruleset": "../../secret"}, {"eval/quality", "eval/elapsed_s"}, "see the rules"),
        (
            {"ruleset": "v1", "terms_digest": "0" * 64},
            {"eval/top1_accuracy", "eval/elapsed_s"},
            "see the rules",
        ),
        (
            {"ruleset": "v1", "terms_digest": RULES.terms_digest},
            {"eval/top1_accuracy", "eval/elapsed_s", "eval/target"},
            "top1_accuracy ≥ 0.9",
        ),
    ],
)
def test_without_rules_there_is_a_curve_but_no_target(named: dict[str, str], curves: set[str], target: str) -> None:
    """An unknown ruleset, or one with other terms, gives no target."""
    record = record_of(
        event("tta_rules", named),
        event("submission_benchmark", RULES.name),
        event("submission_division", "closed"),
        event("run_start", elapsed_ns=0),
        event("eval_accuracy", 0.5, elapsed_ns=10**9),
    )

    assert {point.name for point in record.points} == curves
    assert target in experiment_tags(record)["mlflow.note.content"]


@pytest.mark.parametrize(("there", "newer"), [("v9", True), ("v10", False), ("v11", False), ("", True)])
def test_rules_of_a_later_version_are_newer(there: str, newer: bool) -> None:
    """v10 is later than v9, and the first run with a target counts as newer."""
    record = record_of()
    record.ruleset, record.target = "v10", 0.9

    assert is_newer(record, {"tta.rules_version": there, "tta.target": "0.9"}) is newer
    assert is_newer(record, {"tta.rules_version": there})


def test_point_needs_a_number_and_a_time() -> None:
    """Booleans, text, numbers beyond a float and times before 1970 or beyond a store's range give none."""
    values = [event("eval_accuracy", value) for value in (True, "0.9", 10**400, None)]
    times = [event("eval_accuracy", 0.5, time_ms=time_ms) for time_ms in (-1, 2**53, 7)]

    assert record_of(*values, *times).points == [Point("eval/quality", 0.5, 7, 0)]


def test_the_commit_is_where_mlflow_looks_for_it() -> None:
    """A copy without a repository has none."""
    assert record_of(event("tta_code", {"commit": "ab" * 20})).tags["mlflow.source.git.commit"] == "ab" * 20
    assert "mlflow.source.git.commit" not in record_of(event("tta_code", {"commit": None})).tags


def test_curve_of_a_resumed_run_goes_on(tmp_path: Path) -> None:
    """One run in MLflow: its points before and after, and how long nothing of it was running."""
    steps = fabricate.events()
    fabricate.interrupt(steps)
    log = run_log.read(fabricate.write_log(tmp_path / "log", steps))

    record = record_of(*log.events)

    assert [step for _, step in points_of(record, f"eval/{RULES.metric.name}")] == [1000, 2000, 3000]
    assert points_of(record, "interruption/away_s") == [(15.0, 1000)]
    assert points_of(record, "ledger/interrupted_s") == [(16.0, 0)]
    assert record.tags["tta.state"] == "success"
