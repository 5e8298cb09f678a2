"""Where the scatter comes from, as text and as a JSON document. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.base.text_table import aligned
from harness.errors import ExitStatus
from harness.log.seeds import NOISE, ORDER, WEIGHTS
from harness.reproduction.variance import Study
from harness.scoring.components import ALL, INTERACTION, REPEATS, Interval, Part, borne, components

FORMAT_VERSION = 1
_HEADER = ("what varies", "runs", "missed", "sd", "90 % interval", "share", "90 % interval", "p")
_WORDS = {
    WEIGHTS: "initial weights",
    ORDER: "order of the data",
    NOISE: "noise of training",
    REPEATS: "nothing: all seeds the same",
    ALL: "all seeds",
    INTERACTION: "interaction",
}
_NOTE = (
    "sd: of the logarithm of samples to target, less what varies with all seeds the same. share: of the variance\n"
    "where all seeds differ; what sources do together is in the share of each, and their excess is the interaction.\n"
    "p: of the F-test against the repeats. Runs that missed the target are in no sd."
)


def text(study: Study) -> str:
    """The table, and in the last line which tolerance follows."""
    parts = components(study.groups, study.inert)
    rows = [_row(part) for part in parts]
    reference = f"{study.rules.name}: samples to {study.rules.metric.name} {study.rules.target:g}"
    return "\n".join(
        [reference, "", aligned(_HEADER, rows, frozenset({0})), "", _NOTE, "", *study.notes, conclusion(study)]
    )


def _row(part: Part) -> tuple[str, ...]:
    is_counted = part.name != INTERACTION
    return (
        _WORDS[part.name],
        str(part.num_runs) if is_counted else "",
        str(part.num_missed) if is_counted else "",
        _percent(part.deviation),
        _limits(part.interval),
        "-" if part.share is None else f"{100 * part.share:.0f} %",
        "" if part.name == ALL or part.share_interval is None else _limits(part.share_interval, 0),
        "" if part.p is None else "< 0.001" if part.p < 0.001 else f"{part.p:.3f}",
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _limits(interval: Interval | None, digits: int = 1) -> str:
    return "-" if interval is None else " to ".join(f"{100 * end:.{digits}f}" for end in interval)


def conclusion(study: Study) -> str:
    """Which tolerance follows, against that of the rules."""
    found = borne(study.groups)
    if found is None:
        return "no tolerance follows: fewer than two runs with different seeds reached the target"
    tolerance = f"{100 * found.follows:g} %"
    if found.at_least != found.at_most:
        tolerance += f" ({100 * found.at_least:g} to {100 * found.at_most:g} % within the interval)"
    has = _of_rules(study)
    of_rules = "the rules have none" if has is None else f"the rules have {100 * has:g} %"
    return (
        f"samples to target vary by {100 * found.scatter.variation:.1f} % ({_limits(found.interval)}) between seeds, "
        f"which calls for a tolerance of {tolerance}; {of_rules}{': too little' if is_too_small(study) else ''}"
    )


def is_too_small(study: Study) -> bool:
    """Whether the rules' tolerance is below what follows even at the lower end of the interval."""
    found, has = borne(study.groups), _of_rules(study)
    return found is not None and has is not None and has < found.at_least


def status(study: Study) -> ExitStatus:
    """The exit status of the verb."""
    return ExitStatus.FINDINGS if borne(study.groups) is None or is_too_small(study) else ExitStatus.OK


def _of_rules(study: Study) -> float | None:
    return study.rules.reproduce_tolerance


def document(study: Study) -> dict[str, Any]:
    """Everything, for programs."""
    found = borne(study.groups)
    return {
        "version": FORMAT_VERSION,
        "benchmark": study.rules.name,
        "metric": study.rules.metric.name,
        "target": study.rules.target,
        "parts": [asdict(part) for part in components(study.groups, study.inert)],
        "inert": list(study.inert),
        "tolerance": {
            "of_rules": _of_rules(study),
            "is_too_small": is_too_small(study),
            "found": None if found is None else {**asdict(found), "variation": found.scatter.variation},
        },
        "groups": list(_groups(study)),
        "notes": list(study.notes),
    }


def _groups(study: Study) -> Iterator[dict[str, Any]]:
    for runs in study.runs:
        yield {
            "path": str(runs.path),
            "varied": list(runs.group.varied),
            "fixed": {} if runs.seeds is None else dict(runs.seeds.fixed),
            "samples_to_target": list(runs.group.samples),
        }
