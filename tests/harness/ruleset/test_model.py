"""The law as data: what a closed submission may set, what contradicts itself, and what decides a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.errors import UsageError
from harness.ruleset.model import BenchmarkRules, Constraint, ReferenceConvergence, ReferenceRecipe
from tests import fabricate
from tests.fabricate import benchmark_rules

FIXED = Constraint(default="sgd", fixed=True)
ONE_OF = Constraint(default=100, one_of=(50, 100))
RANGE = Constraint(default=0.1, range=(0.01, 1.0))
WHOLE_RANGE = Constraint(default=3, range=(1, 5))
FREE = Constraint(default=0.5, free=True)
SWITCH = Constraint(default=True, free=True)


@pytest.mark.parametrize(
    ("constraint", "permitted", "refused"),
    [
        (FIXED, ["sgd"], ["adam", 5, None]),
        (ONE_OF, [50, 100], [75, 50.0, "50", True]),
        (RANGE, [0.01, 0.5, 1.0, 1], [0.0099, 1.0001, 2, 0, "0.5", True]),
        (WHOLE_RANGE, [1, 5], [0, 6, 3.0, True]),
        (FREE, [0.0, -7, 1e9], ["0.5", None, False]),
        (SWITCH, [True, False], [1, 0, "true"]),
        (Constraint(default=False, fixed=True), [False], [True, 0]),
        (Constraint(default="a", range=(0, 1)), [], ["a", 0.5]),
    ],
)
def test_what_a_closed_submission_may_use(
    constraint: Constraint, permitted: list[object], refused: list[object]
) -> None:
    """Ends of a range included; a whole number may stand for a fraction, a truth value for nothing else."""
    assert [constraint.permits(value) for value in permitted] == [True] * len(permitted)
    assert [constraint.permits(value) for value in refused] == [False] * len(refused)


def test_what_is_permitted_is_told_in_words() -> None:
    """For the message of a finding."""
    assert [item.allowed for item in (FIXED, ONE_OF, RANGE, FREE, SWITCH)] == [
        "fixed at sgd",
        "one of 50, 100",
        "from 0.01 to 1",
        "any float",
        "any bool",
    ]


def test_overrides_are_laid_over_the_defaults() -> None:
    """A whole number that stands for a fraction becomes one; the open division may leave what is permitted."""
    rules = benchmark_rules()
    found = rules.resolve({"opt_base_learning_rate": 1, "global_batch_size": 50}, "closed")

    assert found == {"global_batch_size": 50, "opt_name": "sgd", "opt_base_learning_rate": 1.0}
    assert [type(value) for value in found.values()] == [int, str, float]
    assert rules.resolve({}, "closed") == rules.defaults()
    assert rules.resolve({"opt_name": "adam"}, "open")["opt_name"] == "adam"


@pytest.mark.parametrize(
    ("name", "value", "division", "message"),
    [
        ("opt_nam", "sgd", "open", "toy_mini: unknown hyperparameter 'opt_nam'; did you mean 'opt_name'?"),
        ("opt_name", 5, "open", "toy_mini: opt_name=5 is not of type str"),
        ("global_batch_size", 0.5, "open", "toy_mini: global_batch_size=0.5 is not of type int"),
        (
            "opt_name",
            "adam",
            "closed",
            "opt_name=adam is not permitted in the closed division; permitted: fixed at sgd",
        ),
    ],
)
def test_what_cannot_be_overridden_is_one_sentence(name: str, value: object, division: str, message: str) -> None:
    """An unknown name and a wrong type in every division."""
    with pytest.raises(UsageError) as caught:
        benchmark_rules().resolve({name: value}, division)

    assert message in str(caught.value)


SOUND: dict[str, Any] = {
    "quality_range": (0.0, 0.9),
    "num_runs": 3,
    "drop": 1,
    "eval_every_samples": 10_000,
    "max_seconds": 0.001,
    "train_examples": 1,
    "eval_examples": 1,
    "confirm_evaluations": 0,
    "precisions": ("fp32",),
    "reference_recipes": (ReferenceRecipe(50, 1), ReferenceRecipe(100, 1, {"opt_base_learning_rate": 1.0})),
}


def test_rules_at_every_limit_contradict_nothing() -> None:
    """The target at the end of what a quality can be, one evaluation a run, one example."""
    assert list(benchmark_rules(**SOUND).broken_claims()) == []
    assert (
        list(benchmark_rules(**{**SOUND, "quality_range": (0.9, 1.0), "drop": 0, "num_runs": 1}).broken_claims()) == []
    )
    assert list(benchmark_rules(**{**SOUND, "eval_every_samples": 1}).broken_claims()) == []


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"quality_range": (0.91, 1.0)}, "target must be in quality_range"),
        ({"quality_range": (0.0, 0.89)}, "target must be in quality_range"),
        ({"num_runs": 2}, "num_runs must be more than twice drop"),
        ({"drop": -1}, "num_runs must be more than twice drop"),
        ({"eval_every_samples": 0}, "eval_every_samples must be from 1 to max_samples"),
        ({"eval_every_samples": 10_001}, "eval_every_samples must be from 1 to max_samples"),
        ({"max_seconds": 0.0}, "max_seconds must be positive"),
        ({"train_examples": 0}, "train_examples and eval_examples must be positive"),
        ({"eval_examples": 0}, "train_examples and eval_examples must be positive"),
        ({"confirm_evaluations": -1}, "confirm_evaluations must not be negative"),
        ({"precisions": ()}, "precisions must have at least one value"),
        ({"reference_recipes": (ReferenceRecipe(50, 0),)}, "reference_recipes: num_runs is 0; it must be at least 1"),
        (
            {"reference_recipes": (ReferenceRecipe(50, 1, {"opt_name": "adam"}),)},
            "reference_recipes: toy_mini: opt_name=adam is not permitted in the closed division; "
            "permitted: fixed at sgd",
        ),
        (
            {"reference_recipes": (ReferenceRecipe(75),)},
            "reference_recipes: toy_mini: global_batch_size=75 is not permitted in the closed division; "
            "permitted: one of 50, 100, 200",
        ),
        (
            {"reference_recipes": (ReferenceRecipe(50, 1, {"global_batch_size": 50}),)},
            "reference_recipes: hyperparameters: global_batch_size belongs next to them, not among them",
        ),
    ],
)
def test_rules_beyond_a_limit_contradict_themselves(change: dict[str, Any], claim: str) -> None:
    """One sentence, and no other."""
    assert list(benchmark_rules(**{**SOUND, **change}).broken_claims()) == [claim]


def test_a_default_must_be_permitted_and_a_recipe_stand_once() -> None:
    """Each of two recipes of one batch size is told."""
    hyperparameters = {**benchmark_rules().hyperparameters, "opt_base_learning_rate": replace(RANGE, default=2.0)}
    twice = (ReferenceRecipe(50), ReferenceRecipe(50))

    assert list(benchmark_rules(hyperparameters=hyperparameters).broken_claims()) == [
        "hyperparameters: opt_base_learning_rate: the default 2.0 is not permitted; permitted: from 0.01 to 1"
    ]
    assert (
        list(benchmark_rules(reference_recipes=twice).broken_claims())
        == ["reference_recipes: global_batch_size 50 is listed twice"] * 2
    )


def test_the_terms_are_all_that_decides_a_run() -> None:
    """A number of it makes another digest; what is measured under the terms is none of them."""
    rules = benchmark_rules()
    measured: list[BenchmarkRules] = [
        replace(rules, reference_convergence=(ReferenceConvergence(50, (1, 2)),)),
        replace(rules, reference_recipes=(ReferenceRecipe(50),)),
        replace(rules, baselines={"majority": 0.1}),
    ]

    assert {item.terms_digest for item in measured} == {rules.terms_digest}
    assert replace(rules, target=0.91).terms_digest != rules.terms_digest
    assert replace(rules, data_digest="e" * 64).terms_digest != rules.terms_digest
    backwards = dict(reversed(rules.hyperparameters.items()))
    assert replace(rules, hyperparameters=backwards).terms_digest == rules.terms_digest


def test_a_benchmark_is_found_by_workload_and_suite() -> None:
    """A name that is not there is told with those that are."""
    law = fabricate.ruleset({})
    other = benchmark_rules(workload="other", suite="full")
    both = replace(law, benchmarks={**law.benchmarks, other.name: other})

    assert both.benchmark("toy", "mini") is law.benchmarks["toy_mini"]
    assert both.benchmark("other", "full") is other
    with pytest.raises(UsageError, match="unknown workload 'toi'; did you mean 'toy'"):
        both.benchmark("toi", "mini")
    with pytest.raises(UsageError, match="toy: unknown suite 'full'; there are: mini"):
        both.benchmark("toy", "full")
