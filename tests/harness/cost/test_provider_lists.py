"""The providers' price lists, from pages constructed after their public documentation and served on this machine."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.commands import prices
from harness.cost import provider_lists
from harness.cost.provider_lists import Listed, aws_prices, azure_prices
from harness.errors import DataError, ExitStatus, OutputError
from harness.ruleset.load import load_books, load_prices
from tests.webserver import serving

INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
CSV = "/offers/v1.0/aws/AmazonEC2/20261120000000/us-east-1/index.csv"
RETAIL = "/api/retail/prices"
SKUS = ["p5.48xlarge", "m7i.large"]
SIZE = "Standard_ND96isr_H100_v5"
COLUMNS = (
    "SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange", "EndingRange",
    "Unit", "PricePerUnit", "Currency", "RelatedTo", "LeaseContractLength", "PurchaseOption", "OfferingClass",
    "Product Family", "serviceCode", "Location", "Location Type", "Instance Type", "Tenancy", "Operating System",
    "License Model", "CapacityStatus", "Pre Installed S/W", "Region Code",
)  # fmt: skip
PREAMBLE = [
    ["FormatVersion", "v1.0"],
    ["Disclaimer", "This pricing list is for informational purposes only, and more"],
    ["Publication Date", "2026-11-20T01:02:03Z"],
    ["Version", "20261120010203"],
    ["OfferCode", "AmazonEC2"],
]


def aws_row(**changes: str) -> dict[str, str]:
    """A price of p5.48xlarge on demand."""
    plain = {
        "TermType": "OnDemand", "EffectiveDate": "2026-11-01", "Unit": "Hrs", "PricePerUnit": "55.0400000000",
        "Currency": "USD", "Instance Type": "p5.48xlarge", "Tenancy": "Shared", "Operating System": "Linux",
        "Pre Installed S/W": "NA", "CapacityStatus": "Used", "Region Code": "us-east-1",
        "PriceDescription": 'Linux, "p5.48xlarge", an hour',
    }  # fmt: skip
    unknown = set(changes) - set(COLUMNS)
    assert not unknown
    return {**dict.fromkeys(COLUMNS, ""), **plain, **changes}


def reserved(lease: str, usd: str, **changes: str) -> dict[str, str]:
    terms = {"LeaseContractLength": lease, "PurchaseOption": "No Upfront", "OfferingClass": "standard"}
    return aws_row(TermType="Reserved", PricePerUnit=usd, **{**terms, **changes})


def aws_csv(*rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([*PREAMBLE, list(columns), *([row[name] for name in columns] for row in rows)])
    return text.getvalue().encode()


def azure_item(**changes: Any) -> dict[str, Any]:
    """A price of Standard_ND96isr_H100_v5 on demand, in the words of the documentation."""
    return {
        "currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": 98.32, "unitPrice": 98.32,
        "armRegionName": "eastus", "location": "US East", "effectiveStartDate": "2023-08-01T00:00:00Z",
        "meterName": "ND96isr H100 v5", "productName": "Virtual Machines NDsr H100 v5 Series",
        "skuName": "ND96isr H100 v5", "serviceName": "Virtual Machines", "unitOfMeasure": "1 Hour",
        "type": "Consumption", "isPrimaryMeterRegion": True, "armSkuName": "Standard_ND96isr_H100_v5", **changes,
    }  # fmt: skip


def azure_page(*items: Any, following: str | None = None) -> bytes:
    page = {"BillingCurrency": "USD", "CustomerEntityId": "Default", "CustomerEntityType": "Retail", "Items": items}
    return json.dumps({**page, "NextPageLink": following, "Count": len(items)}).encode()


class Site:
    """The bodies served, by path (and query), with other lengths or broken off if stated; and the requests received."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.lengths: dict[str, int] = {}
        self.broken_off: set[str] = set()
        self.requested: list[str] = []
        self.url = ""

    def put_aws(self, body: bytes) -> str:
        regions = {"us-east-1": {"regionCode": "us-east-1", "currentVersionUrl": CSV.replace(".csv", ".json")}}
        self.bodies[INDEX] = json.dumps({"formatVersion": "v1.0", "regions": regions}).encode()
        self.bodies[CSV] = body
        return self.url + INDEX

    def aws(self, body: bytes) -> list[Listed]:
        """The prices in AWS's list, if it is `body`."""
        return aws_prices("us-east-1", SKUS, self.put_aws(body))

    def azure(self, body: bytes) -> list[Listed]:
        """The prices in Azure's first page, if it is `body`."""
        self.bodies[RETAIL] = body
        return azure_prices("eastus", SIZE, self.url + RETAIL)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requested.append(request.path)
        path = urlsplit(request.path).path
        body = self.bodies.get(request.path, self.bodies.get(path))
        if body is None:
            request.send_error(404)
        elif path in self.broken_off:
            request.close_connection = True
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            request.wfile.write(head + b"%x\r\n%b\r\nff\r\n{" % (len(body), body))
        else:
            request.send_response(200)
            request.send_header("Content-Length", str(self.lengths.get(path, len(body))))
            request.end_headers()
            request.wfile.write(body)


@pytest.fixture
def site() -> Iterator[Site]:
    """A server on this machine."""
    found = Site()
    with serving(found.answer) as url:
        found.url = url
        yield found


def test_aws_takes_plain_linux_machines_and_nothing_else(site: Site) -> None:
    """On demand and reserved with no upfront cost, of the requested types; the rest is ignored."""
    found = site.aws(
        aws_csv(
            aws_row(),
            aws_row(**{"Instance Type": "p4d.24xlarge"}),
            aws_row(**{"Operating System": "Windows", "PricePerUnit": "1"}),
            aws_row(Tenancy="Dedicated", PricePerUnit="2"),
            aws_row(CapacityStatus="UnusedCapacityReservation", PricePerUnit="3"),
            aws_row(**{"Pre Installed S/W": "SQL Std", "PricePerUnit": "4"}),
            aws_row(Unit="Quantity", PricePerUnit="5"),
            aws_row(**{"Instance Type": "m7i.large", "PricePerUnit": "0.0000000000"}),
            reserved("1yr", "40.5"),
            reserved("3yr", "30.25"),
            reserved("1yr", "0", PurchaseOption="All Upfront"),
            reserved("3yr", "29", OfferingClass="convertible"),
        )
    )

    assert [(item.id, item.usd_per_hour, item.effective) for item in found] == [
        ("aws/p5.48xlarge/us-east-1/on_demand", Decimal("55.04"), "2026-11-01"),
        ("aws/p5.48xlarge/us-east-1/reserved_1y", Decimal("40.5"), "2026-11-01"),
        ("aws/p5.48xlarge/us-east-1/reserved_3y", Decimal("30.25"), "2026-11-01"),
    ]
    assert found[0].source == f"{site.url}{CSV}, published 2026-11-20T01:02:03Z"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "has no column", id="nothing"),
        pytest.param(b"<html>\n" * 9, "has no column", id="a web page"),
        pytest.param(aws_csv(aws_row())[:-40], "cut off .* in the middle of a line", id="the last line cut off"),
        pytest.param(aws_csv(aws_row(), aws_row(PricePerUnit="54")), "which is right", id="two prices of one thing"),
        pytest.param(aws_csv(aws_row(PricePerUnit="-1")), "the price is '-1'", id="a negative price"),
        pytest.param(aws_csv(aws_row(PricePerUnit="NaN")), "the price is 'NaN'", id="no number"),
        pytest.param(aws_csv(aws_row(PricePerUnit="")), "the price is ''", id="no price"),
        pytest.param(aws_csv(aws_row(EffectiveDate="soon")), "'soon' is not a date", id="no date"),
        pytest.param(aws_csv(columns=COLUMNS[:-2]), "has no column 'Pre Installed S/W'", id="a column is gone"),
        pytest.param(aws_csv(aws_row()) + b'"a","b"\n', ":8: has 2 fields; the header has 26", id="a short line"),
        pytest.param(aws_csv() + b'"a"b,\n', "is damaged", id="damaged quotes"),
        pytest.param(aws_csv() + b'"\xff\xfe"\n', "is not UTF-8", id="no UTF-8"),
        pytest.param(aws_csv() + b"x" * 70_000 + b"\n", "a line over 65,536", id="an endless line"),
    ],
)
def test_aws_damage_is_an_error_and_no_price(site: Site, body: bytes, message: str) -> None:
    """The message has the address; a list that is half understood is not used."""
    with pytest.raises(DataError, match=message) as caught:
        site.aws(body)

    assert site.url in str(caught.value)


def test_list_that_ends_between_two_lines_is_an_error(site: Site) -> None:
    """Whole lines, but fewer than the length states, or than the server announced before it broke off."""
    body = aws_csv(aws_row())
    site.lengths[CSV] = len(body) + 1000
    with pytest.raises(DataError, match=r"cut off|was interrupted"):
        site.aws(body)

    site.broken_off = {CSV, RETAIL}
    with pytest.raises(DataError, match=rf"index\.csv: was interrupted after {len(body):,} bytes: IncompleteRead"):
        site.aws(body)
    with pytest.raises(DataError, match=r"http://127.*prices.*: was interrupted: "):
        site.azure(azure_page(azure_item()))


def test_answer_that_is_too_large_is_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is refused while it arrives, a page once the limit is passed."""
    monkeypatch.setattr(provider_lists, "MAX_FILE_BYTES", 10_000)
    monkeypatch.setattr(provider_lists, "MAX_PAGE_BYTES", 1000)

    with pytest.raises(DataError, match="more than 10,000 bytes"):
        site.aws(aws_csv(*[aws_row(**{"Instance Type": "other"})] * 100))
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        site.azure(azure_page(*[azure_item()] * 20))


def test_aws_file_is_never_in_memory_as_a_whole(site: Site) -> None:
    """Of twelve megabytes less than one is held (the server's own copy exists before)."""
    rows = aws_csv(aws_row(**{"Instance Type": "other"}), aws_row())
    *head, other, wanted = rows.splitlines(True)
    body = b"".join(head) + other * 80_000 + wanted
    assert len(body) > 12_000_000

    tracemalloc.start()
    try:
        found = site.aws(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(found) == 1
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        pytest.param({}, "names no file for the region", id="no such region"),
        pytest.param({"us-east-1": {"currentVersionUrl": 5}}, "names no file for the region", id="no address"),
        pytest.param(
            {"us-east-1": {"currentVersionUrl": "https://example.org/x/index.json"}}, "on another host", id="elsewhere"
        ),
        pytest.param({"us-east-1": {"currentVersionUrl": "file:///etc/index.json"}}, "on another host", id="a file"),
    ],
)
def test_aws_index_must_name_a_file_on_the_same_host(site: Site, regions: Any, message: str) -> None:
    """An address on another host is not followed."""
    site.bodies[INDEX] = json.dumps({"regions": regions}).encode()

    with pytest.raises(DataError, match=message):
        aws_prices("us-east-1", SKUS, site.url + INDEX)


def test_azure_pages_are_followed_to_the_end(site: Site) -> None:
    """On demand on the first page, spot on the second; Windows, low priority and other meters are ignored."""
    site.bodies[f"{RETAIL}?$skip=100"] = azure_page(azure_item(skuName="ND96isr H100 v5 Spot", retailPrice=39.328))
    first = azure_page(
        azure_item(),
        azure_item(productName="Virtual Machines NDsr H100 v5 Series Windows", retailPrice=150.0),
        azure_item(skuName="ND96isr H100 v5 Low Priority", retailPrice=19.0),
        azure_item(isPrimaryMeterRegion=False, retailPrice=97.0),
        azure_item(type="Reservation", unitOfMeasure="1 Hour", retailPrice=400000.0),
        azure_item(armSkuName="Standard_D2", retailPrice=0.1),
        following=f"{site.url}{RETAIL}?$skip=100",
    )

    found = site.azure(first)

    assert [(item.id, item.usd_per_hour, item.effective) for item in found] == [
        ("azure/Standard_ND96isr_H100_v5/eastus/on_demand", Decimal("98.32"), "2023-08-01"),
        ("azure/Standard_ND96isr_H100_v5/eastus/spot", Decimal("39.328"), "2023-08-01"),
    ]
    query = parse_qs(urlsplit(site.requested[0]).query)
    assert query["currencyCode"] == ["USD"]
    assert "armSkuName eq 'Standard_ND96isr_H100_v5'" in query["$filter"][0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "is not JSON", id="nothing"),
        pytest.param(b"[" * 100_000, "is not JSON", id="nested without end"),
        pytest.param(b"[]", "is not a JSON object", id="a list"),
        pytest.param(b"{}", "has no list 'Items'", id="no items"),
        pytest.param(b'{"Items": [], "NextPageLink": 5}', "has no list 'Items'", id="a number for a page"),
        pytest.param(azure_page("x"), "an item is not a mapping", id="an item of one word"),
        pytest.param(azure_page(azure_item(skuName=None)), "an item lacks one of", id="no name"),
        pytest.param(azure_page(azure_item(currencyCode="EUR")), "the price is in 'EUR'", id="another currency"),
        pytest.param(azure_page(azure_item(retailPrice=True)), "the price is 'True'", id="a true price"),
        pytest.param(azure_page(azure_item(retailPrice=1e300)), "the price is", id="a price beyond measure"),
        pytest.param(azure_page(azure_item(), azure_item(retailPrice=90.0)), "which is right", id="two prices"),
        pytest.param(azure_page(azure_item(effectiveStartDate="x")), "'x' is not a date", id="no date"),
        pytest.param(azure_page(following="https://example.org/"), "on another host; not followed", id="elsewhere"),
        pytest.param(azure_page(following=f"{RETAIL}?again=1"), "pages form a loop", id="a circle"),
    ],
)
def test_azure_damage_is_an_error_and_no_price(site: Site, body: bytes, message: str) -> None:
    """As for AWS."""
    with pytest.raises(DataError, match=message):
        site.azure(body)


def test_no_more_than_fifty_pages_are_read(site: Site) -> None:
    """Each page names a new one."""
    pages = [azure_page(following=f"{site.url}{RETAIL}?page={number + 1}") for number in range(60)]
    site.bodies = {f"{RETAIL}?page={number}": page for number, page in enumerate(pages)}

    with pytest.raises(DataError, match="more than 50"):
        site.azure(pages[0])
    assert len(site.requested) == provider_lists.MAX_PAGES


@pytest.mark.parametrize("sku", ["x' or 'a' eq 'a", "a b", ""])
def test_azure_size_cannot_change_the_filter(sku: str) -> None:
    """A name goes into a filter: it may have letters, digits, _ and - only."""
    with pytest.raises(DataError, match="is not a size and a region"):
        azure_prices("eastus", sku, "http://127.0.0.1:9/")


def test_no_network_is_one_sentence() -> None:
    """No server listens there; another scheme is not opened at all."""
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/x cannot be fetched"):
        aws_prices("us-east-1", SKUS, "http://127.0.0.1:9/x")
    with pytest.raises(DataError, match="is not an http address"):
        aws_prices("us-east-1", SKUS, "file:///etc/passwd")


OLD = """\
date: "2026-11-21"
prices:
  - {provider: aws, sku: p5.48xlarge, region: us-east-1, purchase: on_demand, price: "98.32", currency: USD,
     unit: instance-h, includes_gpu: true, accelerator: H100, num_accelerators: 8, granularity_s: 1, minimum_s: 60,
     effective: null, retrieved: null, source: a blog, confidence: C}
  - {provider: azure, sku: Standard_ND96isr_H100_v5, region: eastus, purchase: on_demand, price: "98.32", currency: USD,
     unit: instance-h, includes_gpu: true, accelerator: H100, num_accelerators: 8, granularity_s: null, minimum_s: null,
     effective: null, retrieved: "2026-11-09", source: a copy, confidence: A}
  - {provider: lambda, sku: 8x B200, region: any, purchase: on_demand, price: "53.52", currency: USD,
     unit: instance-h, includes_gpu: true, accelerator: B200, num_accelerators: 8, granularity_s: 60, minimum_s: null,
     effective: null, retrieved: "2026-09-20", source: plans, confidence: A}
"""


def refresh(
    site: Site, folder: Path, providers: Sequence[str] = prices.LISTING_PROVIDERS, out: Path | None = None
) -> ExitStatus:
    (folder / "ruleset.yaml").touch()
    return prices.refresh(str(folder), providers, out, date(2026, 12, 1), site.url + INDEX, site.url + RETAIL)


def test_refresh_writes_a_new_book_next_to_the_old(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fetched rows have today's date and confidence A, others the date they had; the old file stays as it is."""
    (tmp_path / "prices.yaml").write_text(OLD)
    site.put_aws(aws_csv(aws_row(), reserved("1yr", "40.5")))
    site.bodies[RETAIL] = azure_page(azure_item(skuName="ND96isr H100 v5 Spot", retailPrice=39.0))

    assert refresh(site, tmp_path) is ExitStatus.OK

    assert (tmp_path / "prices.yaml").read_text() == OLD
    books = load_books(tmp_path)
    assert [book.date for book in books.books] == ["2026-11-21", "2026-12-01"]
    rows = {row.id: row for row in books.current.prices}
    aws, one_year = rows["aws/p5.48xlarge/us-east-1/on_demand"], rows["aws/p5.48xlarge/us-east-1/reserved_1y"]
    assert (aws.usd_per_hour, aws.retrieved, aws.effective, aws.confidence) == (
        Decimal("55.04"), "2026-12-01", "2026-11-01", "A",
    )  # fmt: skip
    assert (one_year.num_accelerators, one_year.minimum_s) == (8, 60)
    assert rows["azure/Standard_ND96isr_H100_v5/eastus/spot"].usd_per_hour == 39
    assert rows["azure/Standard_ND96isr_H100_v5/eastus/on_demand"].retrieved == "2026-11-09"
    assert rows["lambda/8x B200/any/on_demand"] == books.first.row("lambda/8x B200/any/on_demand")
    captured = capsys.readouterr()
    assert "carried over unchanged: azure/Standard_ND96isr_H100_v5/eastus/on_demand" in captured.err
    assert books.current.digest in captured.out

    with pytest.raises(OutputError, match="exists already; a price book is never edited"):
        refresh(site, tmp_path)


def test_refresh_that_fails_writes_nothing(site: Site, tmp_path: Path) -> None:
    """One list is damaged: no new book is made."""
    (tmp_path / "prices.yaml").write_text(OLD)
    site.put_aws(aws_csv(aws_row(Currency="CNY")))
    site.bodies[RETAIL] = azure_page(azure_item())

    with pytest.raises(DataError, match="only USD is accepted"):
        refresh(site, tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["prices.yaml", "ruleset.yaml"]


def test_refresh_of_one_provider_leaves_the_others(site: Site, tmp_path: Path) -> None:
    """`--provider azure --out FILE`: no request goes to AWS."""
    (tmp_path / "prices.yaml").write_text(OLD)
    site.bodies[RETAIL] = azure_page(azure_item(retailPrice=90.5))
    out = tmp_path / "elsewhere" / "book.yaml"

    assert refresh(site, tmp_path, ["azure"], out) is ExitStatus.OK

    rows = {row.id: row for row in load_prices(out).prices}
    assert rows["azure/Standard_ND96isr_H100_v5/eastus/on_demand"].usd_per_hour == Decimal("90.5")
    assert rows["aws/p5.48xlarge/us-east-1/on_demand"].usd_per_hour == Decimal("98.32")
    assert all(path.startswith(RETAIL) for path in site.requested)
