"""The table of a round: fastest first, results without a score last, each with its notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.base.stats import Estimate
from harness.board.mlperf_table import RoundRow, document, ranked, table
from harness.energy.reasons import VoidReason
from harness.mlperf.rcp import RoundVerdict
from harness.mlperf.score import RoundScore
from harness.scoring.round_energy import RoundEnergy

ROUND = Path("/r/acme/results")
PASSED = RoundVerdict("pass", "exact", "as fast as the reference", 20.0, 19.0, 16.0, 1.25)
FAILED = RoundVerdict("fail", "exact", "too fast", 20.0, 19.0, 10.0)


def row(
    system: str,
    seconds: float | None,
    code: RoundVerdict | None = None,
    num_errors: int = 0,
    claimed: float | None = None,
    benchmark: str | None = "bert",
    energy: RoundEnergy | None = None,
    **more: Any,
) -> RoundRow:
    why_not = None if seconds is not None else "2 of 5 runs have no time"
    raw = None if seconds is None else seconds / (code.factor if code else 1.0)
    score = RoundScore(benchmark, "closed", 256, (), 5, raw, seconds, why_not, code, code)
    return RoundRow(ROUND / system / "bert", score, num_errors, claimed, energy, **more)


def test_the_fastest_valid_result_is_first() -> None:
    """Then the others by time, then invalid results and those without a score; notes in the same order."""
    rows = [
        row("none", None),
        row("slow", 1200.0, PASSED, claimed=1.25),
        row("wrong", 60.0, FAILED, num_errors=2),
        row("fast", 600.0, claimed=1.5),
        row("lost", 5.0, benchmark=None),
    ]

    parts = table("mlperf_training/5.1.0", "d" * 64, rows).split("\n\n")

    assert parts[:2] == ["round mlperf_training/5.1.0 (dddddddddddd)", "?"]
    assert parts[3] == "bert"
    cells = [[cell for cell in line.split("  ") if cell] for line in parts[4].splitlines() if "acme" in line]
    assert [[cell.strip() for cell in line] for line in cells] == [
        [
            "-",
            "acme/fast",
            "closed",
            "unstated",
            "10.000",
            "600.000",
            "10.000",
            "1.0000",
            "not compared",
            "not compared",
            "0/5",
        ],
        [
            "-",
            "acme/slow",
            "closed",
            "unstated",
            "20.000",
            "1,200.000",
            "16.000",
            "1.2500",
            "pass, exact",
            "pass, exact",
            "0/5",
        ],
        ["-", "acme/none", "closed", "unstated", "none", "-", "-", "1.0000", "not compared", "not compared", "0/5"],
        [
            "-",
            "acme/wrong",
            "closed",
            "unstated",
            "not valid (1.000)",
            "60.000",
            "1.000",
            "1.0000",
            "fail, exact",
            "fail, exact",
            "0/5",
        ],
    ]
    assert parts[5].splitlines() == [
        "acme/fast: the factor 1.500000 in its scaling.json is not used",
        "acme/none: no score: 2 of 5 runs have no time",
        "acme/wrong: not valid: 2 errors; `tta check` shows them",
        "acme/wrong: convergence by MLCommons' program: fail: too fast",
        "acme/wrong: convergence by the rules' text: fail: too fast",
    ]


def close(seconds: float, **more: Any) -> RoundRow:
    """A result whose seconds are known to about one per cent, with many degrees of freedom."""
    return row(f"{seconds:g}", seconds, estimate=Estimate(seconds, ((1e-4, 1000),)), **more)


def test_results_are_ranked_as_far_as_their_runs_can_tell() -> None:
    """Among the valid ones of benchmark, division and category; an invalid one has no rank, however fast."""
    rows = [
        close(1000.0),
        close(505.0),
        close(500.0),
        close(100.0, num_errors=1),
        close(300.0, category="research"),
        close(2000.0, benchmark="ssd"),
    ]

    assert [(one.score.seconds, one.ranks) for one in ranked(rows)] == [
        (300.0, (1, 1)),
        (500.0, (1, 2)),
        (505.0, (1, 2)),
        (1000.0, (3, 3)),
        (100.0, None),
        (2000.0, (1, 1)),
    ]
    text = table("5.1.0", "d" * 64, rows)
    assert [line.split()[:2] for line in text.splitlines() if "acme/50" in line] == [
        ["1-2", "acme/500"],
        ["1-2", "acme/505"],
    ]
    assert "ranked within benchmark, division and category" in text
    best = document("5.1.0", "d" * 64, rows)["results"][2]
    assert (best["ranks"], best["category"]) == ((1, 2), "unstated")
    assert best["interval"] == rows[2].estimate.interval()  # type: ignore[union-attr]


def test_missing_values_are_null_in_json() -> None:
    """Never zero; an invalid result keeps its numbers and is marked."""
    found = document("5.1.0", "d" * 64, [row("none", None), row("wrong", 60.0, FAILED, 1), row("slow", 1200.0, PASSED)])
    none, wrong, slow = found["results"]

    absent = [none[name] for name in ("seconds", "minutes", "raw_seconds", "raw_minutes", "claimed_factor")]
    assert absent == [None] * 5
    assert none["convergence"] == {"code": None, "rules": None}
    assert (none["is_valid"], none["why_not"]) == (False, "2 of 5 runs have no time")
    assert (wrong["is_valid"], wrong["minutes"], wrong["why_not"]) == (False, 1.0, None)
    assert (slow["is_valid"], slow["minutes"], slow["raw_minutes"], slow["factor"]) == (True, 20.0, 16.0, 1.25)
    assert slow["convergence"]["code"]["max_speedup"] == 20.0 / 19.0


def test_energies_are_shown_where_power_was_logged() -> None:
    """In columns of their own, of the benchmarks that have any; what prevents them and what voids them in notes."""
    drawn = RoundEnergy(1_843_070.0, 2_222_170.0, 2_218_980.0, (VoidReason.GAP,), None, ())
    unknown = RoundEnergy(None, None, 5.0, (), "result_0.txt: has no power logs", ())
    without_score = RoundEnergy(None, None, None, (), "2 of 5 runs have no time", ())
    rows = [
        row("one", 600.0, energy=drawn),
        row("two", 700.0, energy=unknown),
        row("three", 800.0),
        row("none", None, energy=without_score),
        row("lost", 5.0, benchmark=None),
    ]

    parts = table("5.1.0", "d" * 64, rows).split("\n\n")

    assert "kJ" not in parts[2], "of a benchmark without power logs"
    cells = {
        line.split()[1]: [cell.strip() for cell in line.split("  ") if cell][-3:] for line in parts[4].splitlines()
    }
    assert cells["place"] == ["kJ published", "kJ by rule", "kJ drawn"]
    assert cells["acme/one"] == ["1,843.07", "2,222.17", "2,218.98"]
    assert cells["acme/two"] == ["-", "-", "0.01"]
    assert cells["acme/three"] == ["not measured"] * 3
    assert parts[5].splitlines() == [
        "acme/one: by tta's rules the energy would be void: gap",
        "acme/two: no energy by MLPerf's formulas: result_0.txt: has no power logs",
        "acme/none: no score: 2 of 5 runs have no time",
    ]
    assert parts[-1].startswith("kJ: means over the runs that count in the score")
    assert "kJ" not in table("5.1.0", "d" * 64, rows[2:3])


def test_energies_are_in_json() -> None:
    """In joules; null where nothing was metered."""
    drawn = RoundEnergy(1.5, None, 2.5, (VoidReason.GAP,), "why", ())
    metered, bare = document("5.1.0", "d" * 64, [row("one", 600.0, energy=drawn), row("two", 700.0)])["results"]

    assert metered["energy"] == {"published_j": 1.5, "rule_j": None, "drawn_j": 2.5, "why_not": "why", "void": ["gap"]}
    assert bare["energy"] is None
