"""What a board has, for other programs: results and public events as CSV, and a feed of what was published."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from sqlalchemy import Connection, RowMapping, select

from harness.board.pages.words import spreadsheet_cell
from harness.service import publication, repetitions, results, schema
from harness.service.instance import Instance
from harness.service.states import PUBLIC, WORDS, State

RESULT_COLUMNS = (
    "benchmark", "division", "ruleset", "ruleset_digest", "rank_first", "rank_last", "organisation", "system",
    "category", "accelerator", "num_accelerators", "state", "seconds", "low", "high", "measured_seconds", "samples",
    "joules", "usd", "witness", "published_ms", "submission", "digest", "repeats", "reproduced_by",
    "not_reproduced_by", "inconclusive_by", "own_reproductions",
)  # fmt: skip
EVENT_COLUMNS = ("seq", "at_ms", "kind", "subject", "body", "prev", "salt")
_RENAMED = {"rank_first": "first", "rank_last": "last", "organisation": "organisation_name"}
_TALLIED = {
    "reproduced_by": "reproduced", "not_reproduced_by": "not_reproduced", "inconclusive_by": "inconclusive",
    "own_reproductions": "own",
}  # fmt: skip
_STEP = 1000
_FEED_ENTRIES = 50
_ATOM = "http://www.w3.org/2005/Atom"


def results_csv(connection: Connection) -> Iterator[bytes]:
    """Yield every ranked result as a line of CSV, by table and score, after a line of names; safe for spreadsheets."""
    yield _lines([RESULT_COLUMNS])
    for part in _parts(connection):
        yield _lines([list(item.values()) for item in part])


def results_parquet(connection: Connection) -> bytes:
    """Return every ranked result as a Parquet file, with the columns of the CSV and their types."""
    import pyarrow  # takes a third of a second, which the workers need not spend
    from pyarrow import parquet

    kinds = {name: pyarrow.string() for name in RESULT_COLUMNS}
    kinds |= dict.fromkeys(
        ("seconds", "low", "high", "measured_seconds", "samples", "joules", "usd"), pyarrow.float64()
    )
    whole = ("rank_first", "rank_last", "num_accelerators", "published_ms", *_TALLIED)
    kinds |= dict.fromkeys(whole, pyarrow.int64())
    schema_ = pyarrow.schema(list(kinds.items()))
    data = io.BytesIO()
    with parquet.ParquetWriter(data, schema_) as writer:
        for part in _parts(connection):
            writer.write_table(pyarrow.Table.from_pylist(part, schema_))
    return data.getvalue()


def _parts(connection: Connection) -> Iterator[list[dict[str, Any]]]:
    """Yield every ranked result by table and score, some at a time, by the names of `RESULT_COLUMNS`."""
    row = schema.board_row
    order = (row.c.benchmark, row.c.division, row.c.ruleset_digest, row.c.seconds, row.c.verdict)
    query = results.ranked().order_by(*order)
    needed = {"verdict", *(_RENAMED.get(name, name) for name in RESULT_COLUMNS)}
    query = query.with_only_columns(*(item for item in query.selected_columns if item.name in needed))
    found = connection.execution_options(yield_per=_STEP).execute(query).mappings()
    for part in found.partitions(_STEP):
        tallies = repetitions.tallies(connection, part)
        yield [_named(item, tallies[item["verdict"]].record()) for item in part]


def _named(item: RowMapping, tally: Mapping[str, int]) -> dict[str, Any]:
    return {
        name: tally[_TALLIED[name]] if name in _TALLIED else item[_RENAMED.get(name, name)] for name in RESULT_COLUMNS
    }


def events_csv(connection: Connection) -> Iterator[bytes]:
    """Yield every public event as a line of CSV, with the salt that opens its leaf, after a line of names."""
    yield _lines([EVENT_COLUMNS])
    start = 0
    while found := publication.public_openings(connection, start, _STEP):
        lines = []
        for opening in found:
            event = opening.event
            named = {**event, "body": json.dumps(event["body"], sort_keys=True), "salt": opening.salt}
            lines.append([named[name] for name in EVENT_COLUMNS])
        yield _lines(lines)
        start = found[-1].seq + 1


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows(["" if value is None else spreadsheet_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def feed(connection: Connection, instance: Instance) -> bytes:
    """Return the feed of the newest publications, disputes and retractions, as Atom.

    Source: RFC 4287.
    """
    table, organisation, url = schema.submission, schema.organisation, instance.settings.url
    columns = (table.c.id, table.c.benchmark, table.c.division, table.c.system, table.c.state, table.c.changed_ms)
    query = (
        select(*columns, organisation.c.name)
        .join(organisation, organisation.c.id == table.c.organisation)
        .where(table.c.state.in_(PUBLIC))
        .order_by(table.c.changed_ms.desc(), table.c.id.desc())
        .limit(_FEED_ENTRIES)
    )
    rows = connection.execute(query).all()
    ElementTree.register_namespace("", _ATOM)
    root = ElementTree.Element(f"{{{_ATOM}}}feed")
    _add(root, "title", "Time to accuracy: results")
    _add(root, "id", url)
    _add(root, "updated", _time(max((row.changed_ms for row in rows), default=0)))
    ElementTree.SubElement(root, f"{{{_ATOM}}}link", href=f"{url}feed.xml", rel="self")
    for row in rows:
        entry = ElementTree.SubElement(root, f"{{{_ATOM}}}entry")
        page = f"{url}results/{row.id}.html"
        _add(entry, "title", f"{row.benchmark}, {row.division}: {row.name}, {row.system}: {WORDS[State(row.state)]}")
        _add(entry, "id", f"{page}#{row.state}")
        _add(entry, "updated", _time(row.changed_ms))
        ElementTree.SubElement(entry, f"{{{_ATOM}}}link", href=page)
        _add(ElementTree.SubElement(entry, f"{{{_ATOM}}}author"), "name", row.name)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}").text = text


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
