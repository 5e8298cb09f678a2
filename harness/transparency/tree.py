"""The Merkle tree of RFC 9162: roots, proofs that a leaf is in a tree, and proofs that one tree continues another.

A tree is known by its complete subtrees: `node(level, number)` is the hash of the 2**level leaves that begin with leaf
number * 2**level. From these, every root and every proof is made; verifying a proof needs none of them.

Source: RFC 9162, 2.1 (the same hashes as RFC 6962, 2.1); its verification algorithms are 2.1.3.2 and 2.1.4.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256().digest()
Node = Callable[[int, int], bytes]


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf with these bytes."""
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with these two children."""
    return hashlib.sha256(b"\1" + left + right).digest()


def root(node: Node, size: int) -> bytes:
    """Return the root of the tree of the first `size` leaves."""
    return _range(node, 0, size) if size else EMPTY_ROOT


def _range(node: Node, start: int, end: int) -> bytes:
    """Return the root over the leaves from `start` to before `end`, which are a subtree of RFC 9162."""
    width = end - start
    if width & (width - 1) == 0:
        return node(width.bit_length() - 1, start // width)
    split = start + _split(width)
    return node_hash(_range(node, start, split), _range(node, split, end))


def _split(width: int) -> int:
    """Return the largest power of 2 below `width`."""
    return 1 << ((width - 1).bit_length() - 1)


def inclusion_proof(node: Node, index: int, size: int) -> list[bytes]:
    """Return the hashes that lead from leaf `index` to the root of the tree of `size` leaves, the lowest first."""
    assert 0 <= index < size, f"leaf {index} is not in a tree of {size}"
    start, end, proof = 0, size, []
    while end - start > 1:
        split = start + _split(end - start)
        if index < split:
            proof.append(_range(node, split, end))
            end = split
        else:
            proof.append(_range(node, start, split))
            start = split
    return proof[::-1]


def consistency_proof(node: Node, old_size: int, size: int) -> list[bytes]:
    """Return the hashes that show that the tree of `size` leaves begins with that of `old_size` leaves.

    Empty where there is nothing to show: from an empty tree, and from a tree to itself.
    """
    assert 0 <= old_size <= size, f"a tree of {size} leaves does not continue one of {old_size}"
    if old_size in (0, size):
        return []
    start, end, proof = 0, size, []
    is_whole = True  # whether the old tree is still the whole of what is looked at
    while old_size != end:
        split = start + _split(end - start)
        if old_size <= split:
            proof.append(_range(node, split, end))
            end = split
        else:
            proof.append(_range(node, start, split))
            start, is_whole = split, False
    if not is_whole:
        proof.append(_range(node, start, end))
    return proof[::-1]


def includes(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof shows that the leaf with this hash is the one with this index in the tree with this root."""
    if not 0 <= index < size:
        return False
    number, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if number & 1 or number == last:
            found = node_hash(sibling, found)
            while not number & 1 and number:
                number, last = number >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        number, last = number >> 1, last >> 1
    return last == 0 and found == root


def continues(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree with `root` begins with the leaves of the tree with `old_root`."""
    if not 0 <= old_size <= size:
        return False
    if old_size == size:
        return not proof and old_root == root
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    path = list(proof)
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    number, last = old_size - 1, size - 1
    while number & 1:
        number, last = number >> 1, last >> 1
    old_found = found = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if number & 1 or number == last:
            old_found, found = node_hash(sibling, old_found), node_hash(sibling, found)
            while not number & 1 and number:
                number, last = number >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        number, last = number >> 1, last >> 1
    return last == 0 and old_found == old_root and found == root
