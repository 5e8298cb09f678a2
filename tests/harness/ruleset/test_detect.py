"""`--ruleset auto`: benchmark, day and folder choose a round, and no log chooses the rules for itself or for others."""

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
from harness.log import run_log
from harness.ruleset import catalog, load
from harness.ruleset.detect import Candidate, Detector, Request, RoundChoice, detect_round, with_parents
from harness.submission.result import Result, read_result
from tests import fabricate, foreign
from tests.fabricate import Step
from tests.foreign import of
from tests.mlperflog import START_MS, Entry, drop, find, put_after, retinanet, write
from tests.rules.roundbox import RoundBox

DAY_S, DAY_MS, YEAR_10000_MS = 86_400.0, 86_400_000, 253_402_300_800_000
VERBS = ("check", "audit", "score", "derive")
ROUNDS = [
    Candidate("mlperf_training/5.0.0", "2025-06-04", frozenset({"retinanet", "bert"})),
    Candidate("mlperf_training/5.1.0", "2025-11-12", frozenset({"retinanet", "flux1"})),
    Candidate("mlperf_training/6.0.0", "2026-06-30", frozenset({"flux1", "retinanet"})),
    Candidate("mlperf_training/0.7.0", "2020-07-29", frozenset({"gnmt"})),
]


def detected(path: Path, log: list[Entry], asked: Path | None = None) -> RoundChoice | None:
    """The round for a log at `path`. asked: the folder that the caller named; None: one outside of the test's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return detect_round(run_log.read(write(path, log)), ROUNDS, with_parents([] if asked is None else [asked]))


def of_benchmark(name: object, num_days: int = 0) -> list[Entry]:
    """A log of this benchmark, of 12 August 2025 or of `num_days` later."""
    log = retinanet()
    find(log, "submission_benchmark").value = name
    for entry in log:
        entry.at_s += num_days * DAY_S
    return log


@pytest.mark.parametrize(
    ("benchmark", "num_days", "version", "why"),
    [
        ("retinanet", 0, "5.1.0", "the first of 2 rounds that have retinanet and is dated 2025-08-12"),
        ("bert", -120, "5.0.0", "the only round that has bert and is dated 2025-04-14"),
        ("retinanet", 92, "5.1.0", "the first of 2 rounds that have retinanet and is dated 2025-11-12"),
        ("retinanet", 93, "6.0.0", "the only round that has retinanet and is dated 2025-11-13"),
        (
            "retinanet",
            393,
            "6.0.0",
            "the last round that has retinanet, although the log is dated 2026-09-09, after it",
        ),
        ("gnmt", 0, "0.7.0", "the last round that has gnmt, although the log is dated 2025-08-12, after it"),
    ],
)
def test_the_first_round_published_on_the_day_of_the_log_or_later_is_chosen(
    benchmark: str, num_days: int, version: str, why: str, tmp_path: Path
) -> None:
    """If all rounds that have the benchmark are older than the log, the last of them, and that is said."""
    assert detected(tmp_path / "a.txt", of_benchmark(benchmark, num_days)) == RoundChoice(
        f"mlperf_training/{version}", why
    )


@pytest.mark.parametrize("name", ["doom", None, ["retinanet"], 5, ...])
def test_a_log_whose_benchmark_no_round_has_asks_for_nothing(tmp_path: Path, name: object) -> None:
    """A name that is unknown or not a text, or no name at all."""
    log = of_benchmark(None if name is ... else name)
    if name is ...:
        drop(log, "submission_benchmark")

    assert detected(tmp_path / "a.txt", log) is None


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
def test_the_day_of_a_log_is_the_latest_of_its_lines(times_ms: list[int], day: str | None, tmp_path: Path) -> None:
    """Of the lines that are dated from 1970 to the year 9999."""
    keys = ("submission_benchmark", "a", "b")
    log = [Entry((time_ms - START_MS) / 1e3, name, "gnmt") for time_ms, name in zip(times_ms, keys, strict=False)]
    found = detected(tmp_path / "a.txt", log)

    assert found is not None
    assert [part for part in found.why.replace(",", "").split() if "-" in part] == ([] if day is None else [day])


@pytest.mark.parametrize(
    ("place", "asked", "version"),
    [
        ("training_results_v6.0/Org", None, "6.0.0"),
        ("training_v5.0", None, "5.1.0"),  # a log may be submitted again later, but never earlier
        ("v6.0/training_results_v5.1/Org", "v6.0/training_results_v5.1", "5.1.0"),
        ("v6.0/training_results_v5.1/Org", "v6.0/training_results_v5.1/Org", "5.1.0"),
        ("v6.0/training_results_v5.1/Org", "v6.0/training_results_v5.1/x/..", "5.1.0"),
        ("training_results_v5.1/v6.0", "", "5.1.0"),  # below the caller's folder the topmost counts
        ("Org/results/v6.0/retinanet", "Org/results/v6.0/retinanet/a.txt", "5.1.0"),
        ("Org/results/v6.0/retinanet", "Org/results/v6.0/retinanet", "5.1.0"),
        ("Org/results/v6.0/retinanet", "Org/results/v6.0", "5.1.0"),
        ("v6.0/Org/results", "v6.0/Org", "6.0.0"),  # only the nearest of the folders above may be a submitter's
    ],
)
def test_the_nearest_folder_of_the_organiser_chooses_among_the_possible_rounds(
    place: str, asked: str | None, version: str, tmp_path: Path
) -> None:
    """Folders that the caller named and those above them come first."""
    found = detected(tmp_path / place / "a.txt", retinanet(), None if asked is None else tmp_path / asked)

    assert found is not None
    assert found.name == f"mlperf_training/{version}"


def test_the_first_folder_that_names_a_round_is_kept_as_the_organisers(tmp_path: Path) -> None:
    """Even if that round is not possible, and the next folder decides."""
    found = detected(tmp_path / "v5.0" / "training_results_v6.0" / "a.txt", retinanet())
    why = "by the name of its folder training_results_v6.0; the log names retinanet and is dated 2025-08-12"

    assert found == RoundChoice("mlperf_training/6.0.0", why, "mlperf_training/5.0.0")


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
def test_a_folder_of_a_submitter_names_no_round(place: str, asked: str, tmp_path: Path) -> None:
    """With and without a name of the organiser's above it, wherever above the system the caller asks."""
    found = detected(tmp_path / "june" / place / "a.txt", retinanet(), tmp_path / asked)

    assert found is not None
    assert (found.name, found.folder) == ("mlperf_training/5.1.0", None)


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
def test_the_whole_name_must_be_that_of_a_rounds_tree(name: str, version: str, tmp_path: Path) -> None:
    """A folder that merely ends in two numbers names another version."""
    for place in ("Org/results/box/retinanet", "anywhere", "."):
        found = detected(tmp_path / name / place / "a.txt", retinanet(), tmp_path)

        assert found is not None
        assert found.name == f"mlperf_training/{version}"


def test_a_long_name_is_shortened(tmp_path: Path) -> None:
    """To 40 characters; the name of a benchmark is whatever a log says."""
    rounds = [Candidate("mlperf_training/9.0.0", "2099-01-01", frozenset({"a" * 41, "b" * 40}))]
    logs = [run_log.read(write(tmp_path / "a.txt", of_benchmark(name))) for name in ("a" * 41, "b" * 40)]
    found = [detect_round(log, rounds, frozenset()) for log in logs]

    assert [item and item.why.split()[5] for item in found] == ["a" * 39 + "…", "b" * 40]


def test_every_round_has_a_day_of_publication() -> None:
    """In the order of the versions."""
    known = load.round_candidates(catalog.ruleset_folders())

    assert len(known) == 12
    assert [item.published for item in known] == sorted({item.published for item in known})
    assert [item.version for item in known][:2] == ["0.7", "1.0"]


def request_of(folder: Path) -> Request | None:
    return auto_of([folder.parent]).request_of(read_result(folder))


def names_rules(log: list[Entry], ruleset: object) -> None:
    """As a line of `tta` does, in MLPerf's form."""
    put_after(log, find(log, "cache_clear"), Entry(0.0, "tta_rules", {"ruleset": ruleset}))


def test_the_first_log_with_a_known_benchmark_asks(tmp_path: Path) -> None:
    """A log before it has a benchmark that no round has."""
    [box] = results(tmp_path, "Toymaker")
    find(box.logs[0], "submission_benchmark").value = "doom"
    box.write()
    request = request_of(box.folder)

    assert request is not None
    assert request.name == "mlperf_training/5.1.0"


@pytest.mark.parametrize("named", ["mlperf_training/5.1.0", ["v1"], {"v1": 1}, 5])
def test_a_log_of_tta_cannot_ask_for_anything_but_its_own_rulesets(named: object, tmp_path: Path) -> None:
    """It is judged by v1 instead, and that is said."""

    def renamed(index: int, steps: list[Step]) -> list[Step]:
        fabricate.find(steps, "tta_rules").value["ruleset"] = named
        return steps

    request = request_of(fabricate.write_result(tmp_path / "own", change=renamed))

    assert request is not None
    assert (request.name, request.why.endswith(" is not one of tta's own rulesets")) == ("v1", True)


def test_a_log_of_another_program_whose_benchmark_is_unknown_asks_for_nothing(tmp_path: Path) -> None:
    """Even if it names rules as a log of `tta` does."""
    [box] = results(tmp_path, "Toymaker")
    for log in box.logs:
        find(log, "submission_benchmark").value = "doom"
        names_rules(log, "v1")
    box.write()

    assert request_of(box.folder) is None


def results(place: Path, *submitters: str) -> list[RoundBox]:
    """Results of RetinaNet of August 2025, one for each submitter, not yet written."""
    boxes = [RoundBox(place) for _ in submitters]
    for box, submitter in zip(boxes, submitters, strict=True):
        box.folder = place / submitter / "results" / "toybox" / "retinanet"
    return boxes


def shift(box: RoundBox, num_days: int) -> None:
    for log in box.logs:
        for entry in log:
            entry.at_s += num_days * DAY_S


def call(verb: str, *arguments: object) -> int:
    return cli.main([verb, "--ruleset", "auto", *map(str, arguments)])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_judges_detects_the_ruleset(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An MLPerf result is judged by its round, and a result of `tta` by the ruleset that it names."""
    box = RoundBox(tmp_path / "training_results_v5.1")
    box.write()
    own = fabricate.write_submission(tmp_path / "tree", 5)

    call(verb, box.folder)
    of_round = capsys.readouterr().err
    call(verb, own)
    of_own = capsys.readouterr().err

    does = "auditing" if verb == "audit" else "judging"
    assert of_round.startswith(f"tta: {does} by ruleset mlperf_training/5.1.0, by the name of its folder")
    assert f"{does} by ruleset v1" in of_own


@pytest.mark.parametrize("ruleset", ["mlperf_training/0.7.0", "mlperf_training/6.0.0", "v1", "nope", 5])
def test_a_log_of_another_program_names_no_rules(
    ruleset: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it says, it is judged by the round that it was made for."""
    [box] = results(tmp_path, "Toymaker")
    names_rules(box.logs[0], ruleset)
    for log in box.logs:
        find(log, "seed").value = 7
    box.write()

    status = call("check", tmp_path, "--format", "json")

    out, err = capsys.readouterr()
    assert err.startswith("tta: judging by ruleset mlperf_training/5.1.0, the only round that has retinanet")
    assert (status, json.loads(out)["results"][0]["valid"]) == (ExitStatus.FINDINGS, False)


def test_a_clock_of_tta_in_an_mlperf_log_makes_it_one_of_tta(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asks for v1 then, whatever round it names, and the call ends."""
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
def test_results_that_ask_for_two_rulesets_are_not_judged(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submitter's older log decides nothing for the others: one sentence, both reasons, the choices."""
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


def test_results_of_tta_and_of_mlperf_ask_for_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No ruleset is for both."""
    RoundBox(tmp_path).write()
    fabricate.write_submission(tmp_path)

    assert call("check", tmp_path) == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "for v1 (which result_0.txt names)" in err


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_process_refuses_a_result_that_asks_for_another(
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
@pytest.mark.parametrize("oddity", ["gnmt", "late"])
def test_the_folder_of_the_organiser_holds_for_logs_that_do_not_fit_it(
    verb: str, oddity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log with a benchmark of another round, or from after the round, first or last, is judged by the folder's."""
    for names in (("Aaa", "Bbb"), ("Bbb", "Aaa")):
        place = tmp_path / names[0].lower() / "training_results_v5.0"
        odd, plain = results(place, *names)
        shift(plain, -120)
        if oddity == "gnmt":
            for log in odd.logs:
                find(log, "submission_benchmark").value = oddity
        odd.write()
        plain.write()

        status = call(verb, place)

        out, err = capsys.readouterr()
        assert status in (ExitStatus.OK, ExitStatus.FINDINGS)
        assert "by ruleset mlperf_training/5.0.0, by the name of its folder training_results_v5.0" in err
        assert all(f"{name}/" in out for name in names)


def test_a_folder_that_all_logs_contradict_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A round published before the logs were written cannot include them; the first round after them can."""
    place = tmp_path / "training_results_v5.0"
    for box in results(place, "Aaa", "Bbb"):
        box.write()

    assert call("check", place) == ExitStatus.OK
    assert "mlperf_training/5.1.0, the only round that has retinanet" in capsys.readouterr().err


def test_folders_of_two_rounds_ask_for_two_rulesets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal results, in the trees of two rounds that may include them."""
    for name in ("training_results_v5.0", "training_results_v5.1"):
        [box] = results(tmp_path / name, "Toymaker")
        shift(box, -120)
        box.write()

    assert call("check", tmp_path) == ExitStatus.USAGE
    err = capsys.readouterr().err
    assert all(f"by the name of its folder training_results_{name}" in err for name in ("v5.0", "v5.1"))


@pytest.mark.parametrize("verb", ["check", "derive", "score"])
def test_ten_results_that_ask_for_nothing_are_judged_by_v1(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with them one that names v1; but one that then asks for a round ends the call."""
    folder = fabricate.write_submission(tmp_path / "tree")
    for index in range(10):
        run = foreign.rows(index)
        of(run, "submission_benchmark").value = "nothing"
        foreign.write(tmp_path / f"A{index:02}", [run])

    call(verb, tmp_path)

    out, err = capsys.readouterr()
    assert "tta: judging by ruleset v1; no log names one\n" in err
    assert str(folder.relative_to(tmp_path)) in out
    assert all(f"A{index:02}" in out for index in range(10))
    [box] = results(tmp_path, "B")
    box.write()
    assert call(verb, tmp_path) == ExitStatus.USAGE
    assert (
        f"the first 10 results ask for no ruleset, {box.folder} for mlperf_training/5.1.0 (the only round"
        in capsys.readouterr().err
    )


def test_unreadable_results_before_one_that_asks_are_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are judged by what the later one asks for, and so is one whose log names nothing."""
    for index in range(13):
        (tmp_path / f"A{index:02}").mkdir()
        text = "nothing\n" if index else ':::MLLOG {"time_s": 0.0}\n'
        (tmp_path / f"A{index:02}" / "result_0.txt").write_text(text)
    [box] = results(tmp_path, "B")
    box.write()

    assert call("check", tmp_path) == ExitStatus.FINDINGS
    out, err = capsys.readouterr()
    assert err.count("judging by ruleset mlperf_training/5.1.0") == 1
    assert "A00/result_0.txt:1: MLP001" in out
    assert "14 results, 1 valid" in out


@pytest.mark.parametrize("verb", ["derive", "score"])
def test_an_unreadable_log_is_reported_and_no_ruleset_called_auto(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence is about the file."""
    (tmp_path / "result_0.txt").write_text("nothing\n")

    assert call(verb, tmp_path / "result_0.txt") == ExitStatus.USAGE
    assert "not a run log" in capsys.readouterr().err


def asking(monkeypatch: pytest.MonkeyPatch, *names: str | None, folder: str | None = None) -> Iterator[Result]:
    """Results with a log each, which ask for these rulesets. folder: the round that the organiser's folder names."""
    made = [cast(Result, SimpleNamespace(runs=("log",), path=Path(str(index)))) for index in range(len(names))]
    requests = {
        str(result.path): None if name is None else Request(name, f"; it is {name}", result.path, folder)
        for result, name in zip(made, names, strict=True)
    }
    monkeypatch.setattr(Detector, "request_of", lambda self, result: requests[str(result.path)])
    return iter(made)


AUTO = Detector(frozenset({"v1"}), (), frozenset())


@pytest.mark.parametrize(("num_silent", "num_kept"), [(0, 1), (1, 2), (9, 10), (10, 10), (15, 10)])
def test_no_more_results_are_kept_than_decide(num_silent: int, num_kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the first that asks for a ruleset, or ten; the others are still to be read."""
    waiting = asking(monkeypatch, *[None] * num_silent, *["a"] * 21)
    kept, decided = AUTO.decide(waiting)

    assert (len(kept), len(list(waiting))) == (num_kept, num_silent + 21 - num_kept)
    assert decided.name == ("a" if num_silent < 10 else "v1")


def test_two_requests_that_the_folder_contradicts_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first decides only if all of them ask for the same."""
    waiting = asking(monkeypatch, "a", "b", folder="c")

    with pytest.raises(UsageError, match=r"these results ask for two rulesets: 0 for a \(it is a\), 1 for b"):
        AUTO.decide(waiting)
