"""One log under one round: evaluations that count as one, lists, orders, and unexpected values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.formula import parse
from harness.mlperf.model import Count, Join, KeyRule, LogRules, Round
from tests.mlperflog import START, STOP, Entry, drop, find, put_after, retinanet, round_of, write


def read(path: Path, log: list[Entry]) -> RunLog:
    return run_log.read(write(path / "result_0.txt", log))


def messages(log: RunLog, kind: compliance.Kind, round_: Round | None = None) -> list[str]:
    return [fault.message for fault in compliance.faults(log, round_ or round_of(), kind)]


def asking(*rules: KeyRule) -> Round:
    """Round 5.1, whose page for RetinaNet in the closed division has only `rules`."""
    found = round_of()
    benchmark = found.benchmarks["retinanet"]
    pages = {**benchmark.divisions, "closed": LogRules({rule.key: rule for rule in rules})}
    return replace(found, benchmarks={**found.benchmarks, "retinanet": replace(benchmark, divisions=pages)})


def evaluation(samples: object, metric: object, value: Any) -> Entry:
    metadata = {"samples_count": samples, "metric": metric}
    return Entry(9.0, "eval_accuracy", value, metadata={name: item for name, item in metadata.items() if item != ...})


def diffusion(*evaluations: Entry) -> list[Entry]:
    """A log of Stable Diffusion, as far as its evaluations go."""
    log = retinanet()
    find(log, "submission_benchmark").value = "stable_diffusion"
    drop(log, "eval_accuracy")
    return [*log, *evaluations]


@pytest.mark.parametrize(
    ("evaluations", "is_reached"),
    [
        ([(512, "FID", 80.0), (1024, "CLIP", 0.2), (512, "CLIP", 0.15)], True),
        ([(512, "FID", 90.0), (512, "CLIP", 0.15)], True),
        ([(512, "FID", 90.1), (512, "CLIP", 0.15)], False),
        ([(512, "FID", 80.0), (1024, "CLIP", 0.2)], False),
        ([(512, "FID", 80.0), (512, 5, 0.2)], False),
        ([(512, "FID", "low"), (512, "CLIP", 0.2)], False),
        ([([512], "FID", 80.0), ([512], "CLIP", 0.2)], True),
        ([(..., "FID", 80.0), (..., "CLIP", 0.2)], True),
    ],
)
def test_two_metrics_at_the_same_samples_are_one_evaluation(
    evaluations: list[tuple[Any, Any, Any]], is_reached: bool, tmp_path: Path
) -> None:
    """FID at most 90 and CLIP at least 0.15, at the same samples."""
    log = read(tmp_path, diffusion(*(evaluation(*item) for item in evaluations)))

    assert bool(compliance.reached(log, round_of("5.0.0"))) is is_reached


@pytest.mark.parametrize(("epochs", "num_wrong"), [((1, 2, 3, 4, 5), 0), ((2, 3, 4, 5, 6), 1), ((1, 2, 4, 5, 6), 1)])
def test_a_constraint_sees_the_line_of_its_key_before(epochs: tuple[int, ...], num_wrong: int, tmp_path: Path) -> None:
    """The first line has none before it."""
    log = retinanet()
    for nth, epoch in enumerate(epochs):
        find(log, "eval_accuracy", nth).metadata["epoch_num"] = epoch
    text = "metadata.epoch_num == (previous.epoch_num + 1 if has(previous.epoch_num) else 1)"
    rule = KeyRule("eval_accuracy", each=(parse(text),))

    assert len(messages(read(tmp_path, log), "value", asking(rule))) == num_wrong


def test_a_combined_line_is_in_the_place_of_its_first(tmp_path: Path) -> None:
    """So that a finding has a line; that the samples are missing is one."""
    log = read(tmp_path, diffusion(evaluation(..., "FID", 80.0), evaluation(..., "CLIP", 0.2)))
    [joined] = compliance.joined(log, Join("eval_accuracy", "samples_count", "metric", "both"))
    [fault] = [item for item in compliance.faults(log, round_of("5.0.0"), "value") if "aggregated" in item.message]

    assert (joined.key, joined.value) == ("both", {"FID": 80.0, "CLIP": 0.2})
    assert fault.line == joined.lineno


def test_a_missed_target_is_reported_with_the_range_of_the_values(tmp_path: Path) -> None:
    """Of the numbers, not of `true`; without numbers, with the last value."""
    log = retinanet()
    find(log, "eval_accuracy", 4).value = True
    numbers = read(tmp_path, log)
    for place in range(5):
        find(log, "eval_accuracy", place).value = "good"
    texts = read(tmp_path, log)

    assert messages(numbers, "target") == [
        "none of 5 evaluations reaches the target, value >= 0.340 and value < 1.0; they range from 0.1 to 0.32"
    ]
    assert "the last is 'good'" in messages(texts, "target")[0]


def test_lines_that_break_one_demand_are_one_fault(tmp_path: Path) -> None:
    """With the first line, and their number; a reason if it could not be evaluated."""
    log = retinanet()
    for place in range(5):
        find(log, "block_start", place).metadata["epoch_count"] = "one"
    [fault] = compliance.faults(read(tmp_path, log), round_of(), "value")

    assert fault.line == log.index(find(log, "block_start")) + 1
    assert fault.message.endswith(", on 5 lines")
    assert "cannot be evaluated: 'one' is not a number" in fault.message


def test_a_start_after_the_stop_is_one_fault_and_the_earliest_start_counts(tmp_path: Path) -> None:
    """Two init_start after init_stop; initialisation takes until then, even from a line that is not the first."""
    log = retinanet()
    put_after(log, find(log, "init_start"), Entry(-1740.0, "init_start", None, START))
    for _ in range(2):
        put_after(log, find(log, "init_stop"), Entry(60.0, "init_start", None, START))
    found = read(tmp_path, log)

    assert messages(found, "order") == ["init_start: comes after init_stop; it must come before, on 2 lines"]
    assert messages(found, "init") == ["initialisation took 1800.0 s; it must be below 1800 s"]


def test_many_lines_of_bounds_and_lists_cost_little(tmp_path: Path) -> None:
    """Nine thousand of each are one fault, not eighty million comparisons."""
    log = retinanet()
    log[:0] = [Entry(0.0, "init_start", None, START) for _ in range(9_000)]
    log += [Entry(9_000.0, "init_stop", None, STOP) for _ in range(9_000)]

    assert len(messages(read(tmp_path, log), "init")) == 1


def test_a_log_is_held_to_the_page_that_its_lines_name(tmp_path: Path) -> None:
    """Of the division, benchmark and variant; what it does not name has no limits."""
    log = retinanet()
    drop(log, "submission_benchmark")
    drop(log, "init_start")
    found = read(tmp_path, log)
    assert compliance.rules_of(found, round_of()) is round_of().divisions["closed"]
    assert messages(found, "init") == []  # that there is no start is a fault of its own
    assert "init_start must occur once or more; it does not occur" in messages(found, "missing")

    for strange in (["closed"], {"closed": 1}, 5, True):
        find(log, "submission_division").value = strange
        found = read(tmp_path, log)
        assert compliance.benchmark_of(found, round_of())[0] is None
        assert len(messages(found, "name")) == 1

    log = retinanet()
    drop(log, "submission_division")
    found = read(tmp_path, log)
    assert compliance.rules_of(found, round_of()) is round_of().rules
    assert compliance.benchmark_of(found, round_of())[0] is None
    assert messages(found, "missing") == ["submission_division must occur once; it does not occur"]


@pytest.mark.parametrize(
    ("names", "variant"), [(["lars"], "lars"), (["sgd"], "sgd"), (["lars", "sgd"], "sgd"), (["adam"], None), ([], None)]
)
def test_the_last_line_names_the_variant(names: list[str], variant: str | None, tmp_path: Path) -> None:
    """ResNet's optimiser; a value that is not a variant has the common page."""
    log = retinanet()
    find(log, "submission_benchmark").value = "resnet"
    drop(log, "opt_name")
    log[10:10] = [Entry(2.0, "opt_name", name) for name in names]
    benchmark = round_of("1.0.0").benchmarks["resnet"]
    page = benchmark.divisions["closed"] if variant is None else benchmark.variants["closed"][variant]

    assert compliance.rules_of(read(tmp_path, log), round_of("1.0.0")) is page


def test_too_few_lines_are_counted(tmp_path: Path) -> None:
    """A key that must occur twice, and occurs once."""
    found = messages(read(tmp_path, retinanet()), "missing", asking(KeyRule("cache_clear", count=Count(2))))

    assert found == ["cache_clear must occur at least 2 times; it occurs once"]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_order_may_require_a_line_without_a_rule(is_there: bool, tmp_path: Path) -> None:
    """It counts as being there, and nothing is required of it."""
    log = retinanet()
    if is_there:
        put_after(log, find(log, "init_stop"), Entry(60.1, "a_key_of_no_rule"))
    found = messages(read(tmp_path, log), "order", asking(KeyRule("run_start", after=("a_key_of_no_rule",))))

    assert found == ["run_start: there is no a_key_of_no_rule before it"] * (not is_there)


def test_a_log_is_read_for_each_round(tmp_path: Path) -> None:
    """What was found under one round is not what is found under another."""
    log = read(tmp_path, retinanet())

    assert messages(log, "name") == []
    assert len(messages(log, "name", round_of("4.0.0"))) == 1
    assert messages(log, "name") == []


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"samples_count": 5, "epoch_num": 1}, 5),
        ({"epoch_num": 0.5}, 0.5),
        ({"first_epoch_num": 3}, 3),
        ({"step_num": 7}, 7),
        ({"samples_count": True, "epoch_num": "1"}, None),
        ({}, None),
    ],
)
def test_progress_is_stated_in_samples_else_epochs_else_steps(
    metadata: dict[str, Any], place: float | None, tmp_path: Path
) -> None:
    """By each line for itself; a value that is not a number states nothing."""
    other = {"epoch_num": 2}
    log = read(tmp_path, [Entry(0.0, "eval_accuracy", 0.5, STOP, item) for item in (metadata, other)])

    assert compliance.progress(log.events[0]) == place
    assert compliance.progress_of_each(log.events) == [place, 2]
    assert compliance.progress_of_each(log.events[:1]) == [place]


def test_speeds_that_cannot_be_computed_are_left_out(tmp_path: Path) -> None:
    """No throughput, no step, no time between, steps backwards."""
    log = [
        Entry(0.0, "run_start"),
        Entry(1.0, "tracked_stats", 5, metadata={"step": 1}),
        Entry(1.0, "tracked_stats", {"throughput": 10.0}),
        Entry(2.0, "tracked_stats", {"throughput": 10.0}, metadata={"step": 20}),
        Entry(2.0, "tracked_stats", {"throughput": 10.0}, metadata={"step": 30}),
        Entry(3.0, "tracked_stats", {"throughput": 10.0}, metadata={"step": 30}),
        Entry(4.0, "tracked_stats", {"throughput": 0}, metadata={"step": 40}),
        Entry(5.0, "tracked_stats", {"throughput": 20.0}, metadata={"samples_count": 50}),
        Entry(6.0, "tracked_stats", {"throughput": "fast"}, metadata={"samples_count": 60}),
        Entry(9.0, "tracked_stats", {"throughput": 0.5}, metadata={"samples_count": 52}),
    ]

    assert [round(ratio, 6) for _, ratio in compliance.speed_ratios(read(tmp_path, log))] == [1.0, 0.5, 1.0]
    assert compliance.speed_ratios(read(tmp_path, log[1:])) == []


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([("seed", 1), ("seed", 7), ("opt_name", 14), ("seed", 1)], None),
        ([("seed", 7), ("opt_name", 14)], None),
        ([("seed", 7), ("opt_name", 14), ("seed", 1), ("opt_name", 2)], None),
        ([("seed", 7), ("seed", 1), ("opt_name", 14)], "opt_name is 14; required: value == 2 * seed"),
        ([("seed", 1), ("seed", 7), ("seed", 2), ("opt_name", 2)], "is 2; required: value == 2 * seed"),
        ([("opt_name", 14), ("seed", 7)], "(cannot be evaluated: seed: there is no line of it before)"),
    ],
)
def test_a_demand_sees_the_last_value_before_its_line(
    values: list[tuple[str, int]], why: str | None, tmp_path: Path
) -> None:
    """Neither an earlier one nor one after the line; without one before it, the demand cannot be met."""
    log = retinanet()
    drop(log, "seed")
    drop(log, "opt_name")
    log += [Entry(9_000.0, key, value) for key, value in values]
    found = messages(read(tmp_path, log), "value", asking(KeyRule("opt_name", each=(parse("value == 2 * seed"),))))

    assert len(found) == (why is not None)
    assert all(message.endswith(why or "") for message in found)


@pytest.mark.parametrize("factor", [8e-5, 9e-5])
def test_a_learning_rate_is_held_against_the_batch_size_of_its_log(factor: float, tmp_path: Path) -> None:
    """Llama 3.1 405B: 8e-5 at a batch of 1,152, in proportion at any other."""
    log = retinanet()
    find(log, "submission_benchmark").value = "llama31_405b"
    find(log, "global_batch_size").value = 2304
    find(log, "opt_base_learning_rate").value = 2 * factor
    found = [text for text in messages(read(tmp_path, log), "value") if "global_batch_size * 8e-5" in text]

    assert len(found) == (factor != 8e-5)


def test_a_demand_on_the_first_line_alone_leaves_the_others(tmp_path: Path) -> None:
    """An organisation without a name is a fault; a second line without one is not."""
    nameless, second = retinanet(), retinanet()
    find(nameless, "submission_org").value = ""
    put_after(second, find(second, "submission_org"), Entry(2.0, "submission_org", ""))

    assert messages(read(tmp_path, nameless), "value") == ["submission_org is ''; required: value != ''"]
    assert messages(read(tmp_path, second), "value") == []


def test_a_demand_on_metadata_is_put_into_words(tmp_path: Path) -> None:
    """For any other demand the value is shown."""
    log = retinanet()
    del find(log, "block_start").metadata["first_epoch_num"]
    demand = parse("has(metadata.first_epoch_num)")

    assert messages(read(tmp_path, log), "value", asking(KeyRule("block_start", each=(demand,)))) == [
        "block_start has no first_epoch_num in its metadata; it is required"
    ]
    assert messages(read(tmp_path, log), "value", asking(KeyRule("seed", each=(parse("value < 9"),)))) == [
        "seed is 4711; required: value < 9"
    ]


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        (["a", "b", "c", "d"], None),
        (["d", "b", "a", "c"], None),
        (["a", "b", "d"], "1 missing, c"),
        (["a", "b", "c", "d", "b"], "1 repeated, b"),
        (["a", "b", "c", "x", "x"], "1 missing, d; 1 unknown, x"),
        ([], "4 missing, a, b, c"),
        (["a", "b", "c", 5], "1 missing, d; 1 unknown, 5"),
    ],
)
def test_tensors_are_listed_once_each(named: list[Any], wrong: str | None, tmp_path: Path) -> None:
    """In any order; those that are missing, unknown or repeated are counted, and up to three of a kind named."""
    log = retinanet()
    log += [Entry(9_000.0, "weights_initialization", metadata={"tensor": name}) for name in named]
    rule = KeyRule("weights_initialization", lists=("tensor", ("a", "b", "c", "d")))

    assert messages(read(tmp_path, log), "list", asking(rule)) == [
        f"weights_initialization must name 4 tensors, each once: {text}" for text in ([wrong] if wrong else [])
    ]


def test_the_earliest_line_in_time_reaches_the_target(tmp_path: Path) -> None:
    """Whatever the order of the lines, and of two keys with targets: the clock would have stopped there."""
    log = retinanet()
    for place, at_s in enumerate((900.0, 500.0, 700.0)):
        entry = find(log, "eval_accuracy", place + 2)
        entry.value, entry.at_s = 0.35, at_s
    first = compliance.first_reached(read(tmp_path, log), round_of())

    assert first is not None
    assert first.lineno == log.index(find(log, "eval_accuracy", 3)) + 1
    log = [*retinanet(), Entry(100.0, "other", 0.9)]
    rules = [KeyRule(key, target=parse("value > 0.3")) for key in ("eval_accuracy", "other")]
    found = compliance.first_reached(read(tmp_path, log), asking(*rules))

    assert found is not None
    assert found.key == "other"
