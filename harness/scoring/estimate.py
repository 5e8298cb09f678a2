"""Estimates of the time and cost of a run to target: the reference's samples to target over a throughput. Pure.

Each pair of a reference run (how many samples it took) and a measured run (how fast it went) is one possible run.
The interval is the middle 95 % of those pairs: it reflects the spread of both and assumes no distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

from harness.cost.money import EXACT, billed_seconds, cost_usd, rounded
from harness.cost.price_book import NoPrice, PriceBook, Quote
from harness.errors import InputError, UsageError
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules
from harness.scoring.run_result import derive_ledger

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast one run goes.

    samples_per_s: in training, without evaluations. eval_s: one evaluation. open_s: opening the data. init_s: the time
    before the clock starts. What is None is not known, and left out.
    """

    samples_per_s: float
    eval_s: float | None = None
    open_s: float | None = None
    init_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean, and the range of the middle 95 % of the values."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated time and cost of runs to target.

    samples, seconds: of one run. init_s: mean time before the clock; None where it is not known. usd: (mean, low,
    high) of one run at the quoted price; None where there is no price, and `why_not` says why.
    usd_result: of the `num_runs` runs of a result, one after another on machines held all that time, initialisation
    included, billed as the price row says; None where that is not known. is_ranked: whether the price row may rank.
    """

    sku: str
    nodes: int
    samples: Spread
    seconds: Spread
    init_s: float | None
    num_pairs: int
    usd_per_hour: Decimal | None
    usd: tuple[Decimal, Decimal, Decimal] | None
    usd_result: Decimal | None
    is_ranked: bool
    as_of: str | None
    why_not: str | None = None


def reference_samples(rules: BenchmarkRules, batch_size: int) -> tuple[int, ...]:
    """Samples to target of the reference runs at that batch size.

    Raises:
        UsageError: the rules have none.
    """
    known = {item.global_batch_size: item.samples_to_target for item in rules.reference_convergence}
    if not known:
        raise UsageError(
            f"{rules.name}: the rules have no reference convergence points, so the samples to target are not known"
        )
    if batch_size not in known:
        sizes = ", ".join(str(size) for size in sorted(known))
        raise UsageError(f"{rules.name}: there is no reference at batch size {batch_size}; there is one at {sizes}")
    return known[batch_size]


def paces(logs: Sequence[RunLog]) -> list[Pace]:
    """How fast the runs of a result went; a run that did not end or trained nothing is skipped.

    Raises:
        InputError: every run is skipped.
    """
    found = []
    for log in logs:
        ledger, counts = derive_ledger(log), [event.samples_count or 0 for event in log.all(keys.BLOCK_STOP)]
        starts, stops = log.first(keys.TTA_DATA_OPEN_START), log.first(keys.TTA_DATA_OPEN_STOP)
        open_s = None if starts is None or stops is None else log.seconds(starts, stops)
        begin, end, num_evals = log.first(keys.RUN_START), log.first(keys.RUN_STOP), len(log.all(keys.EVAL_STOP))
        if begin is None or end is None or not counts or not num_evals:
            continue
        train_s = log.seconds(begin, end) - ledger["eval"] - (open_s or 0.0)
        if train_s > 0 and max(counts) > 0:
            found.append(Pace(max(counts) / train_s, ledger["eval"] / num_evals, open_s, ledger.get("init")))
    if not found:
        raise InputError("the speed of no run is known: none has both an end and samples")
    return found


def run_seconds(samples: int, pace: Pace, eval_every_samples: int) -> float:
    """Seconds from run_start to run_stop of a run that takes `samples`; evaluations count where their time is known."""
    evals = math.ceil(samples / eval_every_samples)
    return (pace.open_s or 0.0) + samples / pace.samples_per_s + evals * (pace.eval_s or 0.0)


def spread(values: Sequence[float]) -> Spread:
    """Mean and middle 95 % of `values`, interpolating linearly between them."""
    ordered = sorted(values)
    return Spread(
        math.fsum(ordered) / len(ordered),
        _quantile(ordered, (1 - CONFIDENCE) / 2),
        _quantile(ordered, (1 + CONFIDENCE) / 2),
    )


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def estimate(
    rules: BenchmarkRules,
    samples: Sequence[int],
    measured: Sequence[Pace],
    book: PriceBook,
    sku: str,
    nodes: int = 1,
    gpus_per_node: int | None = None,
) -> Estimate:
    """The estimate for runs of `samples` at the paces `measured` on `nodes` nodes of the price row `sku`."""
    seconds = [run_seconds(one, pace, rules.eval_every_samples) for one, pace in product(samples, measured)]
    inits = [pace.init_s for pace in measured if pace.init_s is not None]
    quote = book.quote(sku, gpus_per_node, is_ranked=False)
    time = spread(seconds)
    shown = Estimate(
        sku=sku,
        nodes=nodes,
        samples=spread(samples),
        seconds=time,
        init_s=math.fsum(inits) / len(inits) if inits else None,
        num_pairs=len(seconds),
        usd_per_hour=None,
        usd=None,
        usd_result=None,
        is_ranked=False,
        as_of=None,
    )
    return _priced(shown, book, quote, rules.num_runs, gpus_per_node)


def _priced(
    shown: Estimate, book: PriceBook, quote: Quote | NoPrice, num_runs: int, gpus_per_node: int | None
) -> Estimate:
    if isinstance(quote, NoPrice):
        return replace(shown, why_not=quote.why)
    hourly = EXACT.multiply(quote.usd_per_hour, Decimal(shown.nodes))
    time, dates = shown.seconds, [part.as_of for part in quote.parts]
    ranked = book.quote(shown.sku, gpus_per_node)
    return replace(
        shown,
        usd_per_hour=hourly,
        usd=(cost_usd(time.mean, hourly), cost_usd(time.low, hourly), cost_usd(time.high, hourly)),
        usd_result=_usd_of_result(shown, quote, num_runs),
        is_ranked=isinstance(ranked, Quote) and ranked.listed is ranked.row,
        as_of=min((day for day in dates if day), default=None) if all(dates) else None,
    )


def _usd_of_result(shown: Estimate, quote: Quote, num_runs: int) -> Decimal | None:
    row = quote.listed
    if row.granularity_s is None or row.minimum_s is None or shown.init_s is None:
        return None
    held_s = billed_seconds(
        Decimal(str(num_runs * (shown.seconds.mean + shown.init_s))), row.granularity_s, row.minimum_s
    )
    hourly = EXACT.multiply(quote.usd_per_hour, Decimal(shown.nodes))
    return rounded(EXACT.divide(EXACT.multiply(held_s, hourly), Decimal(3600)))
