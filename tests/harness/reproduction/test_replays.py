"""Two replays: equal, or where they part first, and whether another order of summation explains it."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import pytest

from harness.log.replay import Fingerprint, Replay, parse_replay, weighed
from harness.reproduction.replays import MAX_ORDERS, ROUNDING, Comparison, compare, facts
from tests.fabricate import NETWORK

STEPS = 6
ONE = 1 + ROUNDING  # the next number of single precision


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def digest(text: object) -> str:
    return f"{abs(hash(str(text))):064x}"


def record(losses: list[float] | None = None, **changes: Any) -> dict[str, Any]:
    losses = losses or [2.0 - 0.1 * step for step in range(STEPS)]
    weights = {name: digest(f"weights {name}") for name in weighed(len(losses))}
    batches = [digest(f"batch {step}") for step in range(len(losses))]
    return {"steps": len(losses), "losses": list(map(bits, losses)), "batches": batches, "weights": weights, **changes}


CLAIMED = parse_replay(record())


def with_losses(*factors: float) -> Replay:
    """The claimed losses times these factors, the last of which holds on; the weights differ after the first step."""
    held = [*factors, *[factors[-1]] * (STEPS - len(factors))]
    weights = {**CLAIMED.weights, "1": digest("other"), str(STEPS): digest("others")}
    losses = [loss * factor for loss, factor in zip(CLAIMED.losses, held, strict=True)]
    return replace(CLAIMED, bits=tuple(map(bits, losses)), weights=weights)


def test_equal_bits_are_equal_wherever() -> None:
    for is_same_system in (True, False):
        assert compare(CLAIMED, CLAIMED, is_same_system) == Comparison("equal", STEPS)


def test_last_bit_differs_on_the_same_system() -> None:
    """A loss that differs in one bit of 64 is different; nothing that rounding explains is asked for."""
    again = replace(CLAIMED, bits=(*CLAIMED.bits[:3], bits(math.nextafter(CLAIMED.losses[3], 9)), *CLAIMED.bits[4:]))

    found = compare(CLAIMED, again, True)

    assert (found.status, found.first, found.what) == ("different", 4, "loss")


@pytest.mark.parametrize(
    ("changes", "first", "what"),
    [
        ({"weights": {**CLAIMED.weights, "0": digest("other")}}, 0, "initial weights"),
        ({"batches": (*CLAIMED.batches[:2], digest("other"), *CLAIMED.batches[3:])}, 3, "batch"),
        ({"batches": CLAIMED.batches[::-1]}, 1, "batch"),
        ({"weights": {**CLAIMED.weights, "1": digest("other")}}, 1, "weights"),
        ({"weights": {**CLAIMED.weights, "5": digest("other")}}, 5, "weights"),
        ({"weights": {**CLAIMED.weights, str(STEPS): digest("other")}}, STEPS, "weights"),
    ],
)
def test_first_difference_is_named(changes: dict[str, Any], first: int, what: str) -> None:
    found = compare(CLAIMED, replace(CLAIMED, **changes), True)

    assert (found.status, found.first, found.what, found.largest) == ("different", first, what, 0.0)


def test_another_network_is_different_on_any_system() -> None:
    """It comes before its weights. Logs from before networks were taken say nothing, and operators have other names in
    other versions."""
    of_claim = replace(CLAIMED, network=Fingerprint(**NETWORK))
    again = replace(of_claim, network=Fingerprint(**{**NETWORK, "parameters": "0" * 64}), bits=CLAIMED.bits[::-1])

    found = compare(of_claim, again, False, again)

    assert (found.status, found.first, found.what) == ("different", 0, "network")
    assert compare(CLAIMED, of_claim, True).status == "equal"
    assert (
        compare(of_claim, replace(of_claim, network=Fingerprint(**{**NETWORK, "network": "0" * 64})), True).status
        == "equal"
    )


def test_another_batch_is_different_on_any_system() -> None:
    """Whatever rounding explains: the data are the same everywhere."""
    again = replace(CLAIMED, batches=(digest("other"), *CLAIMED.batches[1:]))

    assert compare(CLAIMED, again, False, again).status == "different"


def test_losses_are_close_where_another_order_of_summation_is_as_far() -> None:
    """At each step ten times what it changed up to there: much at the last steps is far too much at the first."""
    other = with_losses(1 + 1e-6, 1 + 1e-6, 1 + 1e-4)
    near, far = 1 + 0.9 * MAX_ORDERS * 1e-6, 1 + 1.1 * MAX_ORDERS * 1e-6

    found = compare(CLAIMED, with_losses(near), False, None)
    assert (found.status, found.why) == ("not available", "no other order of summation was tried")
    assert compare(with_losses(near), CLAIMED, False, other).status == "close"
    assert compare(with_losses(far), CLAIMED, False, other).status == "different"
    assert compare(with_losses(1, 1, far, near), CLAIMED, False, other).status == "close"
    assert compare(with_losses(1, 1, 1 + 1.1 * MAX_ORDERS * 1e-4), CLAIMED, False, other).status == "different"


def test_rounding_of_single_precision_is_always_explained() -> None:
    """Where the other order changes nothing, a difference in the last place still says nothing."""
    assert compare(with_losses(ONE), CLAIMED, False, CLAIMED).status == "close"


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_losses_that_are_no_numbers_are_different_unless_equal(strange: float) -> None:
    odd = parse_replay(record([2.0, strange, 1.0]))

    assert compare(odd, odd, False).status == "equal"
    found = compare(odd, parse_replay(record([2.0, 1.5, 1.0])), False, parse_replay(record([2.0, 1.5, 1.0])))
    assert (found.status, facts(found)["largest_relative_difference"]) == ("different", None)


def test_shorter_replay_is_compared_as_far_as_it_goes() -> None:
    """The limit of time ended it; the weights after its last step have no counterpart."""
    short = parse_replay(record([2.0, 1.9]))

    assert compare(CLAIMED, short, True) == Comparison("equal", 2)


def test_operation_without_a_deterministic_form_is_named() -> None:
    missing = parse_replay({"steps": 0, "not_available": "cumsum_cuda_kernel"})

    for claimed in (CLAIMED, missing):
        found = compare(claimed, missing, True)
        assert (found.status, found.why) == ("not available", "cumsum_cuda_kernel has no deterministic form")


def test_claim_that_says_so_where_every_operation_has_one() -> None:
    """It is the claim's word, which the steps made here contradict."""
    found = compare(parse_replay({"steps": 0, "not_available": "nothing"}), CLAIMED, True)

    assert found.status == "not available"
    assert found.why == "the claim says that nothing has no deterministic form; here every operation has one"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "steps is not a number"),
        ({**record(), "steps": 0}, "steps is not a number"),
        ({**record(), "steps": True}, "steps is not a number"),
        ({**record(), "steps": 5}, "losses is not a list of 5"),
        (record(losses=None) | {"losses": ["0" * 15] * STEPS}, "losses has an item"),
        (record() | {"batches": [None] * STEPS}, "batches has an item"),
        (record() | {"weights": {"0": digest("a")}}, "weights has not the digests after 0, 1, 5, 6 steps"),
        (record() | {"weights": dict.fromkeys(("0", "1", "5", "6"), "x")}, "weights has not the digests"),
    ],
)
def test_what_is_no_replay_is_said(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_replay(value)
