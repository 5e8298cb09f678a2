"""Reads the power log of a node, ours or MLPerf's, in one pass. Nothing is repaired: what is odd becomes a defect.

The file is anybody's: lines may be endless, not UTF-8, not JSON, cut off by a crash, or another program's. A reading
whose value is no power or energy becomes a failed read (None), so that its time is not lost. Defects by kind:

    the file      empty (no line of ours), overlong (a line), not_utf8, control_character, malformed (not JSON, or not
                  an event), key_doubled (a JSON key twice), cut_off (the last line has no end), too_many
    the event     event_type_wrong, metadata_empty ("" or null), metadata_malformed, null_as_text ("null"), key_unknown
    the log       format_missing, format_doubled, format_malformed, node_differs, dialect_mixed, start_missing,
                  start_doubled, stop_missing, stop_doubled, stop_equals_start, stop_before_start
    time          time_malformed, time_doubled, time_backwards (against the meter's reading before), wall_moved
                  (time_ms and mono_ns moved apart), sequence (`seq` is not the meter's next)
    the meters    meter_malformed, meter_doubled, meter_undeclared, kind_wrong (watts of a counter, or joules of a
                  power meter), value_malformed, value_negative, not_a_number (NaN or infinite)
    the values    conversion_eff_malformed, conversion_eff_doubled, measurement_type_unknown,
                  interconnect_malformed, interconnect_doubled, offset_malformed, sampler_malformed
    the folder    unreadable (a log is no regular file, or too large), numbered_from_one, numbering_gap, number_doubled,
                  stamp_far (of another day than the nodes'), too_many (logs)
"""

from __future__ import annotations

import os
import re
import stat
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from harness.errors import LogError
from harness.log.power_format import NodePower, PowerDefect
from harness.log.powercollector import PowerCollector

MAX_LINE_BYTES = 1 << 16  # a meter's declaration has some 400
FAR_MS = 86_400_000.0  # a day
_FILE = re.compile(r"(node|sw)_([0-9]{1,6})\.txt")


def read_folder(folder: Path) -> tuple[NodePower, ...]:
    """The logs in `power/result_<k>/`: nodes, then switches, each by number. Other files are not looked at.

    Raises:
        LogError: it is no folder that can be read, has no such log, or one of them cannot be read.
    """
    try:
        names = log_names(path.name for path in folder.iterdir())
    except OSError as error:
        raise LogError(f"{folder}: cannot be read: {error.strerror}") from None
    if not names:
        raise LogError(f"{folder}: has no power log; they are called node_<i>.txt and sw_<j>.txt")
    return judged_together([read(folder / name) for name in names])


def log_names(names: Iterable[str]) -> list[str]:
    """Those of `names` that are power logs: nodes, then switches, each by number."""
    matches = [match for name in names if (match := _FILE.fullmatch(name))]
    return [match[0] for match in sorted(matches, key=lambda match: (match[1], int(match[2]), match[0]))]


def judged_together(logs: Sequence[NodePower]) -> tuple[NodePower, ...]:
    """The logs of one folder, in the order of `log_names`, with the defects that only show in all of them."""
    judged = list(logs)
    for kind in ("node", "sw"):
        ours = [index for index, log in enumerate(judged) if log.node.startswith(f"{kind}_")]
        defect = _numbering([int(judged[index].node.partition("_")[2]) for index in ours])
        if defect is not None:
            judged[ours[0]] = with_defect(judged[ours[0]], *defect)
    stamps = [log.wall_ms for log in judged if log.wall_ms is not None and not log.is_switch]
    for index, log in enumerate(judged if stamps else ()):
        days = 0.0 if log.wall_ms is None else (log.wall_ms - statistics.median_low(stamps)) / FAR_MS
        if abs(days) > 1:
            judged[index] = with_defect(log, "stamp_far", f"{log.node} is stamped {days:+.1f} days from the nodes")
    return tuple(judged)


def _numbering(numbers: list[int]) -> tuple[str, str] | None:
    if len(set(numbers)) < len(numbers):
        return "number_doubled", "two files bear one number"
    if numbers and numbers == list(range(1, len(numbers) + 1)):
        return "numbered_from_one", "they are numbered from 1; the first is 0"
    if numbers != list(range(len(numbers))):
        return "numbering_gap", f"their numbers are not 0 to {len(numbers) - 1}"
    return None


def with_defect(log: NodePower, kind: str, message: str) -> NodePower:
    """The log with one defect more, of the file as a whole."""
    counts = {**log.defect_counts, kind: log.defect_counts.get(kind, 0) + 1}
    return replace(log, defects=(*log.defects, PowerDefect(kind, 0, message)), defect_counts=counts)


def read(path: Path) -> NodePower:
    """The power log at `path`, as far as it can be read.

    Raises:
        LogError: there is no such file, it is no regular file, or it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)  # before fdopen, which does not take a folder
        raise LogError(f"{path}: is not a regular file")
    with os.fdopen(fd, "rb", buffering=1 << 20) as stream:
        reader = PowerCollector(path)
        try:
            for lineno, line, has_end in _lines(stream, reader.defect):
                reader.take(lineno, line, has_end)
        except OSError as error:
            raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    return reader.result()


def _lines(stream: BinaryIO, defect: Callable[[str, int, str], None]) -> Iterator[tuple[int, bytes, bool]]:
    """(number, line, whether it has an end); a line that is too long is skipped, and costs no memory."""
    lineno = 0
    while line := stream.readline(MAX_LINE_BYTES):
        lineno += 1
        if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
            yield lineno, line.rstrip(b"\r\n"), line.endswith(b"\n")
            continue
        defect("overlong", lineno, f"a line of more than {MAX_LINE_BYTES:,} bytes")
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)
