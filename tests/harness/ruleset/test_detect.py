"""`--ruleset auto`: each result has its own ruleset, by folder, benchmark and day; no log chooses for another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.checker.results import detector_for
from harness.errors import ExitStatus
from harness.log import run_log
from harness.ruleset import catalog, load
from harness.ruleset.detect import Candidate, Choice, detect_round, with_parents
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import Step
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


def detected(path: Path, log: list[Entry], asked: Path | None = None) -> Choice | None:
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
    assert detected(tmp_path / "a.txt", of_benchmark(benchmark, num_days)) == Choice(
        f"mlperf_training/{version}", f", {why}"
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
        ("training_v5.0", None, "5.0.0"),  # although the log is dated after it
        ("training_v5.0/v0.7", None, "5.0.0"),
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


@pytest.mark.parametrize(
    ("place", "benchmark", "version", "why"),
    [
        ("v5.0/training_results_v6.0", "retinanet", "6.0.0", "; the log names retinanet and is dated 2025-08-12"),
        ("v5.0", "retinanet", "5.0.0", ", although the log is dated 2025-08-12, after it"),
        ("v5.0", "gnmt", "5.0.0", ", which does not have the benchmark gnmt"),
        ("v5.0", "doom", "5.0.0", ", which does not have the benchmark doom"),
        ("v5.0", None, "5.0.0", ""),
    ],
)
def test_what_a_log_says_never_leads_out_of_the_rounds_that_its_folders_name(
    place: str, benchmark: object, version: str, why: str, tmp_path: Path
) -> None:
    """A later day, or a benchmark of an older and laxer round, chooses only among the organiser's folders."""
    folder = place.rpartition("/")[2]
    found = detected(tmp_path / place / "a.txt", of_benchmark(benchmark))

    assert found == Choice(f"mlperf_training/{version}", f", by the name of its folder {folder}{why}")


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
    why = ", the first of 2 rounds that have retinanet and is dated 2025-08-12"
    assert found == Choice("mlperf_training/5.1.0", why)


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

    assert [item and item.why.split()[6] for item in found] == ["a" * 39 + "…", "b" * 40]


def test_round_that_is_not_published_comes_after_every_log(tmp_path: Path) -> None:
    """And after every round that is, whatever order they are in."""
    names = frozenset({"retinanet"})
    rounds = [Candidate("mlperf_training/9.1.0", "", names), Candidate("mlperf_training/9.0.0", "2025-01-01", names)]
    log = run_log.read(write(tmp_path / "a.txt", retinanet()))  # of August 2025

    found = [detect_round(log, order, frozenset()) for order in (rounds, rounds[::-1], rounds[1:])]

    assert [item and item.name for item in found] == [rounds[0].name, rounds[0].name, rounds[1].name]
    assert detect_round(log, [*rounds, Candidate("mlperf_training/9.2.0", "2025-12-31", names)], frozenset()) == Choice(
        "mlperf_training/9.2.0", ", the first of 2 rounds that have retinanet and is dated 2025-08-12"
    )


def test_every_round_has_a_day_of_publication() -> None:
    """In the order of the versions; a round that is not published yet has none."""
    known = load.round_candidates(catalog.ruleset_folders())

    assert len(known) == 13
    assert (known[-1].version, known[-1].published) == ("6.1", "")
    published = [item.published for item in known[:-1]]
    assert published == sorted(set(published))
    assert min(published) > "2018"
    assert [item.version for item in known][:2] == ["0.7", "1.0"]


def chosen(folder: Path) -> Choice:
    return detector_for([folder.parent]).choose(read_result(folder))


def names_rules(log: list[Entry], ruleset: object) -> None:
    """As a line of `tta` does, in MLPerf's form."""
    put_after(log, find(log, "cache_clear"), Entry(0.0, "tta_rules", {"ruleset": ruleset}))


def test_the_first_log_with_a_known_benchmark_asks(tmp_path: Path) -> None:
    """A log before it has a benchmark that no round has."""
    [box] = results(tmp_path, "Toymaker")
    find(box.logs[0], "submission_benchmark").value = "doom"
    box.write()

    assert chosen(box.folder).name == "mlperf_training/5.1.0"


@pytest.mark.parametrize("named", ["mlperf_training/5.1.0", ["v1"], {"v1": 1}, 5])
def test_a_log_of_tta_cannot_ask_for_anything_but_its_own_rulesets(named: object, tmp_path: Path) -> None:
    """It is judged by v1 instead, and that is said."""

    def renamed(index: int, steps: list[Step]) -> list[Step]:
        fabricate.find(steps, "tta_rules").value["ruleset"] = named
        return steps

    choice = chosen(fabricate.write_result(tmp_path / "own", change=renamed))

    assert (choice.name, choice.why.endswith(" is not one of tta's own rulesets")) == ("v1", True)


def test_a_log_of_another_program_whose_benchmark_is_unknown_points_to_nothing(tmp_path: Path) -> None:
    """Even if it names rules as a log of `tta` does: v1 is what remains."""
    [box] = results(tmp_path, "Toymaker")
    for log in box.logs:
        find(log, "submission_benchmark").value = "doom"
        names_rules(log, "v1")
    box.write()

    assert chosen(box.folder) == Choice("v1", "; no log names one", is_default=True)


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


def judged_by(capsys: pytest.CaptureFixture[str], *paths: Path) -> dict[str, tuple[str, bool]]:
    """The ruleset and the validity of each result at `paths`, by its submitter."""
    call("check", *paths, "--format", "json")
    results = json.loads(capsys.readouterr().out)["results"]
    return {Path(one["path"]).parts[-4]: (one["ruleset"], one["valid"]) for one in results}


def test_a_clock_of_tta_in_an_mlperf_log_makes_it_one_of_tta(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is judged by v1 then, whatever round it names, and is not valid; its neighbour is."""
    boxes = results(tmp_path, "Aaa", "Bbb")
    names_rules(boxes[0].logs[0], "mlperf_training/5.1.0")
    find(boxes[0].logs[0], "tta_rules").metadata = {"elapsed_ns": 1}
    for box in boxes:
        box.write()

    assert judged_by(capsys, tmp_path) == {"Aaa": ("v1", False), "Bbb": ("mlperf_training/5.1.0", True)}


def mixed(place: Path) -> None:
    """Results of two rounds, of `tta`, and one whose log names nothing."""
    older, newer, silent = results(place, "Aaa", "Bbb", "Ddd")
    shift(older, -120)
    for log in silent.logs:
        find(log, "submission_benchmark").value = "doom"
    for box in (older, newer, silent):
        box.write()
    fabricate.write_submission(place, 5)


RULESETS = {
    "Aaa": "mlperf_training/5.0.0",
    "Bbb": "mlperf_training/5.1.0",
    "Ddd": "v1",
    "acme": "v1",
}


def test_each_result_of_a_mixed_tree_is_judged_as_it_would_be_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same ruleset, with the same verdict."""
    mixed(tmp_path)
    alone = {name: found for path in tmp_path.iterdir() for name, found in judged_by(capsys, path).items()}

    together = judged_by(capsys, tmp_path)

    assert together == alone
    assert {name: ruleset for name, (ruleset, _) in together.items()} == RULESETS
    assert [name for name, (_, is_valid) in together.items() if is_valid] == ["Aaa", "Bbb"]


def test_every_report_of_a_check_names_the_ruleset_of_each_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the text, in the JSON and on the page; a SARIF log has a run for each ruleset."""
    mixed(tmp_path)
    documents = {}
    for form in ("text", "json", "sarif", "html"):
        call("check", tmp_path, "--format", form)
        documents[form] = capsys.readouterr().out

    digests = {name: load.load_ruleset(catalog.ruleset_folder(name), name).digest for name in RULESETS.values()}
    heads = [line for line in documents["text"].splitlines() if line.startswith(str(tmp_path))]
    assert [line.rpartition("; ruleset ")[2] for line in heads] == list(RULESETS.values())
    ends = ", ".join(f"{name} ({digest[:12]})" for name, digest in digests.items())
    assert documents["text"].endswith(f"; rulesets {ends}\n")
    found = json.loads(documents["json"])["rulesets"]
    assert {one["ruleset"]: one["ruleset_digest"] for one in found} == digests
    runs = json.loads(documents["sarif"])["runs"]
    assert {run["properties"]["ruleset"]: run["properties"]["rulesetDigest"] for run in runs} == digests
    judged = json.loads(documents["json"])["results"]
    assert [len(run["results"]) for run in runs] == [
        sum(len(one["findings"]) for one in judged if one["ruleset"] == name) for name in digests
    ]
    page = documents["html"]
    assert all(f"<dd>ruleset {name}</dd>" in page and digest in page for name, digest in digests.items())
    assert [page.count(f"<dt>Ruleset</dt><dd>{name}") for name in digests] == [1, 1, 2]


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_every_report_of_an_audit_names_the_ruleset_of_each_result(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or says that there is none: for a log that names no known benchmark, targets and limits are unknown."""
    mixed(tmp_path)
    call("audit", tmp_path, "--format", form)
    out, err = capsys.readouterr()

    assert [line.partition("auditing by ")[2].split(",")[0].split(";")[0] for line in err.splitlines()] == [
        "ruleset mlperf_training/5.0.0",
        "ruleset mlperf_training/5.1.0",
        "no ruleset",
        "ruleset v1",
    ]
    expected = [None if name == "Ddd" else ruleset for name, ruleset in RULESETS.items()]
    if form == "json":
        assert [one["ruleset"] for one in json.loads(out)["results"]] == expected
        assert [one["ruleset"] for one in json.loads(out)["rulesets"]] == [name for name in expected if name]
    else:
        mark = "runs, {}\n" if form == "text" else "<dd>{}</dd>"
        words = ["no ruleset" if name is None else f"ruleset {name}" for name in expected]
        assert [mark.format(word) in out for word in words[:3]] == [True] * 3


def test_a_sarif_log_of_an_audit_has_a_run_for_each_ruleset_and_for_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results without a ruleset are in a run that names none."""
    mixed(tmp_path)
    call("audit", tmp_path, "--format", "sarif")

    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["properties"].get("ruleset") for run in runs] == [
        "mlperf_training/5.0.0",
        "mlperf_training/5.1.0",
        None,
        "v1",
    ]


def test_a_score_has_the_tables_of_each_ruleset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tta`'s first; in JSON a list of the documents that each ruleset has alone."""
    mixed(tmp_path)
    call("score", tmp_path)
    text = capsys.readouterr().out
    call("score", tmp_path, "--format", "json")
    documents = json.loads(capsys.readouterr().out)["rulesets"]

    names = ["v1", "mlperf_training/5.0.0", "mlperf_training/5.1.0"]
    assert [line.split()[1] for line in text.splitlines() if line.startswith(("ruleset", "round"))] == names
    assert [one["ruleset"] for one in documents] == names
    call("score", tmp_path / "Aaa", "--format", "json")
    assert json.loads(capsys.readouterr().out) == documents[1]
    (tmp_path / "none.txt").write_text("Epoch 1 done\n")
    assert cli.main(["score", str(tmp_path / "none.txt"), "--format", "json"]) == ExitStatus.USAGE
    assert json.loads(capsys.readouterr().out) == {"rulesets": []}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_derivation_names_the_ruleset_of_each_result(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its first line, and in the JSON document."""
    mixed(tmp_path)
    call("derive", tmp_path, "--format", form)

    out = capsys.readouterr().out
    if form == "json":
        named = {Path(one["path"]).parts[-4]: one["ruleset"] for one in json.loads(out)["results"]}
        assert named == RULESETS
    else:
        heads = [line for line in out.splitlines() if line.startswith(str(tmp_path))]
        assert sorted(line.rpartition(", ruleset ")[2] for line in heads) == sorted(f"{x})" for x in RULESETS.values())


def test_several_processes_judge_a_mixed_tree_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each chooses for the results that it reads."""
    mixed(tmp_path)
    found = []
    for jobs in (1, 2):
        call("check", tmp_path, "--jobs", jobs)
        found.append(capsys.readouterr())

    assert found[0] == found[1]
    assert found[0].err.count("judging by ruleset") == len(set(RULESETS.values()))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("oddity", ["gnmt", "late"])
def test_the_folder_of_the_organiser_holds_for_logs_that_do_not_fit_it(
    verb: str, oddity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log with a benchmark of another round, or from after the round, is judged by the folder's, even alone."""
    place = tmp_path / "training_results_v5.0"
    odd, plain = results(place, "Aaa", "Bbb")
    shift(plain, -120)
    if oddity == "gnmt":
        for log in odd.logs:
            find(log, "submission_benchmark").value = oddity
    odd.write()
    plain.write()

    for path in (place, odd.folder):
        status = call(verb, path)

        err = capsys.readouterr().err
        assert status in (ExitStatus.OK, ExitStatus.FINDINGS)
        assert err.count("by ruleset ") == err.count("by ruleset mlperf_training/5.0.0, by the name of its folder") == 1


def test_results_in_folders_of_two_rounds_are_judged_by_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal results, in the trees of two rounds that may include them."""
    for name in ("training_results_v5.0", "training_results_v5.1"):
        [box] = results(tmp_path / name, "Toymaker")
        shift(box, -120)
        box.write()

    call("check", tmp_path)

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "tta: judging by ruleset mlperf_training/5.0.0, by the name of its folder training_results_"
    )
    place = tmp_path / "training_results_v5.1/Toymaker/results/toybox/retinanet"
    assert second.startswith(f"tta: {place}: judging by ruleset mlperf_training/5.1.0, by the name of its folder")


def test_a_result_without_any_log_is_judged_by_the_round_of_its_folder(tmp_path: Path) -> None:
    """An emptied result does not leave its round; elsewhere there is nothing to go by."""
    for place, name in (("training_results_v5.0", "mlperf_training/5.0.0"), ("june", "v1")):
        [box] = results(tmp_path / place, "Toymaker")
        box.write()
        for path in box.folder.iterdir():
            path.write_text("")

        assert detector_for([tmp_path]).choose(read_result(box.folder)).name == name


def test_a_log_of_tta_that_names_no_rules_leaves_it_to_the_next(tmp_path: Path) -> None:
    """The first of two logs lost its line."""

    def lost(index: int, steps: list[Step]) -> list[Step]:
        return [step for step in steps if index or step.key != "tta_rules"]

    choice = chosen(fabricate.write_result(tmp_path / "own", change=lost))

    assert choice == Choice("v1", ", which result_1.txt names")


@pytest.mark.parametrize("verb", ["derive", "score"])
def test_an_unreadable_log_is_reported_and_no_ruleset_called_auto(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence is about the file."""
    (tmp_path / "result_0.txt").write_text("nothing\n")

    assert call(verb, tmp_path / "result_0.txt") == ExitStatus.USAGE
    assert "not a run log" in capsys.readouterr().err
