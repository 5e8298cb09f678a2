"""Tiles: the hashes of the tree in files of at most 256, which a web server without a program can offer.

Tile `number` of tile level L has the nodes of tree level 8 * L that begin with node 256 * number. A tile with fewer
than 256 hashes is the last of its level, and has its width in its name.

Source: C2SP, tlog-tiles, "Merkle Tree".
"""

from __future__ import annotations

from collections.abc import Callable

from harness.transparency.tree import HASH_BYTES, Node, node_hash

HEIGHT = 8
WIDTH = 1 << HEIGHT
Fetch = Callable[[int, int, int], bytes]
"""Maps level, number and width of a tile to its bytes, `width` hashes one after the other."""


def tile_path(level: int, number: int, width: int = WIDTH) -> str:
    """Return the path of a tile: `tile/0/x001/x234/067`, with `.p/5` at its end if it has only 5 hashes."""
    groups = [f"{number % 1000:03d}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03d}")
    return f"tile/{level}/{'/'.join(groups)}{'' if width == WIDTH else f'.p/{width}'}"


def tile_width(level: int, number: int, size: int) -> int:
    """Return how many hashes a tile has in a tree of `size` leaves; 0 if there is no such tile."""
    return max(0, min(WIDTH, (size >> (HEIGHT * level)) - number * WIDTH))


def tile_root(hashes: bytes) -> bytes:
    """Return the root over the hashes of a full tile."""
    nodes = [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
    assert len(nodes) == WIDTH, f"a full tile has {WIDTH} hashes, not {len(nodes)}"
    return _top(nodes)


def _top(nodes: list[bytes]) -> bytes:
    while len(nodes) > 1:
        nodes = [node_hash(left, right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
    return nodes[0]


def nodes_of(fetch: Fetch, size: int) -> Node:
    """Return the nodes of a tree of `size` leaves, read from tiles; each tile is fetched once.

    Raises:
        ValueError: a tile has another length than it must.
    """
    known: dict[tuple[int, int], bytes] = {}

    def node(level: int, number: int) -> bytes:
        tile_level, depth = divmod(level, HEIGHT)
        first = number << depth
        place = (tile_level, first // WIDTH)
        if place not in known:
            width = tile_width(*place, size)
            known[place] = fetch(*place, width)
            if len(known[place]) != width * HASH_BYTES:
                raise ValueError(f"{tile_path(*place, width)}: has {len(known[place]):,} bytes, not {width} hashes")
        start = first % WIDTH
        hashes = known[place][start * HASH_BYTES : (start + (1 << depth)) * HASH_BYTES]
        return _top([hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)])

    return node
