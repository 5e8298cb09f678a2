"""Stated totals compared with derived ones, by hand: logs of a few lines, a claim, a control file, a board."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.board.derive.numbers import Derived, Subject
from harness.board.derive.stated import EXACT, Stated, against_board, stated_scaling, stated_totals
from harness.board.leaderboard import Row
from harness.errors import SubmissionError
from harness.log import run_log
from harness.scoring.run_result import run_result
from harness.scoring.score import no_score
from harness.submission.claim import Claim, FileEntry
from harness.submission.result import Result, read_result
from tests import fabricate
from tests.fabricate import Step, benchmark_rules

RULES = benchmark_rules(reference_convergence=())
CLAIM = Claim("acme", "box1", "toy_mini", "closed", "available", "v1", "a" * 64, "2026-01-01")
START = Step(0.0, "run_start", None, {"samples_count": 0})


def stopped(at_s: float, status: str = "success", **more: Any) -> Step:
    return Step(at_s, "run_stop", None, {"status": status, **more})


def quality(at_s: float, value: float, samples: int) -> Step:
    return Step(at_s, "eval_accuracy", value, {"samples_count": samples})


def block(begin_s: float, end_s: float, begin: int | None, end: int | None, stats: object) -> list[Step]:
    """A block with the sample counts at its ends, and the statistics after it."""
    return [
        Step(begin_s, "block_start", None, {"samples_count": begin}),
        Step(end_s, "block_stop", None, {"samples_count": end}),
        Step(end_s, "tracked_stats", stats),
    ]


def subject_of(folder: Path, *runs: Sequence[Step], files: Sequence[str] = (), **more: Any) -> Subject:
    """A result of these runs, without a score, with these files in its folder."""
    logs = tuple(
        run_log.read(fabricate.write_log(folder / f"result_{index}.txt", steps)) for index, steps in enumerate(runs)
    )
    result = Result(folder, "submission", logs, files={name: FileEntry("file", 1, "b" * 64) for name in files}, **more)
    score = no_score("toy_mini", "closed", tuple(run_result(log, RULES) for log in logs))
    row = Row(None, "acme", "box1", "", "", str(folder), score, 0, 0)
    return Subject(result, row, RULES, "rules.yaml")


def totals(subject: Subject, *derived: Derived) -> list[tuple[object, ...]]:
    return [(item.name, item.stated, item.derived, item.line) for item in stated_totals(subject, derived)]


@pytest.mark.parametrize(
    ("stated", "derived", "tolerance", "agrees"),
    [
        (1.0, None, EXACT, None),
        ("a", None, EXACT, None),
        ("a", "a", EXACT, True),
        ("a", "b", EXACT, False),
        (1.0, "1.0", EXACT, False),
        ("1.0", 1.0, EXACT, False),
        (1.01, 1.0, (0.01, 0.0), True),
        (1.0101, 1.0, (0.01, 0.0), False),
        (0.99, 1.0, (0.01, 0.0), True),
        (-1.01, -1.0, (0.01, 0.0), True),
        (200.0, 100.0, (0.5, 50.0), True),
        (201.0, 100.0, (0.5, 50.0), False),
        (0.001, 0.0, (0.01, 0.001), True),
        (1e-9, 0.0, (0.0, 0.0), True),
        (2e-9, 0.0, (0.0, 0.0), False),
    ],
)
def test_what_agrees(stated: Any, derived: Any, tolerance: tuple[float, float], agrees: bool | None) -> None:
    """Within a fraction of the derived value plus an amount, plus 1e-9; texts must be equal."""
    assert Stated("x", stated, derived, "p", None, tolerance).agrees is agrees


def test_the_totals_of_a_log(tmp_path: Path) -> None:
    """A block of 1,000 samples in one second, a quarter of it waiting; values that are not numbers state nothing."""
    ledger = {"run_s": 2.0, "train_s": 0.75, "data_s": 0.25, "other_s": 9.0, "guess_s": 5.0, "is_s": True, "name": "x"}
    steps = [
        START,
        *block(0.0, 1.0, 0, 1000, {"throughput": 1000.0, "data_wait_s": 0.25}),
        quality(2.0, 0.95, 1000),
        stopped(2.0, samples_count=1000),
        Step(2.0, "tta_ledger", ledger),
        Step(2.0, "tta_energy", {"energy_j": 5.0, "source": "measured"}),
        Step(2.0, "tta_end", {"num_events": 10}),
    ]
    subject = subject_of(tmp_path, steps)

    assert totals(subject) == [
        ("score.runs[0]: tta_ledger.run_s", 2.0, 2.0, 7),
        ("score.runs[0]: tta_ledger.train_s", 0.75, 0.75, 7),
        ("score.runs[0]: tta_ledger.data_s", 0.25, 0.25, 7),
        ("score.runs[0]: tta_ledger.other_s", 9.0, 1.0, 7),
        ("score.runs[0]: tta_ledger.guess_s", 5.0, None, 7),
        ("score.runs[0]: tta_energy.energy_j", 5.0, None, 8),
        ("score.runs[0]: run_stop.samples_count", 1000, 1000, 6),
        ("tracked_stats.throughput", 1000.0, 1000.0, 4),
        ("tta_end.num_events", 10, 9, 9),
    ]
    found = stated_totals(subject, [])
    whys = {item.name.rpartition(": ")[2]: item.why for item in found if item.agrees is None}
    assert whys == {
        "tta_ledger.guess_s": "nothing of this name is derived",
        "tta_energy.energy_j": "no power log gives it",
    }
    tolerances = {item.name.rpartition(": ")[2].partition(".")[0]: item.tolerance for item in found}
    assert tolerances == {
        "tta_ledger": (0.01, 0.001),
        "tta_energy": (0.001, 0.0),
        "run_stop": (1e-9, 1e-9),
        "tracked_stats": (0.01, 0.0),
        "tta_end": (1e-9, 1e-9),
    }


def test_the_ledger_of_an_aborted_run_is_not_compared(tmp_path: Path) -> None:
    """It may have ended inside a block."""
    subject = subject_of(tmp_path, [START, stopped(1.0, "aborted"), Step(1.0, "tta_ledger", {"run_s": 1.0})])
    (found,) = stated_totals(subject, [])

    assert (found.derived, found.why) == (None, "the run was aborted")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [START, *block(0.0, 1.0, 0, 1000, [1000.0]), Step(1.0, "tta_ledger", [1.0]), Step(1.0, "tta_end", 5)],
            id="ledger, count and statistics that are not mappings",
        ),
        pytest.param([START, quality(1.0, 0.5, 1000), stopped(2.0)], id="an end without a sample count"),
        pytest.param([START, quality(1.0, 0.5, 1000)], id="no end"),
    ],
)
def test_what_states_nothing_is_not_compared(tmp_path: Path, steps: list[Step]) -> None:
    """Other checks report what is malformed or missing."""
    assert totals(subject_of(tmp_path, steps)) == []


@pytest.mark.parametrize(
    ("qualities", "stated", "derived"),
    [((0.5, 0.95, 0.96), 2000, 2000), ((0.5, 0.96, 0.8), 3000, 2000), ((0.5, 0.6, 0.7), 3000, 3000), ((), 3000, None)],
)
def test_the_samples_of_a_run(tmp_path: Path, qualities: tuple[float, ...], stated: int, derived: int | None) -> None:
    """Those of the deciding evaluation, else of the last; without any there is nothing to compare with."""
    curve = [quality(float(i), value, 1000 * i) for i, value in enumerate(qualities, 1)]
    found = totals(subject_of(tmp_path, [START, *curve, stopped(4.0, samples_count=stated)]))

    assert [item[1:3] for item in found] == ([] if derived is None else [(stated, derived)])


@pytest.mark.parametrize(
    ("begin", "end", "stop_s", "throughput", "derived"),
    [
        (1000, 3000, 1.5, 4000.0, 4000.0),
        (0, 3000, 3.0, 7.0, 1500.0),
        (None, 3000, 2.0, 7.0, None),
        (0, None, 2.0, 7.0, None),
        (0, 3000, 1.0, 7.0, None),
        (0, 3000, 2.0, "7", None),
    ],
)
def test_throughput_is_samples_over_seconds(
    tmp_path: Path, begin: int | None, end: int | None, stop_s: float, throughput: object, derived: float | None
) -> None:
    """Of the preceding block; one without sample counts or without length has none."""
    timed = block(1.0, stop_s, begin, end, {"throughput": throughput})
    found = totals(subject_of(tmp_path, [START, *timed]))

    assert found == ([] if derived is None else [("tracked_stats.throughput", throughput, derived, 4)])


def test_statistics_that_cannot_be_compared_hide_no_others(tmp_path: Path) -> None:
    """The first block has no sample count; the second does."""
    first, second = (block(float(i), i + 1.0, at, 2000, {"throughput": 7.0}) for i, at in enumerate((None, 1000)))

    expected = [("tracked_stats.throughput", 7.0, 1000.0, 7)]
    assert totals(subject_of(tmp_path, [START, *first, *second])) == expected


def test_each_log_is_compared_with_its_own_run(tmp_path: Path) -> None:
    """By its path; a log without a run still has counts."""
    runs = [[START, quality(at, 0.95, 1000), stopped(at), Step(at, "tta_ledger", {"run_s": 2.0})] for at in (1.0, 2.0)]
    subject = subject_of(tmp_path, *runs)
    one = subject_of(tmp_path, [START, Step(1.0, "tta_end", {"num_events": 2})])
    alone = Subject(one.result, subject_of(tmp_path).row, RULES, "")

    assert totals(subject) == [
        ("score.runs[0]: tta_ledger.run_s", 2.0, 1.0, 4),
        ("score.runs[1]: tta_ledger.run_s", 2.0, 2.0, 4),
    ]
    assert totals(alone) == [("tta_end.num_events", 2, 2, 2)]


def test_a_metered_run_is_compared_with_its_power_logs(tmp_path: Path) -> None:
    """Joules, their half width and the coverage."""
    folder = fabricate.write_result(tmp_path / "r", 1, power="node")
    log = read_result(folder).runs[0]
    run = run_result(log, RULES)
    result = Result(folder, "result", (log,))
    row = Row(None, "acme", "box1", "", "", "", no_score("toy_mini", "closed", (run,)), 0, 0)
    found = {item.name.rpartition(".")[2]: item for item in stated_totals(Subject(result, row, RULES, ""), [])}

    assert run.energy is not None
    assert [found[name].derived for name in ("energy_j", "u95_j", "coverage")] == [
        run.energy.joules,
        run.energy.uncertainty_j,
        run.energy.coverage,
    ]
    assert {item.agrees for item in found.values()} == {True}


def test_the_digest_in_a_claim_is_compared_with_its_line(tmp_path: Path) -> None:
    """If there is a claim, and a system description to compare it with."""
    (tmp_path / "submission.yaml").write_text("submitter: acme\nsystem_sha256: x\n")
    digest = "system_sha256"

    assert totals(subject_of(tmp_path, claim=CLAIM, system_sha256="b" * 64)) == [(digest, "a" * 64, "b" * 64, 2)]
    assert totals(subject_of(tmp_path, claim=CLAIM)) == totals(subject_of(tmp_path, system_sha256="b" * 64)) == []


def test_numbers_in_a_claim_are_compared_by_name(tmp_path: Path) -> None:
    """With the score's, else with the summary's; texts and infinite numbers are ignored."""
    text = "submitter: acme\nseconds: 1.5\nquality: '0.9'\nspeed: -2e3\nfar: 1e999\nusd: 0.5\n"
    (tmp_path / "submission.yaml").write_text(text)
    derived = [
        Derived("score.seconds", 2, None, ()),
        Derived("summary.seconds", 3, None, ()),
        Derived("summary.quality", 0.9, None, ()),
        Derived("score.usd", "0.500000", None, ()),
    ]
    expected = [("seconds", 1.5, 2.0, 2), ("quality", 0.9, 0.9, 3), ("speed", -2000.0, None, 4), ("usd", 0.5, 0.5, 6)]

    assert totals(subject_of(tmp_path, files=["submission.yaml"]), *derived) == expected
    assert totals(subject_of(tmp_path), *derived) == []
    (tmp_path / "submission.yaml").write_bytes(b"\xff")
    assert totals(subject_of(tmp_path, files=["submission.yaml"]), *derived) == []


def test_a_scaling_factor_is_compared_with_the_derived_one(tmp_path: Path) -> None:
    """Every number in the file; without a score there is nothing to compare it with."""
    (tmp_path / "scaling.json").write_text('{"scaling_factor": 0.5, "usd": "1.5", "more": [1, true, "2"]}')
    subject = subject_of(tmp_path, files=["scaling.json"])
    (first, second) = stated_scaling(subject)

    assert (first.name, first.stated, first.derived, first.agrees) == ("scaling.json: scaling_factor", 0.5, None, None)
    assert (second.name, second.stated, second.why) == ("scaling.json: more[0]", 1.0, "the result has no score")
    assert stated_scaling(subject_of(tmp_path)) == []


ROW = {"submitter": "acme", "system": "box1", "ranks": [1, 1], "seconds": 7.5, "cost": {"ranks": [2, 3], "usd": "1.5"}}
TABLE = {"benchmark": "toy_mini", "division": "closed", "target": 0.9, "num_runs": 5, "drop": 1, "other": 7}
RUNS = {"board.runs[0].reason": ("a", "a", True), "board.runs[1]": ("b", "c", False)}
DERIVED = {**ROW, "target": 0.9, "num_runs": 5, "drop": 1}


def compared(tmp_path: Path, tables: Any, is_tree_given: bool = True, **derived: Any) -> dict[str, bool | None]:
    data = json.dumps({"tables": tables}).encode()
    found = against_board(data, Path("b.json"), subject_of(tmp_path), {**DERIVED, **derived}, is_tree_given)
    return {item.name: item.agrees for item in found}


def test_a_row_of_a_board_is_found_by_table_submitter_and_system(tmp_path: Path) -> None:
    """Whatever else the tables and rows contain; all its numbers and the table's are compared."""
    decoys = [5, {**ROW, "submitter": "other", "seconds": 9}, {**ROW, "system": "box2", "seconds": 9}]
    tables = [
        5,
        {**TABLE, "benchmark": "other", "rows": [{**ROW, "seconds": 9}]},
        {**TABLE, "division": "open", "rows": [{**ROW, "seconds": 9}]},
        {**TABLE, "rows": None},
        {**TABLE, "rows": [*decoys, ROW, {**ROW, "seconds": 9}]},
    ]
    ranks = [f"{name}ranks[{end}]" for name in ("", "cost.") for end in (0, 1)]
    names = ("target", "num_runs", "drop", "seconds", "cost.usd", *ranks)

    assert compared(tmp_path, tables) == {f"board.{name}": True for name in names}
    for rest in ([], tables[:4], [{**TABLE, "rows": decoys}]):
        assert compared(tmp_path, rest) == {"the row of this result": False}


def test_a_rank_is_compared_where_the_tree_is_given(tmp_path: Path) -> None:
    """A single result would always be first; any other field called rank is an ordinary number."""
    tables = [{**TABLE, "rows": [{**ROW, "ranks": [1, 3], "energy": {"ranks": [1, 1]}, "rank": 4}]}]
    energy = {"energy": {"ranks": [2, 2]}, "rank": 4}
    alone, among = (compared(tmp_path, tables, given, **energy) for given in (False, True))

    assert {name for name, agrees in alone.items() if agrees is None} == {
        f"board.{name}ranks[{end}]" for name in ("", "cost.", "energy.") for end in (0, 1)
    }
    assert {name for name, agrees in among.items() if agrees is False} == {
        "board.ranks[1]",
        "board.energy.ranks[0]",
        "board.energy.ranks[1]",
    }
    assert alone["board.rank"] is among["board.rank"] is True


def test_reproductions_are_compared_where_the_tree_is_given(tmp_path: Path) -> None:
    """Alone, no other result repeats this one; what its own logs repeat is the same everywhere."""
    stated = {"reproduced": {"own": 2}, "reproductions": [{"ratio": 1.0, "status": "reproduced"}], "repeats": "5d"}
    tables = [{**TABLE, "rows": [{**ROW, **stated}]}]
    derived = {"reproduced": {"own": 1}, "reproductions": [{"ratio": 1.5, "status": "inconclusive"}], "repeats": "5e"}
    alone, among = (compared(tmp_path, tables, given, **derived) for given in (False, True))
    names = ("board.reproduced.own", "board.reproductions[0].ratio")

    assert [alone[name] for name in names] == [None, None]
    assert "board.reproductions[0].status" not in alone
    assert [among[name] for name in (*names, "board.reproductions[0].status")] == [False] * 3
    assert alone["board.repeats"] is among["board.repeats"] is False


def test_extra_and_missing_numbers_of_a_board(tmp_path: Path) -> None:
    """A number that is missing differs; one that is not derived, or a rank without the tree, cannot be compared."""
    data = json.dumps({"tables": [{**TABLE, "rows": [{**ROW, "extra": 1, "seconds": 8.0}]}]}).encode()
    derived = {**DERIVED, "energy_j": 5.0}
    found = against_board(data, Path("b.json"), subject_of(tmp_path), derived, is_tree_given=False)

    assert {item.name for item in found if item.agrees is False} == {"board.seconds", "board.energy_j"}
    assert {item.name: item.why for item in found if item.agrees is None} == {
        **{f"board.{name}ranks[{end}]": "a rank needs the tree: --tree" for name in ("", "cost.") for end in (0, 1)},
        "board.extra": "nothing of this name is derived",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "is not the data of a board"),
        ("5", "is not the data of a board"),
        ('{"tables": 3}', "it has no 'tables'"),
        ("{}", "it has no 'tables'"),
        ("[" * 10_000, "cannot be read"),
        ('{"tables": [NaN]}', "cannot be read"),
        ('{"tables": [1e999]}', "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_board_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    """One sentence with the file's name."""
    with pytest.raises(SubmissionError, match=rf"^b\.json: .*{why}"):
        against_board(text.encode(), Path("b.json"), subject_of(tmp_path), {}, False)


@pytest.mark.parametrize("rows", [5, True, "rows", {"submitter": "acme"}, [None, [], "row", 1.5]])
def test_malformed_rows_are_skipped(tmp_path: Path, rows: Any) -> None:
    """Whatever the board contains, it is read to its end."""
    assert compared(tmp_path, [{**TABLE, "rows": rows}]) == {"the row of this result": False}
    assert compared(tmp_path, [{**TABLE, "rows": rows}, {**TABLE, "rows": [ROW]}])["board.seconds"] is True


def test_a_claim_that_cannot_be_read_states_nothing(tmp_path: Path) -> None:
    """A link, or a file that is too long; other checks report it."""
    (tmp_path / "other").write_text("seconds: 1.5\n")
    (tmp_path / "submission.yaml").symlink_to("other")
    subject = subject_of(tmp_path, files=["submission.yaml"])

    assert totals(subject) == []
    (tmp_path / "submission.yaml").unlink()
    (tmp_path / "submission.yaml").write_text("seconds: 1.5\n" + "#" * (1 << 20))
    assert totals(subject) == []
    (tmp_path / "submission.yaml").write_text("seconds: 1.5\n")
    assert totals(subject) == [("seconds", 1.5, None, 1)]


def compared_words(
    place: Path, row: dict[str, Any], board: dict[str, Any], **document: Any
) -> dict[str, tuple[Any, Any, bool | None]]:
    """For a board with this row: what is stated, what is derived, whether they agree."""
    data = json.dumps({"tables": [{**TABLE, "rows": [{**ROW, **row}]}], **document}).encode()
    typed = against_board(data, Path("b.json"), subject_of(place), {**DERIVED, **board}, is_tree_given=True)
    return {item.name: (item.stated, item.derived, item.agrees) for item in typed if isinstance(item.stated, str)}


@pytest.mark.parametrize(
    ("row", "board", "expected"),
    [
        ({"valid": True}, {"valid": True}, {"board.valid": ("true", "true", True)}),
        ({"valid": True}, {"valid": False}, {"board.valid": ("true", "false", False)}),
        ({"why_not": None}, {"why_not": None}, {}),
        ({"why_not": None}, {}, {}),
        ({}, {"why_not": None}, {}),
        ({"why_not": "x"}, {"why_not": None}, {"board.why_not": ("x", "nothing", False)}),
        ({"why_not": None}, {"why_not": "x"}, {"board.why_not": ("nothing", "x", False)}),
        ({}, {"why_not": "x"}, {"board.why_not": ("nothing", "x", False)}),
        ({"is_valid": False}, {}, {"board.is_valid": ("false", None, None)}),
        ({"runs": [{"reason": "a"}, "b"]}, {"runs": [{"reason": "a"}, "c"]}, RUNS),
        ({"place": "a/b", "page": "x", "files": [{"path": "y"}]}, {"place": ".", "page": "z"}, {}),
    ],
)
def test_words_are_compared_by_name(
    row: dict[str, Any], board: dict[str, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    """Null states nothing; the place of a result depends on the tree; amounts of money are numbers."""
    assert compared_words(tmp_path, row, board) == expected


def test_the_rules_of_a_board_are_compared_with_those_given(tmp_path: Path) -> None:
    """They are next to the tables."""
    rules = {"ruleset": "v1", "ruleset_digest": "ab", "prices_digest": None}

    assert compared_words(tmp_path, {}, rules, **{**rules, "ruleset_digest": "cd"}) == {
        "board.ruleset": ("v1", "v1", True),
        "board.ruleset_digest": ("cd", "ab", False),
    }
