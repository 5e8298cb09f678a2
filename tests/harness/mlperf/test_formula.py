"""Demands as formulas: what they can say, and that no text and no line makes one raise."""

from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import RulesError
from harness.mlperf.formula import MAX_LENGTH, Formula, Line, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abFID"), inner, max_size=3),
    max_leaves=6,
)
ATOMS = st.sampled_from(
    ["value", "value.FID", "value['a']", "value[0]", "value[9]", "metadata.a", "batch", "2", "-0.5", "1e300", "inf"]
) | st.sampled_from(
    ["'a'", "true", "none", "[1, 'a']", "is_integer(value)", "ceil(value)", "log2(value)", "len(value)", "abs(batch)"]
)
OPERATORS = st.sampled_from(["+", "-", "*", "/", "**", "==", "!=", "<", ">=", "in", "not in", "and", "or"])
FORMULAS = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds(lambda a, o, b: f"({a} {o} {b})", inner, OPERATORS, inner)
        | st.builds(lambda a, b, c: f"({a} if {b} else {c})", inner, inner, inner)
        | st.builds(lambda a: f"has({a})", inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("value == 0.9", 0.9, True),
        ("value == 0.9", "0.9", False),
        ("value == 1", 1.0, True),
        ("value == true", True, True),
        ("value == false", False, True),
        ("value == 1 or value == 2", 1, True),
        ("not value == 1", 2, True),
        ("not value == 1", 1, False),
        ("(value == 1) == false", 2, True),
        ("has(value.a) == false", {}, True),
        ("value == none", None, True),
        ("value != ''", "NVIDIA", True),
        ("value != ''", "", False),
        ("value < 2", 2, False),
        ("value < 2", 1.9, True),
        ("value <= 2", 2, True),
        ("value <= 2", 2.1, False),
        ("value > 2", 2, False),
        ("value > 2", 2.1, True),
        ("value >= 2", 2, True),
        ("value >= 2", 1.9, False),
        ("value >= 0.34 and value < 1.0", 0.34, True),
        ("value >= 0.34 and value < 1.0", 1.0, False),
        ("value in ['sgd', 'lars']", "lars", True),
        ("value in ['sgd', 'lars']", "adam", False),
        ("value not in ['sgd', 'lars']", "lars", False),
        ("value not in ['sgd', 'lars']", "adam", True),
        ("value in [value]", math.nan, True),
        ("value in [1, inf]", math.inf, True),
        ("is_integer(value / 0.02)", 0.06, True),
        ("is_integer(value / 0.02)", 0.07, False),
        ("is_integer(value)", 1e-5, False),
        ("is_integer(value)", 3 + 9e-6, True),
        ("is_integer(log2(value / 0.0001))", 0.0004, True),
        ("is_int(value)", 3, True),
        ("is_int(value)", 3.0, False),
        ("len(value) == 2", [30, 60], True),
        ("is_integer(10 * (value[1] / 50.0 - 1))", [0, 60], True),
        ("(0.0 <= value.FID <= 90.0) and (0.15 <= value.CLIP <= 1.0)", {"FID": 90, "CLIP": 0.15}, True),
        ("(0.0 <= value.FID <= 90.0) and (0.15 <= value.CLIP <= 1.0)", {"FID": 90.1, "CLIP": 0.15}, False),
        ("value['BBOX'] >= 0.377", {"BBOX": 0.377}, True),
        ("value >= 0.712 if batch < 8192 else value >= 0.706", 0.71, False),
        ("value == ceil(8000 * 1152 / batch)", 31_170, False),
        ("value * 1024 == batch * 8e-5", 8e-5, True),
        ("abs(value - 2.4e-05 * (batch / 16384) ** 0.5) < 1e-9", 6e-6, True),
        ("not has(metadata.epoch_count) or metadata.epoch_count > 0", None, True),
        ("not has(previous.epoch_count)", None, True),
        ("value % 3 == 2", 5, True),
        ("floor(value) == -3", -2.5, True),
        ("value.a.b == 1", {"a": {"b": 1}}, True),
        ("value['a'][0] == 1", {"a": [1]}, True),
        ("value[1] == 7", [5, 7], True),
        ("has(value[2])", [5, 7], False),
        ("has(value[0])", "FID", False),
        ("has(value.a.b)", {"a": {"b": 1}}, True),
        ("has(value.a.b)", {"a": {"c": 1}}, False),
        ("has(metadata.epoch_count)", None, True),
        ("has(metadata.epoch_num)", None, False),
        ("has(value.__class__)", 5, False),  # never of an object
        ("has(value.__class__)", {"__class__": 1}, True),
        ("has(value.FID)", {"FID": None}, True),
        ("has(value.FID)", "FID", False),
        ("has(warmup)", 0, False),
        ("-value == 2", -2, True),
    ],
)
def test_a_demand_is_met_or_not(text: str, value: Any, is_met: bool) -> None:
    """The batch size that was logged before is 1,024; the metadata have an epoch_count of 2."""
    assert parse(text).holds(Line(value, {"epoch_count": 2}, {"batch": 1024})) is is_met


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("value > 0", "five", "'five' is not a number"),
        ("value / 0 > 1", 5, "division by zero"),
        ("value % 0 == 1", 5, "division by zero"),
        ("'%s' % value == 1", 5, "'%s' is not a number"),
        ("previous.epoch_num > 0", 5, "previous.epoch_num: it is absent"),
        ("value.FID < 90", 5, "value.FID: it is absent"),
        ("value[2] < 90", [1], "value[2]: it is absent"),
        ("metadata.epoch_num > 0", 5, "metadata.epoch_num: it is absent"),
        ("value == warmup", 5, "warmup: there is no line of it before"),
        ("value in warmup", 5, "warmup: there is no line of it before"),
        ("value in value", 5, "is not a list"),
        ("len(value) == 2", 5, "has no length"),
        ("log2(value) == 2", -1, "out of range"),
        ("ceil(value) == 2", math.inf, "out of range"),
        ("value ** 65 > 0", 2, "an exponent beyond 64"),
        ("value ** 0.5 > 0", -2, "a root of a negative number"),
        ("value ** 64 > 0", 1e300, "out of range"),
    ],
)
def test_a_demand_that_cannot_be_evaluated_is_not_met(text: str, value: Any, why: str) -> None:
    """With a sentence that says why."""
    failure = parse(text).failure(Line(value))

    assert failure is not None
    assert failure.startswith("cannot be evaluated")
    assert why in failure


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "value.__class__()",
        "open('/etc/passwd')",
        "(lambda: 1)()",
        "[x for x in value]",
        "f'{value}'",
        "value := 1",
        "print(value)",
        "abs(value, 1)",
        "abs(x=value)",
        "value[value]",
        "value // 2",
        "previous",
        "previous[0]",
        "value << 99",
        "value is none",
        "1 < value is 2",
        "metadata",
        "has",
        "b'a' == value",
        "1j == value",
        "value ==",
        "",
        "1;2",
        "'" + "a" * MAX_LENGTH + "'",
        "(" * 240 + "1" + ")" * 240 + "." * 5,
        "value[-1]",
        "metadata[0]",
        "value\x00",
    ],
)
def test_anything_but_a_formula_is_refused(text: str) -> None:
    """When it is read, not when a log is judged by it."""
    with pytest.raises(RulesError):
        parse(text)


def test_a_formula_knows_the_other_keys_that_it_uses() -> None:
    """So that a rule which names a key that does not exist is refused."""
    assert parse("value == 12000 - warmup_steps and has(batch)").names == {"warmup_steps", "batch"}


def test_a_value_that_is_nested_too_deeply_is_not_met() -> None:
    """Python compares lists by recursion; the reader refuses such lines, and a demand does not crash on them."""
    deep: list[list[Any]] = [[], []]
    for place in range(2):
        for _ in range(100_000):
            deep[place] = [deep[place]]

    assert parse("value[0] == value[1]").failure(Line(deep)) == "cannot be evaluated: it is nested too deeply"


@given(FORMULAS, JSON, JSON)
def test_no_line_makes_a_demand_raise(text: str, value: Any, batch: Any) -> None:
    """Whatever a log says: met, or not, with a sentence."""
    metadata = {"a": value}

    if len(text) > MAX_LENGTH:
        return
    failure = parse(text).failure(Line(value, metadata, {"batch": batch}))

    assert failure is None or failure == "is not met" or failure.startswith("cannot be evaluated: ")


@given(st.text(max_size=60) | st.text(alphabet="value()[]{}.'\"+-*/<>=!, 09ine", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """A formula, or a RulesError."""
    with contextlib.suppress(RulesError):
        assert isinstance(parse(text), Formula)


def test_a_demand_has_at_most_500_characters() -> None:
    """One more is refused."""
    longest = "value == " + "1" * 491

    assert len(longest) == 500
    assert parse(longest).text == longest
    with pytest.raises(RulesError, match="more than 500 characters"):
        parse(longest + "1")


@pytest.mark.parametrize("text", ["1if value else 2", r"'\d' == value", "value =="])
def test_a_text_that_python_merely_warns_of_is_refused(text: str) -> None:
    """Whatever the warnings are set to, in every version of Python, with its reason; nothing is warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(RulesError, match="not a formula: invalid"):
            parse(text)

    assert said == []
