"""What a result costs: golden rows, each worked by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.board import leaderboard
from harness.board.leaderboard import Row
from harness.cli import main
from harness.cost.price_book import Electricity, NoPrice, Price, PriceBook, PriceBooks
from harness.run.identity import Identity
from harness.run.plan import Plan
from harness.scoring.cost import bill_of, quote_of
from harness.submission import pack
from harness.submission.claim import Claim
from harness.submission.layout import BILLING_NAME
from harness.submission.result import Result, read_result
from harness.tracking import follower
from tests import fabricate
from tests.fabricate import SYSTEM
from tests.powertrace import mlperf_log


def row(usd: str, sku: str = "box", purchase: str = "on_demand", **more: Any) -> Price:
    fields = {"granularity_s": 1, "minimum_s": 60, **more}
    return Price("acme", sku, "here", purchase, Decimal(usd), None, "2025-11-01", "a price list", "B", **fields)


def books(*rows: Price) -> PriceBooks:
    return PriceBooks((PriceBook(rows, "1" * 64, "2025-01-01"),))


def result(folder: Path, sku: str | None, bill: str | None = None, nodes: str = "1") -> Result:
    """Five runs that differ a little in speed, on a system that names a price, with or without a bill."""
    system = {**SYSTEM, "number_of_nodes": nodes, **({} if sku is None else {"tta_price_sku": sku})}
    fabricate.write_result(folder, system=system)
    if bill is not None:
        (folder / BILLING_NAME).write_text(bill)
    return read_result(folder)


def scored(found: Result, prices: PriceBooks) -> Row:
    ruleset = fabricate.ruleset({}, fabricate.benchmark_rules(reference_convergence=()), prices=prices)
    return leaderboard.rate(found, ruleset, (), prices)


def test_nodes_are_billed_each_with_its_own_rounding(tmp_path: Path) -> None:
    """Two nodes for 90.5 s and one for 10 s, by the second and at least 60 s: (91 + 91 + 60) s at a cent a second."""
    bill = """\
attempts:
  - {node: a, provisioned: 2025-11-21T00:00:00Z, released: 2025-11-21T00:01:30.5Z}
  - {node: b, provisioned: 2025-11-21T00:00:00Z, released: 2025-11-21T00:01:30.5Z}
  - {node: a, provisioned: 2025-11-20T23:00:00Z, released: 2025-11-20T23:00:10Z}
"""
    found = bill_of(result(tmp_path / "r", "acme/box/here/on_demand", bill), books(row("36")))

    assert found is not None
    assert (found.seconds, found.usd, found.compute_usd) == (Decimal(242), Decimal("2.420000"), Decimal("2.420000"))


def test_ranked_cost_is_time_times_nodes_times_list_price(tmp_path: Path) -> None:
    """The mean of the runs that the time is a mean of, on four nodes at 36 USD/h: a cent a second and node, x 4."""
    score = scored(result(tmp_path / "r", "acme/box/here/on_demand", nodes="4"), books(row("36"))).score

    assert score.seconds is not None
    assert score.usd == Decimal(str(round(score.seconds * 0.04, 6)))
    kept = [run for index, run in enumerate(score.runs) if index not in score.dropped]
    assert score.usd == sum((run.usd for run in kept if run.usd is not None), Decimal(0)) / len(kept)


def test_spot_ranks_at_list(tmp_path: Path) -> None:
    """Named as spot at 9 USD/h, ranked at 36; what was paid is in the bill."""
    prices = books(row("36"), row("9", purchase="spot"))
    spot, listed = (result(tmp_path / name, f"acme/box/here/{name}") for name in ("spot", "on_demand"))

    assert scored(spot, prices).score.usd == scored(listed, prices).score.usd


def test_energy_is_not_charged_twice(tmp_path: Path) -> None:
    """3.6 MJ are a kWh: 0.30 USD at PUE 1.5 and 0.20 USD on one's own machine, apart from the hourly price.

    The price of a rented machine includes it.
    """
    power = Electricity(Decimal("0.20"), Decimal("1.5"), Decimal("0.20"))
    prices = books(row("36"), row("36", purchase="on_prem", electricity=power))

    def measured(name: str, sku: str) -> Row:
        found = result(tmp_path / name, sku)
        for log in found.runs:
            start_ms, stop_ms = int(log.one("run_start").time_ms), int(log.one("run_stop").time_ms)
            readings = [(at_ms, 3.6e9 / (stop_ms - start_ms)) for at_ms in range(start_ms, stop_ms + 100, 100)]
            mlperf_log(log.path.parent / "power" / log.path.stem / "node_0.txt", readings)
        return scored(read_result(tmp_path / name), prices)

    own, rented = measured("own", "acme/box/here/on_prem"), measured("rented", "acme/box/here/on_demand")

    assert own.score.energy_j == rented.score.energy_j == pytest.approx(3.6e6)
    assert (own.electricity_usd, rented.electricity_usd) == (Decimal("0.300000"), None)
    assert own.score.usd == rented.score.usd, "the energy is in neither"


@pytest.mark.parametrize("sku", [None, "acme/bax/here/on_demand"])
def test_an_unknown_sku_costs_null(tmp_path: Path, sku: str | None) -> None:
    """Time is scored as usual; there is no cost, not even 0."""
    found = result(tmp_path / "r", sku)
    score = scored(found, books(row("36"))).score

    assert isinstance(quote_of(found, books(row("36"))), NoPrice)
    assert score.seconds is not None
    assert score.usd is None
    assert all(run.usd is None for run in score.runs)


def test_command_line_shows_an_unknown_cost_as_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tta score --format json` of the reference's result, whose system names no price."""
    reference = Path(__file__).parents[3] / "submissions" / "reference" / "results"

    assert main(["score", str(reference), "--format", "json"]) == 0

    document = json.loads(capsys.readouterr().out)
    rows = [row for table in document["tables"] for row in table["rows"]]
    assert rows
    assert all(row["score"]["usd"] is None and row["bill"] is None for row in rows)


def test_a_run_names_the_book_in_force(tmp_path: Path) -> None:
    """The header of a log has its digest, or no such field if the ruleset has no book."""
    fields = dict.fromkeys(Plan.__dataclass_fields__, None)
    rules = fabricate.benchmark_rules()
    plan = Plan(
        **{
            **fields,
            "rules": rules,
            "ruleset": "v1",
            "system": SYSTEM,
            "hyperparameters": {},
            "data": {},
            "execution": {},
            "identity": Identity({}, {}),
        }
    )  # type: ignore[arg-type]
    header = {name: value for name, value, _ in plan.header()}
    named = {name: value for name, value, _ in replace(plan, prices_digest="1" * 64).header()}

    assert header["tta_rules"] == {"ruleset": "v1", "terms_digest": rules.terms_digest}
    assert named["tta_rules"] == {"ruleset": "v1", "terms_digest": rules.terms_digest, "prices_digest": "1" * 64}


def test_a_bill_is_placed_with_the_runs(tmp_path: Path) -> None:
    """`tta submit` copies billing.yaml and lists it in the manifest."""
    folder = fabricate.write_result(tmp_path / "r")
    (folder / BILLING_NAME).write_text("attempts: []\n")
    (tmp_path / "tree").mkdir()
    found = read_result(folder)
    claim = Claim("acme", "box1", "toy_mini", "closed", "available", "v1", found.system_sha256 or "", "2025-11-21")

    with pack.packed(tmp_path / "tree", found, claim) as staging:
        placed = read_result(staging / pack.pack_paths(claim).result)
        assert placed.manifest is not None
        assert placed.manifest[BILLING_NAME] == placed.files[BILLING_NAME].sha256


def test_the_mirror_prices_by_the_book_that_the_log_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the newest, and by none if that book is not kept."""
    first = PriceBook((row("36"),), "1" * 64, "2025-01-01")
    second = PriceBook((row("72"),), "2" * 64, "2026-01-01")
    ruleset = fabricate.ruleset({}, prices=PriceBooks((first, second)))
    monkeypatch.setattr(follower, "ruleset_called", lambda name: ruleset if name == "v1" else None)

    def book(**tags: str) -> PriceBook | None:
        return follower._prices(SimpleNamespace(ruleset="v1", tags=tags))  # type: ignore[arg-type]

    assert book() is first
    assert book(**{"tta.prices_digest": "2" * 64}) is second
    assert book(**{"tta.prices_digest": "f" * 64}) is None
