"""The Merkle tree: the roots of RFC 9162's example, and proofs that hold for what they show and for nothing else."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.transparency import tree

# The inputs and the root of the tests of Certificate Transparency, which many programs share.
INPUTS = [
    bytes.fromhex(item)
    for item in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def nodes_over(hashes: list[bytes]) -> tree.Node:
    """The nodes of a small tree, from the hashes of its leaves."""

    def node(level: int, number: int) -> bytes:
        if level == 0:
            return hashes[number]
        return tree.node_hash(node(level - 1, 2 * number), node(level - 1, 2 * number + 1))

    return node


def leaves(count: int) -> list[bytes]:
    return [tree.leaf_hash(str(number).encode()) for number in range(count)]


def by_definition(hashes: list[bytes]) -> bytes:
    """The root as RFC 9162, 2.1.1, defines it."""
    if not hashes:
        return hashlib.sha256().digest()
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while 2 * split < len(hashes):
        split *= 2
    return tree.node_hash(by_definition(hashes[:split]), by_definition(hashes[split:]))


@pytest.mark.parametrize(("size", "root"), ROOTS.items())
def test_known_roots(size: int, root: str) -> None:
    """Those that other programs compute from the same inputs."""
    node = nodes_over([tree.leaf_hash(data) for data in INPUTS])

    assert tree.root(node, size).hex() == root


@pytest.mark.parametrize("size", range(40))
def test_root_is_as_defined(size: int) -> None:
    """For every shape of a small tree, the empty one included."""
    hashes = leaves(size)

    assert tree.root(nodes_over(hashes), size) == by_definition(hashes)


@pytest.mark.parametrize("size", range(1, 20))
def test_every_leaf_is_shown_to_be_in_the_tree(size: int) -> None:
    """By its own proof, and under its own number alone."""
    hashes = leaves(size)
    node = nodes_over(hashes)
    root = tree.root(node, size)

    for index in range(size):
        proof = tree.inclusion_proof(node, index, size)

        assert tree.includes(hashes[index], index, size, proof, root)
        others = [other for other in range(-1, size + 1) if other != index]
        assert not any(tree.includes(hashes[index], other, size, proof, root) for other in others)
        assert not tree.includes(hashes[index], index, size, [*proof, root], root)
        assert not tree.includes(hashes[index], index, size, proof[:-1], root) or not proof


@pytest.mark.parametrize("size", range(1, 20))
def test_every_tree_is_shown_to_continue_the_smaller_ones(size: int) -> None:
    """And no other: another size, another root, a proof that is cut off or too long."""
    node = nodes_over(leaves(size))
    root = tree.root(node, size)

    for old_size in range(size + 1):
        old_root, proof = tree.root(node, old_size), tree.consistency_proof(node, old_size, size)

        assert tree.continues(old_size, old_root, size, root, proof)
        assert not tree.continues(old_size, b"\0" * 32, size, root, proof)
        assert not tree.continues(old_size, old_root, size, root, [*proof, root])
        assert not tree.continues(old_size, old_root, old_size - 1, root, proof)
        if 0 < old_size < size:
            assert not tree.continues(old_size, old_root, size, b"\0" * 32, proof)
            assert not tree.continues(old_size, old_root, size, root, proof[:-1])
            assert not tree.continues(old_size, old_root, size, root, [])


@given(st.integers(2, 300).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1), st.data())))
def test_a_changed_proof_shows_nothing(drawn: tuple[int, int, st.DataObject]) -> None:
    """One bit anywhere in it."""
    size, index, data = drawn
    hashes = leaves(size)
    node = nodes_over(hashes)
    root, proof = tree.root(node, size), tree.inclusion_proof(node, index, size)
    at = data.draw(st.integers(0, len(proof) * 256 - 1))
    number, bit = divmod(at, 256)
    changed = bytearray(proof[number])
    changed[bit // 8] ^= 1 << bit % 8

    assert not tree.includes(hashes[index], index, size, [*proof[:number], bytes(changed), *proof[number + 1 :]], root)
