"""The measured equivalence of a reimplementation, as `tta_equivalent` has it: how far it is from the reference, and how
far it may be. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.base.values import is_number, is_whole, mapping_or_empty
from harness.errors import printable
from harness.log import keys
from harness.log.run_log import RunLog

# What is compared, in the order in which a difference explains those after it, and how a sentence calls each.
QUANTITIES: Mapping[str, str] = {
    "initial_weights": "the initial weights",
    "batches": "the batches",
    "loss": "the loss",
    "gradient_norm": "the norm of the gradients",
    "update": "the update of all weights",
    "tensor_update": "the update of a tensor",
}
# The largest tolerance: where the reference's own orders of summation differ by more, nothing could be told. The update
# of a single tensor has none, since that of some, such as a bias before a normalisation, is nothing but rounding.
MOST: Mapping[str, float] = {
    "initial_weights": 0.1,
    "batches": 1.0,
    "loss": 0.1,
    "gradient_norm": 0.1,
    "update": 0.1,
}
NUM_SEEDS = 2  # of each run; to prepare sessions takes longer than their steps
LARGEST = 1e9  # stands for every difference that is larger or not finite
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_SEEDS = 64


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one quantity, where it is largest compared with what is allowed: relative difference and tolerance.

    seed, step: where; step 0 is the first. tensor: its name in the reference, for `tensor_update`.
    """

    value: float
    tolerance: float
    seed: int
    step: int
    tensor: str | None = None

    @property
    def is_within(self) -> bool:
        return self.value <= self.tolerance

    def record(self) -> dict[str, object]:
        """Return it as the log has it."""
        place = {"seed": self.seed, "step": self.step}
        named = {} if self.tensor is None else {"tensor": self.tensor}
        return {"difference": self.value, "tolerance": self.tolerance, **place, **named}


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The value of `tta_equivalent`.

    sha256: of the module. seeds: drawn ones. num_steps: over all seeds. differences: one for each of `QUANTITIES`.
    is_equivalent: what the line states; `broken` is what follows from its numbers.
    """

    module: str
    sha256: str
    seeds: tuple[int, ...]
    num_steps: int
    differences: Mapping[str, Difference]
    is_equivalent: bool

    @property
    def broken(self) -> str | None:
        """The first quantity that differs by more than its tolerance; None if all are within."""
        return next((name for name in QUANTITIES if not self.differences[name].is_within), None)

    def words(self) -> str:
        """Return `equivalent over 100 steps`, or in which quantity, where and by how much it is not."""
        if (name := self.broken) is None:
            return f"equivalent over {self.num_steps} steps"
        found = self.differences[name]
        where = f"at step {found.step} of the seed {found.seed}"
        if name == "batches":
            return f"not equivalent: {where} the batch is another than the reference's"
        what = QUANTITIES[name] if found.tensor is None else f"the update of {printable(found.tensor, 100)}"
        explained = "what other orders of summation explain"
        if found.value >= LARGEST:
            how = (
                f"is not a number or far too large; differences up to {found.tolerance:.2g} of its size are {explained}"
            )
        else:
            how = f"differs by {found.value:.2g} of its size; {found.tolerance:.2g} is {explained}"
        return f"not equivalent: {where} {what} {how}"


def parse_equivalence(value: object) -> Equivalence:
    """Return the equivalence that a log or a worker states.

    Raises:
        ValueError: it is not one; the message says what is wrong.
    """
    record = mapping_or_empty(value)
    module, sha256, seeds, steps = (record.get(name) for name in ("module", "sha256", "seeds", "steps"))
    if not isinstance(module, str) or not module:
        raise ValueError("module is not a name")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError("sha256 is not a SHA-256")
    if not isinstance(seeds, list) or not 1 <= len(seeds) <= _MAX_SEEDS or not all(map(is_whole, seeds)):
        raise ValueError(f"seeds is not a list of 1 to {_MAX_SEEDS} whole numbers")
    if not is_whole(steps) or not 1 <= steps < 10**9:
        raise ValueError("steps is not a number of at least 1")
    if not isinstance(record.get("is_equivalent"), bool):
        raise ValueError("is_equivalent is not true or false")
    quantities = mapping_or_empty(record.get("quantities"))
    if set(quantities) != set(QUANTITIES):
        raise ValueError(f"quantities are not {', '.join(QUANTITIES)}")
    differences = {name: _difference(name, quantities[name]) for name in QUANTITIES}
    return Equivalence(module, sha256, tuple(seeds), steps, differences, record["is_equivalent"])


def _difference(name: str, value: object) -> Difference:
    record = mapping_or_empty(value)
    amount, tolerance, seed, step = (record.get(part) for part in ("difference", "tolerance", "seed", "step"))
    if not (is_number(amount) and is_number(tolerance) and 0 <= amount <= LARGEST and 0 <= tolerance <= LARGEST):
        raise ValueError(f"{name} has not a difference and a tolerance from 0 to {LARGEST:g}")
    if not (is_whole(seed) and is_whole(step) and step >= 0):
        raise ValueError(f"{name} has not a seed and a step")
    tensor = record.get("tensor")
    if not (tensor is None or isinstance(tensor, str)):
        raise ValueError(f"{name}: tensor is not a name")
    return Difference(float(amount), float(tolerance), seed, step, tensor)


def equivalence_of(log: RunLog) -> Equivalence | None:
    """Return the equivalence in a log; None if it has none that can be read."""
    if log.first(keys.TTA_EQUIVALENT) is None:
        return None
    try:
        return parse_equivalence(log.value(keys.TTA_EQUIVALENT))
    except ValueError:
        return None


def reimplementation_words(logs: Iterable[RunLog]) -> str | None:
    """Return `reimplemented, equivalent over 100 steps` for the runs of a result, of the one with the fewest; None if
    no run states an equivalence."""
    stated = [equivalence_of(log) for log in logs if log.first(keys.TTA_EQUIVALENT) is not None]
    if not stated:
        return None
    if any(found is None or found.broken is not None for found in stated):
        return "reimplemented, not equivalent"
    return f"reimplemented, equivalent over {min(found.num_steps for found in stated if found is not None)} steps"
