"""`tta derive`: it derives every number that is shown; stated totals are compared and never used."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.base import typed_yaml
from harness.board import leaderboard
from harness.board.derive import numbers as derive_numbers
from harness.board.derive.formulas import FORMULAS, formula_of, kind_of
from harness.board.derive.numbers import Derived, Subject, derive, numbers
from harness.board.export import board_json, row_document
from harness.commands import derive as command
from harness.commands import score, summary
from harness.commands.board import tree as board_command
from harness.errors import ExitStatus
from harness.findings import Finding, Severity
from harness.log import run_log
from harness.scoring.run_result import run_result
from harness.scoring.summary import summarise
from harness.submission import result as results
from tests import fabricate
from tests.fabricate import Step, find
from tests.harness.board.reproduced import reproduced_tree
from tests.harness.board.test_index import board_of, energy_tree, rich_tree
from tests.harness.submission.test_receipts import witnessed
from tests.rules.box import TODAY, Box
from tests.rules_folder import write_ruleset


@pytest.fixture
def rules(tmp_path: Path) -> str:
    return str(write_ruleset(tmp_path / "rules"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fabricate.write_submission(tmp_path / "tree", power="node")


def derived(capsys: pytest.CaptureFixture[str], *paths: Path, rules: str, **options: Any) -> dict[str, Any]:
    """The command's document for its first result, and the exit status as `status`."""
    tree, against = options.get("tree"), options.get("against")
    status = command.run(list(paths), rules, "json", tree, against, TODAY)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {**document["results"][0], "status": status}


def by_name(document: Mapping[str, Any]) -> dict[str, Any]:
    return {item["name"]: item for item in document["numbers"]}


def witnessed_tree(place: Path) -> Path:
    """One result, whose witness says how often it was tried."""
    witnessed(Box(place), campaign={"tried": 3})
    return place / "tree"


def numbers_of_varied_boards(place: Path) -> list[Derived]:
    """The numbers of every result of a varied board: missed runs, bills, prices, energies, hostile names, campaigns."""
    found: list[Derived] = []
    for number, make in enumerate((rich_tree, energy_tree, reproduced_tree, witnessed_tree)):
        tree = make(place / str(number))
        board = board_of(tree)
        tables = json.loads(board_json(board))["tables"]
        rows = {row["place"]: {**table, **row, "rows": None} for table in tables for row in table["rows"]}
        for name, entry in board.entries.items():
            result = results.read_result(tree / name)
            rules = board.ruleset.benchmarks[entry.row.score.benchmark]
            row = entry.row
            documents = {
                "": row_document(row),
                "summary": dataclasses.asdict(summarise(result, rules)),
                "board": rows[name],
            }
            found += derive(Subject(result, row, rules, "rules.yaml", "prices.yaml"), documents)
    return found


def test_what_is_a_number() -> None:
    """Named with dots for objects and indices for lists; money as text is a number, other digits are not."""
    document = {
        "a": 1,
        "b": [0.5, True, None, {"c": -2}, (7,)],
        "name": "5",
        "usd": "1.50",
        "bill": {"seconds": "60", "usd": "about 3", "paid_usd": "-1"},
        "cost": {"usd_per_hour": "36", "seconds": "60"},
    }

    assert dict(numbers(document)) == {
        "a": 1,
        "b[0]": 0.5,
        "b[3].c": -2,
        "b[4][0]": 7,
        "usd": "1.50",
        "bill.seconds": "60",
        "bill.paid_usd": "-1",
        "cost.usd_per_hour": "36",
    }
    assert dict(numbers([3], "board")) == {"board[0]": 3}


def numbered(log: Path, *keys: str) -> tuple[int, ...]:
    """The lines of these keys in a log, found as text."""
    lines = log.read_text().splitlines()
    return tuple(number for number, line in enumerate(lines, 1) if any(f'"key": "{key}"' in line for key in keys))


WINDOW = ("run_start", "run_stop")
BLOCKS = ("block_start", "block_stop", "tracked_stats")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """Five metered runs, each reaching the target at its third evaluation, except the fourth, which misses it."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        if index == 3:
            find(steps, "eval_accuracy", 2).value = 0.85
            find(steps, "run_stop").metadata["status"] = "aborted"
        return steps

    folder = fabricate.write_submission(tmp_path / "tree", change=change, power="node")
    found = results.read_result(folder)
    ruleset = fabricate.ruleset({})
    row = leaderboard.rate(
        found, ruleset, [Finding("AAA001", "wrong", Severity.ERROR, "a.txt", line, "") for line in (7, None)]
    )
    return Subject(found, row, ruleset.benchmarks["toy_mini"], "rules.yaml", "prices.yaml")


def placed(subject: Subject, name: str) -> list[tuple[str, tuple[int, ...], str]]:
    """Where the number comes from; each file by its path in the result, if it is there."""
    places = derive_numbers._places(subject, formula_of(name), name)
    folder = str(subject.result.path)
    return [(place.path.removeprefix(f"{folder}/"), place.lines, place.what) for place in places]


@pytest.mark.parametrize(
    ("name", "runs", "keys"),
    [
        ("score.runs[1].seconds", (1,), WINDOW),
        ("score.runs[4].run_s", (4,), WINDOW),
        ("score.runs[1].seed", (1,), ("seed",)),
        ("score.runs[2].ledger.init", (2,), ("init_start", "init_stop")),
        ("score.runs[0].ledger.data", (0,), ("tta_data_open_start", "tta_data_open_stop", "tracked_stats")),
        ("score.runs[1].ledger.train", (1,), BLOCKS),
        ("score.runs[1].ledger.eval", (1,), ("eval_start", "eval_stop")),
        ("score.runs[3].quality", (3,), ("eval_accuracy",)),
        ("score.pace_s", range(5), WINDOW),
        ("score.measured_seconds", range(5), WINDOW),
        ("score.fixed_s", range(5), ("tta_data_open_start", "tta_data_open_stop")),
        ("score.interval[1]", range(5), WINDOW),
        ("score.dropped[1]", range(5), WINDOW),
        ("summary.data_wait_fraction", range(5), BLOCKS),
    ],
)
def test_a_number_comes_from_its_run_or_all_of_them(
    subject: Subject, name: str, runs: Sequence[int], keys: tuple[str, ...]
) -> None:
    """From all lines with these keys; for a run that missed its target, from every evaluation."""
    logs = [f"result_{index}.txt" for index in runs]

    assert placed(subject, name) == [(log, numbered(subject.result.path / log, *keys), ", ".join(keys)) for log in logs]


def test_an_evaluation_is_one_line(subject: Subject) -> None:
    """The first index is the run's, the second the evaluation's; the third evaluation decides, in a miss all count."""
    lines = [numbered(subject.result.path / f"result_{index}.txt", "eval_accuracy") for index in range(5)]
    all_of = [(f"result_{i}.txt", lines[i] if i == 3 else lines[i][2:], "eval_accuracy") for i in range(5)]

    assert placed(subject, "score.runs[2].evaluations[1].quality") == [
        ("result_2.txt", (lines[2][1],), "eval_accuracy")
    ]
    assert placed(subject, "score.runs[1].samples") == [all_of[1]]
    assert placed(subject, "score.samples") == placed(subject, "summary.quality[1]") == all_of


def test_other_numbers_name_their_files(subject: Subject) -> None:
    """Rules, prices, power logs, findings, the tree; what does not exist is not named."""
    path = subject.result.path
    logs = [f"result_{index}.txt" for index in range(5)]
    windows = [(log, numbered(path / log, *WINDOW), "run_start, run_stop") for log in logs]
    price = [
        ("prices.yaml", (), "the price named in the system description"),
        (str(subject.result.system_path), (), "number_of_nodes and the name of the price"),
    ]
    powers = [
        [
            (log, numbered(path / log, "tta_clock", *WINDOW), "tta_clock, run_start, run_stop"),
            (f"power/{log[:-4]}/node_0.txt", (), "power_reading from run_start to run_stop"),
        ]
        for log in logs
    ]
    sizes = [(log, numbered(path / log, "global_batch_size"), "global_batch_size") for log in logs]
    reference = ("rules.yaml", (), "suites: mini: reference_convergence")

    assert placed(subject, "score.runs[1].usd") == [windows[1], *price]
    assert placed(subject, "score.usd") == placed(subject, "board.cost.interval[1]") == [*windows, *price]
    assert placed(subject, "score.runs[2].energy.parts[0].joules") == powers[2]
    assert (
        placed(subject, "score.energy_j") == placed(subject, "board.energy.interval[1]") == [*itertools.chain(*powers)]
    )
    assert placed(subject, "score.runs[4].idle_w") == [("power/idle/node_0.txt", (), "power_reading")]
    assert placed(subject, "summary.baseline[1]") == [("rules.yaml", (), "suites: mini")]
    assert placed(subject, "score.seconds") == [reference, *placed(subject, "score.samples"), *sizes]
    assert placed(subject, "num_errors") == [("a.txt", (7,), "AAA001 error"), ("a.txt", (), "AAA001 error")]
    assert placed(subject, "bill.usd") == [("billing.yaml", (), "as declared"), ("prices.yaml", (), "list prices")]
    assert placed(subject, "ranks[0]") == [*windows, (str(path), (), "and the same for every result it is ranked with")]
    assert placed(subject, "board.files[0].bytes") == [(name, (), "size") for name in sorted(subject.result.files)]
    assert placed(subject, "score.guess") == []


def test_without_rules_prices_and_meters_none_are_named(subject: Subject) -> None:
    """An unknown benchmark, no price book, no power logs, no system description."""
    runs = tuple(dataclasses.replace(log, nodes=(), idle=()) for log in subject.result.runs)
    bare = dataclasses.replace(
        subject,
        result=dataclasses.replace(subject.result, runs=runs, system_path=None),
        rules=None,
        prices_path=None,
    )
    logs = [f"result_{index}.txt" for index in range(5)]

    assert [place[0] for place in placed(bare, "score.usd")] == logs
    assert (
        placed(bare, "score.energy_j") == placed(bare, "score.runs[1].idle_w") == placed(bare, "summary.target") == []
    )
    assert [place[0] for place in placed(bare, "score.seconds")] == logs * 2
    assert placed(bare, "bill.usd") == [("billing.yaml", (), "as declared")]
    partly = dataclasses.replace(bare.result, runs=(*runs[:2], *subject.result.runs[2:]))
    metered = [place[0] for place in placed(dataclasses.replace(bare, result=partly), "score.energy_j")]
    assert metered == [name for i in (2, 3, 4) for name in (f"result_{i}.txt", f"power/result_{i}/node_0.txt")]


def test_the_deciding_evaluation_is_found_by_samples_and_quality(subject: Subject, tmp_path: Path) -> None:
    """The third of 0.5, 0.95, 0.95 confirms; of two after equally many samples, the one that reaches the target; of two
    equal ones, the first."""
    rules = dataclasses.replace(fabricate.benchmark_rules(), confirm_evaluations=1)
    confirmed = fabricate.events(qualities=(0.5, 0.95, 0.95))
    twice = fabricate.events(qualities=(0.5, 0.85, 0.95))
    find(twice, "eval_accuracy", 2).metadata["samples_count"] = 2000
    again = fabricate.events(qualities=(0.5, 0.85, 0.95, 0.95))
    find(again, "eval_accuracy", 3).metadata["samples_count"] = 3000
    for steps, terms in ((confirmed, rules), (twice, subject.rules), (again, subject.rules)):
        path = fabricate.write_log(tmp_path / "result_0.txt", steps)
        log = run_log.read(path)
        assert terms is not None
        score = dataclasses.replace(subject.row.score, runs=(run_result(log, terms),))
        one = dataclasses.replace(
            subject,
            result=dataclasses.replace(subject.result, path=tmp_path, runs=(log,)),
            row=dataclasses.replace(subject.row, score=score),
        )

        assert placed(one, "score.runs[0].samples")[0][1] == numbered(path, "eval_accuracy")[2:3]


def test_every_number_of_a_rich_board_has_formula_and_lines_and_every_formula_a_number(tmp_path: Path) -> None:
    """Rows of `tta score` and `tta summary` and the board's data; no formula is unused, and every line exists.

    Each number has a place, except counts of findings, which may be zero.
    """
    found = numbers_of_varied_boards(tmp_path)

    assert sorted({kind_of(item.name) for item in found if item.formula is None}) == []
    assert {formula.words for formula in FORMULAS} == {item.formula.words for item in found if item.formula}
    for item in found:
        assert item.places or kind_of(item.name).endswith(("num_errors", "num_warnings", "errors", "warnings")), item
        for place in item.places:
            if place.lines and Path(place.path).exists():
                assert max(place.lines) <= len(Path(place.path).read_bytes().splitlines())


def test_the_documents_of_score_summary_and_board_are_all_derived(
    folder: Path, rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands as they are called: same name, same number."""
    tree = tmp_path / "tree"
    score.run([folder], rules, "json", TODAY)
    [row] = json.loads(capsys.readouterr().out)["tables"][0]["rows"]
    summary.run([folder], rules, "json")
    [line] = json.loads(capsys.readouterr().out)["results"]
    board_command.build(tree, tmp_path / "site", rules, TODAY)
    capsys.readouterr()
    [table] = json.loads((tmp_path / "site" / "leaderboard.json").read_text())["tables"]

    found = by_name(derived(capsys, folder, rules=rules, tree=tree))

    table_numbers = {name: value for name, value in table.items() if name != "rows"}
    shown = [*numbers(row), *numbers(line, "summary"), *numbers({**table_numbers, **table["rows"][0]}, "board")]
    assert len(shown) > 400
    for name, value in shown:
        assert found[name]["value"] == value, name
        assert found[name]["formula"]


def test_the_numbers_by_hand(folder: Path, rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Three blocks of 2.02 s and three evaluations of 0.5 s after 0.2 s of opening; the target is that of the rules.

    A valid result agrees with all that it states: ledger, energy, samples, throughput, and the digest in the claim.
    """
    document = derived(capsys, folder, rules=rules)
    found = by_name(document)

    assert (document["status"], document["agrees"]) == (ExitStatus.OK, True)
    names = {item["name"].split(": ")[-1] for item in document["typed"]}
    assert {"tta_ledger.train_s", "tta_energy.energy_j", "run_stop.samples_count", "system_sha256"} < names
    assert {item["agrees"] for item in document["typed"]} == {True}
    assert found["score.runs[2].seconds"]["value"] == pytest.approx(7.76)
    [place] = found["score.runs[2].seconds"]["places"]
    log = folder / "result_2.txt"
    assert (place["path"], tuple(place["lines"])) == (str(log), numbered(log, "run_start", "run_stop"))
    assert found["score.runs[2].ledger.train"]["value"] == pytest.approx(3 * (2.02 - 0.1))
    assert found["score.measured_seconds"]["value"] == pytest.approx((7.73 + 7.76 + 7.79) / 3)
    assert found["summary.quality[1]"]["value"] == pytest.approx(0.954)
    [place] = found["summary.target"]["places"]
    assert typed_yaml.load_yaml(Path(place["path"]))["suites"]["mini"]["target"] == found["summary.target"]["value"]


def test_a_stated_total_that_differs_is_reported_with_its_line(
    tmp_path: Path, rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with findings; a total that nothing can be compared with is listed with the reason."""

    def lie(index: int, steps: list[Step]) -> list[Step]:
        if index == 1:
            find(steps, "tta_end").value["num_events"] = 7
            find(steps, "tta_energy").value["energy_j"] = 5.0
        return steps

    folder = fabricate.write_submission(tmp_path / "tree", change=lie)

    found = derived(capsys, folder, rules=rules)

    [item] = [item for item in found["typed"] if item["agrees"] is False]
    [unknown] = [item for item in found["typed"] if item["agrees"] is None]
    assert (item["name"], item["stated"], found["status"]) == ("tta_end.num_events", 7, ExitStatus.FINDINGS)
    assert "tta_end" in (folder / "result_1.txt").read_text().splitlines()[item["line"] - 1]
    assert unknown["why"] == "no power log gives it"


def test_a_number_in_a_control_file_is_compared(folder: Path, rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A scaling factor is compared with 1, and not applied: no file changes a score."""
    (folder / "scaling.json").write_text('{"scaling_factor": 0.01}')

    found = derived(capsys, folder, rules=rules)

    [factor] = [item for item in found["typed"] if item["name"] == "scaling.json: scaling_factor"]
    assert factor["agrees"] is False
    assert factor["derived"] == 1.0


def test_the_text_shows_each_number_with_formula_and_lines(
    folder: Path, rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A curve is one line with a count; no name reaches the terminal unescaped."""
    command.run([folder], rules, "text", None, None, TODAY)
    out = capsys.readouterr().out

    assert "  score.runs[0].evaluations[*].quality = 0.5, 0.8, 0.95 metric (3 values)\n" in out
    assert "      result_0.txt:" in out
    assert "0 differ, 0 have nothing to compare with" in out
    assert out.endswith(": the numbers agree\n")


def test_a_number_without_a_formula_is_never_skipped() -> None:
    """It is in the output without a formula, and the command does not succeed."""
    assert formula_of("score.guess") is None
    numbers = (Derived("score.guess", 1, None, ()),)
    assert not command.Derivation(None, None, numbers, ()).is_consistent  # type: ignore[arg-type]


ROW_PATH: tuple[str | int, ...] = ("tables", 0, "rows", 0)
CHANGES: list[tuple[tuple[str | int, ...], object, str]] = [
    ((*ROW_PATH, "valid"), True, "board.valid"),
    ((*ROW_PATH, "valid"), ..., "board.valid"),
    (("ruleset_digest",), "0" * 64, "board.ruleset_digest"),
    (("ruleset",), "v9", "board.ruleset"),
    (("prices_digest",), None, "board.prices_digest"),
    ((*ROW_PATH, "runs", 1, "status"), "aborted", "board.runs[1].status"),
    ((*ROW_PATH, "why_not"), "too few runs", "board.why_not"),
    ((*ROW_PATH, "files", 0, "sha256"), "0" * 64, "board.files[0].sha256"),
    ((*ROW_PATH, "runs", 2, "seconds"), 1.0, "board.runs[2].seconds"),
    (("tables",), [], "the row of this result"),
]


def test_any_change_to_a_published_board_is_found(
    folder: Path, rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validity, rules, files, numbers, the row itself; before the change, the two agree on everything."""
    tree, published = tmp_path / "tree", tmp_path / "site" / "leaderboard.json"
    board_command.build(tree, tmp_path / "site", rules, TODAY)
    text = published.read_text()
    capsys.readouterr()

    for options in ({}, {"tree": tree}):
        unchanged = derived(capsys, folder, rules=rules, against=published, **options)
        assert [item for item in unchanged["typed"] if item["agrees"] is False] == []
    for (*path, last), value, name in CHANGES:
        document = json.loads(text)
        part = functools.reduce(operator.getitem, path, document)
        if value is ...:
            del part[last]
        else:
            part[last] = value
        published.write_text(json.dumps(document))
        changed = derived(capsys, folder, rules=rules, against=published)
        assert [item["name"] for item in changed["typed"] if item["agrees"] is False] == [name]
        assert changed["status"] is ExitStatus.FINDINGS
