"""A sweep as a document, as text, and as the content of a page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from harness.board.charts.lines import Line, curve_chart, styles
from harness.board.charts.scales import Label
from harness.characterise.cells import (
    REAL,
    Cell,
    Fit,
    Intercept,
    Row,
    as_record,
    fits,
    input_shares,
    intercepts,
    scalings,
)
from harness.characterise.report import Chart, Report, Section, machine_facts, percent, seconds
from harness.characterise.summaries import StraightLine
from harness.characterise.sweep import Sweep
from harness.submission.system import size
from harness.tracking.measurement import Measurement, measurement


def report(sweep: Sweep) -> Report:
    """The sweep as it is shown."""
    ok = [row for row in sweep.rows if row.status == "ok"]
    summary = f"{len(ok)} of {len(sweep.rows)} cells were measured, {sweep.num_steps} steps each."
    facts = (("Steps of a cell", str(sweep.num_steps)), *machine_facts(sweep.system))
    sections = (
        _table(sweep.rows),
        _inputs(sweep.rows),
        _intercepts(sweep.rows),
        _scaling(sweep.rows),
        _largest(sweep.rows),
    )
    shown = tuple(section for section in sections if section.rows or section.notes)
    return Report(f"{sweep.benchmark}, sweep", summary, facts, (), shown)


def _name(cell: Cell, has_batch: bool = True) -> str:
    devices = f"{cell.num_devices} device{'s' * (cell.num_devices > 1)}"
    batch = f"batch {cell.batch_size}, " if has_batch else ""
    return f"{batch}{devices}, {cell.precision}"


def _table(rows: Sequence[Row]) -> Section:
    header = ("cell", "data", "step", "MAD", "jitter", "waited", "samples/s", "memory", "power", "what came of it")
    lines: list[tuple[str, ...]] = []
    for row in rows:
        if row.status == "ok":
            step = row.step
            waited = sum(row.waited) / sum(row.seconds)
            numbers = (
                seconds(step.median),
                seconds(step.mad),
                percent(step.mad / step.median),
                percent(waited),
                f"{row.samples_per_s:,.0f}",
                "-" if row.peak_bytes is None else size(row.peak_bytes),
                "-" if row.power.power is None else f"{row.power.power.mean_w:,.0f} W",
            )
            lines.append((_name(row.cell), row.cell.data, *numbers, "ok"))
        else:
            lines.append((_name(row.cell), row.cell.data, *["-"] * 7, f"{row.status}: {row.evidence}"))
    notes = (
        "step: median; jitter: the median absolute deviation (MAD) relative to it; waited: share of the steps in which "
        "the session waited for data; memory: the largest of the process so far",
        *_powers(rows),
    )
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.status == "ok":
            name = f"{_name(row.cell, has_batch=False)}, {row.cell.data}"
            groups.setdefault(name, []).append((float(row.cell.batch_size), 1e3 * row.step.median))
    series = tuple(zip(styles(len(groups)), groups, strict=True))
    lines_of = [Line(name, style, sorted(groups[name])) for style, name in series]
    label = Label("steps", "A step against its batch size", "Median milliseconds; the table has the numbers.")
    charts = (
        (Chart(curve_chart(label, lines_of, "global batch size", "milliseconds a step"), series),) if groups else ()
    )
    return Section("cells", "Cells", header, tuple(lines), notes, charts)


def _powers(rows: Sequence[Row]) -> list[str]:
    """What the powers are, or why there are none."""
    real = [row.power for row in rows if row.status == "ok" and row.cell.data == REAL]
    known = [one.power for one in real if one.power is not None]
    kinds = [f"power: {one.source}, class {one.meter_class}, of {one.scope}, while training" for one in known]
    return list(dict.fromkeys([*kinds, *(f"power: {one.words}" for one in real if one.power is None)]))


def _inputs(rows: Sequence[Row]) -> Section:
    found = input_shares(rows)
    lines = tuple(
        (_name(one.cell), seconds(one.real_s), seconds(one.synthetic_s), percent(one.fraction)) for one in found
    )
    notes = (
        "synthetic: a few steps are given again what they were given, so that nothing is read, prepared or collected; "
        "the share is 1 - synthetic / real; below 0, by noise, or where those few were longer than others",
    )
    header = ("cell", "real", "synthetic", "bound by input")
    return Section("input", "Share that is bound by input", header, lines, notes if found else ())


def _intercepts(rows: Sequence[Row]) -> Section:
    found = intercepts(rows)
    header = ("configuration", "data", "at no work", "95 % interval", "a sample", "R2", "batches")
    lines = tuple(
        (
            _name(one.cell, has_batch=False),
            one.cell.data,
            seconds(one.line.intercept),
            _interval(one.line),
            seconds(one.line.slope),
            f"{one.line.r_squared:.4f}",
            str(one.line.num),
        )
        for one in found
    )
    notes = (
        "at no work: the intercept of the line through the medians against the batch size: what a step takes however "
        "small it is; a line with an R2 far from 1 is none",
    )
    return Section("intercept", "Zero-work intercept", header, lines, notes if found else ())


def _interval(line: StraightLine) -> str:
    if line.intercept_interval is None:
        return "two batches: none"
    return " to ".join(seconds(end) for end in line.intercept_interval)


def _scaling(rows: Sequence[Row]) -> Section:
    found = scalings(rows)
    header = ("cell", "data", "kind", "against", "step", "speed-up", "efficiency")
    lines = tuple(
        (
            _name(one.cell),
            one.cell.data,
            one.kind,
            f"batch {one.base.batch_size}, {one.base.num_devices} device{'s' * (one.base.num_devices > 1)}",
            seconds(one.step_s),
            f"{one.speedup:.2f}",
            percent(one.efficiency, 0),
        )
        for one in found
    )
    notes = ("strong: the same global batch; weak: the same batch for each device; speed-up: of the samples a second",)
    return Section("scaling", "Scaling over devices", header, lines, notes if found else ())


def _largest(rows: Sequence[Row]) -> Section:
    header = ("configuration", "largest that fits", "does not fit", "why")
    lines = tuple(
        (
            _name(one.cell, has_batch=False),
            "none" if one.largest is None else str(one.largest),
            "none was tried" if one.fails_at is None else str(one.fails_at),
            one.evidence or "-",
        )
        for one in fits(rows)
    )
    return Section("largest", "Largest batch that was tried", header, lines)


def document(sweep: Sweep) -> dict[str, Any]:
    """The sweep as JSON has it."""
    return {
        **sweep.header,
        "cells": [_cell(row) for row in sweep.rows],
        "input_bound": [
            {**asdict(one.cell), "real_s": one.real_s, "synthetic_s": one.synthetic_s, "fraction": one.fraction}
            for one in input_shares(sweep.rows)
        ],
        "zero_work": [_intercept(one) for one in intercepts(sweep.rows)],
        "scaling": [
            {**asdict(one), "speedup": one.speedup, "efficiency": one.efficiency} for one in scalings(sweep.rows)
        ],
        "largest_batch": [_fit(one) for one in fits(sweep.rows)],
    }


def _cell(row: Row) -> dict[str, Any]:
    derived = {} if row.status != "ok" else {"step": asdict(row.step), "samples_per_s": row.samples_per_s}
    return {**as_record(row), **derived}


def _intercept(one: Intercept) -> dict[str, Any]:
    cell = one.cell
    return {"num_devices": cell.num_devices, "precision": cell.precision, "data": cell.data, **asdict(one.line)}


def _fit(one: Fit) -> dict[str, Any]:
    cell = one.cell
    found = {"batch_size": one.largest, "fails_at": one.fails_at, "evidence": one.evidence}
    return {"num_devices": cell.num_devices, "precision": cell.precision, **found}


def records(sweep: Sweep) -> Measurement:
    """What an MLflow store is to have of the sweep."""

    def key(cell: Cell) -> str:
        return f"{cell.num_devices}x.{cell.precision}.{cell.batch_size}.{cell.data}"

    ok = {key(row.cell): row for row in sweep.rows if row.status == "ok"}
    return measurement(
        f"{sweep.benchmark}-sweep",
        document(sweep),
        {"benchmark": sweep.benchmark, "num_steps": sweep.num_steps, "system": sweep.system.get("system_name")},
        {
            "samples_per_s": {name: row.samples_per_s for name, row in ok.items()},
            "step_s": {name: row.step.median for name, row in ok.items()},
            "input_bound_fraction": {key(one.cell): one.fraction for one in input_shares(sweep.rows)},
        },
        sweep.made,
    )
