"""What a measurement is shown as: sections with a table, notes and pictures, for a terminal or a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.base.text_table import aligned
from harness.characterise.summaries import Summary
from harness.errors import printable


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture. series: number of the colour and name of each line; parts: names of the parts of its bars."""

    markup: Markup
    series: tuple[tuple[int | None, str], ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its notes and pictures. key: its id in the page. The first column is a name, the others numbers."""

    key: str
    title: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A measurement as it is shown. summary: one sentence or two. facts: names and values."""

    title: str
    summary: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]


def as_text(report: Report) -> str:
    """The report for a terminal or a file."""
    lines = [report.title, printable(report.summary, 600)]
    for section in report.sections:
        lines += ["", section.title]
        if section.rows:
            lines.append(aligned(section.header, section.rows, frozenset({0})))
        lines += [printable(note, 600) for note in section.notes]
    if report.warnings:
        lines += ["", *(f"note: {printable(line, 600)}" for line in report.warnings)]
    return "\n".join(lines)


def seconds(value: float) -> str:
    """A time with three digits, in the unit that suits it: `25.4 ms`."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}" if abs(value) < 1000 * factor else f"{value / factor:,.0f} {unit}"
    return f"{value / 1e-6:.3g} µs" if value else "0"


def rate(value: float, unit: str) -> str:
    """A rate with three digits and a decimal prefix: `194 GFLOP/s`."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def spread(summary: Summary) -> tuple[str, str]:
    """Median and MAD as cells."""
    return seconds(summary.median), seconds(summary.mad)


def machine_facts(system: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The facts of a system description that say where something was measured."""

    def text(name: str) -> str:
        return printable(system.get(name) or "unknown", 120)

    accelerators = str(system.get("accelerators_per_node") or "0")
    device = "none" if accelerators == "0" else f"{printable(accelerators, 10)} x {text('accelerator_model_name')}"
    return (
        ("System", text("system_name")),
        ("Processor", f"{text('host_processor_model_name')}, {text('host_processor_vcpu_count')} threads"),
        ("Accelerators", device),
        ("Framework", text("framework")),
    )


def named(items: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Rows of a name and a value."""
    return tuple((name, value) for name, value in items)
