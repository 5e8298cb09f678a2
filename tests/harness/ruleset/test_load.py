"""YAML into the law: every mistake is one line that names the file, the key and the choice."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.energy.limits import EnergyLimits
from harness.errors import RulesError, UsageError
from harness.ruleset import catalog
from harness.ruleset import load as ruleset_load
from harness.ruleset import overrides as ruleset_overrides
from harness.ruleset.model import BenchmarkRules, Constraint, ReferenceConvergence, ReferenceRecipe, RuleSet
from tests.fabricate import benchmark_rules

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


def changed(text: str, before: str, after: str) -> str:
    assert text.count(before) == 1
    return text.replace(before, after)


def test_sound_files_give_the_law(tmp_path: Path) -> None:
    """Numbers, constraints and defaults arrive with their types."""
    rules = load(tmp_path).benchmark("toy", "mini")

    assert (rules.name, rules.target, rules.num_runs, rules.quality_range) == ("toy_mini", 0.9, 5, (0.0, 1.0))
    assert rules.metric.is_reached(0.9, rules.target)
    assert rules.defaults() == {"global_batch_size": 100, "opt_momentum": 0.9}
    assert rules.hyperparameters["opt_momentum"].fixed


def test_nested_dataclasses_are_dataclasses(tmp_path: Path) -> None:
    """Convergence points are objects with whole numbers in them, not the dicts of the file."""
    toy = TOY + "    reference_convergence:\n      - {global_batch_size: 100, samples_to_target: [3000, 3100]}\n"

    rules = load(tmp_path, toy=toy).benchmark("toy", "mini")

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
        ("target: 0.9", "target: 0.9\n    metric: {name: x}", "'metric' belongs to the whole file"),
        ("target: 0.9", "target: 0.9\n    workload: x", "'workload' belongs to the whole file"),
        ("target: 0.9", "target: 0.9\n    1: 2", "1"),
        ("target: 0.9", "target: 0.9\n    num_runs: 2", "num_runs must be more than twice drop"),
        ("target: 0.9", "target: 0.9\n    drop: -1", "num_runs must be more than twice drop"),
        ("target: 0.9", "target: 0.9\n    confirm_evaluations: -1", "confirm_evaluations must not be negative"),
        ("target: 0.9", "target: 0.9\n    precisions: []", "precisions must have at least one value"),
        ("target: 0.9", "target: 0.9\n    baselines: {knn: high}", "baselines"),
        ("target: 0.9", "target: 0.9\n    reference_convergence: 5", "reference_convergence: must be a list"),
        (
            "target: 0.9",
            "target: 0.9\n    reference_convergence: [5]",
            r"reference_convergence\[0\]: must be a mapping",
        ),
        (
            "target: 0.9",
            "target: 0.9\n    reference_convergence: [{global_batch_siz: 1, samples_to_target: [1]}]",
            r"reference_convergence\[0\]: .*'global_batch_size'",
        ),
        (
            "target: 0.9",
            "target: 0.9\n    reference_convergence: [{global_batch_size: 1, samples_to_target: [many]}]",
            r"reference_convergence\[0\]",
        ),
        ("max_samples: 10000", "max_samples: 1.5", "max_samples"),
        ("max_samples: 10000", "max_samples: true", "max_samples"),
        ("max_samples: 10000", "max_samples: 999", "eval_every_samples must be from 1 to max_samples"),
        ("eval_every_samples: 1000", "eval_every_samples: 0", "eval_every_samples must be from 1 to max_samples"),
        ("max_seconds: 600", "max_seconds: 0", "max_seconds must be positive"),
        ("train_examples: 5000", "train_examples: 0", "must be positive"),
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
        ("{fixed: 0.9}", "{fixed: null}", "default"),
        ("{fixed: 0.9}", "{fixed: [1]}", "default"),
        ("{fixed: 0.9}", "{free: true}", "opt_momentum: has no default"),
        ("{fixed: 0.9}", "{free: false, default: 1}", "free is 'False'; it must be true"),
        ("{fixed: 0.9}", "{one_of: [], default: 1}", "one_of must be a list with at least one value"),
        ("{fixed: 0.9}", "{one_of: {a: 1}, default: 1}", "one_of must be a list"),
        ("{fixed: 0.9}", "{one_of: [1, 2], default: 3}", "the default 3 is not permitted; permitted: one of 1, 2"),
        ("{fixed: 0.9}", "{range: [1, 2, 3], default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: [a, b], default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: [0, true], default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: null, default: 1}", "range must be a list of two numbers"),
        ("{fixed: 0.9}", "{range: [2, 1], default: 1}", "the default 1 is not permitted"),
        ("{fixed: 0.9}", "{range: [0, 1], default: x}", "the default x is not permitted"),
        ("{fixed: 0.9}", "{range: [0, .inf], default: 1}", "inf is not a finite number"),
    ],
)
def test_mistake_in_a_workloads_rules_is_one_line_with_file_and_key(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    """Unknown, missing, doubled, of a wrong type, contradictory: refused, never guessed."""
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
        ("codes:\n  LOG001: error", "codes: []", "codes: must be a mapping"),
        ("codes:\n  LOG001: error", "codes: {}", "'codes' must map check codes to severities"),
        ("waivers: []", "waivers: 5", "waivers: must be a list"),
        ("waivers: []", "waivers: [5]", r"waivers\[0\]: must be a mapping"),
        ("waivers: []", "waivers: [{code: A, path: b, who: c, why: d}]", r"waivers\[0\]: 'until' is missing"),
        (
            "waivers: []",
            "waivers: [{code: LOG01, path: b, who: c, why: d, until: 2026-12-31}]",
            "unknown check in force 'LOG01'; did you mean 'LOG001'?",
        ),
        ("waivers: []", "waivers: [{code: LOG001, path: b, who: ' ', why: d, until: 2026-12-31}]", "who is empty"),
        ("waivers: []", "waivers: [{code: LOG001, path: b, who: c, why: '', until: 2026-12-31}]", "why is empty"),
        ("waivers: []", "waivers: [{code: LOG001, path: b, who: c, why: d, until: never}]", "it must be YYYY-MM-DD"),
        ("waivers: []", "waivers: [{code: LOG001, path: b, who: c, why: d, until: 20261231}]", "it must be YYYY-MM-DD"),
        (
            "waivers: []",
            "waivers: [{code: LOG001, path: b, who: c, why: d, until: 2026-02-30}]",
            "it must be YYYY-MM-DD",
        ),
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
    ],
    ids=lambda value: repr(value[:12]),
)
def test_file_that_is_no_mapping_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Empty, a list, a word, a number, not UTF-8, two documents, five megabytes."""
    with pytest.raises(RulesError, match=message) as caught:
        load(tmp_path, toy=data)

    assert str(tmp_path / "toy.yaml") in str(caught.value)


def test_aliases_that_multiply_are_refused_at_once(tmp_path: Path) -> None:
    """Ten lines that would become ten billion nodes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]

    with pytest.raises(RulesError, match="not YAML"):
        load(tmp_path, toy="\n".join(lines))


def test_environment_never_gets_into_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpolation is shown as it is written, whether or not it could be resolved."""
    monkeypatch.setenv("SECRET", "hunter2")

    with pytest.raises(RulesError) as caught:
        load(tmp_path, toy=changed(TOY, "name: accuracy", "name: '${oc.env:SECRET}'"))

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["ruleset.yaml", "toy.yaml"])
def test_file_that_is_a_folder_or_a_device_is_refused(tmp_path: Path, name: str) -> None:
    """/dev/zero has no size and no end."""
    load(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")

    with pytest.raises(RulesError, match="there is no such file"):
        ruleset_load.load_ruleset(tmp_path, "test")


def test_missing_ruleset_is_one_sentence(tmp_path: Path) -> None:
    """The folder has no ruleset.yaml."""
    with pytest.raises(RulesError, match=r"ruleset\.yaml: there is no such file"):
        ruleset_load.load_ruleset(tmp_path, "test")


def test_digest_of_a_ruleset_moves_with_every_file_but_the_prices(tmp_path: Path) -> None:
    """A comment is enough; prices have a digest of their own."""
    before = load(tmp_path).digest

    (tmp_path / "prices.yaml").write_text("date: '2026-01-01'\nprices: []\n")
    assert ruleset_load.load_ruleset(tmp_path, "test").digest == before
    assert load(tmp_path, toy=TOY + "# a word\n").digest != before


def test_rules_that_come_with_the_harness_load() -> None:
    """Every ruleset in the tree, with its prices where it has some."""
    names = [name for name, _ in catalog.ruleset_folders()]

    assert "v1" in names
    for name, folder in catalog.ruleset_folders():
        ruleset = ruleset_load.load_ruleset(folder, name)
        assert ruleset.benchmarks or ruleset.round
        if (folder / ruleset_load.PRICES_FILE).exists():
            assert ruleset_load.load_books(folder).current.prices


def test_energy_block_is_what_is_asked_of_a_measurement(tmp_path: Path) -> None:
    """What it does not name is as it is without the block; version 1 spells out the same numbers."""
    plain = load(tmp_path)
    strict = load(tmp_path, ruleset=changed(RULESET, "codes:", "energy: {max_gap_s: 1, node_classes: [A]}\ncodes:"))

    assert plain.energy == EnergyLimits()
    assert strict.energy == EnergyLimits(max_gap_s=1.0, node_classes=("A",))
    assert ruleset_load.load_ruleset(catalog.ruleset_folder("v1"), "v1").energy == EnergyLimits()


def test_codes_in_force_are_checks_that_exist() -> None:
    """A severity for a check that nobody wrote would be a rule that never fires."""
    ruleset = ruleset_load.load_ruleset(catalog.ruleset_folder("v1"), "v1")

    assert set(ruleset.codes) <= set(registry.checks())


# Overrides


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
    """Which of the two was meant is not for us to say."""
    with pytest.raises(UsageError, match="lr is given twice"):
        ruleset_overrides.parse_overrides(["lr=1", "bs=2", "lr=1"])


def test_very_long_word_is_taken_and_later_shown_short() -> None:
    """100,000 letters are a word; the refusal of it is not as long."""
    value = ruleset_overrides.parse_overrides(["opt_name=" + "x" * 100_000])
    with pytest.raises(UsageError) as caught:
        benchmark_rules().resolve(value, "closed")

    assert len(str(caught.value)) < 500


# Constraints


@pytest.mark.parametrize(
    ("constraint", "permitted", "refused"),
    [
        (
            Constraint(0.1, range=(0.01, 1.0)),
            [0.01, 1.0, 1, 0.5],
            [0.00999, 1.0001, 2, "0.5", True, None, float("nan")],
        ),
        (Constraint(100, range=(50.0, 200.0)), [50, 200], [49, 201, 100.0, "100", True]),
        (Constraint(100, one_of=(50, 100)), [50, 100], [75, 50.0, "50", True, None, [50]]),
        (Constraint("sgd", one_of=("sgd", "lars")), ["sgd", "lars"], ["adam", "", None, 1]),
        (Constraint("sgd", fixed=True), ["sgd"], ["lars", None]),
        (Constraint(1, fixed=True), [1], [True, 1.0, 2]),
        (Constraint(1.0, fixed=True), [1.0, 1], [True, 1.1, "1"]),
        (Constraint(True, fixed=True), [True], [False, 1, "true"]),
        (Constraint(False, free=True), [True, False], [0, 1, "no", None]),
        (Constraint(0, free=True), [0, -5, 10**18], [0.5, "0", False, None]),
        (Constraint(0.0, free=True), [0, -0.5, 1e300], ["0", False, None]),
        (Constraint("", free=True), ["", "anything"], [0, None, False]),
    ],
)
def test_constraint_permits_its_edges_and_nothing_beyond(
    constraint: Constraint, permitted: list[Any], refused: list[Any]
) -> None:
    """Both ends belong; a truth value is no number; a whole number may stand for a fraction, never the reverse."""
    assert [value for value in permitted if not constraint.permits(value)] == []
    assert [value for value in refused if constraint.permits(value)] == []
    assert constraint.permits(constraint.default)
    assert constraint.allowed


def test_resolve_in_closed_permits_what_the_rules_permit() -> None:
    """A value out of range, a fixed one, a wrong type and an unknown name are refused with the choice."""
    rules = benchmark_rules()

    assert rules.resolve({"global_batch_size": 200}, "closed")["global_batch_size"] == 200
    for overrides, message in [
        ({"global_batch_size": 300}, "not permitted in the closed division; permitted: one of 50, 100, 200"),
        ({"opt_name": "adam"}, "permitted: fixed at sgd"),
        ({"opt_base_learning_rate": 2}, "permitted: from 0.01 to 1"),
        ({"opt_base_learning_rate": "x"}, "not of type float"),
        ({"global_batch_size": True}, "not of type int"),
        ({"opt_base_learning_rat": 1}, "did you mean 'opt_base_learning_rate'"),
    ]:
        with pytest.raises(UsageError, match=message):
            rules.resolve(overrides, "closed")


def test_resolve_in_open_asks_only_for_type_and_name() -> None:
    """Any value of the right type; still no name that the workload does not know."""
    rules = benchmark_rules()

    assert rules.resolve({"global_batch_size": 300, "opt_name": "adam"}, "open")["opt_name"] == "adam"
    with pytest.raises(UsageError, match="not of type int"):
        rules.resolve({"global_batch_size": 1.5}, "open")
    with pytest.raises(UsageError, match="unknown hyperparameter"):
        rules.resolve({"x": 1}, "open")


def test_whole_number_for_a_fraction_becomes_a_fraction() -> None:
    """So that 1 and 1.0 have one digest."""
    value = benchmark_rules().resolve({"opt_base_learning_rate": 1}, "closed")["opt_base_learning_rate"]

    assert (value, type(value)) == (1.0, float)


def test_terms_digest_holds_still_where_it_must_and_moves_where_it_must() -> None:
    """Measured under the terms: not part of them. Everything else: part of them."""
    rules = benchmark_rules()
    still: dict[str, Any] = {
        "reference_recipes": (ReferenceRecipe(200, hyperparameters={"opt_base_learning_rate": 0.2}),),
        "reference_convergence": (),
        "baselines": {"knn": 0.5},
    }
    moving: dict[str, Any] = {
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
        "data_digest": None,
        "suite": "full",
        "workload": "toys",
        "metric": dataclasses.replace(rules.metric, direction="min"),
        "hyperparameters": {**rules.hyperparameters, "opt_name": Constraint("sgd", free=True)},
    }
    assert set(still) | set(moving) == {field.name for field in dataclasses.fields(BenchmarkRules)}

    digests = [dataclasses.replace(rules, **{name: value}).terms_digest for name, value in moving.items()]

    assert benchmark_rules().terms_digest == dataclasses.replace(rules, **still).terms_digest == rules.terms_digest
    assert len({rules.terms_digest, *digests}) == len(moving) + 1


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
        ("[{global_batch_size: 100, num_runs: 0}]", "num_runs is 0; it must be at least 1"),
        ("[{global_batch_size: 100, runs: 5}]", r"reference_recipes\[0\]: runs: .*'runs'"),
        ("[{global_batch_size: 100}, {global_batch_size: 100}]", "global_batch_size 100 is listed twice"),
        ("[{global_batch_size: 200}]", "global_batch_size=200 is not permitted.*permitted: one of 50, 100"),
        ("[{global_batch_size: 100, hyperparameters: 5}]", r"reference_recipes\[0\]"),
        ("[{global_batch_size: 100, hyperparameters: [opt_momentum]}]", r"reference_recipes\[0\]"),
        ("[{global_batch_size: 100, hyperparameters: {global_batch_size: 50}}]", "belongs next to them"),
        (
            "[{global_batch_size: 100, hyperparameters: {opt_base_learning_rat: 0.2}}]",
            "unknown hyperparameter 'opt_base_learning_rat'; did you mean 'opt_base_learning_rate'",
        ),
        (
            "[{global_batch_size: 100, hyperparameters: {opt_momentum: 0.8}}]",
            "reference_recipes: toy_mini: opt_momentum=0.8 is not permitted.*fixed at 0.9",
        ),
        (
            "[{global_batch_size: 100, hyperparameters: {opt_base_learning_rate: 2.0}}]",
            "opt_base_learning_rate=2.0 is not permitted.*from 0.1 to 1",
        ),
        (
            "[{global_batch_size: 100, hyperparameters: {opt_base_learning_rate: fast}}]",
            "opt_base_learning_rate=fast is not of type float",
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


def test_unknown_benchmark_is_answered_with_a_suggestion(tmp_path: Path) -> None:
    """Workload first, then suite."""
    ruleset = load(tmp_path)

    with pytest.raises(UsageError, match="unknown workload 'toi'; did you mean 'toy'"):
        ruleset.benchmark("toi", "mini")
    with pytest.raises(UsageError, match="toy: unknown suite 'maxi'"):
        ruleset.benchmark("toy", "maxi")


def test_suites_must_be_a_mapping(tmp_path: Path) -> None:
    """A workload without suites has no rules."""
    with pytest.raises(RulesError, match="'suites' must map suite names to rules"):
        load(tmp_path, toy=TOY.partition("suites:")[0] + "suites: []\n")


def test_kind_of_a_round_may_be_quoted(tmp_path: Path) -> None:
    """It is then found only when the YAML is read."""
    with pytest.raises(RulesError, match="unknown round"):
        load(tmp_path, ruleset='"kind": mlperf\nextends: nowhere\n')
