"""Test 15 of the plan: cost by golden rows, each worked by hand."""

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
from harness.cost.money import billed_seconds, cost_usd
from harness.cost.ownership import read_ownership
from harness.cost.price_book import Electricity, NoPrice, Price, PriceBook, PriceBooks
from harness.errors import RulesError
from harness.ruleset import load
from harness.run.plan import Plan
from harness.scoring.cost import bill_of, book_of, quote_of
from harness.submission import pack
from harness.submission.claim import Claim
from harness.submission.layout import BILLING_NAME
from harness.submission.result import Result, read_result
from harness.tracking import follower
from tests import fabricate
from tests.fabricate import SYSTEM, Step, find
from tests.powertrace import mlperf_log

V1 = Path(__file__).parents[3] / "rules" / "v1"


def row(usd: str, sku: str = "box", purchase: str = "on_demand", **more: Any) -> Price:
    fields = {"granularity_s": 1, "minimum_s": 60, **more}
    return Price("acme", sku, "here", purchase, Decimal(usd), None, "2025-11-01", "a price list", "B", **fields)


def result(folder: Path, sku: str | None, book: str | None = None, bill: str | None = None, nodes: str = "1") -> Result:
    """Five runs that differ a little in speed, on a system that names a price, with or without a bill."""
    system = {**SYSTEM, "number_of_nodes": nodes, **({} if sku is None else {"tta_price_sku": sku})}

    def name(_: int, steps: list[Step]) -> list[Step]:
        if book is not None:
            find(steps, "tta_rules").value["prices_digest"] = book
        return steps

    fabricate.write_result(folder, change=name, system=system)
    if bill is not None:
        (folder / BILLING_NAME).write_text(bill)
    return read_result(folder)


def scored(found: Result, books: PriceBooks) -> Row:
    ruleset = fabricate.ruleset({}, fabricate.benchmark_rules(reference_convergence=()), prices=books)
    return leaderboard.rate(found, ruleset, (), books)


@pytest.mark.parametrize(
    ("used_s", "granularity_s", "minimum_s", "usd_per_hour", "usd"),
    [
        # AWS and Google: by the second, at least a minute. 55.04 x 60 / 3600.
        pytest.param("0.5", 1, 60, "55.04", "0.917333", id="the minimum of 60 s"),
        pytest.param("60", 1, 60, "55.04", "0.917333", id="exactly the minimum"),
        # 61 s: 55.04 x 61 / 3600 = 0.9326222
        pytest.param("60.000001", 1, 60, "55.04", "0.932622", id="a second more, by the second"),
        # CoreWeave: by the minute, no minimum. 49.24 x 60 / 3600 = 0.8206667; 49.24 x 120 / 3600 = 1.6413333
        pytest.param("60", 60, 0, "49.24", "0.820667", id="exactly a minute"),
        pytest.param("60.1", 60, 0, "49.24", "1.641333", id="the second minute is begun"),
        pytest.param("0", 60, 0, "49.24", "0.000000", id="nothing"),
    ],
)
def test_15_billing_rounds_up_to_the_granularity_and_the_minimum(
    used_s: str, granularity_s: int, minimum_s: int, usd_per_hour: str, usd: str
) -> None:
    """Per-second and per-minute rounding, and the minimum."""
    billed = billed_seconds(Decimal(used_s), granularity_s, minimum_s)

    assert str(cost_usd(float(billed), Decimal(usd_per_hour))) == usd


def test_15_nodes_are_billed_each_with_its_own_rounding(tmp_path: Path) -> None:
    """Two nodes for 90.5 s and one for 10 s, by the second and at least 60 s: (91 + 91 + 60) s at a cent a second."""
    bill = """\
attempts:
  - {node: a, provisioned: 2025-11-21T00:00:00Z, released: 2025-11-21T00:01:30.5Z}
  - {node: b, provisioned: 2025-11-21T00:00:00Z, released: 2025-11-21T00:01:30.5Z}
  - {node: a, provisioned: 2025-11-20T23:00:00Z, released: 2025-11-20T23:00:10Z}
"""
    books = PriceBooks((PriceBook((row("36"),), "1" * 64, "2025-01-01"),))
    found = bill_of(result(tmp_path / "r", "acme/box/here/on_demand", bill=bill), books)

    assert found is not None
    assert (found.seconds, found.usd, found.compute_usd) == (Decimal(242), Decimal("2.420000"), Decimal("2.420000"))


def test_15_ranked_cost_is_time_times_nodes_times_list_price(tmp_path: Path) -> None:
    """The mean of the runs that the time is a mean of, on four nodes at 36 USD/h: a cent a second and node, x 4."""
    books = PriceBooks((PriceBook((row("36"),), "1" * 64, "2025-01-01"),))
    score = scored(result(tmp_path / "r", "acme/box/here/on_demand", nodes="4"), books).score

    assert score.seconds is not None
    assert score.usd == Decimal(str(round(score.seconds * 0.04, 6)))
    kept = [run for index, run in enumerate(score.runs) if index not in score.dropped]
    assert score.usd == sum((run.usd for run in kept if run.usd is not None), Decimal(0)) / len(kept)


def test_15_spot_ranks_at_list_and_is_shown_with_its_interruptions(tmp_path: Path) -> None:
    """Named as spot at 9 USD/h, ranked at 36: 600 s are 6 USD at list, 1.50 USD as bought, interrupted twice."""
    bill = """\
purchase: spot
interruptions: 2
attempts:
  - {node: a, provisioned: 2025-11-21T00:00:00Z, released: 2025-11-21T00:10:00Z}
"""
    rows = (row("36"), row("9", purchase="spot"))
    books = PriceBooks((PriceBook(rows, "1" * 64, "2025-01-01"),))
    spot = scored(result(tmp_path / "spot", "acme/box/here/spot", bill=bill), books)
    listed = scored(result(tmp_path / "list", "acme/box/here/on_demand"), books)

    assert spot.score.usd == listed.score.usd
    assert spot.bill is not None
    assert (spot.bill.usd, spot.bill.paid_usd) == (Decimal("6.000000"), Decimal("1.500000"))
    assert (spot.bill.declared.interruptions, spot.bill.declared.purchase) == (2, "spot")
    assert listed.bill is None


def test_15_a_host_and_its_accelerators_are_added() -> None:
    """Google: 0.73948 for the host and 2.93352 for the accelerator are 3.673; eight and 5.92 are 29.38816."""
    book = load.load_prices(V1 / load.PRICES_FILE)
    found = [book.quote(f"gcp/a2-highgpu-{n}g/us-central1/on_demand", is_ranked=False) for n in (1, 8)]

    assert [quote.usd_per_hour for quote in found if not isinstance(quote, NoPrice)] == [
        Decimal("3.673"),
        Decimal("29.38816"),
    ]
    assert isinstance(book.quote("gcp/a2-highgpu-1g/us-central1/on_demand"), NoPrice), "undated: it does not rank"
    assert isinstance(book.quote("gcp/a2-highgpu-1g/us-central1/spot", is_ranked=False), NoPrice), "no spot accelerator"


def test_15_a_currency_needs_a_dated_rate(tmp_path: Path) -> None:
    """10 EUR at 1.08 are 10.80 USD; without its date the rate is refused, without a rate the row."""
    rate = '{currency: EUR, usd: "1.08", date: "2026-11-20", source: a bank}'
    text = f"""\
date: "2026-11-21"
exchange:
  - {rate}
prices:
  - {{provider: acme, sku: box, region: here, purchase: on_demand, price: "10", currency: EUR, unit: instance-h,
     includes_gpu: false, accelerator: null, num_accelerators: 0, granularity_s: 1, minimum_s: 0, effective: null,
     retrieved: "2026-11-09", source: a price list, confidence: A}}
"""
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    price = load.load_prices(path).prices[0]

    assert (price.usd_per_hour, price.price, price.currency) == (Decimal("10.80"), Decimal(10), "EUR")
    for broken, message in (
        (text.replace(', date: "2026-11-20"', ""), "'date' is missing"),
        (text.replace(f"exchange:\n  - {rate}\n", ""), "no dated rate"),
    ):
        path.write_text(broken)
        with pytest.raises(RulesError, match=message):
            load.load_prices(path)


def test_15_a_machine_of_ones_own_is_written_off_over_the_hours_it_works() -> None:
    """250,000 x (1 - 0.1) / (5 x 8,760 h x 0.6) = 225,000 / 26,280 = 8.561644, with 1.20 an hour 9.761644."""
    form = read_ownership(
        {
            "provider": "acme", "sku": "box", "region": "cellar", "currency": "USD", "capital_cost": "250000",
            "residual_fraction": "0.1", "lifetime_years": "5", "utilisation_fraction": "0.6", "share_per_hour": "1.20",
            "kwh_price": "0.20", "pue": "1.5", "pue_class": "measured", "as_of": "2026-11-01", "source": "an invoice",
        },
        "own.yaml",
    )  # fmt: skip
    price = form.price()

    assert (form.hours_in_use, form.depreciation) == (Decimal(26280), Decimal(225000))
    assert price.usd_per_hour == Decimal("9.761644")
    assert price.id == "acme/box/cellar/on_prem"
    assert PriceBook((price,), "1" * 64).usd_per_hour({**SYSTEM, "tta_price_sku": price.id}) == Decimal("9.761644")


def test_15_energy_is_not_charged_twice(tmp_path: Path) -> None:
    """3.6 MJ are a kWh: at PUE 1.5 and 0.20 USD 0.30 USD on a machine of one's own, apart from the hourly price; on a
    rented one there is nothing to add."""
    power = Electricity(Decimal("0.20"), Decimal("1.5"), Decimal("0.20"))
    rows = (row("36"), row("36", purchase="on_prem", electricity=power))
    books = PriceBooks((PriceBook(rows, "1" * 64, "2025-01-01"),))

    def measured(name: str, sku: str) -> Row:
        found = result(tmp_path / name, sku)
        for log in found.runs:
            start_ms, stop_ms = int(log.one("run_start").time_ms), int(log.one("run_stop").time_ms)
            readings = [(at_ms, 3.6e9 / (stop_ms - start_ms)) for at_ms in range(start_ms, stop_ms + 100, 100)]
            mlperf_log(log.path.parent / "power" / log.path.stem / "node_0.txt", readings)
        return scored(read_result(tmp_path / name), books)

    own, rented = measured("own", "acme/box/here/on_prem"), measured("rented", "acme/box/here/on_demand")

    assert own.score.energy_j == rented.score.energy_j == pytest.approx(3.6e6)
    assert (own.electricity_usd, rented.electricity_usd) == (Decimal("0.300000"), None)
    assert own.score.usd == rented.score.usd, "the energy is in neither"


def test_15_a_new_book_leaves_old_results_as_they_are(tmp_path: Path) -> None:
    """Twice the price from tomorrow on: what names the first book keeps its cost to the bit, and so does what is older
    than the naming of books."""
    first = PriceBook((row("36"),), "1" * 64, "2025-01-01")
    second = PriceBook((row("72"),), "2" * 64, "2026-01-01")
    named = result(tmp_path / "named", "acme/box/here/on_demand", first.digest)
    older = result(tmp_path / "older", "acme/box/here/on_demand")
    newer = result(tmp_path / "newer", "acme/box/here/on_demand", second.digest)
    before, after = PriceBooks((first,)), PriceBooks((first, second))

    assert scored(named, before) == scored(named, after)
    assert scored(older, before) == scored(older, after)
    once, twice = scored(named, after).score.usd, scored(newer, after).score.usd
    assert once is not None
    assert twice is not None
    assert abs(twice - 2 * once) <= Decimal("0.000001")


def test_15_an_unknown_book_is_replaced_by_no_other(tmp_path: Path) -> None:
    """The price is in the only book there is, and the result names another: null."""
    books = PriceBooks((PriceBook((row("36"),), "1" * 64, "2025-01-01"),))
    found = result(tmp_path / "r", "acme/box/here/on_demand", "f" * 64)

    assert isinstance(book_of(found, books), NoPrice)
    assert scored(found, books).score.usd is None


@pytest.mark.parametrize("sku", [None, "acme/bax/here/on_demand", "36", "acme/box/here/reserved_1y"])
def test_15_an_unknown_sku_costs_null(tmp_path: Path, sku: str | None) -> None:
    """Time is scored as usual; there is no cost, not even 0."""
    books = PriceBooks((PriceBook((row("36"),), "1" * 64, "2025-01-01"),))
    found = result(tmp_path / "r", sku)
    score = scored(found, books).score

    assert isinstance(quote_of(found, books), NoPrice)
    assert score.seconds is not None
    assert score.usd is None
    assert all(run.usd is None for run in score.runs)


def test_15_the_command_line_says_null_and_not_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tta score --format json` of the reference's result, whose system names no price."""
    reference = Path(__file__).parents[3] / "submissions" / "reference" / "results"

    assert main(["score", str(reference), "--format", "json"]) == 0

    document = json.loads(capsys.readouterr().out)
    rows = [row for table in document["tables"] for row in table["rows"]]
    assert rows
    assert all(row["score"]["usd"] is None and row["bill"] is None for row in rows)


def test_a_run_names_the_book_in_force(tmp_path: Path) -> None:
    """The header of a log has the digest; a ruleset without a book leaves it out."""
    fields = dict.fromkeys(Plan.__dataclass_fields__, None)
    rules = fabricate.benchmark_rules()
    plan = Plan(**{**fields, "rules": rules, "ruleset": "v1", "system": SYSTEM, "hyperparameters": {}, "data": {}})  # type: ignore[arg-type]
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
    """Not by the newest, and by none if it is not kept."""
    first = PriceBook((row("36"),), "1" * 64, "2025-01-01")
    second = PriceBook((row("72"),), "2" * 64, "2026-01-01")
    law = fabricate.ruleset({}, prices=PriceBooks((first, second)))
    monkeypatch.setattr(follower, "ruleset_called", lambda name: law if name == "v1" else None)

    def book(**tags: str) -> PriceBook | None:
        return follower._prices(SimpleNamespace(ruleset="v1", tags=tags))  # type: ignore[arg-type]

    assert book() is first
    assert book(**{"tta.prices_digest": "2" * 64}) is second
    assert book(**{"tta.prices_digest": "f" * 64}) is None
