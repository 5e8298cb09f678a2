"""The largest batch: a device that is known to take so many and no more."""

from __future__ import annotations

import pytest

from harness.characterise.batches import bisected, predicted


def device(limit: int, tried: list[int]) -> object:
    def fits(size: int) -> str | None:
        tried.append(size)
        return None if size <= limit else f"{size} samples need more than {limit}"

    return fits


@pytest.mark.parametrize("limit", [8, 9, 100, 128, 129, 1000, 4096])
def test_bisection_finds_the_limit_to_a_sixteenth(limit: int) -> None:
    """The batch found fits, the next that was tried does not, and they are close."""
    tried: list[int] = []

    found = bisected(device(limit, tried), 8, 1 << 20, 1, "the training set")  # type: ignore[arg-type]

    assert found.batch_size is not None
    assert found.fails_at is not None
    assert found.batch_size <= limit < found.fails_at
    assert found.fails_at - found.batch_size <= max(1, found.batch_size // 16)
    assert found.evidence == f"{found.fails_at} samples need more than {limit}"
    assert len(tried) == len(set(tried)) < 20


def test_bound_is_reached_without_a_failure() -> None:
    """No batch is larger than the training set; the last one tried is the largest multiple within it."""
    tried: list[int] = []

    found = bisected(device(10**9, tried), 64, 1000, 64, "the training set has 1000 samples")  # type: ignore[arg-type]

    assert (found.batch_size, found.fails_at) == (960, None)
    assert tried == [64, 128, 256, 512, 960]


def test_nothing_fits() -> None:
    found = bisected(device(0, []), 4, 64, 4, "the training set")  # type: ignore[arg-type]

    assert (found.batch_size, found.fails_at) == (None, 4)


def test_line_of_memory_against_a_limit() -> None:
    """1,000 bytes and 10 a sample are within 5,000 bytes up to 400 samples; a limit that is met exactly is kept."""
    found = predicted(1000.0, 10.0, 5000, 10**6, 1, "bound")

    assert (found.batch_size, found.fails_at) == (400, 401)
    assert predicted(1000.0, 10.0, 5000, 300, 1, "bound").batch_size == 300
    assert predicted(6000.0, 10.0, 5000, 300, 1, "bound").batch_size is None
