"""A profile as text and as the content of a page. Pure."""

from __future__ import annotations

from harness.board.charts.lines import Bar, Line, bar_chart, curve_chart
from harness.board.charts.scales import Label
from harness.characterise.operators import CONVENTION
from harness.characterise.profile import Profile
from harness.characterise.report import (
    Chart,
    Report,
    Section,
    machine_facts,
    named,
    percent,
    rate,
    seconds,
    spread,
)
from harness.characterise.summaries import PHASES, Summary
from harness.submission.system import size

_KINDS = ("parameters", "buffers", "gradients", "optimizer", "activations")
_WORDS = {
    "data": "data, up to the forward pass",
    "forward": "forward, with the loss",
    "backward": "backward, with the exchange of gradients",
    "optimizer": "optimizer, with clipping",
    "other": "other: reading the loss, averages",
}


def report(profile: Profile) -> Report:
    """The profile as it is shown."""
    devices = f"{profile.num_devices} device{'s' * (profile.num_devices > 1)}"
    summary = (
        f"{profile.samples_per_s:,.0f} samples/s in training alone: {seconds(profile.step_s)} for a step of "
        f"{profile.batch_size} samples in {profile.precision} on {devices}."
    )
    facts = (
        ("Batch size, global", f"{profile.batch_size}"),
        ("Precision", profile.precision),
        ("Devices", devices),
        ("Steps", f"{profile.num_steps}"),
        *machine_facts(profile.system),
    )
    sections = (_phases(profile), _network(profile), _operators(profile), _memory(profile), _apart(profile))
    return Report(f"{profile.benchmark}, profile", summary, facts, profile.warnings, sections)


def _phases(profile: Profile) -> Section:
    whole = profile.summary("seconds")
    rows = [_phase_row(_WORDS[name], profile.phase(name), whole.median) for name in PHASES]
    rows.append(_phase_row("a step, watched", whole, whole.median))
    rows.append(("a step without hooks", seconds(profile.step_s), "-", "-"))
    rows.append(_phase_row("of data: waited, says the session", profile.summary("waited"), whole.median))
    steps = profile.measured["steps"]
    if steps["exchanged_bytes"]:
        rows.append(_phase_row("communication, beside backward", profile.summary("exchange"), whole.median))
    notes = [
        f"median and median absolute deviation of {profile.num_steps} steps; hooks cost {percent(profile.hook_cost)}",
        f"communication: {steps['exchanged_bytes']:,} bytes of gradients a step and device, and "
        f"{steps['other_bytes']:,} in {steps['other_sums']} other sums",
    ]
    notes.append(f"power while training, without hooks: {profile.power.words}")
    if steps["num_updates"] != 1:
        notes.append(f"a step, which is one global batch, updates the weights {steps['num_updates']} times")
    parts = [(name, 1e3 * profile.phase(name).median) for name in PHASES]
    label = Label("phases", "A training step by phase", "Median milliseconds of each phase; the table has the numbers.")
    chart = Chart(bar_chart(label, [Bar("step", parts)], "milliseconds", "ms"), parts=PHASES)
    return Section(
        "phases", "Phases of a step", ("phase", "median", "MAD", "share"), tuple(rows), tuple(notes), (chart,)
    )


def _phase_row(name: str, found: Summary, whole_s: float) -> tuple[str, ...]:
    return (name, *spread(found), percent(found.median / whole_s))


def _network(profile: Profile) -> Section:
    network, steps = profile.measured["network"], profile.measured
    identity, forward = network["fingerprint"], network["forward_flops"]
    per_device = profile.batch_size // profile.num_devices
    rows = [
        ("parameters", f"{identity['num_parameters']:,}"),
        ("parameters that are trained", f"{identity['num_trainable']:,}"),
        ("elements of buffers", f"{identity['num_buffers']:,}"),
    ]
    if forward:
        rows += [
            ("forward FLOPs of a step and device", f"{forward:,}"),
            ("forward FLOPs of a sample", f"{forward / per_device:,.0f}"),
        ]
    if profile.flop_per_s is not None:
        rows += [
            ("training", rate(profile.flop_per_s, "FLOP/s")),
            ("measured peak of matrix products", rate(steps["peak_flop_per_s"], "FLOP/s")),
            ("utilisation (MFU) of the measured peak", percent(profile.utilisation)),
        ]
    shares = ", ".join(f"{name} {percent(n / sum(network['by_operator'].values()), 0)}" for name, n in _most(network))
    notes = [
        f"fingerprint of the parameters, as the log of a run has it (SHA-256): {identity['parameters']}",
        f"fingerprint of the network, at any batch size: {identity['network']}",
        f"fingerprint of the first step's forward passes, with their shapes: {identity['forward']}",
        f"{CONVENTION}; counted on {', '.join(network['counted_on'])}",
    ]
    if shares:
        notes.append(f"FLOPs by operator: {shares}")
    if network["num_shapes"] > 1:
        notes.append(f"the steps' shapes differ: FLOPs are the median of steps with {network['num_shapes']} shapes")
    return Section("network", "The network", ("what", "value"), named(rows), tuple(notes))


def _most(network: dict[str, dict[str, int]]) -> list[tuple[str, int]]:
    return [(name, number) for name, number in network["by_operator"].items() if number][:4]


def _operators(profile: Profile) -> Section:
    found = profile.measured["operators"]
    total = sum(found["by_kind"].values())
    rows = tuple((kind, percent(value / total)) for kind, value in found["by_kind"].items())
    longest = ", ".join(f"{one['name']} {percent(one['seconds'] / total, 0)}" for one in found["longest"][:5])
    idle = "the accelerator had nothing to do" if found["device"] == "accelerator" else "no operator was at work"
    notes = (
        f"gaps: in {percent(found['gap_fraction'])} of the time {idle}; "
        f"{found['calls_per_step']:,.0f} operators a step",
        f"the longest: {longest}",
        f"of {found['num_steps']} steps apart, under torch.profiler, which slows them down: read shares, not seconds",
    )
    bars = [Bar(kind, [("train", 100 * value / total)]) for kind, value in found["by_kind"].items()]
    label = Label("operators", "Operators by kind", "Per cent of the operators' own time; the table has the numbers.")
    chart = Chart(bar_chart(label, bars, "per cent of the operators' own time", "%", left=190))
    return Section("operators", "Kinds of operators", ("kind", "share"), rows, notes, (chart,))


def _memory(profile: Profile) -> Section:
    rows = tuple(
        (str(batch), *(size(kinds[name]) for name in _KINDS), size(sum(kinds.values())))
        for batch, kinds in profile.memory_at.items()
    )
    peak = profile.measured["peak_memory"]
    of_peak = ", ".join(f"{name.replace('_', ' ')} {size(value)}" for name, value in peak.items() if value is not None)
    notes = [
        "of a step on one device; activations: what the forward pass keeps for backward, each storage once",
        f"peak of the process: {of_peak}",
    ]
    if profile.largest is not None:
        notes.append(_largest_words(profile))
    per_device = {batch // profile.num_devices: kinds for batch, kinds in profile.memory_at.items()}
    bars = [Bar(str(batch), [(name, kinds[name] / 2**20) for name in _KINDS]) for batch, kinds in per_device.items()]
    label = Label("kinds", "Memory by kind", "MiB of each kind by samples of a device; the table has the numbers.")
    charts = [Chart(bar_chart(label, bars, "MiB", "MiB"), parts=_KINDS)]
    if len(per_device) > 1:
        points = [(float(batch), sum(kinds.values()) / 2**20) for batch, kinds in per_device.items()]
        label = Label("growth", "Memory against the batch size", "MiB of all kinds; the table has the numbers.")
        charts.append(Chart(curve_chart(label, [Line("all kinds", 0, points)], "samples of a device", "MiB")))
    return Section(
        "memory", "Memory by batch size", ("batch size", *_KINDS, "together"), rows, tuple(notes), tuple(charts)
    )


def _largest_words(profile: Profile) -> str:
    assert profile.largest is not None
    found, limit = profile.largest, profile.measured["memory_limit"]
    where = f"limit: {limit['what']}, {size(limit['bytes'])}"
    if found.batch_size is None:
        return f"no larger batch was found to fit ({where}): {found.evidence}"
    if found.fails_at is None:
        return f"the largest batch is {found.batch_size:,}, for {found.evidence} ({where})"
    return (
        f"the largest batch that fits is {found.batch_size:,}; {found.fails_at:,} does not: {found.evidence} ({where})"
    )


def _apart(profile: Profile) -> Section:
    measured = profile.measured
    evaluation = measured["evaluation"]
    whole, inference = Summary(**evaluation["seconds"]), Summary(**evaluation["inference"])
    rows = (
        ("preparing: building, warming up", seconds(measured["prepare_s"]), "-"),
        ("drawing the weights", seconds(measured["initialise_s"]), "-"),
        ("loading: opening the data", seconds(measured["load_s"]), "-"),
        ("an evaluation", *spread(whole)),
        ("inference in it", *spread(inference)),
    )
    notes = (
        f"{whole.num} evaluations of {evaluation['num_examples']:,} examples: "
        f"{evaluation['num_examples'] / inference.median:,.0f} examples/s in inference alone",
    )
    return Section("apart", "Loading, evaluation and inference", ("what", "median", "MAD"), rows, notes)
