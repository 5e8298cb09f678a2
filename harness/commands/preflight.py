"""`tta preflight`: whether this machine reaches what it should, before it is used."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.base.files import small_file
from harness.characterise import keeping
from harness.characterise.clocks import State, read_state
from harness.characterise.preflight import (
    compared,
    described,
    document,
    history,
    in_description,
    preflight,
    warnings,
)
from harness.characterise.preflight_report import records, report
from harness.commands._arguments import Parser, add_format, as_path, as_positive
from harness.errors import ExitStatus, SubmissionError, printable
from harness.metering.meters.nvml import load_nvml
from harness.run import data_cache, machine
from harness.submission.system import system_description


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--devices",
        type=as_positive,
        metavar="N",
        help="processes, one a device (default: the accelerators there are, or 1)",
    )
    parser.add_argument(
        "--out", type=as_path, metavar="FOLDER", help="write preflight.json, preflight.txt and preflight.html there"
    )
    parser.add_argument(
        "--system",
        type=as_path,
        metavar="FILE",
        help="a system description: with --out, FOLDER/system.json is that with the preflight in it, for `tta run`",
    )
    parser.add_argument(
        "--history",
        type=as_path,
        metavar="FOLDER",
        help="earlier preflights, of this and of like machines, to compare with; this one is added (default: the "
        "folder preflights in $TTA_DATA)",
    )
    parser.add_argument(
        "--disk", type=as_path, metavar="FOLDER", help="whose disk is read (default: that of the prepared data)"
    )
    parser.add_argument("--mlflow", metavar="URI", help="add the preflight to this tracking store (default: to none)")
    add_format(parser, "html")


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(
        arguments.devices,
        arguments.out,
        arguments.system,
        arguments.history,
        arguments.disk,
        arguments.mlflow,
        arguments.format,
    )


def run(
    num_devices: int | None = None,
    folder: Path | None = None,
    system: Path | None = None,
    earlier: Path | None = None,
    disk: Path | None = None,
    mlflow: str | None = None,
    output: str = "text",
) -> ExitStatus:
    """Measure, compare with earlier preflights of like machines, and print.

    Returns:
        FINDINGS if something is wrong with the machine or with the measurement.

    Raises:
        SubmissionError: the system description cannot be read. OutputError: a folder cannot be written, or has a
            preflight. WorkerError: the processes failed.
    """
    keeping.refuse_existing(folder, "preflight")
    found = machine.look()
    description = system_description(found) if system is None else _description(system)
    place = earlier or data_cache.default_cache() / "preflights"
    others = list(history(place))
    devices = num_devices or max(1, len(found.accelerators.devices))
    print(f"measuring {devices} device(s) for up to a minute", file=sys.stderr, flush=True)
    own = preflight(description, devices, disk or data_cache.default_cache(), _state)
    comparisons = compared(own, others)
    shown, kept = document(own, comparisons), report(own, comparisons)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(own.made))
    name = f"{stamp}-{in_description(own)['digest'][:12]}"
    keeping.write_again(place / f"{name}.json", keeping.as_json(shown) + "\n")
    paths: tuple[Path, ...] = ()
    if folder is not None:
        paths = keeping.kept(folder, "preflight", kept, shown)
        if system is not None:
            keeping.write_again(folder / "system.json", keeping.as_json(described(description, own)) + "\n")
    if mlflow is not None:
        keeping.mirrored(mlflow, records(own), paths)
    print(keeping.shown(kept, shown, output))
    return ExitStatus.FINDINGS if warnings(own, comparisons) else ExitStatus.OK


def _state() -> State:
    return read_state(nvml=load_nvml())


def _description(path: Path) -> Mapping[str, Any]:
    try:
        record = json.loads(small_file(path))
    except (ValueError, RecursionError) as error:
        raise SubmissionError(f"{path}: not JSON: {printable(error)}") from None
    if not isinstance(record, dict):
        raise SubmissionError(f"{path}: must be a JSON object, as `tta doctor --out` writes it")
    return record
