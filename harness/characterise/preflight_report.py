"""A preflight as text and as the content of a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.board.charts.lines import Bar, bar_chart
from harness.board.charts.scales import Label
from harness.characterise.preflight import Comparison, Preflight, Quantity, document, warnings
from harness.characterise.report import Chart, Report, Section, machine_facts, named, percent, rate
from harness.tracking.measurement import Measurement, measurement

_KINDS = (
    ("matrix", "Matrix products", "matrix product"),
    ("convolution", "Convolutions", "convolution"),
    ("memory", "Memory, copies and disk", ("reading", "copy")),
    ("all-reduce", "All-reduce", "all-reduce"),
)
_NOTES = {
    "matrix": "2 M N K operations; the last one is as large as gives the device its peak",
    "convolution": "images x channels x height x width, by filters of kernel x kernel, with a stride; the forward pass",
    "memory": "a copy within the device reads and writes each byte, and counts it once; the disk's file was taken out "
    "of the system's cache, and no cache below that hears of it",
    "all-reduce": "bus bandwidth: 2 (n - 1) / n of the data in the time, whatever the number n of devices",
}


def report(own: Preflight, comparisons: Sequence[Comparison]) -> Report:
    """The preflight as it is shown."""
    devices = f"{own.num_devices} device{'s' * (own.num_devices > 1)}"
    peaks = ", ".join(
        f"{rate(value, 'FLOP/s')} in {name}"
        for name in ("fp32", "tf32", "bf16", "fp16")
        if (value := own.peak(name)) is not None
    )
    summary = f"Single operations on {devices} in {own.measured['seconds']:.0f} s: at most {peaks}."
    found = {one.name: one for one in comparisons}
    sections = [_section(own.quantities, found, *kind) for kind in _KINDS]
    shown = tuple(section for section in sections if section.rows)
    facts = (("Devices", str(own.num_devices)), *machine_facts(own.system))
    return Report("Preflight", summary, facts, tuple(warnings(own, comparisons)), (*shown, _state(own)))


def _section(
    quantities: Sequence[Quantity],
    found: Mapping[str, Comparison],
    key: str,
    title: str,
    begins: str | tuple[str, ...],
) -> Section:
    own = [one for one in quantities if one.name.startswith(begins)]
    rows = tuple(
        (
            one.name,
            rate(one.value, one.unit),
            percent(one.iqr_fraction),
            found[one.name].words if one.name in found else "-",
        )
        for one in own
    )
    header = ("operation", "rate", "IQR", "against like machines")
    bars = [Bar(str(number), [("train", one.value / 1e9)]) for number, one in enumerate(own, 1)]
    unit = "GFLOP/s" if own and own[0].unit == "FLOP/s" else "GB/s"
    label = Label(f"{key}-rates", title, f"{unit} of each row of the table, by its number; the table has the numbers.")
    charts = (Chart(bar_chart(label, bars, f"{unit}, by the rows of the table", unit)),) if own else ()
    return Section(key, title, header, rows, (_NOTES[key],), charts)


def _state(own: Preflight) -> Section:
    before, after = own.before, own.after

    def both(name: str, unit: str = "") -> str:
        values = [state.get(name) for state in (before, after)]
        return " to ".join("unknown" if value is None else f"{value:.6g}{unit}" for value in values)

    rows = [
        ("host clock, mean of the CPUs", both("host_mhz", " MHz")),
        ("frequency governor", str(before.get("governor") or "not visible")),
        ("throttled for heat since boot", both("throttled")),
        ("stolen by the hypervisor since boot", both("stolen_s", " s")),
    ]
    for number, device in enumerate(after.get("devices") or ()):
        reasons = device.get("reasons")
        words = "unknown" if reasons is None else ", ".join(reasons) or "none"
        clock = f"{device.get('sm_mhz')} of {device.get('max_sm_mhz')} MHz, {device.get('temperature_c')} C"
        rows.append((f"accelerator {number}", f"{clock}; slowed down by: {words}"))
    is_tf32 = own.measured["fp32_is_tf32"]
    rows.append(("fp32 products in TF32", {None: "no accelerator", True: "yes", False: "no"}[is_tf32]))
    return Section("state", "Clocks and throttling", ("what", "before to after"), named(rows))


def records(own: Preflight) -> Measurement:
    """What an MLflow store is to have of the preflight."""
    rates: dict[str, Any] = {one.name: one.value for one in own.quantities}
    params = {"num_devices": own.num_devices, "system": own.system.get("system_name")}
    return measurement("preflight", document(own), params, rates, own.made)
