"""YAML into rules: every mistake is one line that names the file, the key and the choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.energy.limits import EnergyLimits
from harness.errors import RulesError, UsageError
from harness.ruleset import catalog
from harness.ruleset import load as ruleset_load
from harness.ruleset import overrides as ruleset_overrides
from harness.ruleset.model import Constraint, ReferenceConvergence, ReferenceRecipe, RuleSet

RULESET = """\
divisions: [closed, open]
timing:
  max_init_s: {closed: 1800, open: 14400}
  answer_grace_s: 30
codes:
  LOG001: error
waivers: []
"""
TOY = """\
workload: toy
metric: {name: accuracy, unit: fraction, direction: max}
suites:
  mini:
    target: 0.9
    eval_every_samples: 1000
    max_samples: 10000
    max_seconds: 600
    train_examples: 5000
    eval_examples: 500
    quality_range: [0, 1]
    hyperparameters:
      global_batch_size: {one_of: [50, 100], default: 100}
      opt_momentum: {fixed: 0.9}
"""


def load(folder: Path, ruleset: str = RULESET, toy: str | bytes = TOY) -> RuleSet:
    """The ruleset of these two files."""
    (folder / "ruleset.yaml").write_text(ruleset)
    (folder / "toy.yaml").write_bytes(toy.encode() if isinstance(toy, str) else toy)
    return ruleset_load.load_ruleset(folder, "test")


# Ten lines that would become ten billion nodes.
MULTIPLYING = [
    "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
    *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)),
]


def changed(text: str, before: str, after: str) -> str:
    assert text.count(before) == 1
    return text.replace(before, after)


def test_valid_files_give_the_rules(tmp_path: Path) -> None:
    """Numbers, constraints, defaults and convergence points arrive with their types."""
    toy = f"""{TOY}\
      opt_base_learning_rate: {{range: [0, 1], default: 0.1}}
      opt_name: {{free: true, default: sgd}}
    reference_convergence:
      - {{global_batch_size: 100, samples_to_target: [3000, 3100]}}
"""
    rules = load(tmp_path, toy=toy).benchmark("toy", "mini")

    assert (rules.name, rules.target, rules.num_runs, rules.quality_range) == ("toy_mini", 0.9, 5, (0.0, 1.0))
    assert rules.metric.is_reached(0.9, rules.target)
    assert rules.defaults() == {
        "global_batch_size": 100,
        "opt_momentum": 0.9,
        "opt_base_learning_rate": 0.1,
        "opt_name": "sgd",
    }
    assert rules.hyperparameters == {
        "global_batch_size": Constraint(100, one_of=(50, 100)),
        "opt_momentum": Constraint(0.9, fixed=True),
        "opt_base_learning_rate": Constraint(0.1, range=(0.0, 1.0)),
        "opt_name": Constraint("sgd", free=True),
    }
    assert rules.reference_convergence == (ReferenceConvergence(100, (3000, 3100)),)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("target: 0.9", "taget: 0.9", r"taget: .*'target'"),
        ("    target: 0.9\n", "", "'target' is missing"),
        ("target: 0.9", "target: null", "target"),
        ("target: 0.9", "target: '???'", "'target' is missing"),
        ("target: 0.9", "target: high", "target: Value 'high'"),
        ("target: 0.9", "target: [0.9]", "target"),
        ("target: 0.9", "target: .nan", "target: nan is not a finite number"),
        ("target: 0.9", "target: .inf", "target: inf is not a finite number"),
        ("target: 0.9", "target: 1.5", "target must be in quality_range"),
        ("target: 0.9", "target: ${oc.env:HOME}", "is an interpolation"),
        ("target: 0.9", "target: ${oc.env:HOME", "target"),
        ("target: 0.9", "target: 0.9\n    target: 0.8", "duplicate key target"),
        ("target: 0.9", "target: !!python/object:os.system x", "could not determine a constructor"),
        ("target: 0.9", "target: !secret x", "could not determine a constructor"),
        ("target: 0.9", "target: !!bool x", "not YAML"),
        ("target: 0.9", "target: !!int x", "not YAML"),
        ("target: 0.9", "target: !!timestamp x", "not YAML"),
        ("target: 0.9", "target: 0b_", "not YAML"),
        ("target: 0.9", "target: !!set {a}", "target"),
        ("target: 0.9", "target: *nobody", "undefined alias"),
        ("target: 0.9", "target: &me [*me]", "recursive"),
        ("target: 0.9", "target: " + "[" * 2000, "not YAML"),
        ("target: 0.9", "target: " + "9" * 5000, "not YAML"),
        ("target: 0.9", "target: 0.9\n    metric: {name: x}", "'metric.direction' is missing"),
        ("target: 0.9", "target: 0.9\n    workload: x", "'workload' belongs to the whole file"),
        ("target: 0.9", "target: 0.9\n    1: 2", "1"),
        ("target: 0.9", "target: 0.9\n    baselines: {knn: high}", "baselines"),
        ("target: 0.9", "target: 0.9\n    reference_convergence: 5", "reference_convergence: must be a list"),
        (
            "target: 0.9",
            "target: 0.9\n    reference_convergence: [{global_batch_size: 1, samples_to_target: [many]}]",
            r"reference_convergence\[0\]",
        ),
        (
            "target: 0.9",
            "target: 0.9\n    reference_convergence: [{global_batch_size: 1, samples_to_target: [0]}]",
            "reference_convergence must have positive batch sizes and samples",
        ),
        ("target: 0.9", "target: 0.9\n    open_runs: 2", "open_runs must be more than twice drop"),
        ("max_samples: 10000", "max_samples: 1.5", "max_samples"),
        ("max_samples: 10000", "max_samples: true", "max_samples"),
        ("quality_range: [0, 1]", "quality_range: [1, 0]", "target must be in quality_range"),
        ("quality_range: [0, 1]", "quality_range: [0, 1, 2]", "length"),
        ("quality_range: [0, 1]", "quality_range: 1", "quality_range"),
        ("direction: max", "direction: up", "direction: Invalid value 'up'"),
        ("direction: max", "direktion: max", "direktion: .*'direction'"),
        ("metric: {", "metrik: {", "unknown key 'metrik'; did you mean 'metric'"),
        ("suites:", "suits:", "unknown key 'suits'; did you mean 'suites'"),
        ("workload: toy", "workload: other", "'workload' is 'other'; it must be the file's name"),
        ("  mini:\n", "  mini: 5\n  other:\n", "'hyperparameters' must be a mapping"),
        ("global_batch_size: {", "global_batch: {", "with global_batch_size in it"),
        ("{fixed: 0.9}", "0.9", "opt_momentum: must be a mapping with one of fixed"),
        ("{fixed: 0.9}", "{fixd: 0.9}", "unknown key 'fixd'; did you mean 'fixed'"),
        ("{fixed: 0.9}", "{}", "exactly one of .*; it has 0"),
        ("{fixed: 0.9}", "{fixed: 1, free: true}", "exactly one of .*; it has 2"),
        ("{fixed: 0.9}", "{fixed: 0.9, default: 0.8}", "a default in addition to 'fixed'"),
        ("{fixed: 0.9}", "{fixed: null}", "opt_momentum: fixed: 'None' is not a number, a text, true or false"),
        ("{fixed: 0.9}", "{fixed: [1]}", r"opt_momentum: fixed: '\[1\]' is not a number"),
        ("{fixed: 0.9}", "{free: true, default: {a: 1}}", "opt_momentum: default: .* is not a number"),
        ("{fixed: 0.9}", "{one_of: [1, [2]], default: 1}", r"opt_momentum: one_of: '\[2\]' is not a number"),
        ("{fixed: 0.9}", "{free: true}", "opt_momentum: has no default"),
        ("{fixed: 0.9}", "{free: false, default: 1}", "free is 'False'; it must be true"),
        ("{fixed: 0.9}", "{one_of: [], default: 1}", "one_of must be a list with at least one value"),
        ("{fixed: 0.9}", "{one_of: {a: 1}, default: 1}", "one_of must be a list"),
        ("{fixed: 0.9}", "{one_of: [1, 2], default: 3}", "the default 3 is not permitted; permitted: one of 1, 2"),
        ("{fixed: 0.9}", "{range: [1, 2, 3], default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: [a, b], default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: [0, true], default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", f"{{range: [0, 1{'0' * 400}], default: 1}}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: null, default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: [2, 1], default: 1}", "the default 1 is not permitted"),
        ("{fixed: 0.9}", "{range: [0, 1], default: x}", "the default x is not permitted"),
        ("{fixed: 0.9}", "{range: [0, .inf], default: 1}", "inf is not a finite number"),
    ],
)
def test_a_mistake_in_the_rules_of_a_workload_is_one_line_with_file_and_key(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    """Unknown, missing, duplicate, of a wrong type, contradictory: refused, never guessed."""
    with pytest.raises(RulesError, match=message) as caught:
        load(tmp_path, toy=changed(TOY, before, after))

    assert str(tmp_path / "toy.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("divisions: [closed, open]", "divisions: closed", "'divisions' must be a list of names"),
        ("divisions: [closed, open]", "divisions: [1, 2]", "'divisions' must be a list of names"),
        ("divisions: [closed, open]", "divisions: [[a], [b]]", "'divisions' must be a list of names"),
        ("divisions: [closed, open]", "divisions: [closed]", "max_init_s must name exactly the divisions: closed"),
        ("timing:", "timming:", "unknown key 'timming'; did you mean 'timing'"),
        ("answer_grace_s: 30", "answer_grace: 30", "answer_grace: .*'answer_grace_s'"),
        ("answer_grace_s: 30", "answer_grace_s: .nan", "answer_grace_s: nan is not a finite number"),
        ("{closed: 1800, open: 14400}", "{closed: soon, open: 1}", "max_init_s.closed: Value 'soon'"),
        ("{closed: 1800, open: 14400}", "5", "max_init_s"),
        ("codes:", "energy: {min_coverage: 1.5}\ncodes:", "energy: min_coverage is 1.5; it must be from 0 to 1"),
        ("codes:", "energy: {max_gap_s: 0}\ncodes:", "energy: max_gap_s is 0; it must be above zero"),
        ("codes:", "energy: {min_samples: 1}\ncodes:", "energy: min_samples is 1; it must be at least 2"),
        ("codes:", "energy: {min_sample: 60}\ncodes:", "energy: min_sample: .*'min_sample'"),
        ("codes:", "energy: {node_classes: [A, E]}\ncodes:", "the class 'E' cannot be ranked"),
        ("codes:", "energy: {node_classes: [A, C]}\ncodes:", "the class 'C' is listed twice"),
        ("codes:", "energy: [1]\ncodes:", "energy: must be a mapping"),
        ("LOG001: error", "LOG001: fatal", "unknown severity 'fatal'; there are: error, note, warning"),
        ("LOG001: error", "LOG001: [error]", "unknown severity"),
        ("LOG001: error", "LOG001: null", "unknown severity"),
        ("waivers: []", "waivers: []\nsignatures: sometimes", "unknown choice 'sometimes'"),
        ("waivers: []", "waivers: []\nisolation: some", "isolation: unknown choice 'some'; there are: full, optional"),
        ("codes:\n  LOG001: error", "codes: []", "codes: must be a mapping"),
        ("codes:\n  LOG001: error", "codes: {}", "'codes' must map check codes to severities"),
        ("waivers: []", "waivers: 5", "waivers: must be a list"),
        ("waivers: []", "waivers: [5]", r"waivers\[0\]: must be a mapping"),
        ("waivers: []", "waivers: [{code: A, path: b, who: c, why: d}]", r"waivers\[0\]: 'until' is missing"),
        ("waivers: []", "waivers: [{code: LOG001, path: b, who: c, why: d, until: never}]", "it must be YYYY-MM-DD"),
        ("divisions: [closed, open]", '"kind": mlperf', "unknown key 'timing'; there are: benchmarks"),  # a round
    ],
)
def test_mistake_in_the_ruleset_is_one_line_with_file_and_key(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    """The same for what holds for every benchmark."""
    with pytest.raises(RulesError, match=message) as caught:
        load(tmp_path, ruleset=changed(RULESET, before, after))

    assert str(tmp_path / "ruleset.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "'workload' is 'None'"),
        (b"# nothing\n", "'workload' is 'None'"),
        (b"- 1\n", "must be a mapping"),
        (b"word", "unknown key 'word'"),
        (b"5", "cannot be read"),
        (b"a: \xff\xfe", "not YAML"),
        (b"a: \x01", "not YAML"),
        (b"a: 1\n---\nb: 2\n", "not YAML"),
        (b"\t a: 1", "not YAML"),
        (b"x" * (5 << 20), "more than 4 MiB"),
        (b"? [a]\n: 1\n", "not YAML"),
        (b"null: 1", "key type"),
        (b"${oc.env:HOME}: 1", "unknown key"),
        ("\n".join(MULTIPLYING).encode(), "not YAML"),
        (TOY.partition("suites:")[0].encode() + b"suites: []\n", "'suites' must map suite names to rules"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Empty, a list, a word, a number, not UTF-8, two documents, five megabytes, aliases that multiply."""
    with pytest.raises(RulesError, match=message) as caught:
        load(tmp_path, toy=data)

    assert str(tmp_path / "toy.yaml") in str(caught.value)


def test_environment_never_gets_into_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpolation is shown as it is written, whether or not it could be resolved."""
    monkeypatch.setenv("SECRET", "hunter2")

    with pytest.raises(RulesError) as caught:
        load(tmp_path, toy=changed(TOY, "name: accuracy", "name: '${oc.env:SECRET}'"))

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("name", "target"), [("ruleset.yaml", None), ("ruleset.yaml", "zero"), ("toy.yaml", "zero")])
def test_a_missing_file_and_a_device_are_refused(tmp_path: Path, name: str, target: str | None) -> None:
    """/dev/zero has no size and no end."""
    load(tmp_path)
    (tmp_path / name).unlink()
    if target is not None:
        (tmp_path / name).symlink_to(f"/dev/{target}")

    with pytest.raises(RulesError, match=rf"{name}: there is no such file"):
        ruleset_load.load_ruleset(tmp_path, "test")


def test_digest_of_a_ruleset_moves_with_every_file_but_the_prices(tmp_path: Path) -> None:
    """A comment is enough; prices have a digest of their own."""
    before = load(tmp_path).digest

    (tmp_path / "prices.yaml").write_text("date: '2026-01-01'\nprices: []\n")
    assert ruleset_load.load_ruleset(tmp_path, "test").digest == before
    assert load(tmp_path, toy=TOY + "# a word\n").digest != before


def test_every_ruleset_of_the_harness_is_valid() -> None:
    """With its prices where it has some; none waives anything."""
    assert "v1" in [name for name, _ in catalog.ruleset_folders()]
    for name, folder in catalog.ruleset_folders():
        ruleset = ruleset_load.load_ruleset(folder, name)
        assert ruleset.benchmarks or ruleset.round
        assert ruleset.waivers == ()
        if (folder / ruleset_load.PRICES_FILE).exists():
            assert ruleset_load.load_books(folder).current.prices


def test_energy_block_is_what_is_asked_of_a_measurement(tmp_path: Path) -> None:
    """What it does not name is as it is without the block; version 1 spells out the same numbers."""
    plain = load(tmp_path)
    strict = load(tmp_path, ruleset=changed(RULESET, "codes:", "energy: {max_gap_s: 1, node_classes: [A]}\ncodes:"))

    assert plain.energy == EnergyLimits()
    assert strict.energy == EnergyLimits(max_gap_s=1.0, node_classes=("A",))
    assert ruleset_load.load_ruleset(catalog.ruleset_folder("v1"), "v1").energy == EnergyLimits()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("lr=1", 1),
        ("lr=-1", -1),
        ("lr=+1", 1),
        ("lr=0", 0),
        ("lr=1_000", 1000),
        ("lr=1e-3", 0.001),
        ("lr=1E5", 100000.0),
        ("lr=.5", 0.5),
        ("lr=5.", 5.0),
        ("lr=true", True),
        ("lr=false", False),
        ("lr=sgd", "sgd"),
        ("lr='1'", "1"),
        ('lr="a b"', "a b"),
        ('lr="\\t"', "\t"),
        ("lr=a\\tb", "a\\tb"),
        ("lr=1=2", "1=2"),
        ("lr=nan", "nan"),
        ("lr=1e5_0", "1e5_0"),
    ],
)
def test_override_has_the_type_it_looks_like(argument: str, value: Any) -> None:
    """YAML's scalars: numbers, truth values, words; quotes make a word of anything."""
    found = ruleset_overrides.parse_overrides([argument])["lr"]

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("+lr=1", "write lr=VALUE"),
        ("++lr=1", "write lr=VALUE"),
        ("~lr", "write lr=VALUE"),
        ("~x", "write x=VALUE"),
        ("--lr=1", "without dashes: lr=VALUE"),
        ("-lr=1", "without dashes"),
        ("lr", "written KEY=VALUE"),
        ("", "written KEY=VALUE"),
        ("=1", "'' is not a valid name"),
        ("a.b=1", "'a.b' is not a valid name"),
        ("a-b=1", "'a-b' is not a valid name"),
        ("seeds[0]=9", r"'seeds\[0\]' is not a valid name"),
        ("lr =1", "is not a valid name"),
        ("lr\n=1", "is not a valid name"),
        ("lr=", "one finite number"),
        ("lr=null", "one finite number"),
        ("lr=~", "one finite number"),
        ("lr=.nan", "one finite number"),
        ("lr=.inf", "one finite number"),
        ("lr=-.inf", "one finite number"),
        ("lr=1e999", "one finite number"),
        ("lr=[1]", "one finite number"),
        ("lr={a: 1}", "one finite number"),
        ("lr=a: b", "one finite number"),
        ("lr=- 1", "one finite number"),
        ("lr=1\nvalue: 2", "one finite number"),
        ("lr=1\nother: 2", "one finite number"),
        ("lr=*a", "one finite number"),
        ("lr=!!bool x", "one finite number"),
        ("lr=!!int x", "one finite number"),
        ("lr=!!timestamp x", "one finite number"),
        ("lr=!!python/name:os.system", "one finite number"),
        ("lr=0b_", "one finite number"),
        ("lr=" + "9" * 5000, "one finite number"),
        ("lr=" + "[" * 5000, "one finite number"),
        ("lr=\x1b[31m", "one finite number"),
        ("lr=\0", "one finite number"),
        ("lr=\udcff", "one finite number"),
        ("lr='", "one finite number"),
        ("lr=0100", "decimal digits"),
        ("lr=1:30", "decimal digits"),
        ("lr=0x10", "decimal digits"),
        ("lr=0b11", "decimal digits"),
        ("lr=" + "9" * 19, "at most 18"),
        ("lr=${oc.env:HOME}", "interpolations are not resolved"),
        ("lr=${", "interpolations are not resolved"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_override_of_another_form_is_one_short_printable_line(argument: str, message: str) -> None:
    """Hydra's forms, flags, lists, octal numbers and infinities get an answer, never a guess."""
    with pytest.raises(UsageError, match=message) as caught:
        ruleset_overrides.parse_overrides([argument])

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


def test_override_given_twice_is_refused() -> None:
    """`tta` does not choose one of the two."""
    with pytest.raises(UsageError, match="lr is given twice"):
        ruleset_overrides.parse_overrides(["lr=1", "bs=2", "lr=1"])


def with_recipes(recipes: str) -> str:
    """TOY with a hyperparameter of a range, and these recipes."""
    return f"{TOY}      opt_base_learning_rate: {{range: [0.1, 1.0], default: 0.4}}\n    reference_recipes: {recipes}\n"


def test_reference_recipes_are_dataclasses_with_their_defaults(tmp_path: Path) -> None:
    """Ten runs with the defaults, where nothing else is said; the numbers keep their types."""
    toy = with_recipes(
        "[{global_batch_size: 100, num_runs: 20}, "
        "{global_batch_size: 50, hyperparameters: {opt_base_learning_rate: 0.2}}]"
    )

    rules = load(tmp_path, toy=toy).benchmark("toy", "mini")

    assert rules.reference_recipes == (
        ReferenceRecipe(100, 20),
        ReferenceRecipe(50, 10, {"opt_base_learning_rate": 0.2}),
    )
    assert rules.terms_digest == load(tmp_path, toy=with_recipes("[]")).benchmark("toy", "mini").terms_digest


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        ("5", "reference_recipes: must be a list"),
        ("{global_batch_size: 100}", "reference_recipes: must be a list"),
        ("[100]", r"reference_recipes\[0\]: must be a mapping"),
        ("[{num_runs: 5}]", r"reference_recipes\[0\]: 'global_batch_size' is missing"),
        ("[{global_batch_size: many}]", r"reference_recipes\[0\]: global_batch_size: Value 'many'"),
        ("[{global_batch_size: 100, num_runs: 2.5}]", r"reference_recipes\[0\]: num_runs: Value '2\.5'"),
        ("[{global_batch_size: 100, runs: 5}]", r"reference_recipes\[0\]: runs: .*'runs'"),
        ("[{global_batch_size: 100, hyperparameters: 5}]", r"reference_recipes\[0\]"),
        ("[{global_batch_size: 100, hyperparameters: [opt_momentum]}]", r"reference_recipes\[0\]"),
        (
            "[{global_batch_size: 100, hyperparameters: {opt_momentum: 0.8}}]",
            "reference_recipes: toy_mini: opt_momentum=0.8 is not permitted.*fixed at 0.9",
        ),
        (
            "[{global_batch_size: 100, hyperparameters: {opt_base_learning_rate: [0.2]}}]",
            r"opt_base_learning_rate=\[0\.2\] is not of type float",
        ),
        ("[{global_batch_size: 100, hyperparameters: {opt_base_learning_rate: .nan}}]", "nan is not a finite number"),
    ],
)
def test_reference_recipe_that_cannot_be_run_is_refused(tmp_path: Path, recipes: str, message: str) -> None:
    """Unknown, not permitted, no list, of a wrong type, or twice: the file and the suite are named."""
    with pytest.raises(RulesError, match=message) as raised:
        load(tmp_path, toy=with_recipes(recipes))

    assert str(raised.value).startswith(f"{tmp_path / 'toy.yaml'}: suites: mini: ")
    assert "\n" not in str(raised.value)
