"""Trees of submissions made up for the board's tests, and that they are what those tests take them for."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from harness import ranking
from harness.board.index import Board, read_board
from harness.findings import Fault, Rule
from harness.prices import Price, PriceBook
from harness.ruleset import BenchmarkRules, ReferenceConvergence, RuleSet
from harness.runlog import RunLog
from harness.scoring import Leaderboard, Row
from harness.submission import CLAIM_NAME, MANIFEST_NAME, FileEntry, Result, manifest_text, sha256_of
from harness.workload import Metric
from tests import fabricate
from tests.fabricate import Step

TODAY = date(2026, 11, 21)
SKU = "cloud/big-node/here/on_demand"
HOSTILE = '<script>alert("x")</script>'
SPEECH = fabricate.benchmark_rules(
    workload="speech",
    suite="standard",
    metric=Metric("word_error_rate", "fraction", "min"),
    target=0.12,
    reference_convergence=(),
    baselines={"always_silence": 1.0},
)
TOY = fabricate.benchmark_rules(
    baselines={"majority_class": 0.1, "nearest_neighbour": 0.55},
    reference_convergence=(ReferenceConvergence(100, tuple(3000 if index % 4 else 4000 for index in range(20))),),
)
DOCUMENT = f"""The target was not reached often enough.

## What it does
Counts the runs whose `status` is not *success* & says so {HOSTILE}.

## Example
```
run_stop  status: aborted
```

- [a link](javascript:alert(1)) stays letters
"""


def check_success(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    """A check of the tests' own: every run must have stopped in success."""
    stop = log.first("run_stop")
    if stop is None or stop.metadata.get("status") != "success":
        line = None if stop is None else stop.lineno
        yield Fault(str(log.path), line, f"{log.path}: the run did not stop in success; every run must")


def check_batch(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    """A check of the tests' own: a batch size of 200 deserves a look."""
    batch = log.first("global_batch_size")
    if batch is not None and batch.value == 200:
        yield Fault(str(log.path), batch.lineno, "the batch size is 200; a person should look at it")


RULES = {
    "TST001": Rule("TST001", "run_without_success", "log", check_success, DOCUMENT),
    "TST002": Rule("TST002", "large_batch", "log", check_batch, "A batch size that deserves a look.\n\nNothing more."),
}


def ruleset(**changes: Any) -> RuleSet:
    """`toy_mini` (more is better), `speech_standard` (less is better) and one without results, under two checks."""
    rules = [TOY, SPEECH, fabricate.benchmark_rules(workload="empty")]
    codes = changes.pop("codes", {"TST001": "error", "TST002": "warning"})
    return fabricate.ruleset(codes, **{"benchmarks": {item.name: item for item in rules}, **changes})


def prices() -> PriceBook:
    """One price: 36 US dollars an hour, a cent a second."""
    price = Price("cloud", "big-node", "here", "on_demand", Decimal(36), None, "2026-10-01", "a price list", "A")
    return PriceBook((price,), "p" * 64)


def board_of(tree: Path, law: RuleSet | None = None, rules: Mapping[str, Rule] | None = None) -> Board:
    """The tree under the tests' rules."""
    law, rules, book = law or ruleset(), RULES if rules is None else rules, prices()

    def rate(result: Result) -> Row:
        return ranking.row(result, law, rules.values(), book.usd_per_hour, TODAY)

    def rank(rows: Iterable[Row]) -> Leaderboard:
        return ranking.leaderboard(law.version, law.digest, list(rows))

    return read_board(tree, law, rules, book, rate, rank)


def submit(
    tree: Path,
    submitter: str = "acme",
    system: str = "box1",
    rules: BenchmarkRules = TOY,
    *,
    division: str = "closed",
    block_s: float = 2.0,
    curve: tuple[float, ...] = (0.5, 0.8, 0.95),
    energy_j: float | None = None,
    energy_source: str = "measured",
    sku: str | None = None,
    notes: str = "",
    submitted: str = "2026-11-20",
    num_runs: int = 5,
    change: Callable[[int, list[Step]], list[Step]] | None = None,
    folder: str | None = None,
    batch_size: int = 100,
    spread: float = 0.012,
) -> Path:
    """A submission in the tree's shape, its runs a little apart in speed and curve; returns the result's folder."""
    description = {**fabricate.SYSTEM, "submitter": submitter, "system_name": system, "division": division}
    if sku is not None:
        description["tta_price_sku"] = sku
    home = tree / (folder or submitter)
    place = home / "results" / system / rules.name
    place.mkdir(parents=True)
    for index in range(num_runs):
        steps = fabricate.events(
            index,
            rules=rules,
            qualities=[quality + 0.002 * index for quality in curve],
            block_s=block_s * (1 + spread * ((index * 7) % 5) ** 1.5 / 4),
            eval_s=block_s / 5,
            system=description,
            division=division,
            batch_size=batch_size,
        )
        if energy_j is not None:
            joules = energy_j * (1 + 0.01 * index)
            fabricate.find(steps, "tta_energy").value = {"energy_j": joules, "source": energy_source, "meter": "m"}
        steps = change(index, steps) if change else steps
        fabricate.write_log(place / f"result_{index}.txt", steps, fabricate.WALL_START_MS + 60_000 * index)
    (home / "systems").mkdir(parents=True, exist_ok=True)
    system_path = home / "systems" / f"{system}.json"
    system_path.write_text(json.dumps(description))
    claim = {
        "submitter": submitter,
        "system": system,
        "benchmark": rules.name,
        "division": division,
        "category": "available",
        "ruleset": "v1",
        "system_sha256": sha256_of(system_path),
        "submitted": submitted,
        "notes": notes,
    }
    (place / CLAIM_NAME).write_text(yaml.safe_dump(claim, allow_unicode=True))
    files = {path.name: FileEntry("file", 0, sha256_of(path)) for path in place.iterdir()}
    (place / MANIFEST_NAME).write_text(manifest_text(files))
    return place


def abort(index: int, steps: list[Step]) -> list[Step]:
    """Runs 1 and 2 run out of their budget."""
    if index in (1, 2):
        fabricate.find(steps, "run_stop").metadata.update(status="aborted", reason="budget")
    return steps


def rich_tree(tree: Path) -> Path:
    """Several submitters on two benchmarks: ranked close and far, normalised, invalid, hostile, not readable."""
    tree.mkdir(parents=True, exist_ok=True)
    submit(tree, "acme", "box1", energy_j=4200.0, sku=SKU, notes="First light.\nTwo fans at full speed.")
    submit(tree, "acme", "box2", block_s=2.004, energy_j=3900.0, energy_source="estimated")
    submit(
        tree,
        "Nordlicht-Rechenzentrum_und_Supercomputing",
        "sixteen-node-liquid-cooled-development-cluster-rev-B",
        block_s=0.61,
        spread=0.004,
        energy_j=61_000.0,
        sku=SKU,
        batch_size=200,
        curve=(0.62, 0.85, 0.93),
    )
    submit(
        tree,
        "tiny-lab",
        "workstation.7",
        block_s=7.7,
        spread=0.03,
        curve=(0.31, 0.52, 0.66, 0.74, 0.81, 0.86, 0.888, 0.904),
        energy_j=0.0,
        sku=SKU,
    )
    submit(tree, "tiny-lab", "laptop", change=abort, submitted="2026-11-12")
    submit(tree, "acme", "box1-short", num_runs=3)
    submit(tree, "acme", "box9", division="open", block_s=1.4, curve=(0.6, 0.94))
    submit(
        tree,
        HOSTILE.replace("/", "%2F"),
        "+1+cmd",
        block_s=3.1,
        spread=0.021,
        curve=(0.4, 0.7, 0.96),
        folder="evil",
        notes=f"{HOSTILE}\njavascript:alert(1) \u202etxt.exe\x1b[31m",
        submitted="=1+1",
    )
    submit(tree, "acme", "box1-speech", SPEECH, block_s=31.0, curve=(0.41, 0.22, 0.15, 0.11), energy_j=1.2e6)
    submit(tree, "tiny-lab", "laptop-speech", SPEECH, block_s=190.0, curve=(0.41, 0.22, 0.15, 0.11))
    broken = tree / "tiny-lab" / "results" / "laptop" / "unheard_of"
    broken.mkdir()
    (broken / "result_0.txt").write_text("nothing of ours\n")
    return tree


def escaped(text: str) -> str:
    """The text as the pages write it."""
    return html.escape(text, quote=True).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def test_the_rich_tree_has_every_kind_of_row(tmp_path: Path) -> None:
    """Ranked, invalid, unscored, estimated, unmeasured, priced, unpriced and not placed all occur in it."""
    board = board_of(rich_tree(tmp_path / "tree"))

    rows = [row for table in board.leaderboard.tables for row in table.rows]
    assert sum(row.is_ranked for row in rows) >= 6
    assert any(row.num_errors for row in rows)
    assert any(row.num_errors == 0 and row.score.seconds is None for row in rows)
    assert any(row.num_warnings for row in rows)
    assert len({row.band for row in rows if row.is_ranked and row.score.benchmark == TOY.name}) < 5  # some share one
    assert {row.score.energy_source for row in rows} == {"measured", "estimated", "none"}
    assert any(row.score.energy_j == 0.0 for row in rows)
    assert {row.score.usd is None for row in rows} == {True, False}
    assert [item.place for item in board.not_placed] == ["tiny-lab/results/laptop/unheard_of"]
