"""The declared use of a result: read strictly, priced by the book, shown and never ranked."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.cost.price_book import Price, PriceBook, PriceBooks, Quote
from harness.errors import SubmissionError
from harness.scoring.cost import Bill, _compute, bill_of
from harness.submission import billing
from harness.submission.billing import Attempt, Billing, read_billing
from harness.submission.layout import BILLING_NAME
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import SYSTEM

NODE = "  - {node: n0, provisioned: 2025-11-20T10:00:00Z, released: 2025-11-20T11:30:05.25Z}\n"
WHOLE = f"""\
purchase: spot
interruptions: 2
attempts:
{NODE}storage:
  - {{price: acme/disk/here/on_demand, gb_hours: 1000}}
egress:
  - {{price: acme/net/here/on_demand, gb: 2.5}}
notes: two runs were lost with their machine
"""


def price(usd: str, sku: str = "box", purchase: str = "on_demand", **more: Any) -> Price:
    fields = {"granularity_s": 60, "minimum_s": 0, **more}
    return Price("acme", sku, "here", purchase, Decimal(usd), None, "2025-11-01", "a price list", "B", **fields)


ROWS = (
    price("36"),
    price("9", purchase="spot", granularity_s=1),
    price("0.0001", "disk", unit="gb-h"),
    price("0.08", "net", unit="gb"),
    price("0", "gift", unit="gb"),
    replace(price("0.08", "old", unit="gb"), retrieved=None),
)


BOOKS = PriceBooks((PriceBook(ROWS, "1" * 64, "2025-01-01"),))


def written(folder: Path, text: str) -> Path:
    (folder / BILLING_NAME).write_text(text)
    return folder / BILLING_NAME


def billed(
    tmp_path: Path, text: str, books: PriceBooks | None = BOOKS, is_described: bool = True, **system: str
) -> Bill:
    """The bill of a result that declares `text`, on a system of the box's price."""
    described = {**SYSTEM, "tta_price_sku": "acme/box/here/on_demand", **system}
    folder = fabricate.write_result(tmp_path / "r", num_runs=1, system=described)
    if not is_described:
        (folder / "system.json").unlink()
    written(folder, text)
    found = bill_of(read_result(folder), books)
    assert found is not None
    return found


def test_a_whole_declaration_is_read(tmp_path: Path) -> None:
    """Instants are exact to the microsecond, amounts exact, the rest as declared."""
    found = read_billing(written(tmp_path, WHOLE))

    assert [attempt.seconds for attempt in found.attempts] == [Decimal("5405.25")]
    assert [(item.unit, item.amount) for item in found.quantities] == [("gb-h", Decimal(1000)), ("gb", Decimal("2.5"))]
    assert (found.purchase, found.interruptions, found.notes[:8]) == ("spot", 2, "two runs")


def test_attempts_alone_are_a_declaration(tmp_path: Path) -> None:
    """The purchase is then on demand, and the interruptions are unknown."""
    found = read_billing(written(tmp_path, f"attempts:\n{NODE}"))

    assert (found.purchase, found.interruptions, found.quantities, found.notes) == ("on_demand", None, (), "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "must be a mapping", id="empty"),
        pytest.param("[", "not YAML", id="no YAML"),
        pytest.param("- a\n", "must be a mapping", id="a list"),
        pytest.param("purchase: spot\n", "'attempts' is missing", id="no attempts"),
        pytest.param("attempts: []\n", "'attempts' is missing", id="none at all"),
        pytest.param("attempts: many\n", "attempts must be a list", id="no list"),
        pytest.param("attempts: [n0]\n", r"attempts\[0\]: must be a mapping", id="an attempt of one word"),
        pytest.param(WHOLE.replace("purchase: spot", "purchase: free"), "unknown purchase 'free'", id="purchase"),
        pytest.param(WHOLE.replace("purchase: spot\n", ""), "only spot machines have", id="interrupted on demand"),
        pytest.param(WHOLE.replace("interruptions: 2", "interruptions: -1"), "interruptions is '-1'", id="negative"),
        pytest.param(WHOLE.replace("interruptions: 2", "interruptions: [2]"), "not a list", id="a list of them"),
        pytest.param(
            WHOLE.replace("node: n0", "node: n0, usd: 3"), "unknown key 'usd'", id="a typed price of an attempt"
        ),
        pytest.param(WHOLE + "usd: 3\n", "unknown key 'usd'", id="a typed price"),
        pytest.param(WHOLE.replace("gb: 2.5", "gb: 2.5, usd: 3"), "unknown key 'usd'", id="a typed price of traffic"),
        pytest.param(WHOLE.replace("gb: 2.5", "gb: -2.5"), "gb is '-2.5'", id="traffic backwards"),
        pytest.param(WHOLE.replace("gb: 2.5", "gb: .nan"), "gb is '.nan'", id="no number"),
        pytest.param(WHOLE.replace("gb: 2.5", "gb: 1e9"), "gb is '1e9'", id="an exponent"),
        pytest.param(WHOLE.replace("node: n0", "node: '../x'"), r"node is '../x'", id="a path as node"),
        pytest.param(WHOLE.replace("node: n0", "node: [x]"), "node must be one value, not a list", id="nodes"),
        pytest.param(WHOLE.replace("node: n0, ", ""), "'node' is missing", id="an attempt without a node"),
        pytest.param(WHOLE.replace("11:30:05.25Z", "11:30:05+01:00"), "write UTC", id="another zone"),
        pytest.param(WHOLE.replace("2025-11-20T11", "2025-11-31T11"), "write UTC", id="the 31st of November"),
        pytest.param(WHOLE.replace("T11:30:05.25Z", "T10:00:00Z"), "not after it was provisioned", id="no time"),
        pytest.param(WHOLE.replace(NODE, NODE * 2), "'n0' is held twice at 2025-11-20T10:00:00Z", id="twice"),
        pytest.param(WHOLE.replace(NODE, NODE * 10_001), "at most 10,000", id="too many"),
        pytest.param("? [a]\n: b\n", "not YAML", id="a key that is a list"),
        pytest.param("x: \0", "not YAML", id="a control character"),
    ],
)
def test_a_bad_declaration_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, the place and the value."""
    path = written(tmp_path, text)

    with pytest.raises(SubmissionError, match=message) as caught:
        read_billing(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_node_may_be_held_again_as_soon_as_it_is_released(tmp_path: Path) -> None:
    """An end and a begin at the same instant do not overlap; a microsecond earlier they do."""
    again = "  - {node: n0, provisioned: 2025-11-20T11:30:05.25Z, released: 2025-11-20T12:00:00Z}\n"

    assert len(read_billing(written(tmp_path, f"attempts:\n{NODE}{again}")).attempts) == 2
    with pytest.raises(SubmissionError, match="'n0' is held twice"):
        read_billing(written(tmp_path, f"attempts:\n{NODE}{again.replace('05.25Z', '05.249999Z')}"))


def test_the_greatest_number_of_attempts_is_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is read, one attempt more is not."""
    monkeypatch.setattr(billing, "MAX_ATTEMPTS", 2)
    nodes = [NODE.replace("n0", f"n{number}") for number in range(3)]

    assert len(read_billing(written(tmp_path, f"attempts:\n{nodes[0]}{nodes[1]}")).attempts) == 2
    with pytest.raises(SubmissionError, match="at most 2"):
        read_billing(written(tmp_path, f"attempts:\n{''.join(nodes)}"))


def test_the_longest_attempt_is_exact() -> None:
    """A float cannot distinguish microseconds after centuries."""
    whole = Attempt("n0", datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC))

    assert whole.seconds == Decimal("315537897599.999999")


def test_storage_and_traffic_are_priced_by_the_book(tmp_path: Path) -> None:
    """5,405.25 s are 91 minutes: 5,460 s at a cent are 54.60; 1,000 GB h are 0.10, 2.5 GB 0.20. As bought 5,406 s."""
    found = billed(tmp_path, WHOLE)

    assert (found.compute_usd, found.usd) == (Decimal("54.600000"), Decimal("54.900000"))
    assert found.paid_usd == Decimal("13.515000")
    assert (found.price_id, found.price_digest) == ("acme/box/here/on_demand", "1" * 64)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WHOLE.replace("acme/net", "acme/nit"), "'acme/nit/here/on_demand' is not a dated price per gb"),
        (WHOLE.replace("acme/net", "acme/disk"), "'acme/disk/here/on_demand' is not a dated price per gb"),
        (WHOLE.replace("acme/net", "acme/old"), "'acme/old/here/on_demand' is not a dated price per gb"),
        (
            WHOLE.replace("acme/net", "acme/nit").replace("acme/disk", "acme/disc"),
            "'acme/disc/here/on_demand' is not a dated price per gb-h",
        ),
    ],
)
def test_a_part_without_a_price_leaves_no_total(tmp_path: Path, text: str, why: str) -> None:
    """The nodes are priced, the whole is not: without one of its parts it would be too small."""
    found = billed(tmp_path, text)

    assert (found.usd, found.compute_usd, found.why_not) == (None, Decimal("54.600000"), why)


def test_traffic_may_be_free(tmp_path: Path) -> None:
    """Zero is a price that a provider states for traffic, not a missing one."""
    found = billed(tmp_path, WHOLE.replace("acme/net", "acme/gift"))

    assert found.usd == Decimal("54.700000")


@pytest.mark.parametrize("unknown", ["granularity_s", "minimum_s"])
def test_unknown_granularity_gives_no_bill(tmp_path: Path, unknown: str) -> None:
    """If the book does not say how a provider rounds, there is no price, and the reason is given."""
    changes: dict[str, Any] = {unknown: None}
    row = price("36", **changes)
    found = billed(tmp_path, f"attempts:\n{NODE}", PriceBooks((PriceBook((row,), "1" * 64, "2025-01-01"),)))

    assert (found.usd, found.compute_usd, found.paid_usd) == (None, None, None)
    assert found.why_not == "the billing granularity of 'acme/box/here/on_demand' is not known"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tta_price_sku": "acme/bax/here/on_demand"}, "bax"),
        ({"is_described": False}, "the system description has no tta_price_sku"),
        ({"books": None}, "the ruleset has no price book"),
    ],
)
def test_no_price_gives_no_bill(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    """The declaration is shown, its cost is unknown, and the reason is given."""
    found = billed(tmp_path, WHOLE, **options)

    assert (found.usd, found.declared.interruptions) == (None, 2)
    assert found.why_not is not None
    assert why in found.why_not


def test_a_price_of_one_accelerator_is_billed_for_each(tmp_path: Path) -> None:
    """Two accelerators cost 2 x 36 USD/h at list price and 2 x 9 as bought."""
    more: dict[str, Any] = {"unit": "gpu-h", "num_accelerators": 1}
    rows = (price("36", **more), price("9", purchase="spot", **more))
    found = billed(
        tmp_path,
        f"purchase: spot\nattempts:\n{NODE}",
        PriceBooks((PriceBook(rows, "1" * 64, "2025-01-01"),)),
        tta_price_sku="acme/box/here/spot",
        accelerators_per_node="2",
    )

    assert (found.usd, found.paid_usd) == (Decimal("109.200000"), Decimal("27.300000"))


def test_without_a_declaration_there_is_no_bill(tmp_path: Path) -> None:
    """A declaration that cannot be read counts as none; CST006 reports it."""
    folder = fabricate.write_result(tmp_path / "r", num_runs=1)

    assert bill_of(read_result(folder), BOOKS) is None
    written(folder, "[")
    assert bill_of(read_result(folder), BOOKS) is None


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20))
def test_a_longer_bill_is_never_smaller(lengths_ms: list[int]) -> None:
    """Each attempt adds to the total, which is rounded once."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    attempts = [Attempt(f"n{i}", start, start + timedelta(milliseconds=ms)) for i, ms in enumerate(lengths_ms)]
    row = price("36", granularity_s=1, minimum_s=60)
    quote = Quote(row, row, (row,), row.usd_per_hour)
    totals = [
        _compute(Billing("on_demand", None, tuple(attempts[:count]), (), ""), quote)[0]
        for count in range(1, len(attempts) + 1)
    ]

    for total in totals:
        assert total is not None
        assert total > 0
    assert totals == sorted(totals, key=lambda total: total or 0)


def test_score_shows_what_is_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The declaration is shown with the table, also if the system has no price."""
    reference = Path(__file__).parents[3] / "submissions" / "reference"
    shutil.copytree(reference, tmp_path / "reference")
    folder = next((tmp_path / "reference" / "results").glob("*/*"))
    written(folder, WHOLE)

    main(["score", str(folder)])

    shown = capsys.readouterr().out
    assert "declared: 1 node allocation, spot, 2 interruptions; no list price: the system description has" in shown
