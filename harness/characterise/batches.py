"""How large a batch fits: by bisection over trials, or from the line that the memory of smaller ones makes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FINENESS = 16  # bisection ends where the next trial would be closer than this part of the batch


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest batch that was found to fit.

    batch_size: a global batch. fails_at: the smallest that does not fit; None where the bound was reached without one.
    evidence: why that one does not fit; of a bound, what it is.
    """

    batch_size: int | None
    fails_at: int | None
    evidence: str


def bisected(fits: Callable[[int], str | None], start: int, most: int, multiple: int, bound: str) -> Largest:
    """Double a batch size that fits until one does not, then halve the distance between the two.

    fits: tries one; None if it fits, else why not. start: the first to try. multiple: every batch size is a multiple of
    it. most, bound: the largest that there can be, and why.
    """
    low, high, evidence = 0, 0, bound
    size = max(multiple, min(start, most) // multiple * multiple)
    while not high and size <= most:
        if (reason := fits(size)) is None:
            low = size
            if (size := min(2 * size, most // multiple * multiple)) == low:
                return Largest(low, None, bound)
        else:
            high, evidence = size, reason
    if not high:
        return Largest(None, None, bound)
    while high - low > max(multiple, low // FINENESS):
        middle = (low + high) // 2 // multiple * multiple
        if middle in (low, high):
            break
        if (reason := fits(middle)) is None:
            low = middle
        else:
            high, evidence = middle, reason
    return Largest(low or None, high, evidence)


def predicted(fixed: float, per_sample: float, limit: int, most: int, multiple: int, bound: str) -> Largest:
    """The largest batch whose memory is within `limit` bytes, if a batch of b needs `fixed + per_sample * b`."""
    largest = most // multiple * multiple
    if fixed + per_sample * largest <= limit:
        return Largest(largest or None, None, bound)
    size = max(0, int((limit - fixed) / per_sample)) // multiple * multiple
    needed = fixed + per_sample * (size + multiple)
    return Largest(size or None, size + multiple, f"would need {needed:.3g} bytes; the limit is {limit} bytes")
