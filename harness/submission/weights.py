"""The weights of a run's last evaluation, kept on request so that anyone can evaluate them again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.base.values import is_whole
from harness.errors import printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.submission.claim import FileEntry

WEIGHTS_PATTERN = re.compile(r"weights_(0|[1-9][0-9]{0,3})\.safetensors")
MAX_BYTES = 100 << 20  # of a file in a submission: GitHub takes no larger ones, and leaderboards are kept in git
MAX_APART_BYTES = 64 << 30  # of one that is elsewhere
SCHEMES = ("https://", "http://", "s3://", "gs://", "hf://")  # of places where weights can be
_SHA256 = re.compile(r"[0-9a-f]{64}")


def weights_name(index: int) -> str:
    """Return the name of the file with the weights of run `index`."""
    return f"weights_{index}.safetensors"


def weights_digest(log: RunLog) -> str | None:
    """Return the SHA-256 of the weights that the run kept, wherever they are; None if it kept none."""
    digest = log.field(keys.TTA_WEIGHTS, "sha256")
    return digest if isinstance(digest, str) and _SHA256.fullmatch(digest) else None


def are_apart(log: RunLog) -> bool:
    """Whether the run's weights are too large for a submission, and so must be somewhere else."""
    return weights_digest(log) is not None and log.field(keys.TTA_WEIGHTS, "file") is None


def place_fault(place: str) -> str:
    """Return what is wrong with the place where a submitter says that weights are; empty if nothing is."""
    is_place = place.startswith(SCHEMES) and len(place) <= 500 and place.isascii() and place.isprintable()
    return "" if is_place and " " not in place else f"expected an address that begins with {', '.join(SCHEMES)}"


def wrong_with_weights(log: RunLog, index: int, files: Mapping[str, FileEntry]) -> str:
    """Return what is wrong with the weights that the log of run `index` says are next to it; empty if nothing is.

    files: what is next to the log.
    """
    stated, name = log.field(keys.TTA_WEIGHTS, "file"), weights_name(index)
    if stated != name:
        return f"the weights are in {printable(stated, 60)!r}; their name must be {name}"
    entry = files.get(name)
    if entry is None or entry.kind != "file":
        return f"{name} is missing"
    if entry.num_bytes > MAX_BYTES:
        return f"{name} has {entry.num_bytes:,} bytes; weights of more than {MAX_BYTES:,} are not part of a result"
    num_bytes, digest = log.field(keys.TTA_WEIGHTS, "num_bytes"), weights_digest(log)
    if digest is None or entry.sha256 != digest or not is_whole(num_bytes) or num_bytes != entry.num_bytes:
        return f"{name} does not have the weights of the last evaluation"
    return ""
