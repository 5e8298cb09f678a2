"""Two results held against each other: which numbers are tested, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from harness.base.stats import Estimate, p_equal
from harness.board.compare import (
    MAX_POINTS,
    Amount,
    Curve,
    Side,
    compare,
    comparison_document,
    comparison_text,
    curve_points,
    data_script,
    median_run,
    p_words,
    settings_of,
    side_of,
)
from harness.board.index import Board
from harness.errors import UsageError
from tests.harness.board.test_index import board_of, energy_tree, rich_tree

NOISE = ((1e-4, 4),)


def _amount(value: float | None, group: str | None = "score", name: str = "score", note: str = "") -> Amount:
    errors = NOISE if value is not None else ()
    return Amount(name, "s", value, None, errors, group, note)


def _side(seconds: float | None = 100.0, **changes: object) -> Side:
    fields: dict[str, object] = {
        "place": f"at {seconds}",
        "submitter": "acme",
        "system": "box",
        "ruleset": "v1",
        "benchmark": "toy_mini",
        "division": "closed",
        "num_errors": 0,
        "why_not": None,
        "amounts": (_amount(seconds),),
        "phases": {"train": 90.0, "eval": 10.0},
        "settings": {"lr": "0.1", "devices": "1"},
        "quality": "accuracy",
        "target": 0.9,
        "limits": (0.0, 1.0),
        "curves": (Curve("result_0.txt", True, ((50.0, 0.5), (100.0, 0.95))),),
    }
    return Side(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_difference_is_judged_by_the_test_that_makes_the_ranks() -> None:
    """10 % at 1 % of noise is significant, 1 % is not; the interval is that of the ratio."""
    [far], [near] = (compare(_side(100.0), _side(other)).lines for other in (110.0, 101.0))

    assert far.p == p_equal(Estimate(100.0, NOISE), Estimate(110.0, NOISE))
    assert far.ratio == pytest.approx(1 / 1.1)
    assert far.interval is not None
    assert far.interval[1] < 1
    assert far.verdict == "significant: A is 9.1 % lower"
    assert compare(_side(110.0), _side(100.0)).lines[0].verdict == "significant: B is 9.1 % lower"
    assert near.p is not None
    assert near.p > 0.05
    assert near.verdict == "not significant: the runs cannot tell them apart"
    document = comparison_document(compare(_side(100.0), _side(110.0)))
    assert document["lines"][0]["is_significant"] is True


def test_without_an_error_there_is_no_interval() -> None:
    """One run says nothing of its scatter: no difference is significant."""
    sides = [_side(amounts=(replace(_amount(seconds), errors=()),)) for seconds in (100.0, 200.0)]
    [line] = compare(sides[0], sides[1]).lines

    assert (line.interval, line.p) == (None, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (
            _amount(1.0, "0 node", note="class A"),
            _amount(2.0, "1 gpu", note="class C"),
            "not compared: class A; class C",
        ),
        (_amount(1.0, "0 node", note="class A"), _amount(2.0, None, note="estimated"), "estimated"),
        (_amount(None, None, note="not measured"), _amount(2.0, None, note="void"), "not measured; void"),
        (_amount(1.0, None), _amount(2.0, None), "not compared"),
        (_amount(0.0), _amount(2.0), "not compared"),
    ],
)
def test_amounts_that_may_not_be_compared_are_shown_and_not_tested(a: Amount, b: Amount, verdict: str) -> None:
    """Energies of different scopes, void and estimated ones, amounts that are missing or have no logarithm."""
    [line] = compare(_side(amounts=(a,)), _side(amounts=(b,))).lines

    assert (line.p, line.verdict) == (None, verdict)
    assert comparison_document(compare(_side(amounts=(a,)), _side(amounts=(b,))))["lines"][0]["is_significant"] is None


def test_an_amount_that_neither_has_is_no_line() -> None:
    """Two results without meters have nothing to say of energy."""
    side = _side(amounts=(_amount(1.0), _amount(None, None, "energy")))

    assert [line.a.name for line in compare(side, side).lines] == ["score"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ruleset": "v2"}, "their rulesets are v1 and v2"),
        ({"benchmark": "other_mini"}, "their benchmarks are toy_mini and other_mini"),
        ({"division": "open"}, "their divisions are closed and open"),
        ({"why_not": "3 runs found; the rules require 5"}, "at 100.0 cannot be compared: no score: 3 runs found"),
    ],
)
def test_what_cannot_be_compared_is_refused(change: dict[str, str], words: str) -> None:
    """With the place and the reason."""
    with pytest.raises(UsageError, match=words):
        compare(_side(), _side(**change))


def test_settings_that_differ_are_named() -> None:
    """Those that only one side has, too; the others are counted."""
    found = compare(_side(), _side(settings={"lr": "0.2", "devices": "1", "warmup": "3"}))

    assert found.settings == (("lr", "0.1", "0.2"), ("warmup", None, "3"))
    assert found.num_equal_settings == 1
    assert settings_of({"seed": 1, "module": None, "hyperparameters": {"lr": 0.1}, "execution": "odd"}) == {
        "lr": "0.1",
        "own module": "none",
    }


def test_the_text_has_every_part() -> None:
    """Numbers, phases, settings, and the curves of the median runs on one time axis."""
    slow = (Curve("result_0.txt", True, ((100.0, 0.5), (200.0, 0.95))),)
    text = comparison_text(
        compare(_side(100.0, num_errors=2), _side(200.0, settings={}, phases={"train": 180.0}, curves=slow))
    )

    for words in (
        "A: acme, box (at 100.0); not valid: 2 errors",
        "score  100.00 s  200.00 s  0.5000",
        "< 0.0001  significant: A is 50 % lower",
        "eval   10.000 s          -",
        "lr       0.1  -",
        "0 settings equal",
        "                 33.333                -       -",
        "200.00  ended at 0.9500  0.9500",
    ):
        assert words in text, text
    short = comparison_text(compare(_side(amounts=(_amount(None, None, note="void"),), phases={}, curves=()), _side()))
    assert "median run" not in short
    assert "void" in short
    without = _side(curves=(Curve("result_0.txt", False, ()),), phases={})
    assert "accuracy of the median run" in comparison_text(compare(without, without))
    assert "median run" not in comparison_text(compare(_side(), _side(position="epochs")))


def test_the_median_run_is_the_middle_one_by_its_end() -> None:
    """Of an even number the faster; a run without an evaluation is the slowest."""
    runs = [Curve(name, True, ((end, 0.9),)) for name, end in (("c", 3.0), ("a", 1.0), ("b", 2.0))]

    assert median_run(runs).name == "b"
    assert median_run([*runs[:2], Curve("d", False, ())]).name == "c"
    assert median_run(runs[:2]).name == "a"
    assert p_words(0.01234) == "0.0123"


def test_a_curve_is_thinned_for_its_chart() -> None:
    """Long ones to sixty points with both ends."""
    points = curve_points([(index / 3, math.sin(index)) for index in range(1000)])

    assert len(points) == MAX_POINTS
    assert points[0] == (0.0, 0.0)
    assert points[-1][0] == 333.0


def test_a_script_hands_the_side_to_its_page() -> None:
    """It is a call with JSON, whatever the texts are."""
    script = data_script("a-b", _side(submitter="</script>\u2028'\"\\"))

    assert script.startswith(b'tta.take("a-b", {')
    document = json.loads(script.removeprefix(b'tta.take("a-b", ').removesuffix(b");\n"))
    assert document["submitter"] == "</script>\u2028'\"\\"
    assert script.isascii()


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    folder = tmp_path_factory.mktemp("compare")
    return [board_of(rich_tree(folder / "rich")), board_of(energy_tree(folder / "energy"))]


def test_the_side_of_a_result_has_the_numbers_of_its_row(boards: list[Board]) -> None:
    """Of every kind of row: metered, void, estimated, unmeasured, priced and without a score."""
    notes = set()
    for board in boards:
        for entry in board.entries.values():
            side = side_of(entry.row, entry.logs[0], board.ruleset)
            amounts = {amount.name: amount for amount in side.amounts}
            score = entry.row.score
            assert amounts["score"].value == score.seconds
            assert (amounts["energy"].group is None) == (score.energy is None or not score.energy.may_rank)
            assert amounts["cost"].value == (None if score.usd is None else float(score.usd))
            assert (side.why_not is None) == (score.seconds is not None)
            assert len(side.curves) == len(score.runs)
            notes.add(amounts["energy"].note.partition(":")[0].partition(",")[0])
            if score.seconds is not None:
                counted = [run for index, run in enumerate(score.runs) if index not in score.left_out]
                mean_s = math.fsum(run.ledger["train"] for run in counted) / len(counted)
                assert side.phases["train"] == pytest.approx(mean_s)
    assert {"not measured", "estimated", "void", "class A", "class B", "class C", "class D"} <= notes


def test_networks_are_compared_as_settings_are(boards: list[Board]) -> None:
    """Of a log that has none, and of a result without a log, nothing is said of it."""
    entry = next(iter(boards[0].entries.values()))
    named = side_of(entry.row, replace(entry.logs[0], network="78,010 parameters"), boards[0].ruleset)
    plain = side_of(entry.row, replace(entry.logs[0], network=None), boards[0].ruleset)

    assert named.settings == {**plain.settings, "network": "78,010 parameters"}
    assert side_of(entry.row, None, boards[0].ruleset).settings == {}
