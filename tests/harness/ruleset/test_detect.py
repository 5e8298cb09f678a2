"""`--ruleset auto` on many results: no log chooses the rules, for itself or for the others; one call, one ruleset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness import cli
from harness.checker.results import auto_of
from harness.errors import ExitStatus, UsageError
from harness.ruleset.detect import Detector, Request
from harness.submission.result import Result, read_result
from tests import fabricate, foreign
from tests.fabricate import Step
from tests.foreign import of
from tests.mlperflog import Entry, find, put_after
from tests.rules.roundbox import RoundBox

DAY_S = 86_400.0
VERBS = ("check", "audit", "score", "derive")


def results(place: Path, *submitters: str) -> list[RoundBox]:
    """Results of RetinaNet of August 2025, one a submitter, not yet written."""
    boxes = [RoundBox(place) for _ in submitters]
    for box, submitter in zip(boxes, submitters, strict=True):
        box.folder = place / submitter / "results" / "toybox" / "retinanet"
    return boxes


def shift(box: RoundBox, num_days: int) -> None:
    for log in box.logs:
        for entry in log:
            entry.at_s += num_days * DAY_S


def benchmark(box: RoundBox, name: str) -> None:
    for log in box.logs:
        find(log, "submission_benchmark").value = name


def names_rules(log: list[Entry], ruleset: object) -> None:
    """As the lines of our own logs do, in the shape of MLPerf's."""
    put_after(log, find(log, "cache_clear"), Entry(0.0, "tta_rules", {"ruleset": ruleset}))


def call(verb: str, *arguments: object) -> int:
    return cli.main([verb, "--ruleset", "auto", *map(str, arguments)])


@pytest.mark.parametrize("ruleset", ["mlperf_training/0.7.0", "mlperf_training/6.0.0", "v1", "nope", 5])
def test_a_log_of_another_program_names_no_rules(
    ruleset: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it says, it is judged by the round that it was made for, and what is wrong is found."""
    [box] = results(tmp_path, "Toymaker")
    names_rules(box.logs[0], ruleset)
    for log in box.logs:
        find(log, "seed").value = 7
    box.write()

    status = call("check", tmp_path, "--format", "json")

    out, err = capsys.readouterr()
    assert err.startswith("tta: judging by ruleset mlperf_training/5.1.0, the only round that has retinanet")
    assert (status, json.loads(out)["results"][0]["valid"]) == (ExitStatus.FINDINGS, False)


def test_a_log_of_ours_names_no_round_of_mlperfs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is judged by v1, which finds that it says otherwise."""

    def renamed(index: int, steps: list[Step]) -> list[Step]:
        fabricate.find(steps, "tta_rules").value["ruleset"] = "mlperf_training/5.1.0"
        return steps

    folder = fabricate.write_submission(tmp_path, change=renamed)

    assert call("check", folder) == ExitStatus.FINDINGS
    out, err = capsys.readouterr()
    assert err == "tta: judging by ruleset v1; 'mlperf_training/5.1.0' is not one of tta's own rulesets\n"
    assert "LOG018 error: the run was made under ruleset 'mlperf_training/5.1.0' and is judged by 'v1'" in out


def test_a_line_of_our_kind_in_a_log_of_mlperfs_names_no_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clock of ours makes the log one of ours; it points to v1 then, and the call ends."""
    boxes = results(tmp_path, "Aaa", "Bbb")
    names_rules(boxes[0].logs[0], "mlperf_training/5.1.0")
    find(boxes[0].logs[0], "tta_rules").metadata = {"elapsed_ns": 1}
    for box in boxes:
        box.write()

    assert call("check", tmp_path) == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "for v1 ('mlperf_training/5.1.0' is not one of tta's own rulesets), " in err


@pytest.mark.parametrize("verb", VERBS)
def test_results_that_point_to_two_rulesets_are_not_judged(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submitter with an older log decides nothing for the others: one sentence, both reasons, the choices."""
    older, newer = results(tmp_path, "Aaa", "Bbb")
    shift(older, -120)
    older.write()
    newer.write()

    status = call(verb, tmp_path)

    out, err = capsys.readouterr()
    assert (status, out) == (ExitStatus.USAGE, "")
    assert err.splitlines()[-1] == (
        f"tta: these results ask for two rulesets: {older.folder} for mlperf_training/5.0.0 (the first of 2 rounds "
        f"that have retinanet and is dated 2025-04-14), {newer.folder} for mlperf_training/5.1.0 (the only round "
        "that has retinanet and is dated 2025-08-12); judge all of them by one with --ruleset NAME, or judge their "
        "folders separately"
    )
    assert cli.main([verb, "--ruleset", "mlperf_training/5.1.0", str(tmp_path)]) != ExitStatus.USAGE
    assert call(verb, older.folder) == call(verb, newer.folder) == ExitStatus.OK


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_that_differ_are_found_by_every_process(
    jobs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last of five is of another round."""
    boxes = results(tmp_path, "Aaa", "Bbb", "Ccc", "Ddd", "Eee")
    shift(boxes[-1], -120)
    for box in boxes:
        box.write()

    assert call("check", tmp_path, "--jobs", jobs) == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{boxes[0].folder} for mlperf_training/5.1.0" in err
    assert f"{boxes[-1].folder} for mlperf_training/5.0.0" in err


@pytest.mark.parametrize("verb", VERBS)
def test_results_of_ours_and_of_mlperfs_are_two(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No ruleset is for both."""
    [box] = results(tmp_path, "Aaa")
    box.write()
    fabricate.write_submission(tmp_path)

    assert call(verb, tmp_path) == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "for v1 (which result_0.txt names); " in err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("oddity", ["gnmt", "late"])
def test_where_the_organiser_names_the_round_nothing_differs(
    verb: str, oddity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of a benchmark of another round, or of after the round, first or last, is judged by the folder's round."""
    for names in (("Aaa", "Bbb"), ("Bbb", "Aaa")):
        place = tmp_path / names[0].lower() / "training_results_v5.0"
        odd, plain = results(place, *names)
        shift(plain, -120)
        if oddity == "gnmt":
            benchmark(odd, oddity)
        odd.write()
        plain.write()

        status = call(verb, place)

        out, err = capsys.readouterr()
        assert status in (ExitStatus.OK, ExitStatus.FINDINGS)
        assert "by ruleset mlperf_training/5.0.0, by the name of its folder training_results_v5.0" in err
        assert all(f"{name}/" in out for name in names)


def test_a_folder_that_all_logs_contradict_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was published before the logs were written cannot hold them; the first round after them can."""
    place = tmp_path / "training_results_v5.0"
    for box in results(place, "Aaa", "Bbb"):
        box.write()

    assert call("check", place) == ExitStatus.OK
    assert "mlperf_training/5.1.0, the only round that has retinanet" in capsys.readouterr().err


def test_two_folders_of_two_rounds_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal results, in the trees of two rounds that may hold them."""
    for name in ("training_results_v5.0", "training_results_v5.1"):
        [box] = results(tmp_path / name, "Toymaker")
        shift(box, -120)
        box.write()

    assert call("check", tmp_path) == ExitStatus.USAGE
    err = capsys.readouterr().err
    assert "by the name of its folder training_results_v5.1" in err
    assert "by the name of its folder training_results_v5.0" in err


def test_eleven_silent_results_are_not_kept_for_one_that_speaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten are judged by v1, as nobody says anything; then it is no longer true that nobody does."""
    boxes = results(tmp_path, *(f"A{index:02}" for index in range(11)), "B")
    for box in boxes[:-1]:
        box.logs = box.logs[:1]
        benchmark(box, "nothing")
    for box in boxes:
        box.write()

    assert call("check", tmp_path) == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        f"the first 10 results ask for no ruleset, {boxes[-1].folder} for mlperf_training/5.1.0 (the only round" in err
    )


def test_results_without_logs_are_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any number of them may stand before the one that speaks; they follow it."""
    for index in range(12):
        (tmp_path / f"A{index:02}").mkdir()
        (tmp_path / f"A{index:02}" / "result_0.txt").write_text("nothing\n")
    [box] = results(tmp_path, "B")
    box.write()

    assert call("check", tmp_path) == ExitStatus.FINDINGS
    out, err = capsys.readouterr()
    assert err.count("judging by ruleset mlperf_training/5.1.0") == 1
    assert "13 results, 1 valid" in out


def test_ten_silent_results_and_one_that_names_v1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is what the others were judged by."""
    folder = fabricate.write_submission(tmp_path / "tree")
    for index in range(10):
        run = foreign.rows(index)
        of(run, "submission_benchmark").value = "nothing"
        foreign.write(tmp_path / f"A{index:02}", [run])

    call("check", tmp_path)

    out, err = capsys.readouterr()
    assert err == "tta: judging by ruleset v1; no log names one\n"
    assert str(folder) in out


def pointing(monkeypatch: pytest.MonkeyPatch, *names: str | None, folder: str | None = None) -> Iterator[Result]:
    """Results with a log each, which point to these rulesets; `folder`: what the organiser's folder says of all."""
    results = [cast(Result, SimpleNamespace(runs=("log",), path=Path(str(index)))) for index in range(len(names))]
    pointed = {
        str(result.path): None if name is None else Request(name, f"; it is {name}", result.path, folder)
        for result, name in zip(results, names, strict=True)
    }
    monkeypatch.setattr(Detector, "request_of", lambda self, result: pointed[str(result.path)])
    return iter(results)


AUTO = Detector(frozenset({"v1"}), (), frozenset())


@pytest.mark.parametrize(("num_silent", "num_kept"), [(0, 1), (1, 2), (9, 10), (10, 10), (15, 10)])
def test_no_more_is_kept_than_decides(num_silent: int, num_kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the first that points to one, or ten; the others are still to be read."""
    waiting = pointing(monkeypatch, *[None] * num_silent, *["a"] * 21)
    kept, decided = AUTO.decide(waiting)

    assert (len(kept), len(list(waiting))) == (num_kept, num_silent + 21 - num_kept)
    assert decided.name == ("a" if num_silent < 10 else "v1")


def test_of_two_that_the_folder_contradicts_none_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is taken only while all of them say the same."""
    results = pointing(monkeypatch, "a", "b", folder="c")

    with pytest.raises(UsageError, match=r"these results ask for two rulesets: 0 for a \(it is a\), 1 for b"):
        AUTO.decide(results)


def test_the_first_log_that_says_anything_points(tmp_path: Path) -> None:
    """Not one before it of a benchmark that no round has."""
    [box] = results(tmp_path, "Toymaker")
    find(box.logs[0], "submission_benchmark").value = "doom"
    box.write()
    [pointed] = [auto_of([tmp_path]).request_of(read_result(box.folder))]

    assert pointed is not None
    assert pointed.name == "mlperf_training/5.1.0"


@pytest.mark.parametrize("named", [["v1"], {"v1": 1}, 5])
def test_a_log_of_ours_that_names_no_text_is_judged_by_v1(named: object, tmp_path: Path) -> None:
    """And that is said."""

    def other(index: int, steps: list[Step]) -> list[Step]:
        fabricate.find(steps, "tta_rules").value["ruleset"] = named
        return steps

    result = read_result(fabricate.write_result(tmp_path / "ours", change=other))
    pointed = auto_of([tmp_path]).request_of(result)

    assert pointed is not None
    assert (pointed.name, pointed.why.endswith(" is not one of tta's own rulesets")) == ("v1", True)


def test_a_log_of_another_program_that_no_round_has_points_to_nothing(tmp_path: Path) -> None:
    """Though it names rules as ours do."""
    [box] = results(tmp_path, "Toymaker")
    benchmark(box, "doom")
    for log in box.logs:
        names_rules(log, "v1")
    box.write()

    assert auto_of([tmp_path]).request_of(read_result(box.folder)) is None
