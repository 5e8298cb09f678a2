"""What a workload is given and gives back: a recipe of the right kinds, a quality over examples."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageError
from harness.workload import (
    EXECUTION,
    Metric,
    Quality,
    check_bounds,
    check_optimizer,
    read_execution,
    read_recipe,
    texts_from_bytes,
    texts_to_bytes,
)


@dataclass(frozen=True)
class Recipe:
    """A field of each kind."""

    batch_size: int
    rate: float
    name: str
    nesterov: bool


GOOD: dict[str, Any] = {"batch_size": 32, "rate": 0.1, "name": "sgd", "nesterov": True}


def test_recipe_is_what_was_given() -> None:
    """Every value in its field; an int is accepted for a float."""
    assert read_recipe(Recipe, {**GOOD, "rate": 1}, "toy") == Recipe(32, 1, "sgd", nesterov=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": 0.1}, "unknown hyperparameter of toy 'rates'; did you mean 'rate'"),
        ({"batch_size": 32.0}, "toy: batch_size is '32.0', expected int"),
        ({"batch_size": True}, "toy: batch_size is 'True', expected int"),
        ({"rate": True}, "toy: rate is 'True', expected float"),
        ({"rate": "0.1"}, "toy: rate is '0.1', expected float"),
        ({"name": 5}, "toy: name is '5', expected str"),
        ({"nesterov": 1}, "toy: nesterov is '1', expected bool"),
        ({"rate": math.nan}, "toy: rate is nan, expected a finite number of at least 0"),
        ({"rate": math.inf}, "toy: rate is inf, expected a finite number"),
        ({"rate": -0.1}, "toy: rate is -0.1, expected a finite number of at least 0"),
        ({"batch_size": 10**9}, "toy: batch_size is 1000000000, expected a finite number"),
    ],
)
def test_value_that_is_not_of_its_fields_kind_is_named(change: dict[str, Any], message: str) -> None:
    """Before anything is trained: a truth value is not a number, a text not a float, NaN not a rate."""
    with pytest.raises(UsageError, match=f"^{message}"):
        read_recipe(Recipe, {**GOOD, **change}, "toy")


def test_hyperparameters_that_are_missing_are_all_named() -> None:
    """One sentence, not one attempt each."""
    with pytest.raises(UsageError, match=r"^toy: hyperparameters missing: batch_size, nesterov$"):
        read_recipe(Recipe, {"rate": 0.1, "name": "sgd"}, "toy")


def test_optimizer_is_the_workloads_or_a_submissions() -> None:
    """That of a submission has any name."""
    recipe = SimpleNamespace(opt_name="adam")
    check_optimizer(recipe, "toy", ("sgd", "adam"), has_own_optimizer=False)
    check_optimizer(recipe, "toy", ("sgd",), has_own_optimizer=True)

    with pytest.raises(UsageError, match=r"^toy: opt_name is 'adam', expected lars or sgd$"):
        check_optimizer(recipe, "toy", ("lars", "sgd"), has_own_optimizer=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"batch": 1}, "toy: batch is 1, expected at least 2"),
        ({"dropout": 1.0}, "toy: dropout is 1.0, expected below 1"),
        ({"opt_learning_rate_warmup_steps": 5}, "toy: .*warmup_steps must be below opt_learning_rate_training_steps"),
    ],
)
def test_bounds_are_those_given_and_the_horizon(change: dict[str, Any], message: str | None) -> None:
    """Equal to the least is permitted, 1 is not below 1, and a warm-up that ends at the horizon is too long."""
    values = {"batch": 2, "dropout": 0.9, "opt_learning_rate_warmup_steps": 4, "opt_learning_rate_training_steps": 5}
    recipe = SimpleNamespace(**{**values, **change})

    with nullcontext() if message is None else pytest.raises(UsageError, match=f"^{message}$"):
        check_bounds(recipe, "toy", at_least={"batch": 2}, below_one=("dropout",))


def test_schedule_without_a_horizon_may_warm_up_for_long() -> None:
    """As one that falls with the root of the step."""
    check_bounds(SimpleNamespace(opt_learning_rate_warmup_steps=10**8), "toy", at_least={})


@pytest.mark.parametrize(
    ("chosen", "num_devices", "found"),
    [
        ({}, 1, {"compile": False, "cuda_graphs": False}),
        ({}, 2, {"compile": False, "ddp_bucket_mb": 25}),
        ({"compile": True, "cuda_graphs": True}, 1, {"compile": True, "cuda_graphs": True}),
        ({"ddp_bucket_mb": 1}, 2, {"compile": False, "ddp_bucket_mb": 1}),
        ({"ddp_bucket_mb": 10_000}, 2, {"compile": False, "ddp_bucket_mb": 10_000}),
    ],
)
def test_every_execution_option_has_a_value(
    chosen: dict[str, object], num_devices: int, found: dict[str, object]
) -> None:
    """What was chosen, else the default; a single device has no buckets, and several capture no graphs."""
    assert read_execution(chosen, ("compile", "cuda_graphs", "ddp_bucket_mb"), "toy", num_devices) == found


def test_default_of_every_execution_option_is_one_of_its_values() -> None:
    """The table is consistent: what nobody chooses would not be refused either."""
    assert {name: option.fault(option.default) for name, option in EXECUTION.items()} == dict.fromkeys(EXECUTION)
    assert all(option.elsewhere for option in EXECUTION.values() if not (option.is_for(1) and option.is_for(2)))


@pytest.mark.parametrize(
    ("chosen", "num_devices", "message"),
    [
        ({"compil": True}, 1, "unknown execution option of toy 'compil'; did you mean 'compile'?"),
        ({"channels_last": True}, 1, "unknown execution option of toy 'channels_last'; there are: compile"),
        ({"cuda_graphs": True}, 2, "cuda_graphs: a step of several devices is not captured"),
        ({"compile": 1}, 1, "compile is '1', expected true or false"),
        ({"compile": "max"}, 1, "compile is 'max', expected true or false"),
        ({"ddp_bucket_mb": 25}, 1, "ddp_bucket_mb: a single device exchanges no gradients"),
        ({"ddp_bucket_mb": 0}, 2, "ddp_bucket_mb is '0', expected a whole number from 1 to 10000"),
        ({"ddp_bucket_mb": 10_001}, 2, "ddp_bucket_mb is '10001', expected a whole number"),
        ({"ddp_bucket_mb": True}, 2, "ddp_bucket_mb is 'True', expected a whole number"),
        ({"ddp_bucket_mb": 25.0}, 2, "ddp_bucket_mb is '25.0', expected a whole number"),
    ],
)
def test_execution_option_that_nothing_carries_out_is_refused(
    chosen: dict[str, object], num_devices: int, message: str
) -> None:
    """Unknown, not the workload's, or a value that it does not take."""
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        read_execution(chosen, ("compile", "cuda_graphs", "ddp_bucket_mb"), "toy", num_devices)


@pytest.mark.parametrize("num_examples", [0, -1])
def test_quality_over_no_examples_is_an_error_and_not_zero(num_examples: int) -> None:
    """An empty test set that scores 0.0, or 1.0, would be a result."""
    with pytest.raises(ValueError, match=f"an evaluation over {num_examples} examples has no quality"):
        Quality(1.0, num_examples)


def test_quality_may_be_no_number_and_says_so() -> None:
    """The referee ends such a run as diverged."""
    assert [Quality(value, 1).is_finite for value in (0.5, math.nan, math.inf, -math.inf)] == [True, *[False] * 3]


@pytest.mark.parametrize(
    ("direction", "values", "reached"),
    [("max", (0.89, 0.9, 0.91), (False, True, True)), ("min", (0.89, 0.9, 0.91), (True, True, False))],
)
def test_equal_to_the_target_is_reached(direction: Any, values: tuple[float, ...], reached: tuple[bool, ...]) -> None:
    """Whichever way is better."""
    metric = Metric("quality", "fraction", direction)

    assert tuple(metric.is_reached(value, 0.9) for value in values) == reached
    assert not metric.is_reached(math.nan, 0.9)


@pytest.mark.parametrize("texts", [[""], ["one"], ["", ""], ["grün und blau", "", "\r ja "]])
def test_texts_come_back_from_their_bytes(texts: list[str]) -> None:
    """Also empty ones; only a newline within a text is lost."""
    assert texts_from_bytes(texts_to_bytes(texts), len(texts), "texts") == texts
    assert texts_from_bytes(texts_to_bytes(["a\nb", "c"]), 2, "texts") == ["a b", "c"]


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (None, ""),
        (np.zeros(3, np.int8), ""),
        (np.zeros((1, 3), np.uint8), ""),
        (np.frombuffer(b"\xff\n", np.uint8), ""),
        (texts_to_bytes(["one", "two", "three"]), "; found 3"),
    ],
)
def test_bytes_that_are_not_that_many_texts_are_refused(array: Any, found: str) -> None:
    """Missing, another type or shape, not UTF-8, another number."""
    expected = f"expected 2 answers as bytes of UTF-8, separated by newlines{found}"

    with pytest.raises(ValueError, match=f"^{expected}$"):
        texts_from_bytes(array, 2, "answers")
