"""Constraints as formulas: `value == ceil(1200000 * 1152 / global_batch_size) - opt_learning_rate_warmup_steps`.

The language has Python's grammar and none of its semantics: a text is parsed once into closures over a short list of
operations, each of bounded cost. It has no attributes of objects, no calls except those listed here, no loops, and no
multiplication of texts. Evaluation never raises: a constraint that cannot be evaluated (a word in place of a number, a
division by zero, an absent key) is not met, and a sentence says why.

    value, value.BBOX, value["BBOX"], value[1]      the value of the line, or a part of it
    metadata.epoch_num                              a field of its metadata
    previous.samples_count                          a field of the metadata of the line of the same key before it
    global_batch_size                               the value of the last line of that key before this one
    has(metadata.epoch_num)                         whether that is present
    + - * / % **   == != < <= > >=   in, not in   and, or, not   x if condition else y
    abs ceil floor log2 len is_integer is_int   inf true false none
    is_integer: a whole number to within 1e-5. is_int: written without a fraction.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.errors import RulesError, printable

NOT_MET = "is not met"
MAX_LENGTH = 500  # characters; the longest constraint of a round has 250
MAX_EXPONENT = 64
TOLERANCE = 1e-5  # of is_integer, as in the MLPerf checker
_ABSENT = object()
_FIELDS = ("metadata", "previous")
_CONSTANTS = {"inf": math.inf, "true": True, "false": False, "none": None}
_FUNCTIONS = ("abs", "ceil", "floor", "has", "is_int", "is_integer", "len", "log2")
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Line(NamedTuple):
    """What a constraint can see: a line, and the last values of other keys before it.

    previous: the metadata of the line of the same key before it.
    """

    value: Any
    metadata: Mapping[str, Any] = _EMPTY
    earlier: Mapping[str, Any] = _EMPTY
    previous: Mapping[str, Any] = _EMPTY


class _NotEvaluable(Exception):  # noqa: N818  (never leaves this file)
    """The constraint cannot be evaluated on this line."""


class _NotInLanguage(Exception):  # noqa: N818  (never leaves this file)
    """The text uses something that is not in the language."""


_Node = Callable[[Line], Any]


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed constraint.

    names: the keys whose earlier values it uses. present: where the constraint only requires that one of some metadata
    fields be present, those fields; else empty.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    present: frozenset[str] = field(compare=False)
    _evaluate: _Node = field(repr=False, compare=False)

    def failure(self, line: Line) -> str | None:
        """Return None if the constraint is met, else `NOT_MET` or why it cannot be evaluated."""
        try:
            return None if self._evaluate(line) else NOT_MET
        except _NotEvaluable as error:
            return f"cannot be evaluated: {error}"
        except ZeroDivisionError:
            return "cannot be evaluated: a division by zero"
        except (OverflowError, ValueError):
            return "cannot be evaluated: a number is out of range"
        except RecursionError:
            return "cannot be evaluated: it is nested too deeply"

    def holds(self, line: Line) -> bool:
        """Whether the constraint is met."""
        return self.failure(line) is None


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Formula:
    """Parse the constraint in `text`.

    Raises:
        RulesError: it is too long, is not a formula, or uses something that is not in the language.
    """
    if len(text) > MAX_LENGTH:
        raise RulesError(f"formula {printable(text, 40)!r}: more than {MAX_LENGTH} characters")
    try:
        names: set[str] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns about `1if x`, with a category that depends on its version
            parsed = ast.parse(text.strip(), mode="eval")
        evaluate = _build(parsed.body, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RulesError(f"formula {printable(text)!r}: not a formula: {_reason(error)}") from None
    except _NotInLanguage as error:
        raise RulesError(f"formula {printable(text)!r}: {error}") from None
    return Formula(text.strip(), frozenset(names), frozenset(_present_in(parsed.body) or ()), evaluate)


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else type(error).__name__


def _present_in(node: ast.expr) -> list[str] | None:
    """Return the metadata fields of which `node` requires one to be present; None where it requires anything else."""
    match node:
        case ast.Call(
            func=ast.Name(id="has"), args=[ast.Attribute(value=ast.Name(id="metadata"), attr=name)], keywords=[]
        ):
            return [name]
        case ast.BoolOp(op=ast.Or(), values=items):
            found = [_present_in(item) for item in items]
            return None if None in found else [name for names in found for name in names or ()]
    return None


def _build(node: ast.expr, names: set[str]) -> _Node:
    match node:
        case ast.Constant(value=constant) if isinstance(constant, int | float | str):
            return lambda line: constant
        case ast.Name(id="value"):
            return lambda line: line.value
        case ast.Name(id=name) if name in _CONSTANTS:
            return lambda line: _CONSTANTS[name]
        case ast.Name(id=name) if name not in (*_FIELDS, *_FUNCTIONS):
            names.add(name)
            return lambda line: _present(line.earlier.get(name, _ABSENT), name, "there is no line of it before")
        case ast.Attribute() | ast.Subscript():
            return _part(node, names)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            built = [_build(item, names) for item in items]
            return lambda line: [item(line) for item in built]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _build(operand, names)
            return lambda line: not inner(line)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _build(operand, names)
            return lambda line: -_number(inner(line))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _arithmetic(_ARITHMETIC[type(op)], _build(left, names), _build(right, names))
        case ast.BoolOp(op=op, values=items):
            return _junction([_build(item, names) for item in items], isinstance(op, ast.And))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            sides = [_build(side, names) for side in (left, *others)]
            return _comparison([_COMPARISONS[type(op)] for op in ops], sides)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            if_, then, other = _build(test, names), _build(body, names), _build(orelse, names)
            return lambda line: then(line) if if_(line) else other(line)
        case ast.Call(func=ast.Name(id="has"), args=[argument], keywords=[]):
            return _presence(argument, _build(argument, names))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            function, inner = _CALLS[name], _build(argument, names)
            return lambda line: function(inner(line))
    raise _NotInLanguage(f"{printable(ast.unparse(node), 60)!r} is not in the language of formulas")


def _part(node: ast.Attribute | ast.Subscript, names: set[str]) -> _Node:
    """`value.BBOX`, `value["BBOX"]`, `value[1]`, `metadata.epoch_num`: parts of JSON values, never of objects."""
    key: str | int
    match node:
        case ast.Attribute(value=whole, attr=str(key)):
            pass
        case ast.Subscript(value=whole, slice=ast.Constant(value=str(key) | int(key))):
            pass
        case _:
            raise _NotInLanguage(f"{printable(ast.unparse(node), 60)!r}: a part is selected by a word or a number")
    where = ast.unparse(node)
    if isinstance(whole, ast.Name) and whole.id in _FIELDS and isinstance(key, str):
        name, fields = key, operator.attrgetter(whole.id)
        return lambda line: _present(fields(line).get(name, _ABSENT), where)
    inner = _build(whole, names)

    def part(line: Line) -> Any:
        found = inner(line)
        if isinstance(key, str):
            return _present(found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT, where)
        is_there = isinstance(found, list) and key < len(found)
        return _present(found[key] if is_there else _ABSENT, where)

    return part


def _present(found: Any, name: str, why: str = "it is absent") -> Any:
    if found is _ABSENT:
        raise _NotEvaluable(f"{name}: {why}")
    return found


def _presence(node: ast.expr, inner: _Node) -> _Node:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "metadata":
        key = node.attr
        return lambda line: key in line.metadata  # the commonest constraint, without an exception

    def presence(line: Line) -> bool:
        try:
            inner(line)
        except _NotEvaluable:
            return False
        return True

    return presence


def _number(found: Any) -> int | float:
    if not isinstance(found, int | float):
        raise _NotEvaluable(f"{printable(found, 40)!r} is not a number")
    return found


def _arithmetic(operation: Callable[[Any, Any], Any], left: _Node, right: _Node) -> _Node:
    return lambda line: operation(_number(left(line)), _number(right(line)))


def _power(base: int | float, exponent: int | float) -> float:
    if abs(exponent) > MAX_EXPONENT:
        raise _NotEvaluable(f"an exponent beyond {MAX_EXPONENT}")
    found = float(base) ** exponent
    if isinstance(found, complex):
        raise _NotEvaluable("a root of a negative number")
    return found


def _junction(items: list[_Node], is_and: bool) -> _Node:
    if len(items) == 1:
        return items[0]
    left, right = items[0], _junction(items[1:], is_and)
    if is_and:
        return lambda line: bool(left(line)) and bool(right(line))
    return lambda line: bool(left(line)) or bool(right(line))


def _comparison(operations: list[Callable[[Any, Any], bool]], sides: list[_Node]) -> _Node:
    pairs = zip(operations, sides, sides[1:], strict=False)
    return _junction([_compared(operation, left, right) for operation, left, right in pairs], is_and=True)


def _compared(operation: Callable[[Any, Any], bool], left: _Node, right: _Node) -> _Node:
    return lambda line: operation(left(line), right(line))


def _is_in(left: Any, right: Any) -> bool:
    if not isinstance(right, list):
        raise _NotEvaluable(f"{printable(right, 40)!r} is not a list")
    return any(left is item or left == item for item in right)


def _is_integer(found: Any) -> bool:
    number = _number(found)
    return abs(round(number) - number) < TOLERANCE


def _len(found: Any) -> int:
    if not isinstance(found, str | list | Mapping):
        raise _NotEvaluable(f"{printable(found, 40)!r} has no length")
    return len(found)


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: lambda left, right: _number(left) < _number(right),
    ast.LtE: lambda left, right: _number(left) <= _number(right),
    ast.Gt: lambda left, right: _number(left) > _number(right),
    ast.GtE: lambda left, right: _number(left) >= _number(right),
    ast.In: _is_in,
    ast.NotIn: lambda left, right: not _is_in(left, right),
}
_CALLS: dict[str, Callable[[Any], Any]] = {
    "abs": lambda found: abs(_number(found)),
    "ceil": lambda found: math.ceil(_number(found)),
    "floor": lambda found: math.floor(_number(found)),
    "is_int": lambda found: isinstance(found, int),
    "is_integer": _is_integer,
    "len": _len,
    "log2": lambda found: math.log2(_number(found)),
}
