"""`tta estimate`: what a run to target would take, draw and cost on machines of the price book."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Collection, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.base.text_table import aligned
from harness.base.values import is_whole
from harness.characterise.pacing import Candidate, of_profile, of_sweep, predicted, read_profile
from harness.characterise.preflight import read as read_preflight
from harness.characterise.sweep import FILE as SWEEP_FILE
from harness.characterise.sweep import read as read_sweep
from harness.commands._arguments import Parser, add_format, add_ruleset, add_suite, as_path, as_positive, as_throughput
from harness.cost.price_book import PriceBook
from harness.errors import ExitStatus, RulesError, UsageError, printable
from harness.log import keys
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.convergence import Reference
from harness.scoring.estimate import (
    JOULES_PER_KWH,
    Budget,
    Comparison,
    Estimate,
    Pace,
    Spread,
    System,
    best,
    compare,
    described_system,
    estimate,
    measured_pace,
    reference_samples,
)
from harness.scoring.run_result import run_result
from harness.submission.result import find_results, read_result

_HEADER = (
    "sku",
    "nodes",
    "pace of",
    "USD/h",
    "time to target",
    "95 % of runs",
    "energy",
    "95 % of runs",
    "USD per run",
    "95 % of runs",
    "USD per result",
    "as of",
)
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS_J = {"kWh": JOULES_PER_KWH, "MWh": 1e3 * JOULES_PER_KWH, "Wh": JOULES_PER_KWH / 1e3}
_BUDGETS = "a time (90s, 30m, 4h, 2d), a price ($50) or an energy (500Wh, 5kWh)"
_LEFT_OUT = "storage, traffic, licences, tax, failed attempts"


def add_arguments(parser: Parser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="for example image_classification")
    add_suite(parser)
    add_ruleset(parser, "the ruleset")
    parser.add_argument(
        "--sku",
        nargs="+",
        required=True,
        metavar="ID",
        help="a row of the price book, provider/sku/region/purchase, with @SAMPLES_PER_S to state its throughput",
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--throughput", type=as_throughput, metavar="SAMPLES_PER_S", help="over a whole run, all nodes together"
    )
    pace.add_argument(
        "--from",
        dest="result",
        type=as_path,
        metavar="RESULT",
        help="a result on the same accelerators to take the pace from",
    )
    pace.add_argument(
        "--profile",
        type=as_path,
        metavar="FILE",
        help="the folder of `tta profile --out`, or its profile.json, to take the pace from, its evaluations included",
    )
    pace.add_argument(
        "--sweep",
        type=as_path,
        metavar="FILE",
        help="the folder of `tta sweep`, or its cells.jsonl: each cell with real data is a row, without evaluations",
    )
    parser.add_argument(
        "--preflight",
        type=as_path,
        metavar="FILE",
        help="with --profile and --devices: a preflight of several devices, for a prediction, which is marked as one",
    )
    parser.add_argument(
        "--devices", type=_as_counts, metavar="N,N", help="with --preflight: numbers of devices to predict for"
    )
    parser.add_argument(
        "--within",
        type=_as_budget,
        metavar="BUDGET",
        help="name the cheapest configuration within a time (90s, 30m, 4h, 2d), or the fastest within a price ($50) or "
        "an energy (500Wh, 5kWh)",
    )
    parser.add_argument(
        "--batch-size", type=as_positive, metavar="N", help="global (default: that of the result, or of the rules)"
    )
    parser.add_argument(
        "--nodes", type=as_positive, metavar="N", help="number of nodes (default: that of the result, or 1)"
    )
    parser.add_argument("--gpus-per-node", type=as_positive, metavar="N", help="for prices of a single accelerator")
    parser.add_argument("--book", metavar="FILE|DIGEST", help="another price book (default: the one in force)")
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(
        workload=arguments.workload,
        suite=arguments.suite,
        ruleset_name=arguments.ruleset,
        skus=arguments.sku,
        throughput=arguments.throughput,
        result=arguments.result,
        batch_size=arguments.batch_size,
        nodes=arguments.nodes,
        gpus_per_node=arguments.gpus_per_node,
        book=arguments.book,
        output_format=arguments.format,
        measured=Measured(arguments.profile, arguments.sweep, arguments.preflight, arguments.devices or ()),
        budget=arguments.within,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Files of what was measured apart from runs. devices: to predict for, from profile and preflight."""

    profile: Path | None = None
    sweep: Path | None = None
    preflight: Path | None = None
    devices: Sequence[int] = ()

    @property
    def is_given(self) -> bool:
        return self.profile is not None or self.sweep is not None


def _as_counts(text: str) -> tuple[int, ...]:
    return tuple(as_positive(part) for part in text.split(","))


def _as_budget(text: str) -> Budget:
    """`4h`, `30m`, `90s`, `2d`, `$50`, `500Wh` or `5kWh`."""
    energy = next((unit for unit in _UNITS_J if text.endswith(unit)), None)
    if text.startswith("$"):
        number, factor = text[1:], 1.0
    elif energy is not None:
        number, factor = text.removesuffix(energy), _UNITS_J[energy]
    else:
        number, factor = text[:-1], _UNITS_S.get(text[-1:], 0.0)
    try:
        value = float(number) * factor
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not {_BUDGETS}")
    return Budget(value, "usd" if text.startswith("$") else "seconds" if energy is None else "joules")


def run(
    workload: str,
    suite: str,
    ruleset_name: str,
    skus: Sequence[str],
    throughput: float | None = None,
    result: Path | None = None,
    batch_size: int | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    book: str | None = None,
    output_format: str = "text",
    measured: Measured = Measured(),
    budget: Budget | None = None,
) -> ExitStatus:
    """Print one line per SKU and configuration, or one JSON document.

    skus: ids, each followed by `@SAMPLES_PER_S` if the throughput of that machine is known.
    throughput: samples per second of a whole run, of all nodes together; alternatively `result`, from whose logs the
    pace is taken. batch_size: of the reference; without it that of `result`, or the rules' default. nodes: without it
    those of `result`, or 1. measured: instead of both, what was measured apart from runs; configurations without a
    reference at their batch size, or of other accelerators than a SKU's, are left out. budget: name the best within it.

    Returns:
        FINDINGS if nothing is within the budget.

    Raises:
        UsageError: no reference at the batch size, no pace, a pace of other accelerators, or no such book.
        TtaError: the rules, the book, the result or what was measured cannot be read.
    """
    folder = catalog.ruleset_folder(ruleset_name)
    ruleset = load.load_ruleset(folder, ruleset_name)
    rules = ruleset.benchmark(workload, suite)
    if ruleset.prices is None:
        raise RulesError(f"{folder}: has no {load.PRICES_FILE}; this ruleset prices nothing")
    if book is None:
        chosen = ruleset.prices.current
    else:
        chosen = load.load_prices(Path(book)) if Path(book).is_file() else ruleset.prices.matching(book)
    if throughput is not None and result is not None:
        raise UsageError("--throughput and --from: give one of them")
    if measured.is_given:
        if throughput is not None or result is not None:
            raise UsageError("--profile and --sweep: give neither --throughput nor --from with them")
        shown = _configurations(measured, rules, batch_size, chosen, list(dict.fromkeys(skus)), nodes, gpus_per_node)
        return _printed(rules, shown, chosen, budget, output_format)
    if measured.preflight is not None or measured.devices:
        raise UsageError("--preflight and --devices: predict from a profile; give --profile FILE as well")
    common, measured_at = (None, None) if result is None else _measured(result, rules, ruleset)
    size = batch_size or measured_at or _default_batch_size(rules)
    reference = reference_samples(rules, size)
    if throughput is not None:
        common = Pace(1 / throughput)
    found, is_shared = [], False
    uncompared: set[str] = set()  # rows whose accelerators may be others than those of the pace
    for text in dict.fromkeys(skus):
        sku, own = _sku(text)
        pace = common if own is None else Pace(1 / own)
        if pace is None:
            raise UsageError(
                f"{printable(sku)}: its throughput is unknown; give --throughput, --from RESULT, or {printable(sku)}@N"
            )
        is_shared |= own is None and throughput is not None and len(skus) > 1
        num_nodes, gpus = nodes or 1, gpus_per_node
        if pace.system is not None:
            num_nodes, gpus = nodes or pace.system.nodes or 1, gpus or pace.system.accelerators_per_node
            if not _is_compared(pace.system, chosen, sku, num_nodes, gpus):
                uncompared.add(sku)
        found.append(estimate(rules, reference, pace, chosen, sku, num_nodes, gpus))
    notes = _notes(rules, reference, result, found, is_shared, uncompared)
    if result is not None and measured_at not in (None, size):
        notes.append(f"the pace was measured at batch size {measured_at}; at {size} it may be another")
    winner, words = _best(found, budget)
    notes = [*words, *notes]
    if output_format == "json":
        document = {**_document(rules, size, chosen, found, notes), **_best_record(budget, winner)}
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        print(_text(rules, size, chosen, found, notes))
    return ExitStatus.OK if budget is None or winner is not None else ExitStatus.FINDINGS


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    """Estimates for configurations that were measured or predicted, each with its candidate; and notes."""

    found: list[tuple[Candidate, Estimate]]
    notes: list[str]


def _candidates(measured: Measured, rules: BenchmarkRules) -> list[Candidate]:
    if measured.sweep is not None:
        path = _file(measured.sweep, SWEEP_FILE)
        return of_sweep(read_sweep(path), rules, str(path))
    assert measured.profile is not None
    path = _file(measured.profile, "profile.json")
    profile, source = read_profile(path), str(path)
    found = [of_profile(profile, rules, source)]
    if measured.devices and measured.preflight is None:
        raise UsageError("--devices: a prediction for other numbers of devices needs --preflight FILE as well")
    if measured.preflight is not None:
        preflight = read_preflight(_file(measured.preflight, "preflight.json"))
        if not measured.devices:
            raise UsageError("--preflight: say for how many devices, with --devices N,N")
        found += [predicted(profile, preflight, rules, number, source) for number in measured.devices if number > 1]
    return found


def _file(path: Path, name: str) -> Path:
    """The file that was named, or that in the folder that was named."""
    return path / name if path.is_dir() else path


def _configurations(
    measured: Measured,
    rules: BenchmarkRules,
    batch_size: int | None,
    book: PriceBook,
    skus: Sequence[str],
    nodes: int | None,
    gpus_per_node: int | None,
) -> _Shown:
    """Estimates of each configuration on each SKU.

    Raises:
        UsageError: a SKU has a throughput, or nothing is left.
    """
    found: list[tuple[Candidate, Estimate]] = []
    notes: list[str] = []
    candidates = [one for one in _candidates(measured, rules) if batch_size in (None, one.batch_size)]
    for one in candidates:
        pace, batch = one.pace, one.batch_size
        assert pace is not None
        assert pace.system is not None
        try:
            reference = reference_samples(rules, batch)
        except UsageError as error:
            notes.append(f"left out: {error}")
            continue
        own_gpus = gpus_per_node or pace.system.accelerators_per_node or None
        for sku in skus:
            if _sku(sku)[1] is not None:
                raise UsageError(f"--sku {printable(sku)}: --profile and --sweep have the throughput; leave out @N")
            row = book.row(sku)
            difference = None if row is None else compare(pace.system, row, nodes or 1, own_gpus).difference
            if difference is not None:
                notes.append(f"left out: {printable(sku)} for {one.num_devices} devices: {printable(difference, 300)}")
            else:
                found.append((one, estimate(rules, reference, pace, book, sku, nodes or 1, own_gpus)))
        notes.append(one.note)
    if not found:
        why = "; ".join(dict.fromkeys(note for note in notes if note.startswith("left out")))
        raise UsageError(f"no configuration that was measured is left{f': {printable(why, 1000)}' if why else ''}")
    if any(one.is_predicted and not (one.pace and one.pace.system and one.pace.system.accelerator) for one, _ in found):
        notes.append(
            "processes of a host share its cores: a prediction holds for as many threads each as the profile had"
        )
    if rules.provisional:
        notes.append(f"the target {rules.metric.name} {rules.target:g} is provisional and may change")
    if any(item.is_bound for _, item in found):
        notes.append("at most: there are no reference convergence points, so a run may take all of its budget")
    notes += [
        *_without_energy([item for _, item in found]),
        f"a result is {rules.num_runs} runs, billed as the row says; '-' is unknown",
        f"not included: {_LEFT_OUT}",
    ]
    return _Shown(found, list(dict.fromkeys(notes)))


def _printed(
    rules: BenchmarkRules, shown: _Shown, book: PriceBook, budget: Budget | None, output_format: str
) -> ExitStatus:
    winner, words = _best([item for _, item in shown.found], budget, [one.is_predicted for one, _ in shown.found])
    if output_format == "json":
        document = {
            "benchmark": rules.name,
            "target": rules.target,
            "provisional": rules.provisional,
            "price_book": {"digest": book.digest, "date": book.date},
            "estimates": [{**_configuration(one), **_record(item)} for one, item in shown.found],
            "notes": [*words, *shown.notes],
            **_best_record(budget, winner),
        }
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        head = f"{rules.name} to {rules.metric.name} {rules.target:g}; price book of {book.date}"
        header = (_HEADER[0], "batch", "devices", "precision", *_HEADER[1:])
        rows = [_with_configuration(one, _cells(item)) for one, item in shown.found]
        print("\n".join([head, "", aligned(header, rows, frozenset({0})), "", *words, *shown.notes]))
    return ExitStatus.OK if budget is None or winner is not None else ExitStatus.FINDINGS


def _with_configuration(one: Candidate, cells: Sequence[str]) -> tuple[str, ...]:
    devices = f"{one.num_devices} (predicted)" if one.is_predicted else str(one.num_devices)
    return (cells[0], str(one.batch_size), devices, str(one.precision), *cells[1:])


def _configuration(one: Candidate) -> dict[str, object]:
    names = ("batch_size", "num_devices", "precision", "is_predicted")
    return {name: getattr(one, name) for name in names}


def _best(
    found: Sequence[Estimate], budget: Budget | None, is_predicted: Sequence[bool] = ()
) -> tuple[int | None, list[str]]:
    """The place of the best estimate within the budget, and that in words.

    is_predicted: of each; one that was is the best only if none that was measured is within the budget.
    """
    if budget is None:
        return None, []
    measured = [place for place in range(len(found)) if not (is_predicted and is_predicted[place])]
    place = best([found[place] for place in measured], budget)
    winner = best(found, budget) if place is None else measured[place]
    if winner is None:
        return None, [f"nothing is within {budget.words}: 95 % of runs must be"]
    item = found[winner]
    usd = "no price" if item.usd is None else f"{_money(item.usd[0])} USD"
    kind = "cheapest" if budget.unit == "seconds" else "fastest"
    drawn = "" if item.energy_j is None else f", {_joules(item.energy_j.mean)}"
    what = f"{printable(item.sku)}, row {winner + 1} of the table: {_seconds(item.seconds.mean)} s{drawn}, {usd} a run"
    if is_predicted and is_predicted[winner]:
        what += "; predicted, for nothing that was measured is within it"
    return winner, [f"the {kind} within {budget.words} (with 95 % of runs): {what}"]


def _best_record(budget: Budget | None, winner: int | None) -> dict[str, object]:
    if budget is None:
        return {}
    return {"within": {budget.unit: budget.amount, "best_estimate": winner}}


def _is_compared(system: System, book: PriceBook, sku: str, nodes: int, gpus_per_node: int | None) -> bool:
    """Whether the row's machine is known to have the accelerators of the measured one.

    Raises:
        UsageError: it is another machine.
    """
    row = book.row(sku)
    found = Comparison(None, False) if row is None else compare(system, row, nodes, gpus_per_node)
    if found.difference is not None:
        raise UsageError(
            f"{printable(sku)}: the pace was measured on another machine: {printable(found.difference, 400)}; "
            f"state its own, {printable(sku)}@SAMPLES_PER_S"
        )
    return found.is_complete


def _sku(text: str) -> tuple[str, float | None]:
    """The parts of `ID@SAMPLES_PER_S`."""
    sku, at, number = text.rpartition("@")
    if not at:
        return text, None
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise UsageError(f"--sku {printable(text)}: {printable(number)!r} is not a throughput above 0")
    return sku, value


def _measured(place: Path, rules: BenchmarkRules, ruleset: RuleSet) -> tuple[Pace, int | None]:
    """The pace of the result at `place`, and its batch size."""
    paths = find_results(place)
    if len(paths) != 1:
        raise UsageError(f"{place}: has {len(paths)} results; name one of them")
    result = read_result(paths[0])
    if result.benchmark != rules.name:
        raise UsageError(f"{paths[0]}: is a result of {printable(result.benchmark)}, not of {rules.name}")
    if any(log.value(keys.SUBMISSION_DIVISION) == "open" for log in result.runs):
        raise UsageError(f"{paths[0]}: is of the open division, where the reference's samples say nothing of a recipe")
    size = result.runs[0].value(keys.GLOBAL_BATCH_SIZE)
    timing, limits = ruleset.timing, ruleset.energy
    runs = [run_result(log, rules, timing=timing, limits=limits, num_nodes=result.num_nodes) for log in result.runs]
    return measured_pace(runs, described_system(result.system), limits), size if is_whole(size) else None


def _default_batch_size(rules: BenchmarkRules) -> int:
    default = rules.defaults().get(keys.GLOBAL_BATCH_SIZE)
    if not is_whole(default):
        raise UsageError(f"{rules.name}: the rules have no default batch size; give --batch-size N")
    return default


def _notes(
    rules: BenchmarkRules,
    reference: Reference | None,
    result: Path | None,
    found: Sequence[Estimate],
    is_shared: bool,
    uncompared: Collection[str],
) -> list[str]:
    samples = found[0].samples
    notes = [
        f"samples to target: not known, for there are no reference convergence points; at most the budget of "
        f"{rules.max_samples:,} samples or {rules.max_seconds:,.0f} s"
        if reference is None
        else f"samples to target: {samples.mean:,.0f}, geometric mean of the {reference.how}; 95 % of runs need "
        f"{samples.low:,.0f} to {samples.high:,.0f}"
    ]
    for pace in dict.fromkeys(item.pace for item in found):
        if pace.system is not None:
            exact = "" if pace.errors else ", taken as exact"
            notes.append(
                f"pace: {pace.sample_s * 1e3:.6g} ms per sample, evaluations included, and {pace.fixed_s:.3g} s to "
                f"open the data{exact}: {pace.num_runs} run{'s' * (pace.num_runs > 1)} of {printable(result)} on "
                f"{printable(pace.system.words, 400)}"
                + ("" if pace.power is None else f"; power: {printable(pace.power.words, 400)}")
            )
    if any(item.pace.system is None for item in found):
        notes.append(
            "a throughput as given is taken as exact; evaluations and opening the data are left out if it leaves them "
            "out, and so is initialisation"
        )
    if is_shared:
        notes.append("one throughput is used for several machines; give each its own with ID@SAMPLES_PER_S")
    if rules.provisional:
        notes.append(f"the target {rules.metric.name} {rules.target:g} is provisional and may change")
    notes += _without_energy(found)
    notes.append(f"a result is {rules.num_runs} runs, with initialisation, billed as the row says; '-' is unknown")
    notes.append(f"not included: {_LEFT_OUT}")
    for item in found:
        if item.sku in uncompared:
            notes.append(f"{printable(item.sku)}: whether its accelerators are those of the pace is not known")
        elif item.pace.system is not None and item.pace.system.accelerators_per_node == 0:
            notes.append(f"{printable(item.sku)}: has no accelerators either; processors are not compared")
        if item.why_not is not None:
            notes.append(f"{printable(item.sku)}: {item.why_not}")
        elif not item.is_ranked:
            notes.append(f"{printable(item.sku)}: information only; this row does not rank")
    return notes


def _without_energy(found: Sequence[Estimate]) -> list[str]:
    """Why estimates have no energy."""
    reasons = dict.fromkeys(item.pace.no_power for item in found if item.energy_j is None)
    return [f"energy: not available: {printable(reason, 400)}" for reason in reasons]


def _text(
    rules: BenchmarkRules, batch_size: int, book: PriceBook, found: Sequence[Estimate], notes: Sequence[str]
) -> str:
    head = f"{rules.name} to {rules.metric.name} {rules.target:g} at batch size {batch_size}; price book of {book.date}"
    table = aligned(_HEADER, [_cells(item) for item in found], frozenset({0}))
    return "\n".join([head, "", table, "", *notes])


def _cells(item: Estimate) -> tuple[str, ...]:
    usd, most = item.usd, "at most " if item.is_bound else ""
    return (
        item.sku,
        str(item.nodes),
        "as given" if item.pace.system is None else printable(item.pace.system.name or "unknown", 60),
        _money(item.usd_per_hour),
        f"{most}{_seconds(item.seconds.mean)} s",
        "-" if most else f"{_seconds(item.seconds.low)} to {_seconds(item.seconds.high)}",
        "-" if item.energy_j is None else most + _joules(item.energy_j.mean),
        "-" if item.energy_j is None or most else f"{_joules(item.energy_j.low)} to {_joules(item.energy_j.high)}",
        "no price" if usd is None else most + _money(usd[0]),
        "-" if usd is None or most else f"{_money(usd[1])} to {_money(usd[2])}",
        _money(item.usd_result) if item.usd_result is None else most + _money(item.usd_result),
        item.as_of or "no date",
    )


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


def _joules(value: float) -> str:
    """In kWh from one up, else in kJ."""
    return f"{_seconds(value / JOULES_PER_KWH)} kWh" if value >= JOULES_PER_KWH else f"{_seconds(value / 1e3)} kJ"


def _money(usd: Decimal | None) -> str:
    """To the cent from one dollar up, otherwise to a millionth."""
    if usd is None:
        return "-"
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:f}"


def _document(
    rules: BenchmarkRules, batch_size: int, book: PriceBook, found: Sequence[Estimate], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "benchmark": rules.name,
        "target": rules.target,
        "provisional": rules.provisional,
        "batch_size": batch_size,
        "price_book": {"digest": book.digest, "date": book.date},
        "estimates": [_record(item) for item in found],
        "notes": list(notes),
    }


def _record(item: Estimate) -> dict[str, Any]:
    """Money is text, so that no reader turns it into a binary fraction."""

    def plain(value: object) -> object:
        if isinstance(value, Decimal):
            return f"{value:f}"
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        return dataclasses.asdict(value) if isinstance(value, Spread | Pace) else value

    return {field.name: plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
