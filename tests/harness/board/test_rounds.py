"""Results of MLPerf rounds as the board keeps them: the numbers of `tta score`, categories, ranks, what has none."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from harness.board import mlperf_table
from harness.board.rounds import (
    MAX_NOTES,
    RoundBoard,
    RoundEntry,
    key_of,
    short_name,
)
from harness.checker import engine, registry
from harness.findings import Severity
from harness.mlperf.score import round_score
from harness.ruleset import catalog
from harness.scoring.round_energy import round_energy
from harness.scoring.round_estimate import round_estimate
from harness.submission.result import read_result
from tests import fabricate, mlperflog
from tests.mlperflog import Entry
from tests.rounds import dated_earlier, rounds_of, submit
from tests.rules.box import TODAY


def _phases(log: list[Entry]) -> tuple[float, float, float]:
    """Seconds before the clock, in training and in evaluations."""
    at = {key: [entry.at_s for entry in log if entry.key == key] for key in ("init_start", "run_start", "run_stop")}
    starts, stops = ([entry.at_s for entry in log if entry.key == f"eval_{end}"] for end in ("start", "stop"))
    eval_s = sum(stops) - sum(starts)
    return at["run_start"][0] - at["init_start"][0], at["run_stop"][0] - at["run_start"][0] - eval_s, eval_s


def only(board: RoundBoard) -> RoundEntry:
    [entry] = board.entries
    return entry


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "training_v5.1"


def test_a_result_has_the_numbers_of_the_score_to_the_digit(tree: Path) -> None:
    """The very document of `tta score`, but for places, which are relative to the folder of the round."""
    box = submit(tree, power=True)
    result = read_result(box.folder)
    assert box.ruleset.round is not None
    score = round_score(result.runs, box.ruleset.round)
    energy = round_energy(score, box.ruleset.round, box.ruleset.energy, 1)
    estimate = round_estimate(score, box.ruleset.round)
    row = mlperf_table.RoundRow(box.folder, score, 0, None, energy, "available", estimate, (1, 1))

    entry = only(rounds_of(tree))

    expected = mlperf_table.row_document(row)
    place = "Toymaker/results/toybox/retinanet"
    assert entry.document == {
        **expected,
        "path": place,
        "runs": [
            {**run, "path": f"{place}/{log.path.name}", "sha256": log.sha256}
            for run, log in zip(expected["runs"], result.runs, strict=True)
        ],
    }
    assert (entry.seconds, entry.raw_seconds, entry.factor) == (score.seconds, score.raw_seconds, score.factor)
    assert (entry.submitter, entry.system, entry.benchmark, entry.division) == (
        "Toymaker",
        "toybox",
        "retinanet",
        "closed",
    )
    assert (entry.category, entry.accelerator, entry.num_accelerators, entry.num_nodes) == ("available", "Toy X1", 8, 1)
    assert entry.energy is not None
    assert energy is not None
    assert (entry.energy.drawn_j, entry.energy.rule_j) == (energy.drawn_j, energy.rule_j)
    assert [run.name for run in entry.runs] == [f"result_{index}.txt" for index in range(5)]
    assert entry.runs[0].curve[-1] == (pytest.approx(1300.0), 0.345)
    assert (entry.position, entry.target, entry.direction) == ("seconds since run_start", 0.34, "max")
    assert entry.ranks == (1, 1)
    assert ("global_batch_size", "256") in entry.settings
    means = [sum(values) / 5 for values in zip(*map(_phases, box.logs), strict=True)]
    assert list(entry.phases.values()) == pytest.approx(means, abs=1e-3)
    assert list(entry.phases) == ["init", "train", "eval"]
    assert ("submitter", "Toymaker") in entry.description


@pytest.mark.parametrize(
    ("status", "category"),
    [
        ("Available on-premise", "available"),
        ("Available cloud", "available"),
        ("onprem", "available"),
        ("cloud", "available"),
        ("Preview", "preview"),
        ("research", "research"),
        ("RDO", "research"),
        ("Research, Development or Internal", "research"),
        ("", "unstated"),
        (None, "unstated"),
        (7, "unstated"),
    ],
)
def test_the_category_is_that_of_the_system(status: object, category: str) -> None:
    """However the round writes it."""
    assert mlperf_table.category_of(status) == category
    assert category in mlperf_table.CATEGORIES


def test_names_of_rounds_and_machines() -> None:
    """Shortened where they are versions; equal if they differ in case and punctuation only."""
    assert [short_name(name) for name in ("mlperf_training/5.1.0", "/home/me/mine", "5.x.0")] == [
        "5.1", "/home/me/mine", "5.x.0",
    ]  # fmt: skip
    assert key_of("NVIDIA H100-SXM5-80GB") == key_of("nvidia H100 SXM5 80gb")
    assert key_of("超算") == "超算"


def test_categories_and_divisions_are_ranked_apart(tree: Path) -> None:
    """A preview system is first among its like; invalid results come last and have no rank."""
    submit(tree, "Slow", faster=0.5)
    submit(tree, "Toymaker")
    submit(tree, "Early", faster=9.0, status="Preview")
    submit(tree, "Free", faster=9.0, division="open")
    submit(tree, "Wrong", faster=9.0, change=lambda number, log: mlperflog.drop(log, "eval_samples"))

    [part] = rounds_of(tree).rounds

    found = {
        (table.division, table.category): [(row.submitter, row.ranks) for row in table.rows] for table in part.tables
    }
    assert found == {
        ("closed", "available"): [("Toymaker", (1, 1)), ("Slow", (2, 2)), ("Wrong", None)],
        ("closed", "preview"): [("Early", (1, 1))],
        ("open", "available"): [("Free", (1, 1))],
    }
    first = part.tables[0]
    assert ([row.submitter for row in first.ranked], [row.submitter for row in first.others]) == (
        ["Toymaker", "Slow"], ["Wrong"],
    )  # fmt: skip
    assert part.name == "5.1"


def test_rounds_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """Newest first; the same machine in both, however its name is written, is one line of a history."""
    submit(tmp_path / "training_v5.0", "TOYMAKER", change=dated_earlier)
    submit(tmp_path / "training_v5.1", "Toymaker", accelerator_model_name="toy-X1", faster=1.2)

    board = rounds_of(tmp_path / "training_v5.0", tmp_path / "training_v5.1")

    assert [part.name for part in board.rounds] == ["5.1", "5.0"]
    new, old = board.entries
    assert new.line == old.line
    assert (new.slug, old.slug) != (new.slug, new.slug)
    assert new.estimate is not None
    assert (new.seconds or 0.0) < (old.seconds or 0.0)


def test_systems_without_accelerators_are_machines_of_their_own(tree: Path) -> None:
    """There is no accelerator by which two of them would be the same."""
    for system in ("toybox", "toybox-b"):
        submit(tree, system=system, accelerators_per_node="0", accelerator_model_name="N/A")

    one, other = rounds_of(tree).entries

    assert (one.accelerator, one.num_accelerators) == (other.accelerator, other.num_accelerators) == (None, 0)
    assert one.machine != other.machine


def test_two_results_of_one_name_have_pages_of_their_own(tmp_path: Path) -> None:
    """The round in two folders: with and without power logs, as it was published."""
    submit(tmp_path / "training_v5.1")
    shutil.copytree(tmp_path / "training_v5.1", tmp_path / "power")

    board = rounds_of(tmp_path / "training_v5.1", tmp_path / "power", ruleset="mlperf_training/5.1.0")

    first, second = board.entries
    assert {second.slug, first.slug} == {first.slug, f"{first.slug}--2"} or first.slug == f"{second.slug}--2"
    assert {first.root, second.root} == {"training_v5.1", "power"}


def test_what_is_in_no_table_is_named_with_the_reason(tree: Path) -> None:
    """Of another benchmark, of none, without a log, unreadable, of `tta` itself, too large for one board."""
    submit(tree)
    submit(tree, "Other", change=lambda _, log: setattr(mlperflog.find(log, "submission_benchmark"), "value", "bert9"))
    submit(tree, "Nameless", change=lambda _, log: mlperflog.drop(log, "submission_benchmark"))
    shutil.rmtree(submit(tree, "Empty").folder)
    (tree / "Empty" / "results" / "toybox" / "retinanet").mkdir()
    (tree / "Empty" / "results" / "toybox" / "retinanet" / "README").touch()
    own = tree / "own"
    own.mkdir()
    fabricate.write_log(own / "result_0.txt", fabricate.events(0))
    (tree / "alone").mkdir()
    mlperflog.write(tree / "alone" / "result_x.txt", mlperflog.retinanet())
    damaged = submit(tree, "Damaged").folder
    for log in damaged.glob("result_*.txt"):
        with log.open("wb") as stream:
            stream.truncate(200 << 20)
    for index in range(17):
        path = tree / f"h{index}" / "results" / "s" / "b" / "result_0.txt"
        path.parent.mkdir(parents=True)
        with path.open("wb") as stream:
            stream.truncate((4 << 30) - 1)

    board = rounds_of(tree)

    assert len(board.entries) == 1
    reasons = {item.place: " ".join(item.reasons) for item in board.not_placed}
    for place, reason in {
        "Other/results/toybox/retinanet": "has no benchmark 'bert9'",
        "Nameless/results/toybox/retinanet": "no log names a benchmark",
        "Empty/results/toybox/retinanet": "it contains no log",
        "own": "which is not an MLPerf round; build a separate board for it",
        "alone/result_x.txt": "is a log by itself",
        "Damaged/results/toybox/retinanet": "Damaged/results/toybox/retinanet/result_0.txt: ",
    }.items():
        assert reason in reasons[f"training_v5.1/{place}"], (place, reasons)
    assert [place for place, text in reasons.items() if "more than 68,719,476,736 bytes" in text]
    assert str(tree) not in " ".join(reasons.values())


def test_a_result_in_another_place_is_of_whom_it_names(tmp_path: Path) -> None:
    """A folder of logs outside MLPerf's layout; what names no system is called by its place."""
    tree = tmp_path / "v5.1"
    for name, platform in (("a", ""), ("b", "toybox")):
        (tree / name).mkdir(parents=True)
        log = mlperflog.retinanet()
        mlperflog.find(log, "submission_platform").value = platform
        mlperflog.write(tree / name / "result_0.txt", log)

    board = rounds_of(tree)

    assert {(entry.submitter, entry.system) for entry in board.entries} == {("Toymaker", "a"), ("Toymaker", "toybox")}
    assert all(entry.category == "unstated" and entry.num_accelerators is None for entry in board.entries)


def test_findings_of_one_check_are_one_note(tree: Path) -> None:
    """With their number and the first of them; errors first. Paths are relative, and MLPerf's claim changes nothing."""
    box = submit(tree, change=lambda number, log: mlperflog.drop(log, "eval_samples"))
    box.put("scaling.json", json.dumps({"scaling_factor": 1.5}))

    entry = only(rounds_of(tree))

    judged = engine.judge(read_result(box.folder), box.ruleset, registry.checks().values(), TODAY)
    assert not entry.is_ranked
    assert entry.num_errors == sum(finding.counts for finding in judged) > 0
    assert sum(note.count for note in entry.findings) == len(judged)
    assert entry.findings[0].counts
    [note] = [note for note in entry.findings if note.code == "MLP003"]
    assert (note.severity, note.count, note.counts) == (Severity.ERROR, 5, True)
    assert 0 < len(note.messages) <= MAX_NOTES
    assert note.messages[0][1].startswith("Toymaker/results/toybox/retinanet/result_0.txt")
    assert entry.document["claimed_factor"] == 1.5
    assert entry.factor != 1.5


def test_the_audit_sees_the_whole_folder(tree: Path) -> None:
    """Logs that two results share are a suspicion, although each result by itself has none; the worst comes first."""
    submit(tree)
    assert "AUD020" not in {note.code for note in only(rounds_of(tree)).suspicions}
    shutil.copytree(tree / "Toymaker", tree / "Copycat")

    [entry] = [item for item in rounds_of(tree).entries if "AUD020" in {note.code for note in item.suspicions}]

    scores = [note.score or 0.0 for note in entry.suspicions]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0


def test_a_log_in_two_results_is_a_finding_on_both(tmp_path: Path) -> None:
    """As in `tta check`, across all folders of a call; the machine that built the site is not named."""
    submit(tmp_path / "training_v5.0", change=dated_earlier)
    submit(tmp_path / "training_v5.1", "Other")
    shutil.copytree(tmp_path / "training_v5.0" / "Toymaker", tmp_path / "training_v5.1" / "Copycat")

    board = rounds_of(tmp_path / "training_v5.0", tmp_path / "training_v5.1")

    found = {entry.submitter: [note for note in entry.findings if note.code == "RUN018"] for entry in board.entries}
    assert {name: [note.count for note in notes] for name, notes in found.items()} == {
        "Other": [], "Copycat": [5], "Toymaker": [5],
    }  # fmt: skip
    message, place = found["Copycat"][0].messages[0]
    assert place == "Copycat/results/toybox/retinanet/result_0.txt"
    assert "training_v5.0/Toymaker/results/toybox/retinanet/result_" in message
    assert str(tmp_path) not in message
    assert all(entry.is_ranked and entry.document["is_valid"] for entry in board.entries)  # a warning


def test_an_error_of_all_results_together_costs_the_rank(tmp_path: Path) -> None:
    """Under a ruleset that makes one of it."""
    shutil.copytree(catalog.ruleset_folder("mlperf_training/5.1.0").parent, tmp_path / "rounds")
    strict = tmp_path / "rounds" / "5.1.0"
    (strict / "ruleset.yaml").write_text((strict / "ruleset.yaml").read_text() + "codes: {RUN018: error}\n")
    submit(tmp_path / "tree")
    shutil.copytree(tmp_path / "tree" / "Toymaker", tmp_path / "tree" / "Copycat")

    board = rounds_of(tmp_path / "tree", ruleset=str(strict))

    assert [(entry.is_ranked, entry.ranks, entry.document["is_valid"]) for entry in board.entries] == [
        (False, None, False)
    ] * 2
    assert all(entry.findings[0].code == "RUN018" for entry in board.entries)


def test_evaluations_made_afterwards_are_over_epochs(tree: Path) -> None:
    """From checkpoints: they have no time on the run's clock. What is not a number is left out."""

    def late(number: int, log: list[Entry]) -> None:
        for entry in log:
            if entry.key == "eval_accuracy":
                entry.at_s += 40_000.0
        mlperflog.find(log, "eval_accuracy", 1).value = "much"

    submit(tree, change=late)

    entry = only(rounds_of(tree))

    assert entry.position == "epochs"
    assert entry.runs[0].curve == [(1.0, 0.1), (3.0, 0.28), (4.0, 0.32), (5.0, 0.345)]


def test_an_evaluation_in_parts_is_drawn_by_the_first_that_the_target_names(tmp_path: Path) -> None:
    """Stable Diffusion's FID over the steps, whatever the order of its checkpoints in the log."""

    def in_parts(number: int, log: list[Entry]) -> None:
        mlperflog.find(log, "submission_benchmark").value = "stable_diffusion"
        mlperflog.drop(log, "eval_accuracy")
        stop = mlperflog.find(log, "run_stop")
        for step, fid in ((2000, 85.0), (1000, 120.0)):
            for metric, value in (("CLIP", 0.16), ("FID", fid)):
                entry = Entry(stop.at_s, "eval_accuracy", value, metadata={"step_num": step, "metric": metric})
                mlperflog.put_after(log, stop, entry)

    submit(tmp_path / "v3.1", change=in_parts)

    entry = only(rounds_of(tmp_path / "v3.1", ruleset="mlperf_training/3.1.0"))

    assert (entry.quality, entry.position, entry.target, entry.direction) == ("FID", "steps", 90.0, "min")
    assert entry.runs[0].curve == [(1000.0, 120.0), (2000.0, 85.0)]


def test_the_state_is_what_sha256sum_prints(tree: Path) -> None:
    """Anyone with the logs can compute it."""
    box = submit(tree)

    [part] = rounds_of(tree).rounds

    lines = sorted(
        f"{hashlib.sha256(box.log(index).read_bytes()).hexdigest()}  training_v5.1/{box.log(index).relative_to(tree)}\n"
        for index in range(5)
    )
    assert part.state == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_several_processes_give_the_same_board(tree: Path) -> None:
    """In the same order; whatever one of them cannot read is in no table."""
    submit(tree)
    submit(tree, "Other", faster=1.1)
    gone = tree / "Gone" / "results" / "toybox" / "retinanet"
    gone.mkdir(parents=True)
    (gone / "result_0.txt").mkdir()
    (gone / "MANIFEST.sha256").touch()
    for index in range(10_001):
        (gone / f"file{index}").touch()

    alone, several = rounds_of(tree), rounds_of(tree, jobs=2)

    assert alone.entries == several.entries
    assert alone.not_placed == several.not_placed
    [missing] = alone.not_placed
    assert missing.place == "training_v5.1/Gone/results/toybox/retinanet"
    assert "files" in missing.reasons[0]
