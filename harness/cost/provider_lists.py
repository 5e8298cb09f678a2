"""Prices from the providers' public lists: AWS's bulk files and Azure's retail interface. Standard library only.

Both can be read without an account. The answers are untrusted and bounded: size, lines, pages, hosts, currency and
every value; a list that ends early or cannot be understood is an error and gives no price.

AWS (docs.aws.amazon.com, "Reading the price list files"): region_index.json names the current file of each region.
Its CSV form has five lines about the file, a line of column names, then one price per line. The EC2 file of one region
has hundreds of megabytes; it is read line by line as it arrives, and is not kept.

Azure (learn.microsoft.com, "Azure Retail Prices overview"): pages of JSON with `Items` and the address of the next page
in `NextPageLink`; the query is an OData filter for one size in one region.
"""

from __future__ import annotations

import csv
import io
import json
import re
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from harness.errors import DataError, printable

AWS_INDEX = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/region_index.json"
AZURE_PRICES = "https://prices.azure.com/api/retail/prices"
SILENCE_S = 30.0
MAX_FILE_BYTES = 2 << 30  # of one region's CSV
MAX_PAGE_BYTES = 16 << 20
MAX_LINE_BYTES = 1 << 16
MAX_PAGES = 50
_AWS_PREAMBLE = 5
_AWS_COLUMNS = (
    "TermType", "EffectiveDate", "Unit", "PricePerUnit", "Currency", "LeaseContractLength", "PurchaseOption",
    "OfferingClass", "Instance Type", "Tenancy", "Operating System", "Pre Installed S/W", "CapacityStatus",
)  # fmt: skip
_AWS_LEASES = {"1yr": "reserved_1y", "3yr": "reserved_3y"}


@dataclass(frozen=True, slots=True)
class Listed:
    """One price as a provider lists it, in US dollars per hour of a machine. effective: the day from which it holds."""

    provider: str
    sku: str
    region: str
    purchase: str
    usd_per_hour: Decimal
    effective: str | None
    source: str

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.sku}/{self.region}/{self.purchase}"


def aws_prices(region: str, skus: Collection[str], index_url: str = AWS_INDEX) -> list[Listed]:
    """Return the Linux prices of the instance types `skus` in a region: on demand, and reserved with no upfront cost.

    Raises:
        DataError: there is no network or no such region; the file is too large, cut off or not understood; a currency
            is not USD; or a machine has two prices.
    """
    index = _json(index_url)
    regions = index.get("regions")
    entry = regions.get(region) if isinstance(regions, dict) else None
    path = entry.get("currentVersionUrl") if isinstance(entry, dict) else None
    if not isinstance(path, str) or not path.endswith("index.json"):
        raise DataError(f"{index_url}: names no file for the region {printable(region)!r}")
    url = _same_host(index_url, path.removesuffix(".json") + ".csv")
    lines = _lines(url)
    head = [next(lines, "") for _ in range(_AWS_PREAMBLE)]
    published = next((row[1] for row in csv.reader(head) if row[:1] == ["Publication Date"] and len(row) > 1), None)
    names = next(csv.reader([next(lines, "")]), [])
    absent = [name for name in _AWS_COLUMNS if name not in names]
    if published is None or absent:
        what = f"has no column {absent[0]!r}" if absent else "names no publication date"
        raise DataError(f"{url}: is not a price list as AWS documents it: {what}")
    place = {name: names.index(name) for name in _AWS_COLUMNS}
    source = f"{url}, published {printable(published, 40)}"
    found: dict[str, Listed] = {}
    try:
        for number, row in enumerate(csv.reader(lines, strict=True), _AWS_PREAMBLE + 2):
            if len(row) != len(names):
                raise DataError(f"{url}:{number}: has {len(row)} fields; the header has {len(names)}")
            values = {name: row[at] for name, at in place.items()}
            if values["Instance Type"] in skus and (purchase := _aws_purchase(values)) is not None:
                _keep(found, _aws_listed(values, region, purchase, source, f"{url}:{number}"), f"{url}:{number}")
    except csv.Error as error:
        raise DataError(f"{url}: is damaged: {error}") from None
    return [found[name] for name in sorted(found)]


def _aws_purchase(values: dict[str, str]) -> str | None:
    """Return how the row is purchased; None for anything but a plain Linux machine by the hour."""
    plain = (values["Tenancy"], values["Operating System"], values["Pre Installed S/W"], values["CapacityStatus"])
    if plain != ("Shared", "Linux", "NA", "Used") or values["Unit"] not in ("Hrs", "Hours"):
        return None
    if values["TermType"] == "OnDemand":
        return "on_demand"
    terms = (values["PurchaseOption"], values["OfferingClass"])
    is_plain = values["TermType"] == "Reserved" and terms == ("No Upfront", "standard")
    return _AWS_LEASES.get(values["LeaseContractLength"]) if is_plain else None


def _aws_listed(values: dict[str, str], region: str, purchase: str, source: str, place: str) -> Listed:
    if values["Currency"] != "USD":
        raise DataError(f"{place}: the price is in {printable(values['Currency'], 20)!r}; only USD is accepted")
    usd = _amount(values["PricePerUnit"], place)
    return Listed("aws", values["Instance Type"], region, purchase, usd, _day(values["EffectiveDate"], place), source)


def azure_prices(region: str, sku: str, url: str = AZURE_PRICES) -> list[Listed]:
    """Return the Linux prices of the size `sku` in a region: on demand and spot.

    Raises:
        DataError: as `aws_prices`; or the pages form a loop or are too many.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", sku) or not re.fullmatch(r"[a-z0-9]+", region):
        raise DataError(f"azure: {printable(sku)!r} in {printable(region)!r} is not a size and a region")
    wanted = (
        f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '{region}' "
        f"and armSkuName eq '{sku}'"
    )
    page = f"{url}?{urlencode({'currencyCode': 'USD', '$filter': wanted})}"
    found: dict[str, Listed] = {}
    seen: set[str] = set()
    while page:
        if page in seen or len(seen) >= MAX_PAGES:
            raise DataError(f"{url}: the pages form a loop or are more than {MAX_PAGES}; at {printable(page)}")
        seen.add(page)
        content = _json(page)
        items, following = content.get("Items"), content.get("NextPageLink")
        if not isinstance(items, list) or not isinstance(following, str | None):
            raise DataError(f"{printable(page)}: is not a page as Azure documents it: it has no list 'Items'")
        for item in items:
            listed = _azure_listed(item, region, sku, url, page)
            if listed is not None:
                _keep(found, listed, printable(page))
        page = _same_host(url, following) if following else ""
    return [found[name] for name in sorted(found)]


def _azure_listed(item: object, region: str, sku: str, url: str, page: str) -> Listed | None:
    """Return the price in an item; None for Windows, low priority, and anything that was not requested."""
    place = printable(page)
    if not isinstance(item, dict):
        raise DataError(f"{place}: an item is not a mapping")
    texts = {name: item.get(name) for name in ("productName", "skuName", "armSkuName", "armRegionName", "type")}
    if not all(isinstance(value, str) for value in texts.values()):
        raise DataError(f"{place}: an item lacks one of {', '.join(texts)}")
    names = str(texts["productName"]), str(texts["skuName"])
    is_requested = (texts["armSkuName"], texts["armRegionName"], texts["type"]) == (sku, region, "Consumption")
    is_requested = (
        is_requested and item.get("isPrimaryMeterRegion") is not False
    )  # a duplicate, for another region's meter
    if not is_requested or "Windows" in names[0] or "Low Priority" in names[1] or item.get("unitOfMeasure") != "1 Hour":
        return None
    if item.get("currencyCode") != "USD":
        raise DataError(f"{place}: the price is in {printable(item.get('currencyCode'), 20)!r}; only USD is accepted")
    purchase = "spot" if names[1].endswith("Spot") else "on_demand"
    usd = _amount(str(item.get("retailPrice")), place)
    return Listed("azure", sku, region, purchase, usd, _day(str(item.get("effectiveStartDate")), place), url)


def _keep(found: dict[str, Listed], listed: Listed, place: str) -> None:
    """Add a price; zero is how the lists say that there is none.

    Raises:
        DataError: there is another price for the same machine.
    """
    before = found.get(listed.id)
    if listed.usd_per_hour == 0:
        return
    if before is not None and before.usd_per_hour != listed.usd_per_hour:
        raise DataError(
            f"{place}: {listed.id!r} costs {listed.usd_per_hour} here and {before.usd_per_hour} before; which is right?"
        )
    found[listed.id] = listed


def _amount(text: str, place: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    exponent = value.as_tuple().exponent
    if not value.is_finite() or not 0 <= value < 10**7 or not isinstance(exponent, int) or exponent < -12:
        raise DataError(f"{place}: the price is {printable(text, 40)!r}")
    return value.normalize()


def _day(text: str, place: str) -> str:
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T|$)", text):
        raise DataError(f"{place}: {printable(text, 40)!r} is not a date")
    return text[:10]


def _same_host(base: str, url: str) -> str:
    """Return the absolute address of `url`, which must have the scheme and host of `base`.

    Raises:
        DataError: it has others.
    """
    joined = urljoin(base, url)
    if urlsplit(joined)[:2] != urlsplit(base)[:2]:
        raise DataError(f"{base}: points to {printable(joined)} on another host; not followed")
    return joined


def _open(url: str) -> HTTPResponse:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{printable(url)}: is not an http address")
    request = urllib.request.Request(url, headers={"User-Agent": "tta-harness"})  # noqa: S310  (http or https, above)
    try:
        response = urllib.request.urlopen(request, timeout=SILENCE_S)  # noqa: S310
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataError(f"{printable(url)} cannot be fetched: {printable(reason)}") from None
    assert isinstance(response, HTTPResponse)
    return response


def _lines(url: str) -> Iterator[str]:
    """Yield the lines of a text as they arrive; only one is in memory at a time."""
    total = 0
    with _open(url) as response:
        declared = response.headers.get("Content-Length")
        try:
            while line := response.readline(MAX_LINE_BYTES + 1):
                total += len(line)
                if len(line) > MAX_LINE_BYTES or total > MAX_FILE_BYTES:
                    raise DataError(f"{url}: has a line over {MAX_LINE_BYTES:,} or more than {MAX_FILE_BYTES:,} bytes")
                if not line.endswith(b"\n"):
                    raise DataError(f"{url}: was cut off after {total:,} bytes, in the middle of a line")
                yield line.decode("utf-8-sig" if total == len(line) else "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{url}: is not UTF-8 within the first {total:,} bytes") from None
        except (OSError, HTTPException) as error:
            raise DataError(f"{url}: was interrupted after {total:,} bytes: {printable(error)}") from None
    if declared is not None and declared.isdigit() and total < int(declared):
        raise DataError(f"{url}: was cut off after {total:,} of {int(declared):,} bytes")


def _json(url: str) -> dict[str, Any]:
    """Return the object in a page of JSON, with exact numbers."""
    with _open(url) as response:
        try:
            data = response.read(MAX_PAGE_BYTES + 1)
        except (OSError, HTTPException) as error:
            raise DataError(f"{printable(url)}: was interrupted: {printable(error)}") from None
    if len(data) > MAX_PAGE_BYTES:
        raise DataError(f"{printable(url)}: has more than {MAX_PAGE_BYTES:,} bytes")
    try:
        content = json.load(io.BytesIO(data), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{printable(url)}: is not JSON: {printable(error)}") from None
    if not isinstance(content, dict):
        raise DataError(f"{printable(url)}: is not a JSON object")
    return content
