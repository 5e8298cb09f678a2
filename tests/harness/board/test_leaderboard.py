"""From results on disk to rows, ranks and the printed table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.board.leaderboard import Row, by_measured_time, leaderboard, rate, row
from harness.board.text import RANKS, SCORE, leaderboard_text
from harness.checker import registry
from harness.commands import score as command
from harness.cost.price_book import NoPrice, Price, PriceBook, PriceBooks, Quote
from harness.errors import ExitStatus, UsageError
from harness.findings import Fault, Finding, Rule, Severity
from harness.ruleset import load
from harness.ruleset.model import RuleSet
from harness.scoring import cost
from harness.scoring.run_result import RunResult
from harness.scoring.score import Score
from harness.submission.result import read_result
from tests import fabricate

TODAY = date(2026, 1, 1)


def run_of(seconds: float | None) -> RunResult:
    return RunResult(
        path="result.txt",
        seed=1,
        status="success",
        reason=None,
        seconds=seconds,
        samples=None if seconds is None else 3000,
        quality=0.9,
        evaluations=(),
        ledger={},
        run_s=seconds,
        energy=None,
        usd=None,
    )


def row_of(name: str, seconds: float | None, scatter: float | None = 0.01, **more: Any) -> Row:
    """A row of this score, whose five runs scatter by this fraction (None: nothing is known of its error).

    `num_errors`, `benchmark`, `division` and `measured_seconds` on request.
    """
    found = Score(
        benchmark=more.pop("benchmark", "toy_mini"),
        division=more.pop("division", "closed"),
        seconds=seconds,
        interval=None,
        samples=3000,
        energy=None,
        usd=None,
        runs=tuple(run_of(seconds) for _ in range(5)),
        dropped=(),
        basis="pace",
        errors=() if scatter is None else ((scatter**2 / 5, 4),),
        measured_seconds=more.pop("measured_seconds", seconds),
    )
    return Row(None, "acme", name, "available", "2026-01-01", name, found, more.pop("num_errors", 0), 0)


def ranks(rows: Sequence[Row]) -> list[tuple[str, tuple[int, int] | None]]:
    (table,) = leaderboard("v1", "r" * 64, rows).tables
    return [(row.system, row.ranks) for row in table.rows]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [row_of("d", 30), row_of("b", 10.1), row_of("c", 20), row_of("a", 10)],
            [("a", (1, 2)), ("b", (1, 2)), ("c", (3, 3)), ("d", (4, 4))],
            id="rows that cannot be told apart",
        ),
        pytest.param(
            [row_of("a", 10), row_of("b", 20, scatter=0.8)],
            [("a", (1, 2)), ("b", (1, 2))],
            id="twice as slow, but varying by more than the difference",
        ),
        pytest.param(
            [row_of("a", 10), row_of("b", 10.15), row_of("c", 10.3)],
            [("a", (1, 2)), ("b", (1, 3)), ("c", (2, 3))],
            id="only the ends of a chain can be told apart",
        ),
        pytest.param(
            [row_of("a", 20), row_of("b", 10, num_errors=1), row_of("c", None)],
            [("a", (1, 1)), ("b", None), ("c", None)],
            id="an error or a missing score, however fast",
        ),
        pytest.param(
            [row_of(name, seconds, scatter=None) for name, seconds in (("c", 30.0), ("a", 10.0), ("b", 20.0))],
            [("a", (1, 3)), ("b", (1, 3)), ("c", (1, 3))],
            id="without an error nothing can be told apart",
        ),
        pytest.param(
            [row_of(name, seconds, scatter=0.0) for name, seconds in (("a", 10.0), ("b", 10.0), ("c", 10.5))],
            [("a", (1, 2)), ("b", (1, 2)), ("c", (3, 3))],
            id="equal constants tie, different ones do not",
        ),
    ],
)
def test_ranks(rows: Sequence[Row], expected: list[tuple[str, tuple[int, int] | None]]) -> None:
    """Each row has the ranks that it may have; rows are in the order of their scores, invalid ones last."""
    assert ranks(rows) == expected


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_the_rows_does_not_matter(names: list[str]) -> None:
    """A leaderboard depends only on the set of rows."""
    rows = {"a": row_of("a", 10.0), "b": row_of("b", 10.1), "c": row_of("c", 20.0), "d": row_of("d", 20.0)}

    assert ranks([rows[name] for name in names]) == [("a", (1, 2)), ("b", (1, 2)), ("c", (3, 4)), ("d", (3, 4))]


def test_rows_by_measured_time_keep_their_ranks() -> None:
    """The rows that are not ranked come last, those without a time at the end."""
    rows = [
        row_of("lucky", 20.0, measured_seconds=9.0),
        row_of("unlucky", 10.0, measured_seconds=11.0),
        row_of("wrong", 5.0, num_errors=1),
        row_of("early", 4.0, num_errors=1),
        row_of("none", None, measured_seconds=None),
    ]
    board = by_measured_time(leaderboard("v1", "r" * 64, rows))

    assert [(row.system, row.ranks) for table in board.tables for row in table.rows] == [
        ("lucky", (2, 2)),
        ("unlucky", (1, 1)),
        ("early", None),
        ("wrong", None),
        ("none", None),
    ]


def test_tables_are_by_benchmark_and_division() -> None:
    """No row is compared across them; an empty board has none."""
    rows = [row_of("a", 20.0), row_of("b", 10.0, division="open"), row_of("c", 10.0, benchmark="other_mini")]
    board = leaderboard("v1", "r" * 64, rows)

    assert [(table.benchmark, table.division, table.rows[0].ranks) for table in board.tables] == [
        ("other_mini", "closed", (1, 1)),
        ("toy_mini", "closed", (1, 1)),
        ("toy_mini", "open", (1, 1)),
    ]
    assert leaderboard("v1", "r" * 64, []).tables == ()


def toy_ruleset(codes: dict[str, str] | None = None) -> RuleSet:
    rules = fabricate.benchmark_rules(reference_convergence=())
    return fabricate.ruleset(codes or {}, rules)


def failing(number: int) -> Rule:
    """A check that finds this many faults in every result."""

    def check(result: Any, rules: Any, ruleset: Any) -> Any:
        for i in range(number):
            yield Fault(str(result.path), i + 1, "wrong")

    return Rule("XXX001", "wrong", "result", check, "Wrong.")


def test_findings_decide_whether_a_row_is_ranked(tmp_path: Path) -> None:
    """Errors make it invalid, warnings do not; both are counted. Without a claim, the logs name the submitter."""
    result = read_result(fabricate.write_result(tmp_path / "r"))
    found = row(result, toy_ruleset(), [], Decimal(36), TODAY)
    wrong = row(result, toy_ruleset({"XXX001": "error"}), [failing(2)], None, TODAY)
    doubtful = row(result, toy_ruleset({"XXX001": "warning"}), [failing(2)], None, TODAY)

    assert (found.submitter, found.system, found.category, found.submitted) == ("acme", "box1", "", "")
    assert (found.num_errors, found.num_warnings, found.is_ranked) == (0, 0, True)
    assert found.score.usd is not None
    assert (wrong.num_errors, wrong.num_warnings, wrong.is_ranked, len(wrong.findings)) == (2, 0, False, 2)
    assert wrong.score.seconds is not None
    assert (doubtful.num_errors, doubtful.num_warnings, doubtful.is_ranked) == (0, 2, True)


def test_a_price_function_gets_the_system_description(tmp_path: Path) -> None:
    """Without a description it is not called."""
    result = read_result(fabricate.write_result(tmp_path / "r"))
    asked: list[object] = []

    def price(system: Any) -> Decimal | None:
        asked.append(system["system_name"])
        return Decimal(36)

    assert rate(result, toy_ruleset(), [], price).score.usd is not None
    assert rate(replace(result, system=None), toy_ruleset(), [], price).score.usd is None
    assert asked == ["box1"]


@pytest.fixture
def v1(monkeypatch: pytest.MonkeyPatch) -> RuleSet:
    """The toy ruleset in place of v1, and no checks."""
    found = toy_ruleset()
    monkeypatch.setattr(load, "load_ruleset", lambda folder, version: found)
    monkeypatch.setattr(registry, "checks", dict)
    return found


@pytest.mark.usefixtures("v1")
def test_command_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has every number of the score, money as text."""
    folder = fabricate.write_result(tmp_path / "r")
    status = command.run([tmp_path, folder], "v1", "json", TODAY)
    (table,) = json.loads(capsys.readouterr().out)["tables"]

    assert status == ExitStatus.OK
    assert [(item["system"], item["ranks"], item["is_valid"]) for item in table["rows"]] == [("box1", [1, 1], True)]
    assert table["rows"][0]["score"]["seconds"] == pytest.approx(7.76)


@pytest.mark.usefixtures("v1")
def test_command_shows_an_invalid_result_as_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, v1: RuleSet
) -> None:
    """The number is shown and marked, with the count of errors; a submitter's name cannot control the terminal."""
    system = {**fabricate.SYSTEM, "submitter": "ev\x1b[31mil"}
    fabricate.write_result(tmp_path / "r", system=system)
    rules = replace(v1, codes={"XXX001": "error"})
    monkeypatch.setattr(load, "load_ruleset", lambda folder, version: rules)
    monkeypatch.setattr(registry, "checks", lambda: {"XXX001": failing(3)})
    status = command.run([tmp_path], "v1", "text", TODAY)
    shown = capsys.readouterr().out

    assert status == ExitStatus.FINDINGS
    assert "not valid (7.760 s)" in shown
    assert "not valid: 3 errors" in shown
    assert "\x1b" not in shown


def test_text_says_what_may_be_concluded(tmp_path: Path) -> None:
    """What score, measured time and ranks mean, where they are shown; notes on rows that are scored otherwise."""
    paced = leaderboard("v1", "r" * 64, [row_of("a", 10), row_of("b", 10.1, measured_seconds=9.5)])
    slow = row_of("c", 10)
    slow = replace(slow, score=replace(slow.score, basis="own samples", scored_samples=4321.0))
    measured = replace(slow, score=replace(slow.score, basis="measured", division="open"))

    text = leaderboard_text(paced)
    assert " 1-2  acme       a       10.000 s " in text
    assert "10.100 s" in text
    assert " 9.500 s" in text
    assert text.endswith(f"{SCORE}\n\n{RANKS}")
    assert "c: scored with its own 4,321 samples" in leaderboard_text(leaderboard("v1", "r" * 64, [slow]))
    assert SCORE not in leaderboard_text(leaderboard("v1", "r" * 64, [measured]))
    assert RANKS not in leaderboard_text(leaderboard("v1", "r" * 64, [replace(measured, num_errors=1)]))


def test_command_lists_by_measured_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that was lucky with its samples comes first, with the ranks of the scores."""
    monkeypatch.setattr(load, "load_ruleset", lambda folder, version: fabricate.ruleset({}))
    for name, curve in (("lucky", (0.5, 0.95)), ("unlucky", (0.5, 0.8, 0.95))):
        system = {**fabricate.SYSTEM, "system_name": name}

        def change(index: int, _: Any, curve: Any = curve, system: Any = system) -> Any:
            block_s = 2.1 if len(curve) == 2 else 2.0
            return fabricate.events(index, qualities=curve, block_s=block_s + 0.01 * index, system=system)

        fabricate.write_result(tmp_path / name, change=change, system=system)
    found = {}
    for sort in (False, True):
        command.run([tmp_path], "v1", "json", TODAY, sort)
        (table,) = json.loads(capsys.readouterr().out)["tables"]
        found[sort] = [(item["system"], item["ranks"]) for item in table["rows"]]

    assert found[False] == [("unlucky", [1, 1]), ("lucky", [2, 2])]
    assert found[True] == [("lucky", [2, 2]), ("unlucky", [1, 1])]


def test_a_round_cannot_be_listed_by_measured_time(tmp_path: Path) -> None:
    """MLPerf has one score."""
    with pytest.raises(UsageError, match="leave out --sort measured"):
        command.run([fabricate.write_result(tmp_path)], "mlperf_training/5.1.0", "text", TODAY, True)


@pytest.mark.usefixtures("v1")
def test_command_says_why_there_is_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four runs are one too few."""
    status = command.run([fabricate.write_result(tmp_path / "r", num_runs=4)], "v1", "text", TODAY)

    assert status == ExitStatus.FINDINGS
    assert "no score: 4 runs found; the rules require 5" in capsys.readouterr().out


def test_command_needs_a_path() -> None:
    """No path does not mean everything."""
    with pytest.raises(UsageError):
        command.run([], "v1", "text", TODAY)


def without(*names: str) -> Any:
    """Leaves out the lines of these keys."""
    return lambda index, steps: [step for step in steps if step.key not in names]


def test_what_is_not_named_is_unknown(tmp_path: Path) -> None:
    """Submitter, system, benchmark and division; an empty text or another type is skipped in favour of the next log."""

    def blank(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        if index < 2:
            fabricate.find(steps, "submission_org").value = ("", ["acme"])[index]
        return steps

    keys = ("submission_benchmark", "submission_division", "submission_org", "submission_platform")
    silent = read_result(fabricate.write_result(tmp_path / "a", change=without(*keys)))
    partly = read_result(fabricate.write_result(tmp_path / "b", change=blank))
    unnamed, named = rate(silent, toy_ruleset(), []), rate(partly, toy_ruleset(), [])

    assert (unnamed.submitter, unnamed.system) == ("unknown", "unknown")
    assert (unnamed.score.benchmark, unnamed.score.division) == ("unknown", "unknown")
    assert (named.submitter, named.system) == ("acme", "box1")


@pytest.mark.parametrize(
    ("key", "value", "named", "why"),
    [
        ("submission_benchmark", "doom", ("doom", "closed"), "there is no benchmark 'doom' in ruleset v1"),
        ("submission_benchmark", None, ("unknown", "closed"), "the logs name no benchmark in ruleset v1"),
        ("submission_division", "doom", ("toy_mini", "doom"), "the division is 'doom'; it must be one of closed, open"),
        ("submission_division", None, ("toy_mini", "unknown"), "no division is named; it must be one of closed, open"),
    ],
)
def test_a_result_of_no_known_benchmark_or_division_is_not_ranked(
    tmp_path: Path, key: str, value: str | None, named: tuple[str, str], why: str
) -> None:
    """Its row keeps the name in the first log, or says unknown, and gives the reason."""

    def rename(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        fabricate.find(steps, key).value = value
        return steps

    change = rename if value else without(key)
    found = rate(read_result(fabricate.write_result(tmp_path, change=change)), toy_ruleset(), [])

    assert ((found.score.benchmark, found.score.division), found.score.why_not) == (named, why)
    assert (found.score.seconds, found.is_ranked) == (None, False)


def test_a_warning_that_is_waived_is_kept_and_not_counted(tmp_path: Path) -> None:
    """A note is not a warning."""
    result = read_result(fabricate.write_result(tmp_path / "r"))
    warning = Finding("AAA001", "wrong", Severity.WARNING, "a", 1, "it is wrong")
    findings = [warning, replace(warning, waived="a case"), replace(warning, severity=Severity.NOTE), warning]
    found = rate(result, toy_ruleset(), findings)

    assert (found.num_errors, found.num_warnings, found.findings) == (0, 2, tuple(findings))


def priced(usd: str, digest: str, day: str) -> PriceBook:
    price = Price("acme", "box", "here", "on_demand", Decimal(usd), None, "2025-11-01", "a list", "B")
    return PriceBook((price,), digest * 64, day)


EARLIER, LATER = priced("36", "1", "2025-01-01"), priced("72", "2", "2026-01-01")
NO_BOOK, NOT_KEPT = (
    "the logs do not name one price book",
    "the logs name the price book 333333333333…, which is not kept",
)


@pytest.mark.parametrize(
    ("named", "book"),
    [
        ((None, None, None), EARLIER),
        (("1", "1", "1"), EARLIER),
        (("2", "2", "2"), LATER),
        (("1", "2", "1"), NO_BOOK),
        (("2", "2", None), NO_BOOK),
        ((None, "2", "2"), NO_BOOK),
        (("3", "3", "3"), NOT_KEPT),
    ],
)
def test_a_result_is_priced_by_the_book_that_all_its_logs_name(
    tmp_path: Path, named: Sequence[str | None], book: PriceBook | str
) -> None:
    """By the first if none does; no other book replaces one that is not kept or that only some name.

    Of the three runs, the middle one takes 7.73 s.
    """

    def name(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        if named[index] is not None:
            fabricate.find(steps, "tta_rules").value["prices_digest"] = str(named[index]) * 64
        return steps

    books = PriceBooks((LATER, EARLIER))
    system = {**fabricate.SYSTEM, "tta_price_sku": "acme/box/here/on_demand"}
    result = read_result(fabricate.write_result(tmp_path / "r", 3, name, system))
    undescribed = replace(result, system=None)
    found, quote = cost.book_of(result, books), cost.quote_of(result, books)

    assert (cost.price_of(undescribed, books), cost.usd_per_hour(undescribed, books)) == (None, None)
    if isinstance(book, PriceBook):
        assert found is book
        assert isinstance(quote, Quote)
        assert quote.row == cost.price_of(result, books) == cost.price_of(result, book) == book.prices[0]
        assert cost.usd_per_hour(result, books) == book.prices[0].usd_per_hour
        assert isinstance(cost.quote_of(undescribed, books), NoPrice)
        three = fabricate.ruleset({}, fabricate.benchmark_rules(num_runs=3, reference_convergence=()))
        assert rate(result, three, [], books).score.usd == book.prices[0].usd_per_hour * Decimal("7.73") / 3600
        assert rate(undescribed, three, [], books).score.usd is None
    else:
        assert found == quote == NoPrice("book", book)
        assert (cost.price_of(result, books), cost.usd_per_hour(result, books)) == (None, None)
