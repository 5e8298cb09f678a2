"""A tree in which results repeat each other: confirmed, refuted, in a chain, unlike, not valid, and of nobody here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.submission.result import read_result
from tests.fabricate import Step, find
from tests.harness.board.test_index import HOSTILE, TOY, abort, submit
from tests.rules.box import configure, put, recount

Change = Callable[[int, list[Step]], list[Step]]
ABSENT = "ab" * 32  # the digest of no result
SLOW = (0.3, 0.5, 0.7, 0.8, 0.95)  # needs nearly twice the samples of `submit`'s curve


def repeats(value: object, seed: int = 1000, then: Change | None = None) -> Change:
    """Runs from this seed on that state this value of `tta_reproduces`."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        put(steps, Step(0.0, "tta_reproduces", value), "tta_rules")
        configure(steps, seed=seed + index)
        find(steps, "tta_format").value.update(run_id=f"{seed + index:032x}", result_id=f"{seed:032x}")
        recount(steps)
        return then(index, steps) if then else steps

    return change


def digest_of(place: Path) -> str:
    return read_result(place).runs_digest


def reproduce(tree: Path, original: Path, submitter: str, system: str, seed: int, **options: Any) -> Path:
    """Writes a reproduction of the result at `original`."""
    then = options.pop("then", None)
    change = repeats({"digest": digest_of(original)}, seed, then)
    return submit(tree, submitter, system, options.pop("rules", TOY), change=change, **options)


def beside(tree: Path, original: Path, seed: int, **options: Any) -> Path:
    """Writes a reproduction on the same system, by the same submitter, next to the original."""
    made = reproduce(tree / ".made", original, "acme", "box1", seed, **options)
    place = original.with_name(f"{made.name}-again-{digest_of(original)[:12]}")
    return made.rename(place)


def reproduced_tree(tree: Path) -> Path:
    """acme/box1, and all that repeat it or each other."""
    tree.mkdir(parents=True, exist_ok=True)
    original = submit(tree, "acme", "box1")
    reproduce(tree, original, "acme", "box2", 9000)
    beside(tree, original, 8000)
    confirmed = reproduce(tree, original, "birch", "node7", 1000, block_s=1.2)
    reproduce(tree, original, "cedar", "slow", 2000, curve=SLOW)
    reproduce(tree, original, "elm", "failing", 3000, then=abort)
    reproduce(tree, original, "fir", "big-batch", 4000, batch_size=200)
    reproduce(tree, original, "gum", "same-seeds", 103)
    reproduce(tree, confirmed, "hazel", "of-birch", 5000, num_runs=20)
    reproduce(tree, original, HOSTILE.replace("/", "%2F"), "+1+cmd", 6000, folder="evil")
    submit(tree, "ivy", "elsewhere", change=repeats({"digest": ABSENT}))
    submit(tree, "juniper", "malformed", change=repeats({"digest": "theirs"}))
    return tree
