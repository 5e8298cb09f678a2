"""The first steps of a run as `tta_replay` has them: what a worker reports, and what a log says. Pure."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from harness.base.values import is_whole, mapping_or_empty
from harness.errors import printable
from harness.log import keys
from harness.log.run_log import RunLog

_BITS = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Steps after which the weights are digested, besides the last. What rounds away in the loss of a step, such as 1 % of a
# small weight decay, is in the weights within five.
WEIGHED = (0, 1, 5)


def weighed(num_steps: int) -> set[str]:
    """Return the names of the steps after which a replay of so many steps has digests of the weights."""
    return {str(step) for step in (*WEIGHED, num_steps) if step <= num_steps}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells two networks apart that have one name; `harness.run.network` takes it.

    parameters: SHA-256 over names, types and shapes of the parameters and of the buffers that are saved with them, and
        which of them are trained: the same on any machine, at any batch size, and in any precision of the operators.
    network: SHA-256 over the same without what is trained, and over the set of operators, those of convolutions and
        poolings with their strides: with one version of torch the same at any batch size and length.
    forward: SHA-256 over the list of operators with the shapes and types of their inputs and outputs, of the first
        step's forward passes: that of the same batch size as well.
    num_parameters: elements, shared ones once; num_trainable: those with a gradient; num_buffers: elements of buffers.
    """

    parameters: str
    network: str
    forward: str
    num_parameters: int
    num_trainable: int
    num_buffers: int

    def __str__(self) -> str:
        return f"{self.num_parameters:,} parameters {self.parameters[:12]}…, with their operators {self.network[:12]}…"


@dataclass(frozen=True, slots=True)
class Replay:
    """The value of `tta_replay`. losses: of each step, as floats. bits: as logged. not_available: of an operation.

    network: None in a log from before it was taken, and of a session that does not say which network it trains.
    """

    bits: tuple[str, ...]
    batches: tuple[str, ...]
    weights: Mapping[str, str]
    not_available: str | None = None
    network: Fingerprint | None = None

    @property
    def losses(self) -> list[float]:
        return [struct.unpack(">d", bytes.fromhex(item))[0] for item in self.bits]

    @property
    def num_steps(self) -> int:
        return len(self.bits)


def parse_replay(value: object) -> Replay:
    """Return the replay that a log or a worker states.

    Raises:
        ValueError: it is not one; the message says what is wrong.
    """
    record = mapping_or_empty(value)
    missing = record.get("not_available")
    if isinstance(missing, str) and missing:
        return Replay((), (), {}, missing)
    steps, bits, batches, weights = (record.get(name) for name in ("steps", "losses", "batches", "weights"))
    if not is_whole(steps) or steps < 1:
        raise ValueError("steps is not a number of at least 1")
    for name, items, pattern in (("losses", bits, _BITS), ("batches", batches, _DIGEST)):
        if not isinstance(items, list) or len(items) != steps:
            raise ValueError(f"{name} is not a list of {steps} items")
        if not all(isinstance(item, str) and pattern.fullmatch(item) for item in items):
            raise ValueError(f"{name} has an item that is not {pattern.pattern}")
    wanted = weighed(steps)
    if not isinstance(weights, dict) or set(weights) != wanted or not all(map(_is_digest, weights.values())):
        raise ValueError(f"weights has not the digests after {', '.join(sorted(wanted, key=int))} steps")
    assert isinstance(bits, list)
    assert isinstance(batches, list)
    network = None if "network" not in record else _network(mapping_or_empty(record["network"]))
    return Replay(tuple(bits), tuple(batches), dict(weights), network=network)


def _network(record: Mapping[str, object]) -> Fingerprint:
    values: dict[str, Any] = {}
    for one in fields(Fingerprint):
        value = values[one.name] = record.get(one.name)
        if not (is_whole(value) and value >= 0 if one.name.startswith("num_") else _is_digest(value)):
            expected = "a whole number" if one.name.startswith("num_") else "a SHA-256"
            raise ValueError(f"network: {one.name} is {printable(value, 80)}, expected {expected}")
    return Fingerprint(**values)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def replay_of(log: RunLog) -> Replay | None:
    """Return the replay in a log; None if it has none that can be read."""
    if log.first(keys.TTA_REPLAY) is None:
        return None
    try:
        return parse_replay(log.value(keys.TTA_REPLAY))
    except ValueError:
        return None
