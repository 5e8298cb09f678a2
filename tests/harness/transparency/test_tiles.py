"""Tiles: their paths, and that they have all that proofs need."""

from __future__ import annotations

import pytest

from harness.transparency import tiles, tree
from tests.harness.transparency.test_tree import nodes_over

LEAVES = [tree.leaf_hash(str(number).encode()) for number in range(700)]
WHOLE = nodes_over(LEAVES)


def fetch(level: int, number: int, width: int) -> bytes:
    return b"".join(WHOLE(8 * level, 256 * number + index) for index in range(width))


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ((0, 0), "tile/0/000"),
        ((0, 1234067), "tile/0/x001/x234/067"),
        ((1, 5, 112), "tile/1/005.p/112"),
        ((0, 1000, 1), "tile/0/x001/000.p/1"),
    ],
)
def test_paths_are_those_of_c2sp(place: tuple[int, ...], path: str) -> None:
    """In groups of three digits, all but the last with an x."""
    assert tiles.tile_path(*place) == path


@pytest.mark.parametrize("size", [1, 255, 256, 257, 511, 512, 700])
def test_roots_and_proofs_from_tiles_are_those_of_the_tree(size: int) -> None:
    """At the edges of tiles, too."""
    node = tiles.nodes_of(fetch, size)

    assert tree.root(node, size) == tree.root(WHOLE, size)
    for index in (0, size // 2, size - 1):
        assert tree.inclusion_proof(node, index, size) == tree.inclusion_proof(WHOLE, index, size)


def test_the_last_tile_of_a_level_is_narrower() -> None:
    """Down to nothing beyond it."""
    assert [tiles.tile_width(0, number, 700) for number in range(4)] == [256, 256, 188, 0]
    assert [tiles.tile_width(1, number, 700) for number in range(2)] == [2, 0]


def test_the_root_of_a_full_tile_is_a_node_one_level_up() -> None:
    """That is how the next level's tile is made."""
    assert tiles.tile_root(fetch(0, 1, 256)) == WHOLE(8, 1)


def test_a_tile_of_another_length_is_refused() -> None:
    """A server that is cut off makes no proof."""
    node = tiles.nodes_of(lambda level, number, width: fetch(level, number, width)[:-1], 700)

    with pytest.raises(ValueError, match=r"tile/1/000.p/2: has 63 bytes, not 2 hashes"):
        tree.root(node, 700)
