"""All-reduces before a run: every pair of nodes once, in the units that people compare, with the slow pair named."""

from __future__ import annotations

import pytest

from harness.run.all_reduce import all_reduce_lines, bus_bytes_per_s, rounds


@pytest.mark.parametrize("num_nodes", range(2, 10))
def test_every_pair_of_nodes_once(num_nodes: int) -> None:
    """And in a round, in which pairs are measured together, every node in one pair at most."""
    made = list(rounds(num_nodes))

    pairs = [pair for pairs in made for pair in pairs]
    assert sorted(pairs) == [(one, other) for one in range(num_nodes) for other in range(one + 1, num_nodes)]
    assert all(len({node for pair in pairs for node in pair}) == 2 * len(pairs) for pairs in made)
    assert len(made) == num_nodes - 1 + num_nodes % 2


def test_bus_bandwidth_does_not_depend_on_the_number_of_ranks() -> None:
    """In a ring of n, each link passes 2 (n - 1) / n of the data."""
    assert bus_bytes_per_s(1000, 1.0, 2) == 1000
    assert bus_bytes_per_s(1000, 1.5, 4) == 1000


def result(nodes: list[int], seconds: float) -> dict[str, object]:
    return {"nodes": nodes, "seconds": {str(1 << 20): seconds / 50, str(64 << 20): seconds}, "is_right": True}


def test_slow_pair_is_named() -> None:
    """Below half of the fastest; half of it is not below."""
    whole, fast, half, slow = all_reduce_lines(
        [result([0, 1, 2], 1.0), result([0, 1], 0.0671), result([0, 2], 0.1342), result([1, 2], 0.135)], 1
    )

    assert (fast.name, fast.advice) == ("all-reduce of nodes 0 and 1", None)
    assert fast.value == "1 MiB in 1.34 ms (0.781 GB/s), 64 MiB in 67.1 ms (1 GB/s)"
    assert (whole.name, whole.advice, half.advice) == ("all-reduce of nodes 0 to 2", None, None)
    assert slow.advice == "below half of the fastest pair, 1 GB/s: look at their links"


def test_two_nodes_are_compared_with_no_one() -> None:
    """Their only measurement is that of all nodes."""
    (line,) = all_reduce_lines([result([0, 1], 5.0)], 8)

    assert (line.name, line.advice) == ("all-reduce of nodes 0 and 1", None)
