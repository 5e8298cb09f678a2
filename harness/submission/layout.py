"""Where a result of MLPerf's lies, and what its folder may hold besides logs. Reads; never writes.

<submitter>/systems/<system>.json
<submitter>/results/<system>/<benchmark>/result_<anything>.txt, scaling.json, power/result_<anything>/node_<k>.txt
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.base import strict_json
from harness.base.files import small_file
from harness.base.values import is_number
from harness.errors import SubmissionError, printable

SYSTEM_NAME = "system.json"
CODE_NAME = "code"  # the folder of the module, in a result that nobody has claimed yet
RESULT_PATTERN = re.compile(r"result_(0|[1-9][0-9]{0,3})\.txt")
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")  # of submitters, systems and benchmarks


LOG_PATTERN = re.compile(r"result_[^/\n]+\.txt")  # beside each other: what lies deeper is no log, whatever its name
NUMBERED_PATTERN = re.compile(r"result_(0|[1-9][0-9]{0,3})\.txt")
RESULTS, SYSTEMS = "results", "systems"
# What MLCommons' programs obey where it lies in a submission: a claim of the submitter's.
SCALING_NAME, FACTOR_NAME = "scaling.json", "scaling_factor"
PARAMETERS_NAME = "package_checker_params"


def is_place(folder: Path) -> bool:
    """Whether a result of MLPerf's would lie here: results/<system>/<benchmark>."""
    return folder.absolute().parts[-3:-2] == (RESULTS,)


def is_bare(folder: Path, names: Iterable[str]) -> bool:
    """Whether this is a result without any log: in its place, below a submitter that describes systems.

    Whoever takes all logs away must not take the result away with them.
    """
    place = folder.absolute()
    return is_place(folder) and not log_names(names) and (place.parents[2] / SYSTEMS).is_dir()


def system_file(folder: Path) -> Path | None:
    """The description of the system whose result lies in `folder`; None where no result of MLPerf's would lie there."""
    if not is_place(folder):
        return None
    place = folder.absolute()
    return place.parents[2] / SYSTEMS / f"{place.parent.name}.json"


def log_names(names: Iterable[str]) -> list[str]:
    """The logs of runs among `names`, as MLPerf permits them, in the order a person would give them."""
    return sorted((name for name in names if LOG_PATTERN.fullmatch(name)), key=_in_order)


def _in_order(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split("([0-9]+)", name))


def claimed_factor(path: Path) -> tuple[float | None, str]:
    """The factor that a scaling.json claims; None, and why, where it says none."""
    try:
        record = strict_json.loads(small_file(path))
    except (SubmissionError, ValueError) as error:
        return None, printable(error)
    factor = record.get(FACTOR_NAME) if isinstance(record, dict) else None
    if not is_number(factor):
        return None, f"it has no number {FACTOR_NAME}"
    return float(factor), ""


def first_words(path: Path) -> str:
    """What a small file says, as far as it fits into a message."""
    try:
        return printable(small_file(path).decode("utf-8", "replace").strip(), 60) or "empty"
    except SubmissionError:
        return "not readable"
