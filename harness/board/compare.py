"""Two results held against each other: numbers with their intervals, where the time went, what was set, the curves.

A side is what a result is compared by, whatever made it; the comparison page of the site computes the same from the
sides alone (`static/compare.js`). A difference is significant if Welch's t-test on logarithms, the test by which the
ranks of a table are made, gives a p-value below 5 %. It is a test of one pair: a table compares all its pairs at once
and is stricter.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.base.stats import Estimate, p_equal
from harness.base.text_table import aligned
from harness.board.charts.lines import thinned
from harness.board.index import LogHeader
from harness.board.leaderboard import Row
from harness.board.pages.cost_view import usd_interval
from harness.board.pages.time_view import energy_group, mean_phases, points_of, run_name
from harness.board.pages.words import plural, setting_words, significant, value_words
from harness.board.rounds import RoundEntry
from harness.energy.limits import EnergyLimits
from harness.energy.score import ScoreEnergy
from harness.errors import UsageError, printable
from harness.log import keys
from harness.ruleset.model import RuleSet

SIGNIFICANT = 0.05
MAX_POINTS = 60  # of a curve; more make no visible difference


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of a result. errors: of its logarithm, as in `Estimate`.

    group: only amounts of one group are tested against each other; None: this one is not. note: why, or how it was got.
    """

    name: str
    unit: str
    value: float | None
    interval: tuple[float, float] | None = None
    errors: tuple[tuple[float, float], ...] = ()
    group: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """The quality of one run: pairs of a position and a quality."""

    name: str
    is_hit: bool
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Side:
    """What a result is compared by. Texts are as logged: untrusted.

    place: where it is, for a reader. why_not: why it has no score. score: name and unit of `amounts[0]`.
    phases: mean seconds of its runs. settings: hyperparameters and what else was chosen.
    quality, target, limits: the name of the metric, what is to be reached, and the range of possible values.
    position: what the curves are over.
    """

    place: str
    submitter: str
    system: str
    ruleset: str
    benchmark: str
    division: str
    num_errors: int
    why_not: str | None
    amounts: tuple[Amount, ...]
    phases: Mapping[str, float]
    settings: Mapping[str, str]
    quality: str
    target: float | None
    limits: tuple[float, float] | None
    curves: tuple[Curve, ...]
    position: str = "seconds since run_start"

    @property
    def name(self) -> str:
        return f"{self.submitter}, {self.system}"


def side_of(row: Row, header: LogHeader | None, ruleset: RuleSet) -> Side:
    """The side of a result of a benchmark of the ruleset. header: that of its first log; None: it has none."""
    score, energy, measured = row.score, row.score.energy, row.score.measured_energy
    rules = ruleset.benchmarks[score.benchmark]
    group = energy_group(energy)
    return Side(
        place=row.path,
        submitter=row.submitter,
        system=row.system,
        ruleset=ruleset.version,
        benchmark=score.benchmark,
        division=score.division,
        num_errors=row.num_errors,
        why_not=score.why_not or ("it has no score" if score.seconds is None else None),
        amounts=(
            Amount("score", "s", score.seconds, score.interval, score.errors, "score"),
            Amount("measured time", "s", score.measured_seconds, score.measured_interval, note="not ranked"),
            Amount("seconds per sample", "s", score.pace_s, note="part of the score"),
            Amount("samples to target", "", score.samples, note="not ranked"),
            Amount(
                "energy",
                "J",
                None if energy is None else energy.joules,
                None if energy is None else energy.interval,
                () if energy is None else energy.errors,
                group,
                _energy_note(energy, ruleset.energy),
            ),
            Amount("measured energy", "J", None if measured is None else measured.joules, note="not ranked"),
            Amount(
                "cost",
                "USD",
                None if score.usd is None else float(score.usd),
                usd_interval(score),
                score.errors,
                None if score.usd is None else "list price",
                "no price" if score.usd is None else "at list price",
            ),
        ),
        phases=mean_phases(score),
        settings={} if header is None else _settings(header),
        quality=f"{rules.metric.name} ({rules.metric.unit})",
        target=rules.target,
        limits=rules.quality_range,
        curves=tuple(Curve(run_name(run), run.seconds is not None, curve_points(points_of(run))) for run in score.runs),
    )


def _settings(header: LogHeader) -> dict[str, str]:
    network = {} if header.network is None else {"network": header.network}
    return {**settings_of(header.config), **network}


def _energy_note(energy: ScoreEnergy | None, limits: EnergyLimits) -> str:
    if energy is None:
        return "not measured"
    if energy.may_rank:
        return f"class {energy.meter_class}, {energy.scope}"
    state = "estimated" if energy.meter_class == "E" else "void"
    reasons = ", ".join(reason.words(limits) for reason in energy.void)
    return f"{state}: {reasons}" if reasons else state


def curve_points(points: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> tuple[tuple[float, float], ...]:
    """At most `limit` points of a curve, in as many digits as a chart shows."""
    return tuple((round(x, 3), float(f"{y:.6g}")) for x, y in thinned(points, limit))


def side_of_round(entry: RoundEntry) -> Side:
    """The side of a result of an MLPerf round. Its curves have fewer points, the more runs there are."""
    energy, limit = entry.energy, max(MAX_POINTS // 5, 2 * MAX_POINTS // max(1, len(entry.runs)))
    heights = [quality for run in entry.runs for _, quality in run.curve]
    return Side(
        place=entry.place,
        submitter=entry.submitter,
        system=entry.system,
        ruleset=entry.ruleset,
        benchmark=entry.benchmark,
        division=entry.division,
        num_errors=entry.num_errors,
        why_not=entry.why_not or ("it has no score" if entry.seconds is None else None),
        amounts=(
            Amount(
                "score",
                "s",
                entry.seconds,
                entry.interval,
                () if entry.estimate is None else entry.estimate.errors,
                "score",
            ),
            Amount("before normalisation", "s", entry.raw_seconds, note="not ranked"),
            Amount("energy", "J", None if energy is None else energy.drawn_j, note="not ranked"),
            Amount("accelerators", "", entry.num_accelerators, note="described"),
        ),
        phases=entry.phases,
        settings={name: value for name, value in entry.settings if name != keys.SEED},
        quality=entry.quality,
        target=entry.target,
        limits=(min(0.0, *heights), max(1.0, *heights)) if heights else None,
        curves=tuple(Curve(run.name, run.complies, curve_points(run.curve, limit)) for run in entry.runs),
        position=entry.position,
    )


def settings_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Hyperparameters, then what else was chosen; not the seed, which differs between the runs."""
    found: dict[str, str] = {}
    for part in ("hyperparameters", "execution"):
        values = config.get(part)
        if isinstance(values, Mapping):
            found |= {str(name): value_words(value) for name, value in sorted(values.items())}
    left = {"benchmark", "workload", "suite", "division", "seed", "hyperparameters", "execution"}
    return found | {
        setting_words(name): value_words(value) for name, value in sorted(config.items()) if name not in left
    }


@dataclass(frozen=True, slots=True)
class Line:
    """One amount of both sides. ratio: the first over the second, with its 95 % interval.

    p: of the test that they are equal. verdict: what the numbers say, in words.
    """

    a: Amount
    b: Amount
    ratio: float | None
    interval: tuple[float, float] | None
    p: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results of one benchmark and division. settings: those that differ; None where a side does not have one."""

    a: Side
    b: Side
    lines: tuple[Line, ...]
    phases: tuple[tuple[str, float | None, float | None], ...]
    settings: tuple[tuple[str, str | None, str | None], ...]
    num_equal_settings: int


def compare(a: Side, b: Side) -> Comparison:
    """The comparison of two results.

    Raises:
        UsageError: they cannot be compared: another ruleset, benchmark or division, or no score.
    """
    for what in ("ruleset", "benchmark", "division"):
        one, other = getattr(a, what), getattr(b, what)
        if one != other:
            raise UsageError(
                f"{printable(a.place)} and {printable(b.place)} cannot be compared: their {what}s are "
                f"{printable(one, 60)} and {printable(other, 60)}"
            )
    for side in (a, b):
        if side.why_not is not None:
            raise UsageError(f"{printable(side.place)} cannot be compared: no score: {printable(side.why_not, 400)}")
    names = [name for name in dict.fromkeys([*a.settings, *b.settings]) if a.settings.get(name) != b.settings.get(name)]
    return Comparison(
        a=a,
        b=b,
        lines=tuple(
            _line(one, other)
            for one, other in zip(a.amounts, b.amounts, strict=True)
            if one.value is not None or other.value is not None
        ),
        phases=tuple((name, a.phases.get(name), b.phases.get(name)) for name in dict.fromkeys([*a.phases, *b.phases])),
        settings=tuple((name, a.settings.get(name), b.settings.get(name)) for name in names),
        num_equal_settings=len({*a.settings, *b.settings}) - len(names),
    )


def _line(a: Amount, b: Amount) -> Line:
    ratio = interval = p = None
    if a.value is not None and b.value is not None and min(a.value, b.value) > 0:
        ratio = a.value / b.value
    if ratio is None or a.group is None or b.group is None:
        notes = dict.fromkeys(amount.note for amount in (a, b) if amount.group is None and amount.note)
        verdict = "; ".join(notes) or "not compared"
    elif a.group != b.group:
        verdict, ratio = f"not compared: {a.note}; {b.note}", None
    else:
        one, other = Estimate(a.value or 0.0, a.errors), Estimate(b.value or 0.0, b.errors)
        interval = Estimate(ratio, (*a.errors, *b.errors)).interval() if a.errors and b.errors else None
        p = p_equal(one, other)
        verdict = _verdict_words(ratio, p)
    return Line(a, b, ratio, interval, p, verdict)


def _verdict_words(ratio: float, p: float) -> str:
    """`significant: A is 12 % lower`, or that the runs cannot tell the two apart."""
    if p > SIGNIFICANT:
        return "not significant: the runs cannot tell them apart"
    lower, share = ("A", 1 - ratio) if ratio < 1 else ("B", 1 - 1 / ratio)
    return f"significant: {lower} is {significant(100 * share, 2)} % lower"


def side_document(side: Side) -> dict[str, Any]:
    """A side as JSON, every number in full precision."""
    return asdict(side)


def comparison_document(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "format": 1,
        "a": side_document(found.a),
        "b": side_document(found.b),
        "lines": [
            {
                "name": line.a.name,
                "unit": line.a.unit,
                "a": line.a.value,
                "b": line.b.value,
                "ratio": line.ratio,
                "ratio_interval": line.interval,
                "p": line.p,
                "is_significant": None if line.p is None else line.p <= SIGNIFICANT,
                "verdict": line.verdict,
            }
            for line in found.lines
        ],
        "phases": [{"name": name, "a": a, "b": b} for name, a, b in found.phases],
        "settings": [{"name": name, "a": a, "b": b} for name, a, b in found.settings],
        "num_equal_settings": found.num_equal_settings,
    }


def comparison_text(found: Comparison) -> str:
    """The comparison for a terminal."""
    a, b = found.a, found.b
    parts = [
        f"{printable(a.benchmark, 60)}, {printable(a.division, 40)} division, ruleset {printable(a.ruleset, 60)}",
        "\n".join(_head(letter, side) for letter, side in (("A", a), ("B", b))),
        aligned(
            ("", "A", "B", "A / B", "95 % interval", "p", "difference"),
            [_cells(line) for line in found.lines],
            frozenset({0, 6}),
        ),
    ]
    if found.phases:
        rows = [(name, _seconds(one), _seconds(other)) for name, one, other in found.phases]
        parts.append("where the time went, mean of the runs\n" + aligned(("phase", "A", "B"), rows, frozenset({0})))
    if found.settings:
        changed = [(name, one or "-", other or "-") for name, one, other in found.settings]
        parts.append("settings that differ\n" + aligned(("setting", "A", "B"), changed, frozenset({0, 1, 2})))
    parts.append(f"{plural(found.num_equal_settings, 'setting')} equal")
    parts += [_curves_text(a, b)] if a.curves and b.curves and a.position == b.position else []
    parts.append(
        "p: the probability of a difference at least this large between equal systems, by Welch's t-test on\n"
        "logarithms; significant below 5 %. It is a test of two results chosen beforehand: a table's ranks compare\n"
        "all its pairs at once and are stricter."
    )
    return "\n\n".join(parts)


def _head(letter: str, side: Side) -> str:
    faults = f"; not valid: {plural(side.num_errors, 'error')}" if side.num_errors else ""
    return f"{letter}: {printable(side.name, 200)} ({printable(side.place, 300)}){faults}"


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.a.name,
        _number(line.a),
        _number(line.b),
        "-" if line.ratio is None else f"{line.ratio:.4f}",
        "-" if line.interval is None else f"{line.interval[0]:.4f} to {line.interval[1]:.4f}",
        "-" if line.p is None else p_words(line.p),
        line.verdict,
    )


def _number(amount: Amount) -> str:
    if amount.value is None:
        return amount.note or "-"
    return f"{significant(amount.value, 5)} {amount.unit}" if amount.unit else f"{amount.value:,.10g}"


def p_words(p: float) -> str:
    """`0.012`; below a ten-thousandth, `< 0.0001`."""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f} s"


def _curves_text(a: Side, b: Side) -> str:
    """The quality of each side's median run at six places of an axis that both share."""
    middle = [median_run(side.curves) for side in (a, b)]
    end = max((run.points[-1][0] for run in middle if run.points), default=0.0)
    moments = [end * share / 6 for share in range(1, 7)]
    rows = [(significant(at, 5), *(_quality_at(run, at) for run in middle)) for at in moments]
    return f"{printable(a.quality, 60)} of the median run\n" + aligned((a.position, "A", "B"), rows)


def median_run(curves: Sequence[Curve]) -> Curve:
    """The run whose curve is the middle one by its end; of an even number, the faster."""
    ordered = sorted(curves, key=lambda curve: curve.points[-1][0] if curve.points else math.inf)
    return ordered[(len(ordered) - 1) // 2]


def _quality_at(curve: Curve, at: float) -> str:
    """The last quality until then; `ended` once the run is over."""
    before = [quality for place, quality in curve.points if place <= at]
    if curve.points and curve.points[-1][0] < at:
        return f"ended at {significant(curve.points[-1][1], 4)}"
    return significant(before[-1], 4) if before else "-"


def data_script(name: str, side: Side) -> bytes:
    """The side as a script that hands it to the page: a page opened from a file may load a script, but no data."""
    text = json.dumps(side_document(side), allow_nan=False, separators=(",", ":"))
    return f"tta.take({json.dumps(name)}, {text});\n".encode()
