"""`--ruleset auto` on logs of MLPerf's: benchmark and day leave some rounds; a folder's name chooses among them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from harness import cli
from harness.commands import check, explain
from harness.errors import ExitStatus, UsageError
from harness.log import run_log
from harness.log.events import TOKEN
from harness.ruleset import catalog, detect, load
from harness.ruleset.detect import Candidate, detect_round
from tests import fabricate, mlperflog
from tests.mlperflog import Entry, drop, find, retinanet, write
from tests.rules.roundbox import RoundBox

ROUNDS = [
    Candidate("mlperf_training/5.0.0", "2025-06-04", frozenset({"retinanet", "bert"})),
    Candidate("mlperf_training/5.1.0", "2025-11-12", frozenset({"retinanet", "flux1"})),
    Candidate("mlperf_training/6.0.0", "2026-06-30", frozenset({"flux1", "retinanet"})),
    Candidate("mlperf_training/0.7.0", "2020-07-29", frozenset({"gnmt"})),
]


def choice(path: Path, log: list[Entry], asked: Path | None = None) -> tuple[str, str] | None:
    """asked: what whoever asks has named; else what is above the test's own folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = detect_round(run_log.read(write(path, log)), ROUNDS, detect.with_parents([] if asked is None else [asked]))
    return None if found is None else (found.name.rpartition("/")[2], found.why)


def of_benchmark(name: object) -> list[Entry]:
    log = retinanet()
    find(log, "submission_benchmark").value = name
    return log


def test_the_first_round_that_was_published_after_the_run(tmp_path: Path) -> None:
    """The log is of 12 August 2025; 5.0 was out by then."""
    assert choice(tmp_path / "result_0.txt", retinanet()) == (
        "5.1.0",
        "the first of 2 rounds that have retinanet and is dated 2025-08-12",
    )


def test_a_folder_chooses_among_the_rounds_that_are_possible(tmp_path: Path) -> None:
    """A log may be submitted again in a later round, and never in an earlier one."""
    later = choice(tmp_path / "training_results_v6.0" / "Org" / "result_0.txt", retinanet())
    earlier = choice(tmp_path / "training_v5.0" / "result_0.txt", retinanet())

    assert later is not None
    assert earlier is not None
    assert later[0] == "6.0.0"
    assert "by the name of its folder" in later[1]
    assert earlier[0] == "5.1.0"


def test_a_benchmark_of_one_round_is_enough(tmp_path: Path) -> None:
    """GNMT was last run in round 0.7; a log of 2025 is judged by it all the same, and that is said."""
    bert, gnmt = of_benchmark("bert"), of_benchmark("gnmt")
    for entry in bert:
        entry.at_s -= 120 * 86_400

    assert choice(tmp_path / "a.txt", bert) == ("5.0.0", "the only round that has bert and is dated 2025-04-14")
    assert choice(tmp_path / "b.txt", gnmt) == (
        "0.7.0",
        "the last round that has gnmt, although the log is dated 2025-08-12, after it",
    )


@pytest.mark.parametrize("at_s", [1e15, -1e15, -4e9, -1e8])
def test_a_first_line_of_another_time_decides_nothing(at_s: float, tmp_path: Path) -> None:
    """Of no calendar, of before 1970, of the round before: the run's other lines are of August 2025."""
    log = retinanet()
    log[1].at_s = at_s
    found = choice(tmp_path / "a.txt", log)

    assert found is not None
    assert found[0] == "5.1.0"


def test_times_that_no_calendar_has_decide_nothing(tmp_path: Path) -> None:
    log = retinanet()
    for entry in log:
        entry.at_s = 1e15

    assert choice(tmp_path / "a.txt", log) == ("5.0.0", "the first of 3 rounds that have retinanet")


@pytest.mark.parametrize("name", ["doom", None, ["retinanet"], 5])
def test_no_round_has_it(tmp_path: Path, name: object) -> None:
    """Then nothing is said, and the harness's own rules judge."""
    assert choice(tmp_path / "a.txt", of_benchmark(name)) is None


def test_a_log_without_a_benchmark_has_no_round(tmp_path: Path) -> None:
    log = retinanet()
    drop(log, "submission_benchmark")

    assert choice(tmp_path / "a.txt", log) is None


def test_the_rounds_that_come_with_the_harness_have_a_day_each() -> None:
    """In the order of their versions."""
    known = load.round_candidates(catalog.ruleset_folders())

    assert len(known) == 12
    assert [item.published for item in known] == sorted({item.published for item in known})
    assert [item.version for item in known][:2] == ["0.7", "1.0"]


def test_check_says_which_round_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, and the findings are those of the round."""
    log = retinanet()
    find(log, "opt_name").value = "sgd"
    write(tmp_path / "result_x.txt", log)
    status = check.run([tmp_path], "auto", "text", date(2025, 12, 1))
    out, err = capsys.readouterr()

    assert status is ExitStatus.FINDINGS
    assert "judging by ruleset mlperf_training/5.1.0, the only round" in err
    assert "opt_name is 'sgd'; required: value == 'adam'" in out


def test_explain_prints_the_rules_of_a_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    """Target, runs, limits, keys and reference points."""
    assert explain.run("retinanet", False, "mlperf_training/5.1.0") is ExitStatus.OK
    out = capsys.readouterr().out

    assert "A result is 5 runs. The fastest and the slowest are left out" in out
    assert "closed: at least one eval_accuracy must meet `value >= 0.340 and value < 1.0`" in out
    assert "| opt_name | once | `value == 'adam'` |  |" in out
    assert "| init_start | once or more |  | before init_stop, run_start |" in out
    assert "| ref_256 | 256 | 20 | 4 | 4 | 4 | epochs |" in out


def test_explain_prints_what_is_special(capsys: pytest.CaptureFixture[str]) -> None:
    """Variants, lists of tensors, evaluations that count as one, a benchmark without a reference."""
    for version, name in (("1.0.0", "resnet"), ("1.1.0", "rnnt"), ("5.0.0", "stable_diffusion"), ("0.7.0", "bert")):
        explain.run(name, False, f"mlperf_training/{version}")
    out = capsys.readouterr().out

    assert "### Additionally, if opt_name is lars" in out
    assert "together they name 7 tensors, each once" in out
    assert (
        "- The eval_accuracy lines of one samples_count count as one aggregated_eval_accuracy; each names its metric"
        in out
    )
    assert "No reference runs are known" in out


def test_explain_lists_the_benchmarks_of_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    explain.run(None, False, "mlperf_training/5.1.0")

    assert "| retinanet | 5 | 1 | closed, open | `value >= 0.340 and value < 1.0` |" in capsys.readouterr().out


def test_explain_suggests_a_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    """A code of a check is a code there, too."""
    with pytest.raises(UsageError, match="did you mean 'retinanet'"):
        explain.run("retina", False, "mlperf_training/5.1.0")
    explain.run("mlp007", False, "mlperf_training/5.1.0")

    assert "MLP007 target_not_reached (error in ruleset mlperf_training/5.1.0" in capsys.readouterr().out


def test_a_log_of_the_past_has_the_format_of_today() -> None:
    """The small log is what the fixtures stand on: 5 evaluations, and lines of a framework between them."""
    log = retinanet()

    assert sum(entry.key == "eval_accuracy" for entry in log) == mlperflog.NUM_EPOCHS
    assert any(entry.text for entry in log)


def test_a_log_of_the_day_of_publication_may_belong_to_the_round(tmp_path: Path) -> None:
    """A day later it may not; after all of them the last is taken."""
    days = {}
    for day in (12, 13):
        log = retinanet()
        for entry in log:
            entry.at_s += (day + 80) * 86_400  # from 12 August 2025 to November
        days[day] = choice(tmp_path / f"{day}.txt", log)
    for entry in log:
        entry.at_s += 300 * 86_400
    after = choice(tmp_path / "after.txt", log)

    assert days == {
        12: ("5.1.0", "the first of 2 rounds that have retinanet and is dated 2025-11-12"),
        13: ("6.0.0", "the only round that has retinanet and is dated 2025-11-13"),
    }
    assert after == ("6.0.0", "the last round that has retinanet, although the log is dated 2026-09-09, after it")


def test_of_folders_that_were_named_and_those_above_the_nearest_counts(tmp_path: Path) -> None:
    """A results tree of one round kept in a folder of another, wherever whoever asks stands."""
    tree = tmp_path / "v6.0" / "training_results_v5.1"
    found = {choice(tree / "Org" / "a.txt", retinanet(), asked) for asked in (tree, tree / "Org", tree / "x" / "..")}

    assert {item and item[0] for item in found} == {"5.1.0"}


def test_of_folders_below_the_topmost_counts(tmp_path: Path) -> None:
    """The organiser's stands above the submitter's."""
    found = choice(tmp_path / "training_results_v5.1" / "v6.0" / "a.txt", retinanet(), tmp_path)

    assert found == (
        "5.1.0",
        "by the name of its folder training_results_v5.1; the log names retinanet and is dated 2025-08-12",
    )


@pytest.mark.parametrize(
    "place",
    [
        "Org/results/mi325x_rocm6.0/retinanet",
        "Org/results/box_n2_v6.0/retinanet",
        "Org/results/v6.0/retinanet",
        "Org/results/box/v6.0",
        "v6.0/results/box/retinanet",
        "v6.0/results/box",  # a level is missing
        "Org/results/training_results_v6.0/Org/results/box/retinanet",  # a tree within a result
        "training_results_v6.0/results/x/Org/results/box/retinanet",
        "results/v6.0/x",
    ],
)
@pytest.mark.parametrize("asked", ["", "june", "june/Org/results"])
def test_a_folder_of_the_submitters_names_no_round(place: str, asked: str, tmp_path: Path) -> None:
    """With and without a name of the organiser's above it, from wherever one asks above the system."""
    path = tmp_path / "june" / place / "a.txt"

    assert choice(path, retinanet(), tmp_path / asked) == (
        "5.1.0",
        "the first of 2 rounds that have retinanet and is dated 2025-08-12",
    )


def test_a_system_folder_that_is_named_itself_names_no_round(tmp_path: Path) -> None:
    """As by `tta check */results/*`."""
    for part in ("retinanet/a.txt", "retinanet", "."):
        system = tmp_path / "Org" / "results" / "v6.0"
        found = choice(system / "retinanet" / "a.txt", retinanet(), system / part)

        assert found is not None
        assert found[0] == "5.1.0"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("v6.0", "6.0.0"),
        ("training_v6.0", "6.0.0"),
        ("mlperf_training_v6.0", "6.0.0"),
        ("training_results_v6.0", "6.0.0"),
        ("mlperf_training_results_v6.0", "6.0.0"),
        ("training_results_v6.0-main", "6.0.0"),
        ("training_results_v6.0-master", "6.0.0"),
        ("6.0", "5.1.0"),
        ("rocm6.0", "5.1.0"),
        ("box_v6.0", "5.1.0"),
        ("inference_results_v6.0", "5.1.0"),
        ("mlperf_v6.0", "5.1.0"),
        ("v6.0.1", "5.1.0"),
        ("v6.00", "5.1.0"),
        ("v6.0-mine", "5.1.0"),
        ("training_results_v6.0_copy", "5.1.0"),
    ],
)
def test_the_whole_name_is_that_of_a_rounds_tree(name: str, version: str, tmp_path: Path) -> None:
    """Whatever merely ends in two numbers is something else's version."""
    for place in ("Org/results/box/retinanet", "anywhere", "."):
        found = choice(tmp_path / name / place / "a.txt", retinanet(), tmp_path)

        assert found is not None
        assert found[0] == version


def test_a_long_name_is_shortened(tmp_path: Path) -> None:
    """To 40 characters; the name of a benchmark is whatever a log says."""
    rounds = [Candidate("mlperf_training/9.0.0", "2099-01-01", frozenset({"a" * 41, "b" * 40}))]
    logs = [run_log.read(write(tmp_path / "a.txt", of_benchmark(name))) for name in ("a" * 41, "b" * 40)]
    found = [detect_round(log, rounds, frozenset()) for log in logs]

    assert [item and item.why.split()[5] for item in found] == ["a" * 39 + "…", "b" * 40]


@pytest.mark.parametrize("command", ["check", "audit", "derive", "score"])
def test_every_verb_that_judges_finds_the_round(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --ruleset auto a result of MLPerf's is judged by its round, and a result of ours by the rules it names."""
    box = RoundBox(tmp_path / "training_results_v5.1")
    box.write()
    ours = fabricate.write_submission(tmp_path / "tree", 5)

    cli.main([command, "--ruleset", "auto", str(box.folder)])
    of_round = capsys.readouterr()
    cli.main([command, "--ruleset", "auto", str(ours)])
    of_ours = capsys.readouterr()

    does = "auditing" if command == "audit" else "judging"
    assert of_round.err.startswith(f"tta: {does} by ruleset mlperf_training/5.1.0, by the name of its folder")
    assert f"{does} by ruleset v1" in of_ours.err


@pytest.mark.parametrize("command", ["derive", "score"])
def test_what_cannot_be_read_has_no_ruleset(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence is of the file, not of a ruleset called auto."""
    (tmp_path / "result_0.txt").write_text("nothing\n")

    assert cli.main([command, "--ruleset", "auto", str(tmp_path / "result_0.txt")]) == ExitStatus.USAGE
    assert "not a run log" in capsys.readouterr().err


def test_what_says_nothing_follows_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A submitter whose logs nobody can read stands before one whose logs name a benchmark."""
    place = tmp_path / "training_results_v5.1"
    (place / "Aaa").mkdir(parents=True)
    for index in range(2):
        (place / "Aaa" / f"result_{index}.txt").write_text(':::MLLOG {"time_s": 0.0}\n')
    box = RoundBox(place)
    box.write()

    status = check.run([place], "auto", "text", date(2025, 12, 1))

    out, err = capsys.readouterr()
    assert status is ExitStatus.FINDINGS
    assert err.startswith("tta: judging by ruleset mlperf_training/5.1.0, by the name of its folder")
    assert "Aaa/result_1.txt:1: MLP001" in out
    assert "2 results, 1 valid" in out


@pytest.mark.parametrize("command", ["check", "derive", "score"])
def test_where_no_log_says_what_it_is_ours_is_the_law(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All results that were looked at in vain are judged all the same."""
    for index in range(12):
        (tmp_path / f"r{index}").mkdir()
        write(tmp_path / f"r{index}" / "result_0.txt", of_benchmark("nothing"))

    cli.main([command, "--ruleset", "auto", str(tmp_path)])

    out, err = capsys.readouterr()
    assert "tta: judging by ruleset v1; no log names one" in err
    assert all(f"r{index}" in out for index in range(12))


DAY_MS, YEAR_10000_MS = 86_400_000, 253_402_300_800_000


@pytest.mark.parametrize(
    ("times_ms", "day"),
    [
        ([0], "1970-01-01"),
        ([DAY_MS - 1], "1970-01-01"),
        ([DAY_MS], "1970-01-02"),
        ([2 * DAY_MS, DAY_MS], "1970-01-03"),
        ([YEAR_10000_MS - 1], "9999-12-31"),
        ([YEAR_10000_MS], None),
        ([YEAR_10000_MS, 2 * DAY_MS, DAY_MS], "1970-01-03"),
        ([YEAR_10000_MS, YEAR_10000_MS - 1], "9999-12-31"),
        ([YEAR_10000_MS, 0], "1970-01-01"),
        ([-1, 0], "1970-01-01"),
        ([-1], None),
        ([YEAR_10000_MS, -1], None),
    ],
)
def test_the_day_of_a_log_is_that_of_its_latest_line_which_has_one(
    times_ms: list[int], day: str | None, tmp_path: Path
) -> None:
    """From 1970 to the year 9999."""
    log = tmp_path / "a.txt"
    records = [
        {
            "namespace": "",
            "time_ms": time_ms,
            "event_type": "POINT_IN_TIME",
            "key": name,
            "value": "gnmt",
            "metadata": {},
        }
        for time_ms, name in zip(times_ms, ("submission_benchmark", "a", "b"), strict=False)
    ]
    log.write_text("".join(f"{TOKEN}{json.dumps(record)}\n" for record in records))
    found = detect_round(run_log.read(log), ROUNDS, detect.with_parents([]))

    assert found is not None
    said = [part for part in found.why.replace(",", "").split() if "-" in part]
    assert said == ([] if day is None else [day])


def test_of_several_folders_the_first_that_counts_is_kept_as_the_organisers(tmp_path: Path) -> None:
    """Also where it is not possible, and the next is taken."""
    path = tmp_path / "v5.0" / "v6.0" / "a.txt"
    path.parent.mkdir(parents=True)
    found = detect_round(run_log.read(write(path, retinanet())), ROUNDS, detect.with_parents([]))

    assert found is not None
    assert (found.name, found.folder) == ("mlperf_training/6.0.0", "mlperf_training/5.0.0")


def test_only_the_nearest_of_the_folders_that_were_named_may_be_a_submitters(tmp_path: Path) -> None:
    """With results/ right below it is one; what lies above it is the organiser's all the same."""
    tree = tmp_path / "v6.0" / "Org"
    found = choice(tree / "results" / "a.txt", retinanet(), tree)

    assert found is not None
    assert found[0] == "6.0.0"
