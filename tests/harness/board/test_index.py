"""Submission trees for the board's tests, and a test that they contain what those tests assume."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.board import leaderboard
from harness.board.index import Board, log_header, read_board
from harness.board.leaderboard import Leaderboard, Row
from harness.cost.price_book import Electricity, Price, PriceBook, PriceBooks
from harness.findings import Fault, Rule
from harness.log import run_log
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, ReferenceConvergence, RuleSet
from harness.submission.result import Result
from harness.workload import Metric
from tests import fabricate
from tests.fabricate import Step

TODAY = date(2026, 11, 21)
SKU = "cloud/big-node/here/on_demand"
LONG = ("Nordlicht-Rechenzentrum_und_Supercomputing", "sixteen-node-liquid-cooled-development-cluster-rev-B")
HOSTILE = '<script>alert("x")</script>'
SPEECH = fabricate.benchmark_rules(
    workload="speech",
    suite="standard",
    metric=Metric("word_error_rate", "fraction", "min"),
    target=0.12,
    reference_convergence=(),
    baselines={"always_silence": 1.0},
    permits_resume=True,
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
    """A check for the tests: every run must have stopped with success."""
    stop = log.first("run_stop")
    if stop is None or stop.metadata.get("status") != "success":
        line = None if stop is None else stop.lineno
        yield Fault(str(log.path), line, f"{log.path}: the run did not stop in success; every run must")


def check_batch(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    """A check for the tests: a batch size of 200 deserves a look."""
    batch = log.first("global_batch_size")
    if batch is not None and batch.value == 200:
        yield Fault(str(log.path), batch.lineno, "the batch size is 200; a person should look at it")


RULES = {
    "TST001": Rule("TST001", "run_without_success", "log", check_success, DOCUMENT),
    "TST002": Rule("TST002", "large_batch", "log", check_batch, "A batch size that deserves a look.\n\nNothing more."),
}


def ruleset(**changes: Any) -> RuleSet:
    """`toy_mini` (higher is better), `speech_standard` (lower is better) and one without results, under two checks."""
    rules = [TOY, SPEECH, fabricate.benchmark_rules(workload="empty")]
    codes = changes.pop("codes", {"TST001": "error", "TST002": "warning"})
    fields = {"benchmarks": {item.name: item for item in rules}, "prices": PriceBooks((prices(),)), **changes}
    return fabricate.ruleset(codes, **fields)


def prices() -> PriceBook:
    """A big node at 36 USD per hour, a cent per second; a third of that as spot; a small node, an on-premises one."""
    fields: dict[str, Any] = {"granularity_s": 1, "minimum_s": 60}

    def price(sku: str, purchase: str, usd: str, **more: Any) -> Price:
        return Price(
            "cloud", sku, "here", purchase, Decimal(usd), None, "2026-10-01", "a price list", "A", **{**fields, **more}
        )

    wall = Electricity(Decimal("0.30"), Decimal("1.2"), Decimal("0.30"))
    rows = (
        price("big-node", "on_demand", "36"),
        price("big-node", "spot", "12"),
        price("small-node", "on_demand", "9.5"),
        price("cellar", "on_prem", "4.25", electricity=wall),
    )
    return PriceBook(rows, "p" * 64, "2026-01-01")


def board_of(tree: Path, under: RuleSet | None = None, rules: Mapping[str, Rule] | None = None) -> Board:
    """The board of the tree under the tests' ruleset."""
    under, rules = under or ruleset(), RULES if rules is None else rules
    books = under.prices

    def rate(result: Result) -> Row:
        return leaderboard.row(result, under, rules.values(), books, TODAY)

    def rank(rows: Iterable[Row]) -> Leaderboard:
        return leaderboard.leaderboard(under.version, under.digest, list(rows))

    return read_board(tree, under, rules, books, rate, rank)


def submit(
    tree: Path,
    submitter: str = "acme",
    system: str = "box1",
    rules: BenchmarkRules = TOY,
    *,
    division: str = "closed",
    block_s: float = 2.0,
    curve: tuple[float, ...] = (0.5, 0.8, 0.95),
    power: str | None = None,
    watts: float = 300.0,
    damage: Callable[[str], str] | None = None,
    billing: str | None = None,
    sku: str | None = None,
    notes: str = "",
    submitted: str = "2026-11-20",
    num_runs: int = 5,
    change: Callable[[int, list[Step]], list[Step]] | None = None,
    folder: str | None = None,
    batch_size: int = 100,
    spread: float = 0.012,
) -> Path:
    """Writes a submission whose runs differ slightly in speed and curve; returns the result's folder.

    power: which of `fabricate.meters` its node has; each reads about `watts` during training, four fifths of that
    during evaluation and a quarter when idle. damage: applied to the text of each power log.
    """
    description = {**fabricate.SYSTEM, "submitter": submitter, "system_name": system, "division": division}
    description["host_networking_topology"] = f"as of {system}"  # systems of other names are others
    if sku is not None:
        description["tta_price_sku"] = sku
    runs: list[list[Step]] = []

    def make(index: int, _: list[Step]) -> list[Step]:
        steps = fabricate.events(
            index,
            rules=rules,
            qualities=[quality + 0.002 * index for quality in curve],
            block_s=block_s * (1 + spread * ((index * 7) % 5) ** 1.5 / 4),
            eval_s=block_s / 5,
            system=description,
            division=division,
            batch_size=batch_size,
            mono_ns=None if power is None else fabricate.MONO_NS + 60_000_000_000 * index,
        )
        runs.append(change(index, steps) if change else steps)
        return runs[-1]

    claim = {"submitted": submitted, "notes": notes}
    place = fabricate.write_submission(tree, num_runs, make, description, claim, rules, division=division)
    if folder is not None:
        home = (tree / submitter).rename(tree / folder)
        place = home / "results" / system / rules.name
    if power is not None:
        for index, steps in enumerate(runs):
            wall_start_ms = fabricate.WALL_START_MS + 60_000 * index
            text = fabricate.power_text(
                fabricate.find(steps, "run_start").at_s,
                fabricate.find(steps, "run_stop").at_s,
                fabricate.meters(power),
                run_id=fabricate.find(steps, "tta_format").value["run_id"],
                mono_ns=fabricate.find(steps, "tta_clock").value["mono_ns"],
                wall_start_ms=wall_start_ms,
                watts=power_curve(steps, watts * (1 + 0.01 * index)),
            )
            log = place / "power" / f"result_{index}" / "node_0.txt"
            log.parent.mkdir(parents=True)
            log.write_text(damage(text) if damage else text)
            fabricate.restate_energy(place / f"result_{index}.txt", steps, wall_start_ms)
        idle = fabricate.power_text(-70.0, -10.0, fabricate.meters(power), watts=lambda at_s: watts / 4)
        (place / "power" / "idle").mkdir()
        (place / "power" / "idle" / "node_0.txt").write_text(idle)
    if billing is not None:
        (place / "billing.yaml").write_text(billing)
    fabricate.reseal(place)
    return place


def power_curve(steps: list[Step], watts: float) -> Callable[[float], float]:
    """Watts over time: full during a block, less during an evaluation, little otherwise; with a slow ripple."""
    spans = [
        (start.at_s, stop.at_s, share)
        for name, share in (("block", 1.0), ("eval", 0.8))
        for start, stop in zip(
            [step for step in steps if step.key == f"{name}_start"],
            [step for step in steps if step.key == f"{name}_stop"],
            strict=True,
        )
    ]

    def at(at_s: float) -> float:
        share = next((share for from_s, to_s, share in spans if from_s <= at_s < to_s), 0.3)
        return watts * share * (1 + 0.02 * math.sin(5 * at_s))

    return at


def gap(text: str) -> str:
    """A power log without its readings from the 30th to the 60th."""
    lines = text.splitlines(keepends=True)
    readings = [number for number, line in enumerate(lines) if '"seq": ' in line]
    lost = set(readings[30:60])
    return "".join(line for number, line in enumerate(lines) if number not in lost)


def give_up(index: int, steps: list[Step]) -> list[Step]:
    """All runs exhaust their budget."""
    fabricate.find(steps, "run_stop").metadata.update(status="aborted", reason="budget")
    return steps


def abort(index: int, steps: list[Step]) -> list[Step]:
    """Runs 1 and 2 exhaust their budget."""
    return give_up(index, steps) if index in (1, 2) else steps


def rich_tree(tree: Path) -> Path:
    """Two benchmarks: close and distant ranks, every way to be scored, invalid, hostile and unreadable results."""
    tree.mkdir(parents=True, exist_ok=True)
    submit(tree, "acme", "box1", power="node", watts=560.0, sku=SKU, notes="First light.\nTwo fans at full speed.")
    submit(tree, "acme", "box2", block_s=2.004, power="model", watts=520.0)
    submit(
        tree,
        *LONG,
        block_s=0.61,
        spread=0.004,
        power="node",
        watts=25_000.0,
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
        power="node",
        watts=0.0,
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
    curve = (0.41, 0.22, 0.15, 0.11)
    submit(tree, "acme", "box1-speech", SPEECH, block_s=31.0, curve=curve, power="node", watts=8_000.0)
    submit(tree, "tiny-lab", "laptop-speech", SPEECH, block_s=190.0, curve=curve)
    broken = tree / "tiny-lab" / "results" / "laptop" / "unheard_of"
    broken.mkdir()
    (broken / "result_0.txt").write_text("not a log\n")
    return tree


BILL = """\
purchase: spot
interruptions: 2
attempts:
  - {node: n0, provisioned: 2025-11-21T00:00:00Z, released: 2025-11-21T01:10:00Z}
  - {node: n0, provisioned: 2025-11-21T02:00:00Z, released: 2025-11-21T02:30:00.5Z}
notes: one run was lost with its machine
"""


def energy_tree(tree: Path) -> Path:
    """Results of one benchmark that differ in energy and cost: metered in every way or not at all and priced."""
    tree.mkdir(parents=True, exist_ok=True)
    own = "cloud/cellar/here/on_prem"
    small = "cloud/small-node/here/on_demand"
    submit(tree, "acme", "wall-a", power="wall", watts=560.0, sku=SKU, billing=BILL)
    submit(tree, "acme", "bmc-b", power="node", watts=330.0, block_s=3.0, sku=small)
    submit(tree, "birch", "bmc-tied", power="node", watts=332.0, block_s=3.01, sku=small)
    submit(tree, "birch", "cellar", power="wall", watts=700.0, block_s=4.1, sku=own)
    submit(tree, "acme", "counters", power="counters", watts=210.0, block_s=2.2, sku=SKU)
    submit(tree, "elm", "counters-slow", power="counters", watts=105.0, block_s=4.4)
    submit(tree, "elm", "sampled", power="sampled", watts=250.0, block_s=2.6, sku="cloud/big-node/here/spot")
    submit(tree, "elm", "modelled", power="model", watts=150.0, sku="cloud/no-such/here/on_demand")
    submit(tree, "fir", "with-a-gap", power="node", watts=300.0, block_s=4.0, damage=gap, sku=small)
    submit(tree, "fir", "not-metered", block_s=1.9, sku=SKU)
    submit(tree, "fir", "missed", power="node", watts=500.0, curve=(0.4, 0.6, 0.7, 0.75), sku=small, change=give_up)
    return tree


def escaped(text: str) -> str:
    """The text as the pages write it."""
    return html.escape(text, quote=True).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def test_the_rich_tree_has_every_kind_of_row(tmp_path: Path) -> None:
    """It has ranked, invalid, unscored, estimated, unmeasured, priced and unpriced rows, and a result in no table."""
    board = board_of(rich_tree(tmp_path / "tree"))

    rows = [row for table in board.leaderboard.tables for row in table.rows]
    assert sum(row.is_ranked for row in rows) >= 6
    assert any(row.num_errors for row in rows)
    assert any(row.num_errors == 0 and row.score.seconds is None for row in rows)
    assert any(row.num_warnings for row in rows)
    assert any(row.ranks is not None and row.ranks[0] < row.ranks[1] for row in rows)
    assert {row.score.basis for row in rows} == {"pace", "own samples", "measured"}
    assert {row.score.energy_source for row in rows} == {"measured", "estimated", "none"}
    assert any(row.score.energy_j == 0.0 for row in rows)
    assert {row.score.usd is None for row in rows} == {True, False}
    assert [item.place for item in board.not_placed] == ["tiny-lab/results/laptop/unheard_of"]


def test_header_of_a_job_names_it_with_image_and_nodes(tmp_path: Path) -> None:
    """What a scheduler's job says of itself is on the result's page."""
    launcher = {"kind": "slurm", "job": "17", "version": "slurm-wlm 22.05.8", "image": "sha256:ab"}
    launch = {"launcher": launcher, "nodes": [{"node": 0, "name": "n1"}, {"node": 1, "name": "n2"}]}
    steps = [Step(0.0, "tta_launch", launch), *fabricate.events(num_nodes=2)]

    facts = dict(log_header(run_log.read(fabricate.write_log(tmp_path / "result_0.txt", steps))).facts)

    assert all(word in facts["launcher"] for word in ("slurm", "17", "22.05.8", "sha256:ab"))
    assert all(name in facts["nodes"] for name in ("n1", "n2"))


def test_header_names_the_network(tmp_path: Path) -> None:
    """On the result's page, and when two results are compared; one from before it was logged has none."""
    rules = fabricate.benchmark_rules(replay_steps=3)
    plain, named = (
        log_header(run_log.read(fabricate.write_log(tmp_path / f"result_{number}.txt", steps)))
        for number, steps in enumerate((fabricate.events(), fabricate.events(rules=rules)))
    )

    assert dict(named.facts)["network"] == named.network
    assert named.network == "78,010 parameters a1a1a1a1a1a1…, with their operators b2b2b2b2b2b2…"
    assert plain.network is None
    assert "network" not in dict(plain.facts)
