"""The ruleset as data: what a closed submission may set, rules that contradict themselves, and what decides a run."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from harness.base.processes import SOURCE_ROOT
from harness.errors import UsageError
from harness.log import keys, run_log
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, Constraint, ReferenceConvergence, ReferenceRecipe
from tests import fabricate
from tests.fabricate import benchmark_rules

FIXED = Constraint(default="sgd", fixed=True)
ONE_OF = Constraint(default=100, one_of=(50, 100))
RANGE = Constraint(default=0.1, range=(0.01, 1.0))
FREE = Constraint(default=0.5, free=True)
SWITCH = Constraint(default=True, free=True)
POSITIVE = "reference_convergence must have positive batch sizes and samples"


@pytest.mark.parametrize(
    ("constraint", "permitted", "refused"),
    [
        (FIXED, ["sgd"], ["adam", 5, None]),
        (Constraint(False, fixed=True), [False], [True, 0]),
        (Constraint(1, fixed=True), [1], [True, 1.0, 2]),
        (Constraint(1.0, fixed=True), [1.0, 1], [True, 1.1, "1"]),
        (ONE_OF, [50, 100], [75, 50.0, "50", True, None, [50]]),
        (Constraint("sgd", one_of=("sgd", "lars")), ["sgd", "lars"], ["adam", "", None, 1]),
        (RANGE, [0.01, 0.5, 1.0, 1], [0.0099, 1.0001, 2, 0, "0.5", True, None, float("nan")]),
        (Constraint(3, range=(1, 5)), [1, 5], [0, 6, 3.0, "3", True]),
        (Constraint("a", range=(0, 1)), [], ["a", 0.5]),
        (FREE, [0.0, -7, 1e300], ["0.5", None, False]),
        (Constraint(0, free=True), [0, -5, 10**18], [0.5, "0", None, False]),
        (Constraint("", free=True), ["", "anything"], [0, None, False]),
        (SWITCH, [True, False], [1, 0, "true", None]),
    ],
)
def test_a_constraint_permits_its_limits_and_nothing_beyond(
    constraint: Constraint, permitted: list[object], refused: list[object]
) -> None:
    """An integer may stand for a fraction, a truth value for no number."""
    assert [constraint.permits(value) for value in permitted] == [True] * len(permitted)
    assert [constraint.permits(value) for value in refused] == [False] * len(refused)


def test_a_constraint_is_put_into_words() -> None:
    """For the message of a finding."""
    assert [item.allowed for item in (FIXED, ONE_OF, RANGE, FREE, SWITCH)] == [
        "fixed at sgd",
        "one of 50, 100",
        "from 0.01 to 1",
        "any float",
        "any bool",
    ]


def test_overrides_replace_the_defaults() -> None:
    """An integer that stands for a fraction becomes one; the open division may use values that are not permitted."""
    rules = benchmark_rules()
    found = rules.resolve({"opt_base_learning_rate": 1, "global_batch_size": 50}, "closed")

    assert found == {"global_batch_size": 50, "opt_name": "sgd", "opt_base_learning_rate": 1.0}
    assert [type(value) for value in found.values()] == [int, str, float]
    assert rules.resolve({}, "closed") == rules.defaults()
    assert rules.resolve({"global_batch_size": 300, "opt_name": "adam"}, "open")["opt_name"] == "adam"


@pytest.mark.parametrize(
    ("name", "value", "division", "message"),
    [
        ("opt_nam", "sgd", "open", "toy_mini: unknown hyperparameter 'opt_nam'; did you mean 'opt_name'?"),
        ("opt_name", 5, "open", "toy_mini: opt_name=5 is not of type str"),
        ("global_batch_size", 0.5, "open", "toy_mini: global_batch_size=0.5 is not of type int"),
        ("global_batch_size", True, "closed", "toy_mini: global_batch_size=True is not of type int"),
        ("opt_name", "adam", "closed", "=adam is not permitted in the closed division; permitted: fixed at sgd"),
        ("opt_name", "x" * 100_000, "closed", "is not permitted in the closed division; permitted: fixed at sgd"),
        ("global_batch_size", 300, "closed", "=300 is not permitted in the closed division; permitted: one of 50, 100"),
    ],
)
def test_an_impossible_override_is_reported_in_one_sentence(
    name: str, value: object, division: str, message: str
) -> None:
    """An unknown name and a wrong type in every division."""
    with pytest.raises(UsageError) as caught:
        benchmark_rules().resolve({name: value}, division)

    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


UNTRAINED = "untrained_limit must be in quality_range and must not reach the target"
SOUND: dict[str, Any] = {
    "quality_range": (0.0, 0.9),
    "num_runs": 3,
    "open_runs": 3,
    "drop": 1,
    "reference_convergence": (ReferenceConvergence(1, (1, 1)),),
    "eval_every_samples": 10_000,
    "max_seconds": 0.001,
    "train_examples": 1,
    "eval_examples": 1,
    "confirm_evaluations": 0,
    "precisions": ("fp32",),
    "reference_recipes": (ReferenceRecipe(50, 1), ReferenceRecipe(100, 1, {"opt_base_learning_rate": 1.0})),
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"untrained_limit": 0.899},
        {"untrained_limit": 0.0},
        {"quality_range": (0.9, 1.0), "drop": 0, "num_runs": 1, "open_runs": 1},
        {"eval_every_samples": 1, "reference_convergence": (ReferenceConvergence(1, ()),)},
    ],
    ids=repr,
)
def test_rules_at_every_limit_do_not_contradict_themselves(change: dict[str, Any]) -> None:
    """The target at the end of the possible qualities, one evaluation per run, one example."""
    assert list(benchmark_rules(**{**SOUND, **change}).broken_claims()) == []


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"quality_range": (0.91, 1.0)}, "target must be in quality_range"),
        ({"quality_range": (0.0, 0.89)}, "target must be in quality_range"),
        ({"untrained_limit": 0.9}, UNTRAINED),
        ({"untrained_limit": -0.1}, UNTRAINED),
        ({"num_runs": 2}, "num_runs must be more than twice drop"),
        ({"drop": -1}, "num_runs must be more than twice drop"),
        ({"open_runs": 2}, "open_runs must be more than twice drop"),
        ({"eval_every_samples": 0}, "eval_every_samples must be from 1 to max_samples"),
        ({"eval_every_samples": 10_001}, "eval_every_samples must be from 1 to max_samples"),
        ({"max_seconds": 0.0}, "max_seconds must be positive"),
        ({"train_examples": 0}, "train_examples and eval_examples must be positive"),
        ({"eval_examples": 0}, "train_examples and eval_examples must be positive"),
        ({"confirm_evaluations": -1}, "confirm_evaluations must not be negative"),
        ({"precisions": ()}, "precisions must have at least one value"),
        ({"reference_convergence": (ReferenceConvergence(1, (1, 0)),)}, POSITIVE),
        ({"reference_convergence": (ReferenceConvergence(0, (1,)),)}, POSITIVE),
        (
            {"hyperparameters": {**benchmark_rules().hyperparameters, "opt_name": replace(RANGE, default=2.0)}},
            "hyperparameters: opt_name: the default 2.0 is not permitted; permitted: from 0.01 to 1",
        ),
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


def test_each_of_two_recipes_of_one_batch_size_is_reported() -> None:
    """Which of them is meant is not clear."""
    twice = benchmark_rules(reference_recipes=(ReferenceRecipe(50), ReferenceRecipe(50)))

    assert list(twice.broken_claims()) == ["reference_recipes: global_batch_size 50 is listed twice"] * 2


def test_the_terms_are_everything_that_decides_a_run() -> None:
    """A change of any such rule changes the digest. The order does not, nor does what is measured under the terms or
    concerns a whole result."""
    rules = benchmark_rules()
    others: dict[str, Any] = {
        "reference_recipes": (ReferenceRecipe(200, hyperparameters={"opt_base_learning_rate": 0.2}),),
        "reference_convergence": (ReferenceConvergence(50, (1, 2)),),
        "baselines": {"knn": 0.5},
        "untrained_limit": 0.5,
        "open_runs": 12,
        "provisional": True,
        "network_digest": "a1" * 32,
        "replay_steps": 20,
        "replay_limit_s": 60.0,
        "equivalence_steps": 100,
        "equivalence_limit_s": 60.0,
        "reproduce_tolerance": 0.1,
    }
    terms: dict[str, Any] = {
        "target": 0.91,
        "eval_every_samples": 1001,
        "max_samples": 10_001,
        "max_seconds": 601.0,
        "quality_range": (0.0, 2.0),
        "train_examples": 5001,
        "eval_examples": 501,
        "precisions": ("fp32", "bf16"),
        "num_runs": 6,
        "drop": 0,
        "confirm_evaluations": 1,
        "permits_resume": True,
        "data_digest": None,
        "suite": "full",
        "workload": "toys",
        "metric": replace(rules.metric, direction="min"),
        "hyperparameters": {**rules.hyperparameters, "opt_name": Constraint("sgd", free=True)},
    }
    assert set(others) | set(terms) == {field.name for field in dataclasses.fields(BenchmarkRules)}

    digests = [replace(rules, **{name: value}).terms_digest for name, value in terms.items()]

    backwards = dict(reversed(rules.hyperparameters.items()))
    assert replace(rules, hyperparameters=backwards, **others).terms_digest == rules.terms_digest
    assert len({rules.terms_digest, *digests}) == len(terms) + 1


def test_the_terms_of_the_reference_results_are_in_force() -> None:
    """A field that is added to the rules leaves the digests of logs that were made before."""
    found = {}
    for path in sorted((SOURCE_ROOT / "submissions/reference/results").glob("*/*/result_0.txt")):
        log = run_log.read(path)
        found[path.parent.name] = log.field(keys.TTA_RULES, "terms_digest")
    benchmarks = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks

    assert len(found) == 6
    assert found == {name: benchmarks[name].terms_digest for name in found}


def test_only_runs_of_hours_may_go_on_after_an_interruption() -> None:
    """Those of `full`; the terms of `mini` and `standard` do not even name it."""
    benchmarks = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks.values()

    assert {rules.suite for rules in benchmarks if rules.permits_resume} <= {"full"}
    assert {"mini", "standard"} <= {rules.suite for rules in benchmarks if not rules.permits_resume}


def test_the_open_division_needs_more_runs() -> None:
    """Luck is part of its score: ten by default; five wherever the division is closed or not known."""
    counts = ("num_runs", "open_runs")
    defaults = {field.name: field.default for field in dataclasses.fields(BenchmarkRules) if field.name in counts}
    rules = benchmark_rules(**defaults)

    assert [rules.required_runs(division) for division in ("closed", "open", None, "opened")] == [5, 10, 5, 5]


def test_a_benchmark_is_found_by_workload_and_suite() -> None:
    """An unknown name is reported with those that there are."""
    law = fabricate.ruleset({})
    other = benchmark_rules(workload="other", suite="full")
    both = replace(law, benchmarks={**law.benchmarks, other.name: other})

    assert both.benchmark("toy", "mini") is law.benchmarks["toy_mini"]
    assert both.benchmark("other", "full") is other
    with pytest.raises(UsageError, match="unknown workload 'toi'; did you mean 'toy'"):
        both.benchmark("toi", "mini")
    with pytest.raises(UsageError, match="toy: unknown suite 'full'; there are: mini"):
        both.benchmark("toy", "full")
