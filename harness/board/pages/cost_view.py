"""The ranking by cost at list price; unranked: the declared bill, electricity and the price paid."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from markupsafe import Markup

from harness.base.stats import Estimate, rank_intervals
from harness.base.values import positive_int
from harness.board.charts.scales import Label
from harness.board.charts.scatter import Dot, front_of, scatter_chart
from harness.board.index import Entry
from harness.board.pages.time_view import RowView, TableView, cost_words, row_name
from harness.board.pages.words import TO, plural, significant
from harness.cost.money import EXACT, mean_cost_usd
from harness.cost.price_book import NoPrice, Price, Quote
from harness.scoring.score import Score


def usd_interval(score: Score) -> tuple[float, float] | None:
    """95 % interval of the cost: that of the score times the price, which is exact."""
    return _priced(score.interval, score.seconds, score.usd)


def measured_usd_interval(score: Score) -> tuple[float, float] | None:
    """The same of the measured time at list price."""
    return _priced(score.measured_interval, score.measured_seconds, score.measured_usd)


def _priced(
    interval: tuple[float, float] | None, seconds: float | None, usd: Decimal | None
) -> tuple[float, float] | None:
    if usd is None or not seconds or interval is None:
        return None
    return interval[0] * float(usd) / seconds, interval[1] * float(usd) / seconds


PURCHASE_WORDS = {
    "on_demand": "on demand",
    "spot": "spot",
    "reserved_1y": "reserved for a year",
    "reserved_3y": "reserved for three years",
    "capacity_block": "capacity block",
    "on_prem": "own machine",
}


@dataclass(frozen=True, slots=True)
class CostRow:
    """One result by cost. ranks: None where it is not ranked by cost; `reason` then says why.

    usd, interval, measured, measured_interval, per_hour: texts; per_hour is of all nodes.
    electricity: of a run on the submitter's own machine.
    bill: the declared use at list prices, with `bill_note`. paid: the nodes as bought, for information.
    mark: the label of its point in the chart; None without one.
    """

    view: RowView
    ranks: tuple[int, int] | None
    usd: str | None
    interval: str | None
    measured: str | None
    measured_interval: str | None
    per_hour: str | None
    price: Price | None
    electricity: str | None
    bill: str | None
    bill_note: str | None
    paid: str | None
    reason: str | None
    mark: str | None = None
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class CostView:
    """A table by cost: ranked rows, the other rows, and a chart of cost over time."""

    key: str
    division: str
    ranked: tuple[CostRow, ...]
    others: tuple[CostRow, ...]
    chart: Markup
    num_missed: int

    def of(self, entry: Entry) -> CostRow:
        """The row of an entry that is in the table."""
        return next(row for row in (*self.ranked, *self.others) if row.view.entry.place == entry.place)

    @property
    def has_bills(self) -> bool:
        return any(row.bill or row.bill_note or row.paid or row.electricity for row in (*self.ranked, *self.others))


def cost_view(table: TableView) -> CostView:
    """The table by cost, cheapest first."""
    priced = [view for view in table.ranked if view.row.score.usd is not None]
    priced.sort(key=lambda view: (view.row.score.usd or Decimal(0), view.row.score.seconds or 0.0, view.row.path))
    # The price is exact: the errors of the cost are those of the time.
    places = rank_intervals([Estimate(float(view.row.score.usd or 0), view.row.score.errors) for view in priced])
    missed = [(view, spent) for view in table.others if (spent := _spent(view)) is not None]
    dots = [_dot(view, str(number)) for number, view in enumerate(priced, 1)]
    dots += [
        Dot(row_name(view.row), str(number), spent[0], spent[1], is_reached=False)
        for number, (view, spent) in enumerate(missed, len(priced) + 1)
    ]
    best = {dots[index].mark for index in front_of(dots)}
    rows = [
        _row(view, place, str(number), str(number) in best)
        for number, (view, place) in enumerate(zip(priced, places, strict=True), 1)
    ]
    marks = {id(view): str(number) for number, (view, _) in enumerate(missed, len(priced) + 1)}
    rest = [view for view in table.ranked if view.row.score.usd is None]
    others = [_row(view, None, marks.get(id(view))) for view in (*rest, *table.others)]
    text = f"{plural(len(priced), 'result')} by score and cost; lower is better for both"
    label = Label(f"cost-{table.key}", "Cost and score", f"{text}. Filled points are on the Pareto front.")
    chart = scatter_chart(label, dots if len(dots) > 1 else [], "score, seconds", "US dollars per run")
    return CostView(table.key, table.division, tuple(rows), tuple(others), chart, len(missed))


def usd_words(low: float, high: float) -> str:
    """An interval of a cost, both ends to the same number of digits: `0.19 – 0.21`."""
    digits = 2 if low >= 1 else None
    return TO.join(f"{end:,.2f}" if digits else significant(end, 3) for end in (low, high))


def _dot(view: RowView, mark: str) -> Dot:
    score = view.row.score
    assert score.usd is not None
    assert score.seconds is not None
    return Dot(row_name(view.row), mark, score.seconds, float(score.usd), score.interval, usd_interval(score))


def _spent(view: RowView) -> tuple[float, float] | None:
    """Mean seconds and dollars of a valid result that has a price and missed its target."""
    usd_per_hour = hourly(view)
    lengths = [run.run_s for run in view.row.score.runs if run.run_s is not None]
    if view.row.score.seconds is not None or not view.missed or usd_per_hour is None or not lengths:
        return None
    return sum(lengths) / len(lengths), float(mean_cost_usd(lengths, usd_per_hour))


def hourly(view: RowView) -> Decimal | None:
    """US dollars per hour of all nodes of the row's system; None where the price or their number is not known."""
    quote = view.entry.quote
    nodes = positive_int((view.entry.system or {}).get("number_of_nodes"))
    return EXACT.multiply(quote.usd_per_hour, Decimal(nodes)) if isinstance(quote, Quote) and nodes else None


def _row(view: RowView, ranks: tuple[int, int] | None, mark: str | None, is_best: bool = False) -> CostRow:
    row, quote = view.row, view.entry.quote
    interval, measured, usd_per_hour, bill = usd_interval(row.score), row.score.measured_usd, hourly(view), row.bill
    measured_interval = measured_usd_interval(row.score)
    if ranks is not None:
        reason = None
    elif view.reason is not None:
        reason = f"the result is not ranked: {view.reason}"
    else:
        reason = quote.why if isinstance(quote, NoPrice) else "the number of nodes is not known"
    return CostRow(
        view=view,
        ranks=ranks,
        usd=None if row.score.usd is None else cost_words(row.score.usd),
        interval=None if interval is None else usd_words(*interval),
        measured=None if measured is None else cost_words(measured),
        measured_interval=None if measured_interval is None else usd_words(*measured_interval),
        per_hour=None if usd_per_hour is None else f"{usd_per_hour.normalize():,f}",
        price=view.entry.price,
        electricity=None if row.electricity_usd is None else cost_words(row.electricity_usd),
        bill=None if bill is None or bill.usd is None else cost_words(bill.usd),
        bill_note=None if bill is None else bill_words(view),
        paid=None if bill is None or bill.paid_usd is None else cost_words(bill.paid_usd),
        reason=reason,
        mark=mark,
        is_best=is_best,
    )


def bill_words(view: RowView) -> str:
    """The declared use in one line."""
    bill = view.row.bill
    assert bill is not None
    declared = bill.declared
    text = f"{plural(len(declared.attempts), 'node allocation')}, {PURCHASE_WORDS[declared.purchase]}"
    if declared.interruptions is not None:
        text += f", {plural(declared.interruptions, 'interruption')}"
    return text + (f"; no list price: {bill.why_not}" if bill.usd is None else "")
