"""Scores of MLPerf's rounds: the rules' own example by both definitions, olympic means, and what a log counts for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands import score
from harness.errors import ExitStatus, LogError
from harness.log import run_log
from harness.mlperf import score as mlperf_score
from harness.mlperf.model import RoundBenchmark, RoundReference
from harness.mlperf.rcp import Definition, RoundVerdict, judge, round_points
from tests import mlperflog
from tests.mlperflog import Entry, drop, find, retinanet, round_of
from tests.rules.box import TODAY
from tests.rules.roundbox import ROUND, RoundBox, round_rules

# MLPerf training rules, "Appendix: RCP Examples".
EXAMPLE: dict[int, Sequence[float]] = {
    128: (16, 14, 16, 17, 16, 16, 15, 16, 15, 16),
    256: (20, 21, 21, 20, 22, 22, 21, 21, 20, 20),
}
START = Entry(0.0, "run_start", None, mlperflog.START)
STOP = Entry(2.0, "run_stop", None, mlperflog.STOP, {"status": "success"})


def benchmark(
    references: Mapping[int, Sequence[float]], name: str = "toy", num_runs: int = 5, drop: int = 1
) -> RoundBenchmark:
    found = tuple(
        RoundReference(f"ref_{size}", name, size, "epochs", tuple(float(point) for point in values))
        for size, values in references.items()
    )
    return RoundBenchmark(name, num_runs, drop, {}, convergence=found)


def judged(
    amounts: Sequence[float | None],
    batch_size: object = 128,
    references: Mapping[int, Sequence[float]] = EXAMPLE,
    definition: Definition = "code",
) -> RoundVerdict:
    return judge(amounts, batch_size, benchmark(references), "5.1.0", definition)


@pytest.mark.parametrize(
    ("definition", "batch_size", "mean", "acceptable", "percent"),
    [
        ("rules", 128, 15.75, 15.21, 3.53),
        ("code", 128, 15.75, 14.78, 6.56),
        ("rules", 256, 20.75, 19.93, 4.12),
        ("code", 256, 20.75, 19.82, 4.69),
        ("rules", 192, 18.25, 17.60, 3.68),
        ("code", 192, 18.25, 17.35, 5.21),
    ],
)
def test_the_rules_own_example(
    definition: Definition, batch_size: int, mean: float, acceptable: float, percent: float
) -> None:
    """Mean, least acceptable mean and largest speed-up, as the text has them and as the program has them."""
    verdict = judged([15, 15, 15, 16, 16], batch_size, EXAMPLE, definition)

    assert verdict.reference_mean == pytest.approx(mean)
    assert verdict.acceptable_mean == pytest.approx(acceptable, abs=0.006)
    assert verdict.max_speedup is not None
    assert 100 * (verdict.max_speedup - 1) == pytest.approx(percent, abs=0.011)


def test_a_mean_between_the_two_definitions() -> None:
    """15.0 fails by the text, which asks for 15.21, and passes by the program, which asks for 14.78, with a factor."""
    by_text, by_program = (judged([14, 15, 15, 15, 16], 128, EXAMPLE, name) for name in ("rules", "code"))

    assert (by_text.status, by_text.factor) == ("fail", 1.0)
    assert (by_program.status, by_program.factor) == ("pass", 15.75 / 15)


@pytest.mark.parametrize(
    ("batch_size", "amounts", "status", "basis"),
    [
        (128, (16, 16, 16, 16, 16), "pass", "exact"),
        (192, (18, 18, 18, 18, 18), "pass", "interpolated"),
        (192, (16, 16, 16, 16, 16), "fail", "interpolated"),
        (64, (16, 16, 16, 16, 16), "pass", "larger"),
        (64, (12, 12, 12, 12, 12), "missing", "none"),
        (512, (30, 30, 30, 30, 30), "missing", "none"),
        (128, (16, 16, 16, 16, None), "pass", "exact"),
        (128, (16, 16, 16, None, None), "unknown", "none"),
        (128, (16, 16), "unknown", "none"),
        ("128", (16, 16, 16, 16, 16), "unknown", "none"),
        (True, (16, 16, 16, 16, 16), "unknown", "none"),
        (None, (16, 16, 16, 16, 16), "unknown", "none"),
    ],
)
def test_where_a_reference_is_found(batch_size: object, amounts: tuple[float, ...], status: str, basis: str) -> None:
    """At the batch size, between two, at the larger, or nowhere."""
    verdict = judged(amounts, batch_size)

    assert (verdict.status, verdict.basis) == (status, basis)


def test_a_missing_batch_size_differs_from_a_fraction() -> None:
    """The sentence says which it is."""
    assert "the logs have no global_batch_size, or not all the same" in judged((16,) * 5, None).why
    assert "global_batch_size is 256.5; it must be a whole number" in judged((16,) * 5, 256.5).why


def test_a_benchmark_with_too_few_reference_runs_has_none() -> None:
    """Of three runs one is averaged; a spread needs two."""
    verdict = judged([16] * 5, 128, {128: (16, 16, 16)})

    assert (verdict.status, verdict.why) == ("missing", "round 5.1.0 has no reference runs of toy")


def test_no_spread_allows_no_speed_up() -> None:
    """20 equal runs: the mean itself passes, anything faster fails."""
    assert judged([4] * 5, 128, {128: (4,) * 20}).status == "pass"
    assert judged([4, 4, 4, 3.9, 3.9], 128, {128: (4,) * 20}).status == "fail"


@pytest.mark.parametrize(("mean", "factor"), [(1, 50.5), (0, 1.0)])
def test_a_spread_that_allows_everything_has_no_largest_speed_up(mean: float, factor: float) -> None:
    """Points from 1 to 100 epochs: the limit ends at zero, and a mean of zero has no factor."""
    verdict = judged([mean] * 5, 128, {128: (1, 1, 100, 100)})

    assert (verdict.status, verdict.acceptable_mean, verdict.max_speedup) == ("pass", 0.0, None)
    assert verdict.factor == factor


def test_references_that_larger_batches_rule_out_are_pruned() -> None:
    """64 is slower than 128, and goes; 256 is above the line from 128 to 384, and goes."""
    rules = benchmark({64: (12,) * 6, 128: (10,) * 6, 256: (20,) * 6, 384: (22,) * 6})

    assert [point.batch_size for point in round_points(rules.convergence, 1, "code")] == [128, 384]


def test_the_line_is_drawn_between_the_nearest_batch_sizes() -> None:
    """200 and 300 have 12 and 20; at 250 that is 16, whatever 100 and 400 have."""
    references = {100: (10,) * 6, 200: (12,) * 6, 300: (20,) * 6, 400: (40,) * 6}

    assert judged([16] * 5, 250, references).reference_mean == 16


def test_unet3d_counts_two_fewer_runs_by_the_program_and_eight_fewer_by_the_text() -> None:
    """40 runs: 38 in the program's t-test, 32 in the text's; the one that counts more allows less."""
    rules = benchmark({8: tuple(range(100, 180))}, "unet3d", 40, 4)
    found = {name: judge([200] * 40, 8, rules, "4.0.0", name).acceptable_mean for name in ("code", "rules")}

    # t(0.95; 108) = 1.6591 x 23.092 x sqrt(1/72 + 1/38); t(0.95; 102) = 1.6599 x 20.782 x sqrt(1/72 + 1/32)
    assert found["code"] == pytest.approx(139.5 - 1.6591 * 23.0922 * (1 / 72 + 1 / 38) ** 0.5, abs=1e-2)
    assert found["rules"] == pytest.approx(139.5 - 1.6599 * 20.7826 * (1 / 72 + 1 / 32) ** 0.5, abs=1e-2)


def test_four_left_out_at_either_end_are_eight() -> None:
    """Of nine points one would be averaged, which has no spread; eight runs leave none."""
    nine = benchmark({8: range(9)}, num_runs=40, drop=4)
    ten = benchmark({8: range(10)}, num_runs=40, drop=4)

    assert round_points(nine.convergence, 4, "code") == []
    assert [point.mean for point in round_points(ten.convergence, 4, "code")] == [4.5]
    assert judge([4] * 8, 8, ten, "5.1.0").why == "too few runs (8) to leave out the extremes"


@pytest.mark.parametrize("allowance", [0, 46_080])
def test_a_benchmark_may_allow_more_samples_than_the_test(allowance: float) -> None:
    """By the program, not by the text; if the allowance is more than the whole amount, anything passes."""

    def allowing(points: tuple[float, ...], samples: float = allowance) -> RoundBenchmark:
        return replace(benchmark({1152: points}, "toy", 3), convergence_allowance=samples)

    points = (300_000, 310_000, 320_000, 330_000, 340_000, 350_000)
    code, text = (
        judge([325_000] * 3, 1152, allowing(points), "5.0.0", name).acceptable_mean for name in ("code", "rules")
    )
    plain = judge([325_000] * 3, 1152, allowing(points, 0.0), "5.0.0")
    small = judge([325] * 3, 1152, allowing((300, 310, 320, 330)), "5.0.0")

    assert plain.acceptable_mean is not None
    assert code == pytest.approx(plain.acceptable_mean - allowance)
    assert text is not None
    assert text > plain.acceptable_mean
    assert (small.status, small.acceptable_mean == 0.0, small.max_speedup is None) == ("pass", *[allowance > 0] * 2)


@pytest.mark.parametrize(
    ("seconds", "drop", "mean"),
    [
        ((100, 200, 300, 400, 500), 1, 300),
        ((100, 200, 300, 400, None), 1, 300),
        ((100, 200, 300, None, None), 1, None),
        ((100, 200), 1, None),
        ((100, 200, 300), 1, 200),
        (tuple(range(8)), 4, None),
        (tuple(range(9)), 4, 4),
        (tuple(range(1, 41)), 4, 20.5),
        ((*range(1, 37), None, None, None, None), 4, 20.5),
    ],
)
def test_the_olympic_mean(seconds: tuple[float | None, ...], drop: int, mean: float | None) -> None:
    """A run that failed is the slowest; of 40 runs of 3D U-Net four are left out at either end."""
    assert mlperf_score.olympic(seconds, benchmark({}, num_runs=len(seconds), drop=drop))[0] == mean


def score_of(box: RoundBox, changes: Mapping[str, Any] | None = None) -> mlperf_score.RoundScore:
    """The score in round 5.1; with changes to its RetinaNet."""
    round_ = round_of()
    if changes is not None:
        round_ = replace(round_, benchmarks={"retinanet": replace(round_.benchmarks["retinanet"], **changes)})
    return mlperf_score.round_score(box.result().runs, round_)


def test_a_result_by_hand(tmp_path: Path) -> None:
    """1,301 s, 1,311 s, ... 1,341 s: the mean of the middle three is 1,321 s; five epochs, the reference has four."""
    found = score_of(RoundBox(tmp_path))

    assert found.raw_seconds == found.seconds == pytest.approx(1321.0)
    assert [run.amount for run in found.runs] == [5.0] * 5
    assert found.code is not None
    assert (found.code.reference_mean, found.code.status, found.factor) == (4.0, "pass", 1.0)


def test_a_score_is_kept_for_the_same_runs_in_the_same_round(tmp_path: Path) -> None:
    """And for nothing else."""
    runs = RoundBox(tmp_path).result().runs
    first = mlperf_score.round_score(runs, round_of())

    assert mlperf_score.round_score(runs, round_of()) is first
    assert len(mlperf_score.round_score(runs[:4], round_of()).runs) == 4
    assert mlperf_score.round_score(runs, round_of("5.0.0")) is not first
    assert mlperf_score.round_score((), round_of()).why_not is not None


@pytest.mark.parametrize(("division", "changes"), [("open", None), ("closed", {"convergence": ()})])
def test_without_references_there_is_no_verdict_on_convergence(
    division: str, changes: Mapping[str, Any] | None, tmp_path: Path
) -> None:
    """In the open division, or for a benchmark that has none: no factor, but a time."""
    found = score_of(RoundBox(tmp_path, division=division), changes)

    assert (found.benchmark, found.division, found.num_runs) == ("retinanet", division, 5)
    assert (found.code, found.rules, found.factor) == (None, None, 1.0)
    assert found.seconds == found.raw_seconds == pytest.approx(1321.0)
    assert [run.status for run in found.runs] == ["success"] * 5


@pytest.mark.parametrize(("name", "shown"), [("toynet", "toynet"), (17, None)])
def test_an_unknown_benchmark_has_no_score(name: object, shown: str | None, tmp_path: Path) -> None:
    """A name that the round does not have, or a value that is not a name."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "submission_benchmark").value = name
    found = score_of(box)

    assert (found.benchmark, found.num_runs, found.code, found.seconds) == (shown, None, None, None)
    assert found.why_not == "the logs name no benchmark of the round"
    assert mlperf_score.excused(box.result().runs, round_of()) == []


@pytest.mark.parametrize(("failed", "is_excused"), [((1,), True), ((1, 3), False), ((), False)])
def test_as_many_runs_as_the_mean_leaves_out_may_fail(
    tmp_path: Path, failed: tuple[int, ...], is_excused: bool
) -> None:
    """They did not converge; a run that broke a rule is never excused."""
    box = RoundBox(tmp_path)
    for index in failed:
        find(box.logs[index], "run_stop").metadata["status"] = "aborted"
        find(box.logs[index], "eval_accuracy", 4).value = 0.33
    excused = mlperf_score.excused(box.result().runs, round_of())

    assert [log.path for log in excused] == ([box.log(index) for index in failed] if is_excused else [])


def read(folder: Path, log: list[Entry]) -> run_log.RunLog:
    return run_log.read(mlperflog.write(folder / "log.txt", log))


@pytest.mark.parametrize(
    ("marks", "seconds"),
    [
        ([("run_start", 500.0), ("run_stop", 1361.5)], 861.5),
        ([("run_start", 60.0), ("run_stop", 60.5)], 0.5),
        ([("run_start", 60.0), ("run_stop", 60.0)], None),
        ([("run_start", 60.5), ("run_stop", 60.0)], None),
        ([("run_stop", 60.0), ("run_start", 0.0)], None),
        ([("run_stop", 60.0)], None),
        ([("run_start", 60.0)], None),
        ([("run_start", 60.0), ("run_start", 80.0), ("run_stop", 90.0), ("run_start", 95.0), ("run_stop", 99.0)], 10.0),
    ],
)
def test_a_run_lasts_from_the_last_start_before_the_first_stop(
    marks: list[tuple[str, float]], seconds: float | None, tmp_path: Path
) -> None:
    """As in MLCommons' summariser, by the times of the lines; a run that does not last has no time."""
    log = read(tmp_path, [Entry(at_s, key) for key, at_s in marks])

    assert mlperf_score.run_seconds(log) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("lines", "amount"),
    [
        ([START, (2000, 80.0, 0.1), (4000, 70.0, 0.2), (3000, 85.0, 0.16), STOP], 3000),
        ([START, ("nowhere", 70.0, 0.2), (3000, 70.0, 0.2), STOP, (2500, 70.0, 0.2)], 3000),
        ([STOP, (3000, 70.0, 0.2), STOP], 3000),
        ([(3000, 70.0, 0.2)], None),
    ],
    ids=["first", "after the stop or nowhere", "between two stops", "no stop"],
)
def test_stable_diffusion_counts_to_the_first_evaluation_that_passes(
    lines: list[Any], amount: float | None, tmp_path: Path
) -> None:
    """FID and CLIP, in separate lines, both good enough before the last run_stop; without a target none passes."""
    log: list[Entry] = []
    for line in lines:
        if isinstance(line, Entry):
            log.append(line)
            continue
        samples, fid, clip = line
        log += [
            Entry(1.0, "eval_accuracy", value, metadata={"samples_count": samples, "metric": metric})
            for metric, value in (("FID", fid), ("CLIP", clip))
        ]
    rules = round_of("4.0.0").benchmarks["stable_diffusion"]

    assert mlperf_score.amount_to_target(read(tmp_path, log), rules) == amount
    assert mlperf_score.amount_to_target(read(tmp_path, log), replace(rules, divisions={})) is None


BERT = RoundBenchmark("bert", 10, 1, {}, convergence=(RoundReference("r", "bert", 256, "samples", (3e6,) * 20),))


def test_bert_may_count_in_epochs_and_state_its_samples_elsewhere(tmp_path: Path) -> None:
    """An epoch_num of 1 at batch size 256 is not a number of samples; train_samples is 3,150,080."""
    log = retinanet()
    find(log, "train_samples").value = 3_150_080

    assert mlperf_score.amount_to_target(read(tmp_path, log), BERT) == 3_150_080
    find(log, "eval_accuracy", 4).metadata["epoch_num"] = 2_900_000
    assert mlperf_score.amount_to_target(read(tmp_path, log), BERT) == 2_900_000


def test_exactly_a_batch_is_a_number_of_samples(tmp_path: Path) -> None:
    """One sample fewer is an epoch; without a batch size or an amount it cannot be known."""
    log = retinanet()

    assert [mlperf_score.counts_in_epochs(amount, read(tmp_path, log), BERT) for amount in (256.0, 255.0, None)] == [
        False,
        True,
        False,
    ]
    drop(log, "global_batch_size")
    assert not mlperf_score.counts_in_epochs(255.0, read(tmp_path, log), BERT)


def test_epochs_count_to_a_thousandth_and_samples_exactly(tmp_path: Path) -> None:
    """Up to the last run_stop; a line that states neither has no amount, nor has a log without stop or benchmark."""
    log = retinanet()
    last = find(log, "eval_accuracy", 4)
    last.metadata.update(epoch_num=4.87654, samples_count=4.87654)
    log.insert(log.index(last), Entry(last.at_s, "run_stop", None, mlperflog.STOP, {"status": "aborted"}))

    def amounts() -> list[float | None]:
        in_epochs = benchmark({})
        found = [in_epochs, replace(in_epochs, position="samples_count"), None]
        return [mlperf_score.amount_to_target(read(tmp_path, log), rules) for rules in found]

    assert amounts() == [4.877, 4.87654, None]
    del last.metadata["epoch_num"], last.metadata["samples_count"]
    assert amounts() == [None, None, None]
    last.metadata.update(epoch_num=4, samples_count=4)
    drop(log, "run_stop")
    assert amounts() == [None, None, None]


@pytest.mark.parametrize(
    ("samples", "amount"),
    [
        (2**63, 2.0**63),
        (2**63 + 2048, None),
        (-(2**63), -(2.0**63)),
        (-(2**63) - 2048, None),
        (1e300, None),
        (127, 127.0),
    ],
)
def test_an_amount_is_at_most_two_to_the_63(samples: float, amount: float | None, tmp_path: Path) -> None:
    """The next number that a double can hold is none."""
    log = retinanet()
    drop(log, "global_batch_size")
    find(log, "eval_accuracy", 4).metadata["samples_count"] = samples

    rules = replace(benchmark({}), position="samples_count")

    assert mlperf_score.round_run(read(tmp_path, log), rules, round_of()).amount == amount


def test_a_run_ends_at_its_last_run_stop(tmp_path: Path) -> None:
    """An evaluation between two counts, one after the last does not; without one, nothing ended."""
    log = retinanet()
    for number in (77, 99):
        if number == 99:
            log.append(Entry(3000.0, "run_stop", None, mlperflog.STOP, {"status": "success"}))
        log.append(Entry(2999.0, "eval_accuracy", 0.35, metadata={"epoch_num": number}))

    assert mlperf_score.last_evaluated_at(read(tmp_path, log), benchmark({})) == 77
    drop(log, "run_stop")
    assert mlperf_score.last_evaluated_at(read(tmp_path, log), benchmark({})) is None


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    """The status of run_stop, and the value of other keys."""
    log = retinanet()
    stop = find(log, "run_stop")
    log.append(Entry(stop.at_s, "run_stop", None, mlperflog.STOP, {"status": "aborted"}))
    log.append(Entry(stop.at_s, "opt_name", "sgd"))
    mine = read(tmp_path, log)

    assert mlperf_score.last_value(mine, "opt_name") == "sgd"
    assert mlperf_score.round_run(mine, round_of().benchmarks["retinanet"], round_of()).status == "aborted"


def test_a_difference_is_reported_with_a_log_for_each_value(tmp_path: Path) -> None:
    """Equal values are not."""
    logs = []
    for index, name in enumerate(("adam", "sgd", "adam")):
        log = retinanet()
        find(log, "opt_name").value = name
        (tmp_path / str(index)).mkdir()
        logs.append(read(tmp_path / str(index), log))

    assert mlperf_score.differing_values(logs, ["opt_name", "seed", "absent"]) == {
        "opt_name": {"'adam'": logs[0], "'sgd'": logs[1]}
    }


@pytest.mark.parametrize(
    ("value", "number"), [(17, 17), ("17", 17), (17.0, 17), ("x", None), (True, None), (None, None), (1e999, None)]
)
def test_a_seed_is_a_whole_number_or_its_text(value: object, number: int | None) -> None:
    """As in MLCommons' seed checker."""
    assert mlperf_score.parse_seed(value) == number


@pytest.mark.parametrize("name", ["0.7.0", "1.0.0", "4.0.0", "4.1.0", "6.0.0", "6.1.0"])
def test_an_earlier_round_is_not_judged_by_later_rules(name: str) -> None:
    """Seeds and status words from 4.1 on; reference convergence from 1.0 on."""
    in_force = set(round_rules(f"mlperf_training/{name}").codes)
    version = tuple(int(part) for part in name.split("."))

    assert ({"MLR006", "MLR007", "MLR008"} <= in_force) == (version >= (4, 1, 0))
    assert ({"MLR011", "MLR012"} <= in_force) == (version >= (1, 0, 0))
    assert {"MLR001", "MLR003", "MLR013", "RUN004", "SYS001"} <= in_force


def test_a_score_is_normalised_by_what_the_logs_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At batch size 320 the reference has 37/9 epochs; four are faster, and the file's 0.01 changes nothing."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "global_batch_size").value = 320
        find(log, "eval_accuracy", 3).value = 0.345
        for key in ("block_start", "block_stop", "tracked_stats", "eval_start", "eval_accuracy", "eval_stop"):
            drop(log, key, -1)
        for entry in log[-2:]:
            entry.at_s -= 260.0
    box.put("scaling.json", '{"scaling_factor": 0.01}')
    box.write()

    assert score.run([tmp_path], ROUND, "json", TODAY) is ExitStatus.OK
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert found["factor"] == pytest.approx(37 / 36)
    assert found["raw_seconds"] == pytest.approx(1061.0)
    assert found["minutes"] == pytest.approx(1061.0 * 37 / 36 / 60)
    assert found["claimed_factor"] == 0.01
    assert found["convergence"]["rules"]["status"] == "pass"


def test_the_table_says_why_a_result_is_not_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of errors, a batch size that the reference did not run, and a factor of the submitter's."""
    RoundBox(tmp_path / "few", num_runs=4).write()
    assert score.run([tmp_path / "few"], ROUND, "text", TODAY) is ExitStatus.FINDINGS
    shown = capsys.readouterr().out
    assert "-  Toymaker/toybox  closed    available  not valid (21.933)" in shown
    assert "Toymaker/toybox: not valid: 1 error; `tta check` shows them" in shown

    box = RoundBox(tmp_path / "many")
    for log in box.logs:
        find(log, "global_batch_size").value = 1_000_000
        drop(log, "seed")
    box.put("scaling.json", '{"scaling_factor": 0.5}')
    box.write()

    score.run([box.folder], ROUND, "table", TODAY)
    shown = capsys.readouterr().out

    assert re.search(r"not valid: [0-9]+ errors; `tta check` shows them", shown)
    assert "the factor 0.500000 in its scaling.json is not used" in shown
    assert "convergence by MLCommons' program: missing" in shown
    assert "convergence by the rules' text: missing" in shown


def test_an_unreadable_log_does_not_hide_other_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is an error at the end, and the other result is in the table."""
    box = RoundBox(tmp_path)
    box.write()
    (tmp_path / "none.txt").write_text("nothing of MLPerf's\n")

    with pytest.raises(LogError, match=r"none\.txt"):
        score.run([tmp_path / "none.txt", box.folder], ROUND, "text", TODAY)
    assert "22.017" in capsys.readouterr().out
