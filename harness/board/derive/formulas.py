"""How each number that is shown comes about: its unit, its formula in words, and where in the files it comes from.

A number is named as `tta score --format json` nests it within a result's row (`score.runs[0].ledger.train`), after
`summary.` as `tta summary` does, after `board.` as the board's data do. Every number of those documents has a rule
here; a test walks through them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Formula:
    """One or more kinds of number. names: patterns; `[*]` is any index, `.*` any one name.

    unit: empty for what has none. places: how its lines are found, a name of `harness.board.derive.numbers`.
    """

    names: tuple[str, ...]
    unit: str
    places: str
    words: str


# Names at the left margin, `|` between them; below, indented: unit (- for none), places, and the formula.
_TABLE = """
score.runs[*].seed | board.runs[*].seed
    -; seed; the value of `seed`
score.runs[*].seconds | board.runs[*].seconds
    s; window; elapsed_ns of `run_stop` less that of `run_start` (time_ms where a log has no elapsed_ns); less the
    time of the evaluations where the rules do not count them; none for a run that did not reach its target
score.runs[*].run_s
    s; window; from `run_start` to the last `run_stop`, whatever was reached
score.runs[*].samples | board.runs[*].samples
    samples; decisive; samples_count (or epoch_num times the training set) of the evaluation that decided: the first
    that reaches the target, with those that confirm it
score.runs[*].quality | board.runs[*].quality
    metric; decisive; the value of the `eval_accuracy` that decided; the best of the run where none did
score.runs[*].evaluations[*].samples | board.runs[*].evaluations[*][0]
    samples; evaluation; samples_count of the `eval_accuracy` (or epoch_num times the training set)
score.runs[*].evaluations[*].seconds | board.runs[*].evaluations[*][1]
    s; evaluation; from `run_start` to the `eval_accuracy`
score.runs[*].evaluations[*].quality | board.runs[*].evaluations[*][2]
    metric; evaluation; the value of the `eval_accuracy`
score.runs[*].evaluations[*].num_examples
    examples; evaluation; num_examples of the `eval_accuracy`
score.runs[*].evaluations[*].line
    -; evaluation; the line of the `eval_accuracy` in the file
score.runs[*].ledger.init | board.runs[*].ledger_s.init
    s; init; from the first `init_start` to the last `init_stop`
score.runs[*].ledger.data | board.runs[*].ledger_s.data
    s; data; from `tta_data_open_start` to `tta_data_open_stop`, and the data_wait_s of each block, no more than the
    block is long; inside `run_start` to `run_stop`
score.runs[*].ledger.train | board.runs[*].ledger_s.train
    s; blocks; sum of `block_start` to `block_stop` inside the run, less the waiting for data
score.runs[*].ledger.eval | board.runs[*].ledger_s.eval
    s; evals; sum of `eval_start` to `eval_stop` inside the run
score.runs[*].ledger.checkpoint | board.runs[*].ledger_s.checkpoint
    s; window; 0: nothing of the kind is logged
score.runs[*].ledger.other | board.runs[*].ledger_s.other
    s; window; run_s less data, train and eval
score.runs[*].data_wait_fraction
    fraction; blocks; waiting for data in the blocks, over the length of the blocks
score.runs[*].usd | board.runs[*].usd
    USD; price; seconds / 3600 times the list price of an hour of all nodes; rounded once, to a millionth
score.runs[*].energy_j | score.runs[*].energy.joules | board.runs[*].energy_j | board.runs[*].energy.joules
    J; power; sum over the meters in use of their joules from `run_start` to `run_stop`: counters by difference, power
    by the trapezoid, both interpolated onto the edges
score.runs[*].energy.uncertainty_j | board.runs[*].energy.u95_j
    J; power; half width of the 95 % interval: accuracies of meters of one kind added up, all else added in squares
score.runs[*].energy.mean_w | board.runs[*].energy.mean_w
    W; power; the joules over the seconds of the run
score.runs[*].energy.share_estimated | board.runs[*].energy.share_estimated
    fraction; power; joules of modelled meters over all joules
score.runs[*].energy.coverage | board.runs[*].energy.coverage
    fraction; power; of the worst meter: time between its first and last reading in the run, over the run
score.runs[*].energy.longest_gap_s | board.runs[*].energy.longest_gap_s
    s; power; of the worst meter: longest time without a good reading, edges included
score.runs[*].energy.num_samples | board.runs[*].energy.num_samples
    readings; power; of the worst meter: good readings from `run_start` to `run_stop`
score.runs[*].energy.num_nodes | board.runs[*].energy.num_nodes
    nodes; power; power logs that are of no switch
score.runs[*].energy.num_wraps
    -; power; times a counter began at zero again as it is built to
score.runs[*].energy.num_resets
    -; power; times a counter began anew otherwise
score.runs[*].energy.num_failed
    -; power; readings that gave nothing
score.runs[*].energy.clock_error_s
    s; power; the worst node's clock offset left after correction
score.runs[*].energy.right_riemann_j
    J; power; MLPerf's sum: each reading times the time since the one before it
score.runs[*].energy.parts[*].joules
    J; power; the joules of one meter in the run
score.runs[*].energy.parts[*].uncertainty_j
    J; power; half width of the 95 % interval of one meter
score.runs[*].energy.parts[*].integral.*
    as named; power; of one meter, from `run_start` to `run_stop`: see harness/energy/integral.py
score.runs[*].idle_w
    W; idle; mean power of the idle baseline, all nodes together
score.seconds | board.seconds
    s; windows; mean of the seconds of the runs that are not in `dropped`, times normalised_by
score.raw_seconds | board.raw_seconds
    s; windows; mean of the seconds of the runs not in `dropped`
score.interval[*] | board.interval[*]
    s; windows; 95 % interval of the trimmed mean: mean -/+ t(0.975, h - 1) times the Winsorised deviation times
    sqrt(n) / h, times normalised_by, never below 0; n runs, h of them kept
score.normalised_by | score.convergence.factor | board.normalised_by
    -; convergence; reference_mean over submission_mean where the reference needed more samples, else 1
score.samples | board.samples
    samples; decisives; mean of the samples of the runs but the `drop` most and fewest
score.convergence.submission_mean
    samples; decisives; trimmed mean of the samples of the runs
score.convergence.reference_mean
    samples; convergence; trimmed mean of the reference's samples to target at this batch size, pruned and
    interpolated
score.convergence.acceptable_mean
    samples; convergence; reference mean less t(0.95, n_ref + n_sub - 2) times its deviation times sqrt(1 / n_ref + 1
    / n_sub)
score.convergence.max_speedup
    -; convergence; reference_mean over acceptable_mean
score.dropped[*] | board.dropped[*]
    index; windows; the `drop` fastest and the `drop` slowest runs; one that missed the target is slowest of all
score.usd | board.usd | board.cost.usd
    USD; prices; mean seconds of the runs not in `dropped`, times normalised_by, / 3600, times the list price of an
    hour of all nodes; rounded once, to a millionth
board.cost.usd_per_hour
    USD/h; prices; list price of a node times the number of nodes
board.cost.interval[*]
    USD; prices; the interval of the seconds times usd / seconds
electricity_usd | board.cost.electricity_usd
    USD; price; measured energy times the price of a kWh in the price book
score.energy_j | score.energy.joules | board.energy_j | board.energy.joules | summary.energy.joules
    J; powers; mean of the joules of the runs that the time is a mean of, times normalised_by (of the summary: of all
    runs that reached the target, as they are)
score.energy.low_j | score.energy.high_j | board.energy.interval[*] | summary.energy.low_j | summary.energy.high_j
    J; powers; joules -/+ the mean half width of the runs and Student's t over their spread, added in squares
score.energy.share_estimated | board.energy.share_estimated | summary.energy.share_estimated
    fraction; powers; modelled joules over all joules of these runs
score.energy.mean_w | board.energy.mean_w | summary.energy.mean_w
    W; powers; mean of the runs' mean power
score.energy.idle_w | board.energy.idle_w | summary.energy.idle_w
    W; idle; mean power of the idle baseline
bill.interruptions
    -; billing; as declared
bill.attempts
    -; billing; how many times a node was held, as declared
bill.seconds
    s; billing; held time of every node, by the provider's minimum and granularity
bill.usd | board.cost.billed_usd
    USD; billing; nodes, storage and traffic as declared, at list prices
bill.compute_usd
    USD; billing; the nodes alone, at the on-demand list price
bill.paid_usd | board.cost.as_bought_usd
    USD; billing; the nodes, at the list price of the purchase
band | board.band
    -; tree; 1 and how many are in faster bands; a row leaves its leader's band when Yuen's test says slower (p <
    0.05)
energy_place.rank | board.energy.rank
    -; tree; 1 and how many are ahead on this board and in this scope; overlapping intervals share a rank
board.cost.rank
    -; tree; 1 and how many are cheaper beyond doubt (Yuen's test, p < 0.05)
num_errors | board.errors
    -; findings; findings of severity error that are not waived
num_warnings | board.warnings
    -; findings; findings of severity warning that are not waived
board.findings[*].count
    -; findings; findings of this code, severity, file and waiver whose messages differ in numbers only
board.files[*].bytes
    bytes; files; the size of the file
summary.target | board.target
    metric; rules; the rules' target
board.num_runs
    runs; rules; the rules' number of runs
board.drop
    runs; rules; how many fastest and slowest the rules leave out
summary.baseline[*]
    metric; rules; the rules' best solution without training
board.without_training.*
    metric; rules; the rules' solutions without training
summary.variation
    fraction; rules; deviation over mean of the reference's samples to target at the reference batch size
summary.num_runs
    runs; files; logs that are no reference runs, those that cannot be read among them
summary.num_reached
    runs; decisives; runs that reached the target
summary.quality[*]
    metric; decisives; lowest and highest quality of the runs
summary.mean_samples
    samples; decisives; mean of the samples of the runs that reached the target
summary.median_s
    s; windows; median of the seconds of the runs that reached the target
summary.data_wait_fraction
    fraction; blocks; mean of the runs' data_wait_fraction
"""


def _formulas() -> Iterator[Formula]:
    """The table, parsed."""
    for entry in re.finditer(r"((?:^\S.*\n)+)((?:^    .*\n)+)", _TABLE, re.MULTILINE):
        unit, places, words = " ".join(entry[2].split()).split("; ", 2)
        names = tuple(name.strip() for name in entry[1].replace("\n", " ").split("|") if name.strip())
        yield Formula(names, "" if unit == "-" else unit, places, words)


FORMULAS = tuple(_formulas())


@cache
def _compiled() -> list[tuple[re.Pattern[str], Formula]]:
    return [
        (
            re.compile(re.escape(name).replace(r"\[\*\]", r"\[[0-9]+\]").replace(r"\.\*", r"\.[^.\[\]]+")),
            formula,
        )
        for formula in FORMULAS
        for name in formula.names
    ]


@cache
def _by_kind(kind: str) -> Formula | None:
    name = kind.replace("[*]", "[0]")
    return next((formula for pattern, formula in _compiled() if pattern.fullmatch(name)), None)


def kind_of(name: str) -> str:
    """`score.runs[*].seconds` of `score.runs[3].seconds`."""
    return re.sub(r"\[[0-9]+\]", "[*]", name)


def formula_of(name: str) -> Formula | None:
    """The rule for a number; None where there is none, which is a bug of ours."""
    return _by_kind(kind_of(name))
