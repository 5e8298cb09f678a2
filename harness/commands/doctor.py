"""`tta doctor`: what this machine is, what would disturb a run on it, and its system description."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.base.files import write_new
from harness.commands._arguments import Parser, add_format, add_nodes, as_path, as_positive
from harness.commands._jobs import add_scheduler, carried_out
from harness.errors import ExitStatus, UsageError, printable, unknown_name
from harness.launch import nodes, preflight
from harness.metering.catalog import Survey, survey
from harness.run import machine as node
from harness.run.benchmark import Launch
from harness.run.launcher import strongest_isolation
from harness.run.preflight import Report, examine, lines_with_advice
from harness.submission.system import Machine, system_description

FORMATS = ("text", "json")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--out",
        type=as_path,
        metavar="FILE",
        help="write the system description here; an existing file is never changed",
    )
    parser.add_argument("--submitter", metavar="NAME", help="the submitter in the system description")
    parser.add_argument("--system-name", metavar="NAME", help="the system's name in the system description")
    parser.add_argument("--status", help="the system's availability, in MLPerf's words")
    parser.add_argument(
        "--devices", type=as_positive, default=1, metavar="N", help="with --nodes: worker processes on each node"
    )
    add_nodes(parser)
    add_scheduler(parser)
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    output = Path(f"tta-doctor-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    if (status := carried_out(arguments, "tta-doctor", output)) is not None:
        return status
    if arguments.nodes > 1:
        return examine_nodes(nodes.asked(arguments), arguments.nodes, arguments.devices, arguments.format)
    nodes.refuse_alone(nodes.asked(arguments))
    return run(arguments.out, arguments.submitter, arguments.system_name, arguments.status, arguments.format)


def run(
    output: Path | None,
    submitter: str | None,
    system_name: str | None,
    status: str | None,
    output_format: str = "text",
    check: bool = False,
) -> ExitStatus:
    """Print the report on standard output and, with `output`, write the system description there.

    Returns:
        OK whatever the report says; with `check`, FINDINGS if anything needs attention.

    Raises:
        UsageError: an unknown format or status, or a name that cannot be a folder's.
        OutputError: `output` cannot be written, or exists with other content.
    """
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    machine = node.look()
    description = system_description(machine, submitter, system_name, status)
    meters = survey(description)
    isolation = strongest_isolation().facts
    report = examine(machine, meters, description, isolation)
    if output is not None:
        write_description(output, description)
    if output_format == "json":
        print(json.dumps(as_json(machine, meters, isolation, report, description, output), indent=2))
    else:
        print(as_text(report))
        if output is not None:
            print(f"\nsystem description written to {printable(output, 1000)}")
    return ExitStatus.FINDINGS if check and any(lines_with_advice(report)) else ExitStatus.OK


def examine_nodes(launch: Launch, num_nodes: int, num_devices: int, output_format: str) -> ExitStatus:
    """Connect several nodes as a run would, compare them, and measure an all-reduce; print what was found.

    Raises:
        UsageError: they cannot make a run together: each node, and why.
    """
    with nodes.opened(launch, num_nodes, _say) as cluster:
        assert cluster is not None
        report: Report = {"nodes": preflight.examined(cluster, num_devices)}
    if output_format == "json":
        print(json.dumps([dataclasses.asdict(line) for line in report["nodes"]], indent=2))
    else:
        print(as_text(report))
    return ExitStatus.OK


def _say(text: str) -> None:
    print(f"tta: {printable(text, 2000)}", file=sys.stderr, flush=True)


def as_text(report: Report) -> str:
    """The report for a terminal: one line per item, followed by a line of advice where it needs attention."""
    width = max(len(line.name) for lines in report.values() for line in lines)
    shown = []
    for section, lines in report.items():
        shown.append(f"{section}")
        for line in lines:
            shown.append(f"  {'ok  ' if line.advice is None else 'look'}  {line.name:<{width}}  {line.value}")
            if line.advice is not None:
                shown.append(f"        {'':<{width}}  -> {line.advice}")
    count = len(lines_with_advice(report))
    items = "1 item needs" if count == 1 else f"{count} items need" if count else "nothing needs"
    shown.append(f"\n{items} attention")
    return "\n".join(shown)


def as_json(
    machine: Machine,
    meters: Mapping[str, Survey],
    isolation: Mapping[str, Any],
    report: Report,
    description: Mapping[str, str],
    output: Path | None,
) -> dict[str, object]:
    """The same as one document: facts, meters, how a worker is isolated, with reasons, and what needs attention."""
    return {
        "machine": dataclasses.asdict(machine),
        "meters": {
            name: {
                "available": found.reason is None,
                "reason": found.reason,
                "meters": [dataclasses.asdict(spec) for spec in found.specs],
            }
            for name, found in meters.items()
        },
        "isolation": dict(isolation),
        "looks": [
            {"section": section, "name": line.name, "value": line.value, "advice": line.advice}
            for section, lines in report.items()
            for line in lines
            if line.advice is not None
        ],
        "system_description": dict(description),
        "written": None if output is None else str(output),
    }


def write_description(output: Path, description: Mapping[str, str]) -> None:
    """Write the system description; an existing file is kept, and must have the same content.

    Raises:
        OutputError: `output` cannot be written, or exists with other content.
    """
    data = (json.dumps(dict(description), indent=2, ensure_ascii=False) + "\n").encode()
    if not _has_content(output, data):
        write_new(output, data, "exists already with other content")


def _has_content(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
