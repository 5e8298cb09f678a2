"""Scores of MLPerf's rounds: the rules' own example by both definitions, olympic means, and what a log counts for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands import score
from harness.errors import ExitStatus, LogError
from harness.log import run_log
from harness.mlperf import score as mlperf_score
from harness.mlperf.model import RoundBenchmark, RoundReference
from harness.mlperf.rcp import Definition, judge, round_points
from harness.submission.result import find_results
from tests import mlperflog
from tests.mlperflog import find
from tests.rules.box import TODAY
from tests.rules.roundbox import ROUND, RoundBox, round_rules

# MLPerf training rules, "Appendix: RCP Examples".
EXAMPLE: dict[int, Sequence[float]] = {
    128: (16, 14, 16, 17, 16, 16, 15, 16, 15, 16),
    256: (20, 21, 21, 20, 22, 22, 21, 21, 20, 20),
}


def benchmark(
    references: Mapping[int, Sequence[float]], name: str = "toy", num_runs: int = 5, drop: int = 1
) -> RoundBenchmark:
    found = tuple(
        RoundReference(f"ref_{size}", name, size, "epochs", tuple(float(point) for point in values))
        for size, values in references.items()
    )
    return RoundBenchmark(name, num_runs, drop, {}, convergence=found)


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
    verdict = judge([15, 15, 15, 16, 16], batch_size, benchmark(EXAMPLE), "5.1.0", definition)

    assert verdict.reference_mean == pytest.approx(mean)
    assert verdict.acceptable_mean == pytest.approx(acceptable, abs=0.006)
    assert verdict.max_speedup is not None
    assert 100 * (verdict.max_speedup - 1) == pytest.approx(percent, abs=0.011)


def test_a_mean_between_the_two_definitions() -> None:
    """15.0 fails by the text, which asks for 15.21, and passes by the program, which asks for 14.78, with a factor."""
    by_text = judge([14, 15, 15, 15, 16], 128, benchmark(EXAMPLE), "5.1.0", "rules")
    by_program = judge([14, 15, 15, 15, 16], 128, benchmark(EXAMPLE), "5.1.0", "code")

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
    verdict = judge(amounts, batch_size, benchmark(EXAMPLE), "5.1.0")

    assert (verdict.status, verdict.basis) == (status, basis)


def test_a_benchmark_whose_references_are_too_few_has_none() -> None:
    """Of three runs one is averaged; a spread needs two."""
    verdict = judge([16] * 5, 128, benchmark({128: (16, 16, 16)}), "5.1.0")

    assert (verdict.status, verdict.why) == ("missing", "round 5.1.0 has no reference runs of toy")


def test_no_spread_allows_no_speed_up() -> None:
    """20 equal runs: the mean itself passes, anything faster fails."""
    rules = benchmark({128: (4,) * 20})

    assert judge([4] * 5, 128, rules, "5.1.0").status == "pass"
    assert judge([4, 4, 4, 3.9, 3.9], 128, rules, "5.1.0").status == "fail"


def test_a_spread_that_allows_everything_has_no_largest_speed_up() -> None:
    """Points from 1 to 100 epochs: even a mean of nearly nothing is not significantly faster."""
    verdict = judge([1] * 5, 128, benchmark({128: (1, 1, 100, 100)}), "5.1.0")

    assert (verdict.status, verdict.acceptable_mean, verdict.max_speedup) == ("pass", 0.0, None)
    assert verdict.factor == 50.5


def test_what_larger_batches_rule_out_is_pruned() -> None:
    """64 is slower than 128, and goes; 256 lies above the line from 128 to 384, and goes."""
    rules = benchmark({64: (12,) * 6, 128: (10,) * 6, 256: (20,) * 6, 384: (22,) * 6})

    assert [point.batch_size for point in round_points(rules.convergence, 1, "code")] == [128, 384]


def test_unet3d_counts_two_fewer_runs_by_the_program_and_eight_fewer_by_the_text() -> None:
    """40 runs: 38 in the program's t-test, 32 in the text's; the one that counts more allows less."""
    rules = benchmark({8: tuple(range(100, 180))}, "unet3d", 40, 4)
    found = {name: judge([200] * 40, 8, rules, "4.0.0", name).acceptable_mean for name in ("code", "rules")}

    # t(0.95; 108) = 1.6591 x 23.092 x sqrt(1/72 + 1/38); t(0.95; 102) = 1.6599 x 20.782 x sqrt(1/72 + 1/32)
    assert found["code"] == pytest.approx(139.5 - 1.6591 * 23.0922 * (1 / 72 + 1 / 38) ** 0.5, abs=1e-2)
    assert found["rules"] == pytest.approx(139.5 - 1.6599 * 20.7826 * (1 / 72 + 1 / 32) ** 0.5, abs=1e-2)


@pytest.mark.parametrize(("version", "allowance"), [("mlperf_training/4.1.0", 0), ("mlperf_training/5.0.0", 46_080)])
def test_llama31_405b_may_be_one_evaluation_faster_from_round_5_on(version: str, allowance: float) -> None:
    """By the program; not by the text."""
    rules = benchmark({1152: (300_000, 310_000, 320_000, 330_000, 340_000, 350_000)}, "llama31_405b", 3)
    code, text = (judge([325_000] * 3, 1152, rules, version, name).acceptable_mean for name in ("code", "rules"))
    plain = judge([325_000] * 3, 1152, benchmark({1152: rules.convergence[0].points}, "other", 3), version)

    assert plain.acceptable_mean is not None
    assert code == pytest.approx(plain.acceptable_mean - allowance)
    assert text is not None
    assert text > plain.acceptable_mean


@pytest.mark.parametrize(
    ("seconds", "drop", "mean"),
    [
        ((100, 200, 300, 400, 500), 1, 300),
        ((100, 200, 300, 400, None), 1, 300),
        ((100, 200, 300, None, None), 1, None),
        ((100, 200), 1, None),
        (tuple(range(1, 41)), 4, 20.5),
        ((*range(1, 37), None, None, None, None), 4, 20.5),
    ],
)
def test_the_olympic_mean(seconds: tuple[float | None, ...], drop: int, mean: float | None) -> None:
    """A run that failed is the slowest; of 40 runs of 3D U-Net four go at either end."""
    assert mlperf_score.olympic(seconds, benchmark({}, num_runs=len(seconds), drop=drop))[0] == mean


def test_no_benchmark_has_no_mean() -> None:
    """And says so."""
    assert mlperf_score.olympic([1.0], None) == (None, "the logs name no benchmark of the round")


def test_a_result_by_hand(tmp_path: Path) -> None:
    """1,301 s, 1,311 s, ... 1,341 s: the mean of the middle three is 1,321 s; five epochs, the reference has four."""
    box = RoundBox(tmp_path)
    assert box.ruleset.round is not None
    runs = box.result().runs
    found = mlperf_score.round_score(runs, box.ruleset.round)

    assert found.raw_seconds == found.seconds == pytest.approx(1321.0)
    assert [run.amount for run in found.runs] == [5.0] * 5
    assert found.code is not None
    assert (found.code.reference_mean, found.code.status, found.factor) == (4.0, "pass", 1.0)
    assert mlperf_score.round_score(runs, box.ruleset.round) is found


def test_a_score_is_normalised_by_what_the_logs_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At batch size 320 the reference has 37/9 epochs; four are faster, and the file's 0.01 changes nothing."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "global_batch_size").value = 320
        find(log, "eval_accuracy", 3).value = 0.345
        keys = ("block_start", "block_stop", "tracked_stats", "eval_start", "eval_accuracy", "eval_stop")
        last = [[entry for entry in log if entry.key == key][-1] for key in keys]
        log[:] = [entry for entry in log if not any(entry is other for other in last)]
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


def test_the_table_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result with a run too few is shown, and not ranked."""
    RoundBox(tmp_path, num_runs=4).write()

    assert score.run([tmp_path], ROUND, "text", TODAY) is ExitStatus.FINDINGS
    out = capsys.readouterr().out
    assert "Toymaker/toybox  closed    not valid (21.933)" in out
    assert "Toymaker/toybox: not valid: 1 error; `tta check` shows them" in out


def test_what_cannot_be_read_hides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A single log that is none: a sentence on standard error, and the other result."""
    box = RoundBox(tmp_path)
    box.write()
    (tmp_path / "none.txt").write_text("nothing of MLPerf's\n")

    with pytest.raises(LogError, match=r"none\.txt"):
        score.run([tmp_path / "none.txt", box.folder], ROUND, "text", TODAY)
    captured = capsys.readouterr()
    assert "22.017" in captured.out


@pytest.mark.parametrize(
    ("key", "nth", "at_s", "seconds"), [("run_start", 0, 500.0, 861.5), ("run_stop", 0, 60.0, None)]
)
def test_the_time_of_a_run(tmp_path: Path, key: str, nth: int, at_s: float, seconds: float | None) -> None:
    """run_start to run_stop by their own times; a run without length has none."""
    log = mlperflog.retinanet()
    find(log, key, nth).at_s = at_s

    assert mlperf_score.run_seconds(read(tmp_path, log)) == seconds


def read(folder: Path, log: list[mlperflog.Entry]) -> run_log.RunLog:
    return run_log.read(mlperflog.write(folder / "log.txt", log))


def test_the_last_start_before_the_first_stop_counts(tmp_path: Path) -> None:
    """As MLCommons' summariser takes it; that there are two is a finding of its own."""
    log = mlperflog.retinanet()
    log.insert(-2, mlperflog.Entry(1351.5, "run_start", None, mlperflog.START))

    assert mlperf_score.run_seconds(read(tmp_path, log)) == pytest.approx(10.0)


def test_results_of_mlperf_are_folders_whatever_their_logs_are_called(tmp_path: Path) -> None:
    """At results/<system>/<benchmark> one result; elsewhere a log for itself."""
    for place in (tmp_path / "a/results/box/bert", tmp_path / "logs"):
        place.mkdir(parents=True)
        for name in ("result_x_1.txt", "result_x_2.txt"):
            mlperflog.write(place / name, mlperflog.retinanet())

    assert find_results(tmp_path) == [
        tmp_path / "a/results/box/bert",
        tmp_path / "logs/result_x_1.txt",
        tmp_path / "logs/result_x_2.txt",
    ]


@pytest.mark.parametrize(
    ("value", "number"), [(17, 17), ("17", 17), (17.0, 17), ("x", None), (True, None), (None, None), (1e999, None)]
)
def test_a_seed_is_a_whole_number_or_a_text_of_one(value: object, number: int | None) -> None:
    """As MLCommons' seed checker takes it."""
    assert mlperf_score.parse_seed(value) == number


@pytest.mark.parametrize("name", ["0.7.0", "1.0.0", "4.0.0", "4.1.0", "6.0.0"])
def test_a_later_rule_judges_no_earlier_round(name: str) -> None:
    """Seeds and status words from 4.1 on; reference convergence from 1.0 on."""
    in_force = set(round_rules(f"mlperf_training/{name}").codes)
    version = tuple(int(part) for part in name.split("."))

    assert ({"MLR006", "MLR007", "MLR008"} <= in_force) == (version >= (4, 1, 0))
    assert ({"MLR011", "MLR012"} <= in_force) == (version >= (1, 0, 0))
    assert {"MLR001", "MLR003", "MLR013", "RUN004", "SYS001"} <= in_force


def test_bert_may_count_in_epochs_and_say_its_samples_apart(tmp_path: Path) -> None:
    """An epoch_num of 1 at batch size 256 is no number of samples; train_samples says 3,150,080."""
    rules = RoundBenchmark("bert", 10, 1, {}, convergence=(RoundReference("r", "bert", 256, "samples", (3e6,) * 20),))
    log = mlperflog.retinanet()
    find(log, "train_samples").value = 3_150_080

    assert mlperf_score.amount_to_target(read(tmp_path, log), rules) == 3_150_080
    find(log, "eval_accuracy", 4).metadata["epoch_num"] = 2_900_000
    assert mlperf_score.amount_to_target(read(tmp_path, log), rules) == 2_900_000


def test_stable_diffusion_counts_to_the_first_evaluation_that_passes(tmp_path: Path) -> None:
    """FID and CLIP stand apart; at 2,000 samples only FID is good enough, at 3,000 and 4,000 both."""
    round_ = round_rules("mlperf_training/4.0.0").round
    assert round_ is not None
    log = [mlperflog.Entry(0.0, "run_start", None, mlperflog.START)]
    for samples, fid, clip in ((2000, 80.0, 0.1), (4000, 70.0, 0.2), (3000, 85.0, 0.16)):
        log += [
            mlperflog.Entry(1.0, "eval_accuracy", value, metadata={"samples_count": samples, "metric": metric})
            for metric, value in (("FID", fid), ("CLIP", clip))
        ]
    log.append(mlperflog.Entry(2.0, "run_stop", None, mlperflog.STOP, {"status": "success"}))

    assert mlperf_score.amount_to_target(read(tmp_path, log), round_.benchmarks["stable_diffusion"]) == 3000


def test_a_log_without_stop_or_benchmark_has_neither_time_nor_amount(tmp_path: Path) -> None:
    """None is not zero."""
    log = mlperflog.retinanet()
    mlperflog.drop(log, "run_stop")

    assert mlperf_score.amount_to_target(read(tmp_path, log), None) is None
    assert mlperf_score.amount_to_target(read(tmp_path, log), benchmark({})) is None
    assert mlperf_score.run_seconds(read(tmp_path, log)) is None


def test_the_open_division_is_compared_with_no_reference(tmp_path: Path) -> None:
    """No verdict, no factor; what it is called and how many runs it takes is said."""
    box = RoundBox(tmp_path, division="open")
    assert box.ruleset.round is not None
    found = mlperf_score.round_score(box.result().runs, box.ruleset.round)

    assert (found.benchmark, found.division, found.num_runs) == ("retinanet", "open", 5)
    assert (found.code, found.rules, found.factor) == (None, None, 1.0)
    assert found.seconds == found.raw_seconds == pytest.approx(1321.0)
    assert [run.status for run in found.runs] == ["success"] * 5


def test_a_benchmark_that_is_none_has_no_score(tmp_path: Path) -> None:
    """A word that the round does not know, and no word at all."""
    for name, said in (("toynet", "toynet"), (17, None)):
        box = RoundBox(tmp_path / str(name))
        for log in box.logs:
            find(log, "submission_benchmark").value = name
        assert box.ruleset.round is not None
        found = mlperf_score.round_score(box.result().runs, box.ruleset.round)

        assert (found.benchmark, found.num_runs, found.code, found.seconds) == (said, None, None, None)
        assert found.why_not == "the logs name no benchmark of the round"
        assert mlperf_score.excused(box.result().runs, box.ruleset.round) == []


def test_a_score_is_kept_for_the_same_runs_in_the_same_round(tmp_path: Path) -> None:
    """And for nothing else."""
    box = RoundBox(tmp_path)
    round_, other = box.ruleset.round, round_rules("mlperf_training/5.0.0").round
    assert round_ is not None
    assert other is not None
    result = box.result()
    first = mlperf_score.round_score(result.runs, round_)

    assert mlperf_score.round_score(result.runs, round_) is first
    assert len(mlperf_score.round_score(result.runs[:4], round_).runs) == 4
    assert mlperf_score.round_score(result.runs, other) is not mlperf_score.round_score(result.runs, round_)
    assert mlperf_score.round_score((), round_).why_not is not None


@pytest.mark.parametrize(("failed", "is_excused"), [((1,), True), ((1, 3), False), ((), False)])
def test_as_many_runs_as_the_mean_leaves_out_may_fail(
    tmp_path: Path, failed: tuple[int, ...], is_excused: bool
) -> None:
    """They did not converge; a run that broke a rule is never excused."""
    box = RoundBox(tmp_path)
    for index in failed:
        find(box.logs[index], "run_stop").metadata["status"] = "aborted"
        find(box.logs[index], "eval_accuracy", 4).value = 0.33
    assert box.ruleset.round is not None
    excused = mlperf_score.excused(box.result().runs, box.ruleset.round)

    assert [log.path for log in excused] == ([box.log(index) for index in failed] if is_excused else [])


def test_a_run_of_half_a_second_has_a_length_and_one_of_none_has_not(tmp_path: Path) -> None:
    """Nor has one that starts only after it stopped, nor one that never starts."""
    log = mlperflog.retinanet()
    stop = find(log, "run_stop")
    find(log, "run_start").at_s = stop.at_s - 0.5
    assert mlperf_score.run_seconds(read(tmp_path, log)) == pytest.approx(0.5)
    find(log, "run_start").at_s = stop.at_s
    assert mlperf_score.run_seconds(read(tmp_path, log)) is None
    mlperflog.drop(log, "run_start")
    assert mlperf_score.run_seconds(read(tmp_path, log)) is None
    log.append(mlperflog.Entry(0.0, "run_start", None, mlperflog.START))
    assert mlperf_score.run_seconds(read(tmp_path, log)) is None


def test_epochs_count_to_a_thousandth_and_samples_as_they_are(tmp_path: Path) -> None:
    """Up to the last run_stop; what says neither has no amount."""
    log = mlperflog.retinanet()
    last = find(log, "eval_accuracy", 4)
    last.metadata.update(epoch_num=4.87654, samples_count=4.87654)
    log.insert(log.index(last), mlperflog.Entry(last.at_s, "run_stop", None, mlperflog.STOP, {"status": "aborted"}))
    mine = read(tmp_path, log)

    assert mlperf_score.amount_to_target(mine, benchmark({})) == 4.877
    assert mlperf_score.amount_to_target(mine, benchmark({}, "llama31_8b")) == 4.87654
    del last.metadata["epoch_num"], last.metadata["samples_count"]
    assert mlperf_score.amount_to_target(read(tmp_path, log), benchmark({})) is None
    assert mlperf_score.amount_to_target(read(tmp_path, log), benchmark({}, "llama31_8b")) is None


def test_exactly_a_batch_is_a_number_of_samples(tmp_path: Path) -> None:
    """One sample fewer is an epoch; without a batch size, or without an amount, nothing says so."""
    rules = RoundBenchmark("bert", 10, 1, {}, convergence=(RoundReference("r", "bert", 256, "samples", (3e6,) * 20),))
    log = mlperflog.retinanet()
    mine = read(tmp_path, log)

    assert not mlperf_score.counts_in_epochs(256.0, mine, rules)
    assert mlperf_score.counts_in_epochs(255.0, mine, rules)
    assert not mlperf_score.counts_in_epochs(None, mine, rules)
    mlperflog.drop(log, "global_batch_size")
    assert not mlperf_score.counts_in_epochs(255.0, read(tmp_path, log), rules)


def test_what_differs_is_named_with_a_log_of_each_value(tmp_path: Path) -> None:
    """The last value of a key counts; what is equal is not there."""
    logs = []
    for index, name in enumerate(("adam", "sgd", "adam")):
        log = mlperflog.retinanet()
        find(log, "opt_name").value = name
        (tmp_path / str(index)).mkdir()
        logs.append(read(tmp_path / str(index), log))

    assert mlperf_score.differing_values(logs, ["opt_name", "seed", "absent"]) == {
        "opt_name": {"'adam'": logs[0], "'sgd'": logs[1]}
    }


def test_four_cut_at_either_end_take_eight_away() -> None:
    """Of nine points one would be averaged, which has no spread; eight runs leave none."""
    nine = benchmark({8: range(9)}, num_runs=40, drop=4)
    ten = benchmark({8: range(10)}, num_runs=40, drop=4)

    assert round_points(nine.convergence, 4, "code") == []
    assert [point.mean for point in round_points(ten.convergence, 4, "code")] == [4.5]
    assert judge([4] * 8, 8, ten, "5.1.0").why == "8 runs are too few to leave out the extremes"


def test_the_line_is_drawn_between_the_nearest_batch_sizes() -> None:
    """200 and 300 have 12 and 20; at 250 that is 16, whatever 100 and 400 have."""
    rules = benchmark({100: (10,) * 6, 200: (12,) * 6, 300: (20,) * 6, 400: (40,) * 6})

    assert judge([16] * 5, 250, rules, "5.1.0").reference_mean == 16


def test_a_limit_ends_at_zero_and_a_mean_of_zero_has_no_factor() -> None:
    """Where an evaluation's allowance is more than all that is needed, too."""
    wide = judge([0] * 5, 128, benchmark({128: (1, 1, 100, 100)}), "5.1.0")
    allowed = judge([325] * 3, 1152, benchmark({1152: (300, 310, 320, 330)}, "llama31_405b", 3), "5.1.0")

    assert (wide.status, wide.acceptable_mean, wide.factor) == ("pass", 0.0, 1.0)
    assert (allowed.status, allowed.acceptable_mean, allowed.max_speedup) == ("pass", 0.0, None)


@pytest.mark.parametrize(
    ("seconds", "drop", "mean"), [((100, 200, 300), 1, 200), (tuple(range(8)), 4, None), (tuple(range(9)), 4, 4)]
)
def test_one_run_that_is_kept_has_a_mean(seconds: tuple[float, ...], drop: int, mean: float | None) -> None:
    """None kept has none."""
    assert mlperf_score.olympic(seconds, benchmark({}, num_runs=len(seconds), drop=drop))[0] == mean


def test_a_benchmark_without_references_has_no_verdict(tmp_path: Path) -> None:
    """Not one that says it is missing."""
    box = RoundBox(tmp_path)
    round_ = box.ruleset.round
    assert round_ is not None
    bare = replace(round_, benchmarks={"retinanet": replace(round_.benchmarks["retinanet"], convergence=())})
    found = mlperf_score.round_score(box.result().runs, bare)

    assert (found.code, found.rules, found.factor) == (None, None, 1.0)


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    """Of run_stop its status, of others their value."""
    log = mlperflog.retinanet()
    stop = find(log, "run_stop")
    log.append(mlperflog.Entry(stop.at_s, "run_stop", None, mlperflog.STOP, {"status": "aborted"}))
    log.append(mlperflog.Entry(stop.at_s, "opt_name", "sgd"))
    round_ = round_rules().round
    assert round_ is not None
    mine = read(tmp_path, log)

    assert mlperf_score.last_value(mine, "opt_name") == "sgd"
    assert mlperf_score.round_run(mine, round_.benchmarks["retinanet"], round_).status == "aborted"


def test_what_passes_after_run_stop_or_does_not_say_where_is_not_the_first(tmp_path: Path) -> None:
    """2,500 after the end, and one nowhere, leave 3,000."""
    round_ = round_rules("mlperf_training/4.0.0").round
    assert round_ is not None
    log = [mlperflog.Entry(0.0, "run_start", None, mlperflog.START)]
    for samples in ("nowhere", 3000, 2500):
        if samples == 2500:
            log.append(mlperflog.Entry(2.0, "run_stop", None, mlperflog.STOP, {"status": "success"}))
        log += [
            mlperflog.Entry(1.0, "eval_accuracy", value, metadata={"samples_count": samples, "metric": metric})
            for metric, value in (("FID", 70.0), ("CLIP", 0.2))
        ]

    assert mlperf_score.amount_to_target(read(tmp_path, log), round_.benchmarks["stable_diffusion"]) == 3000


def test_the_table_says_why_a_result_is_not_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors by their number, a batch size that the reference has not run, and a factor of one's own."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "global_batch_size").value = 1_000_000
        mlperflog.drop(log, "seed")
    box.put("scaling.json", '{"scaling_factor": 0.5}')
    box.write()

    score.run([box.folder], ROUND, "table", TODAY)
    shown = capsys.readouterr().out

    assert re.search(r"not valid: [0-9]+ errors; `tta check` shows them", shown)
    assert "the factor 0.500000 in its scaling.json is not used" in shown
    assert "convergence by MLCommons' program: missing" in shown
    assert "convergence by the rules' text: missing" in shown


def test_evaluations_that_count_as_one_and_have_no_target_do_not_pass(tmp_path: Path) -> None:
    """In a division that has no page, as in a round that asks nothing of them."""
    round_ = round_rules("mlperf_training/4.0.0").round
    assert round_ is not None
    log = [
        mlperflog.Entry(1.0, "eval_accuracy", value, metadata={"samples_count": 2000, "metric": metric})
        for metric, value in (("FID", 70.0), ("CLIP", 0.2))
    ]
    log.append(mlperflog.Entry(2.0, "run_stop", None, mlperflog.STOP, {"status": "success"}))
    read_log = read(tmp_path, log)

    assert mlperf_score.amount_to_target(read_log, round_.benchmarks["stable_diffusion"]) == 2000
    assert mlperf_score.amount_to_target(read_log, replace(round_.benchmarks["stable_diffusion"], divisions={})) is None


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
def test_more_than_can_be_counted_is_no_amount(samples: float, amount: float | None, tmp_path: Path) -> None:
    """Up to 2^63, the next number that a double has is none."""
    log = mlperflog.retinanet()
    mlperflog.drop(log, "global_batch_size")
    find(log, "eval_accuracy", 4).metadata["samples_count"] = samples
    round_ = round_rules("mlperf_training/5.1.0").round
    assert round_ is not None

    assert mlperf_score.round_run(read(tmp_path, log), benchmark({}, "llama31_8b"), round_).amount == amount


def test_what_stands_after_the_last_run_stop_is_not_where_the_run_ended(tmp_path: Path) -> None:
    """Of the two marks the last counts; without one, nothing ended."""
    log = mlperflog.retinanet()
    for number in (77, 99):
        if number == 99:
            log.append(mlperflog.Entry(3000.0, "run_stop", None, mlperflog.STOP, {"status": "success"}))
        log.append(mlperflog.Entry(2999.0, "eval_accuracy", 0.35, metadata={"epoch_num": number}))

    assert mlperf_score.last_evaluated_at(read(tmp_path, log), benchmark({})) == 77
    mlperflog.drop(log, "run_stop")
    mlperflog.drop(log, "run_stop")
    assert mlperf_score.last_evaluated_at(read(tmp_path, log), benchmark({})) is None


def test_evaluations_that_count_as_one_are_looked_at_up_to_the_last_run_stop(tmp_path: Path) -> None:
    """What passes between two marks counts; without a mark nothing does."""
    round_ = round_rules("mlperf_training/4.0.0").round
    assert round_ is not None
    stop = mlperflog.Entry(2.0, "run_stop", None, mlperflog.STOP, {"status": "success"})
    passing = [
        mlperflog.Entry(1.0, "eval_accuracy", value, metadata={"samples_count": 3000, "metric": metric})
        for metric, value in (("FID", 70.0), ("CLIP", 0.2))
    ]
    rules = round_.benchmarks["stable_diffusion"]

    assert mlperf_score.amount_to_target(read(tmp_path, [stop, *passing, stop]), rules) == 3000
    assert mlperf_score.amount_to_target(read(tmp_path, passing), rules) is None


@pytest.mark.parametrize(
    ("batch_size", "words"),
    [
        (None, "the logs have no global_batch_size, or not all the same"),
        (256.5, "global_batch_size is 256.5; it must be a whole number"),
    ],
)
def test_a_batch_size_that_is_none_is_told_from_one_that_is_not_there(batch_size: object, words: str) -> None:
    """The sentence says which."""
    assert judge((16,) * 5, batch_size, benchmark(EXAMPLE), "5.1.0").basis == "none"
    assert words in str(judge((16,) * 5, batch_size, benchmark(EXAMPLE), "5.1.0"))
