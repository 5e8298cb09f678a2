"""`tta prices`: the books shown, searched, validated and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.ruleset.load import PRICES_FILE, load_prices
from tests.rules_folder import write_ruleset

V1 = Path(__file__).parents[3] / "rules" / "v1" / PRICES_FILE
ROW = (
    "  - {{provider: acme, sku: {sku}, region: here, purchase: on_demand, price: {price}, currency: USD, "
    "unit: instance-h, includes_gpu: false, accelerator: null, num_accelerators: 0, granularity_s: 60, minimum_s: 0, "
    'effective: null, retrieved: "2026-11-09", source: a price list, confidence: A}}\n'
)


def book(place: Path, day: str, *rows: str, head: str = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'date: "{day}"\n{head}prices:\n{"".join(rows)}')
    return place


def row(sku: str, price: str = '"3.60"') -> str:
    return ROW.format(sku=sku, price=price)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["prices", *arguments]) == status
    return capsys.readouterr().out


def test_all_rows_are_shown_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row of the book in force, each with why it does not rank; as JSON, with the price of the whole node."""
    lines = shown(capsys).splitlines()

    ids = [line.split("  ")[0] for line in lines[2:]]
    assert ids == sorted(price.id for price in load_prices(V1).prices)
    assert lines[0] == f"price book of 2026-11-21, {load_prices(V1).digest[:12]}; {len(ids)} of {len(ids)} rows"
    words = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines[2:]}
    assert words["aws/p5.48xlarge/us-east-1/on_demand"] == "yes"
    assert words["aws/p5en.48xlarge/us-east-1/spot"] == "at on_demand"
    assert words["aws/m7i.large/us-east-1/on_demand"] == "undated"
    assert words["aws/p5e.48xlarge/us-east-2/capacity_block"] == "unlisted"
    assert words["gcp/a100-40gb/us-central1/on_demand"] == "part of a node"
    document = json.loads(shown(capsys, "search", "a2-highgpu-1g", "--format", "json"))
    nodes = {price["id"]: price["node_usd_per_hour"] for price in document["prices"]}
    assert nodes["gcp/a2-highgpu-1g/us-central1/on_demand"] == "3.67300"
    assert nodes["gcp/a2-highgpu-1g/us-central1/spot"] is None


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--provider", "azure"], 5),
        (["--provider", "azure", "--gpu", "h100"], 2),
        (["--gpu", "none", "--provider", "aws"], 4),
        (["--region", "us-central1", "--gpu", "H200"], 2),
        (["search", "p5en us-east-2"], 2),
        (["search", "coreweave", "--gpu", "B200"], 3),
    ],
)
def test_rows_are_filtered(arguments: list[str], count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """By provider, accelerator, region and words, as JSON; a search that finds nothing has status 1 and no table."""
    document = json.loads(shown(capsys, *arguments, "--format", "json"))

    assert len(document["prices"]) == count
    assert all(isinstance(price["price"], str) for price in document["prices"])
    assert len(shown(capsys, "search", "nothing-like-it", status=1).splitlines()) == 1


def test_validate_counts_what_can_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The shipped book is valid; a bad one is status 2 and a sentence."""
    found = json.loads(shown(capsys, "validate", str(V1), "--format", "json"))
    assert (found["rows"], found["rows without a date"]) == (50, 21)
    assert "rows that rank: " in shown(capsys, "validate", str(V1))

    bad = book(tmp_path / "bad.yaml", "2026-11-21", row("box", "3.6"))
    assert main(["prices", "validate", str(bad)]) == 2
    assert capsys.readouterr().err.startswith(f"tta: {bad}: prices[0]: price is '3.6'")


def test_diff_names_what_was_added_removed_and_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By file: rows added, removed, changed, and the exchange."""
    rate = 'exchange:\n  - {currency: EUR, usd: "1.08", date: "2026-11-20", source: a bank}\n'
    old = book(tmp_path / "old.yaml", "2026-11-21", row("same"), row("gone"), row("cut", '"98.32"'))
    new = book(tmp_path / "new.yaml", "2026-12-01", row("same"), row("cut", '"55.04"'), row("come"), head=rate)

    assert shown(capsys, "diff", str(old), str(new)).splitlines()[1:] == [
        "+ acme/come/here/on_demand: 3.60",
        "- acme/gone/here/on_demand: 3.60",
        "~ acme/cut/here/on_demand: price 98.32 -> 55.04",
        "~ exchange rates",
    ]
    document = json.loads(shown(capsys, "diff", str(old), str(new), "--format", "json"))
    assert document["changed"] == {"acme/cut/here/on_demand": {"price": ["98.32", "55.04"]}}
    assert shown(capsys, "diff", str(old), str(old)).splitlines()[1:] == ["no row differs"]


def test_books_of_a_ruleset_are_found_by_date_and_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest is shown by default, the others by name; the other books are listed."""
    folder = write_ruleset(tmp_path / "rules")
    first = book(folder / PRICES_FILE, "2026-11-21", row("box"))
    book(folder / "prices" / "later.yaml", "2027-01-01", row("box", '"4"'))
    digest = load_prices(first).digest

    assert "price book of 2027-01-01" in shown(capsys, "--ruleset", str(folder))
    for name in ("2026-11-21", digest[:10], str(first)):
        text = shown(capsys, "--ruleset", str(folder), "--book", name)
        assert text.startswith(f"price book of 2026-11-21, {digest[:12]}")
        assert "other books: " in text
    assert "~ acme/box/here/on_demand: price 3.60 -> 4" in shown(
        capsys, "diff", digest[:10], "2027-01-01", "--ruleset", str(folder)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shw"], "did you mean 'show'"),
        (["search"], "write `tta prices search TEXT`; 0 operands were given"),
        (["diff", "a"], "write `tta prices diff OLD NEW`; 1 operands were given"),
        (["show", "x"], "write `tta prices show`; 1 operands"),
        (["diff", "a", "b"], "neither a file nor the digest or date of one book"),
        (["validate", "/nowhere/x.yaml"], "there is no such file"),
        (["--ruleset", "v9"], "unknown ruleset"),
        (["--format", "xml"], "unknown --format 'xml'"),
    ],
)
def test_bad_request_is_one_sentence_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on standard output."""
    assert main(["prices", *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_ruleset_without_a_book_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prices nothing."""
    folder = write_ruleset(tmp_path / "rules")
    (folder / PRICES_FILE).unlink(missing_ok=True)

    assert main(["prices", "--ruleset", str(folder)]) == 2
    assert "this ruleset prices nothing" in capsys.readouterr().err
