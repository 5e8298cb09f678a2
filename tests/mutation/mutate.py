"""Mutation testing: puts small faults into one module at a time, and reports those that no test notices.

    python -m tests.mutation.mutate harness/scoring/convergence.py tests/harness/scoring/test_convergence.py
    python -m tests.mutation.mutate --list harness/mlperf/formula.py          # the mutants, without running anything
    python -m tests.mutation.mutate --checks CNV QUA TIM      # of rules/checks/, under the cases of all checks

The tests are collected once; then a child is forked for each mutant, in which the module's functions get the mutant's
code, and its constants and decoders the mutant's values. No file is changed; a program that a test starts, and a
module that has copied a constant, see the unchanged module. A mutant is killed when a test fails or its time is up:
ten times the CPU seconds of the unchanged module, at least five. Each survivor is printed on a line:
path:line:column, what was changed into what.

Operators: boundaries and negations of comparisons; + - * / // % ** & |; and/or, and each of their operands omitted;
`not` and minus removed; a bare condition negated; integer and float constants one up and one down; True/False;
min/max, any/all; a returned value becomes None; an expression statement, `raise`, `+=`, `continue` or `break`
omitted; continue/break exchanged. Not mutated: strings, annotations, decorators, fields and names of a class, and
`assert` and `strict=` of zip, which state what cannot be otherwise.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import math
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.json import Decoder

if TYPE_CHECKING:
    from harness.findings import Fault, Rule
    from harness.ruleset.model import RuleSet
    from harness.submission.result import Result

ROOT = Path(__file__).resolve().parents[2]
ORDER: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
LEFT_OUT = (ast.Raise, ast.AugAssign, ast.Continue, ast.Break)
MIN_LIMIT_S, LIMIT_FACTOR = 5, 10
IMPORTED_LATE = ("scipy.special", "scipy.stats", "mlperf_logging.rcp_checker.rcp_checker")  # once, not in each child


@dataclass(frozen=True)
class Mutant:
    """A fault: its place, what it changes into what, and the code of the module with it."""

    line: int
    column: int
    change: str
    code: CodeType


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a file, in the order of its tree."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for parent, name, index, node in _sites(tree):
        for replacement in _variants(parent, name, node):
            before = _shown(node)
            _put(parent, name, index, replacement)
            ast.fix_missing_locations(ast.copy_location(replacement, node))
            code = compile(tree, str(path), "exec", dont_inherit=True)
            _put(parent, name, index, node)
            yield Mutant(node.lineno, node.col_offset, f"{before}  ->  {_shown(replacement)}", code)


def _sites(tree: ast.AST) -> list[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    """Parent, field, index and node of everything that may be mutated."""
    found: list[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]] = []
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(tree, ast.Call):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue
            if isinstance(tree, ast.ClassDef) and isinstance(node, (ast.AnnAssign, ast.Assign)):
                continue
            if isinstance(node, (ast.expr, ast.stmt)):
                found.append((tree, name, index, node))
            if isinstance(node, ast.AST):
                found.extend(_sites(node))
    return found


def _put(parent: ast.AST, name: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


def _variants(parent: ast.AST, name: str, node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(left, operators, operands):
            for i, operator in enumerate(operators):
                for other in ORDER[type(operator)]:
                    yield ast.Compare(left, [*operators[:i], other(), *operators[i + 1 :]], operands)
        case ast.BinOp(left, sign, right) if type(sign) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(sign)](), right)
        case ast.BoolOp(junction, values):
            yield ast.BoolOp(ast.Or() if isinstance(junction, ast.And) else ast.And(), values)
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(junction, rest)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Call(ast.Name(called) as function, arguments, keywords) if called in NAMES:
            yield ast.Call(ast.copy_location(ast.Name(NAMES[called], ast.Load()), function), arguments, keywords)
        case ast.Return(value) if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value) if not isinstance(value, ast.Constant):
            yield ast.Pass()
    if isinstance(node, LEFT_OUT):
        yield ast.Pass()
    match node:
        case ast.AugAssign(target, sign, value) if type(sign) in ARITHMETIC:
            yield ast.AugAssign(target, ARITHMETIC[type(sign)](), value)
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
    is_condition = name == "test" or (isinstance(parent, ast.comprehension) and name == "ifs")
    if is_condition and isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr, ast.Subscript)):
        yield ast.UnaryOp(ast.Not(), node)


def _functions(namespace: dict[Any, Any], module: str, place: str = "") -> dict[str, FunctionType]:
    """The functions that `module` defines, also in classes and tables and inside wrappers, by place."""
    found: dict[str, FunctionType] = {}
    for name, value in namespace.items():
        where = f"{place}.{name}"
        if isinstance(value, type) and value.__module__ == module:
            found.update(_functions(dict(vars(value)), module, where))
        elif isinstance(value, dict) and not str(name).startswith("__"):
            found.update(_functions(value, module, where))
        for attribute in ("fget", "func", "__func__", "__wrapped__"):
            value = getattr(value, attribute, value)
        if isinstance(value, FunctionType) and value.__module__ == module:
            found[where] = value
    return found


def infect(module: ModuleType, code: CodeType) -> None:
    """Gives the functions of a loaded module the mutant's code, and its names the mutant's plain values."""
    mutant: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(code, mutant)
    theirs = _functions(mutant, module.__name__)
    for place, function in _functions(vars(module), module.__name__).items():
        other = theirs.get(place)
        if other is not None and function.__code__.co_freevars == other.__code__.co_freevars:
            function.__code__ = other.__code__
            function.__defaults__, function.__kwdefaults__ = other.__defaults__, other.__kwdefaults__
    for name, value in mutant.items():
        is_plain = isinstance(value, (int, float, Decimal, tuple, frozenset, set, dict)) and " at 0x" not in repr(value)
        is_other = isinstance(value, Decoder) or (is_plain and repr(value) != repr(getattr(module, name, None)))
        if is_other and not name.startswith("__"):
            setattr(module, name, value)


class Plugin:
    """Replaces pytest's own loop: runs the collected tests once for each mutant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts = (0, 0)

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)  # a counterexample need not be minimal
        settings.register_profile("mutation", phases=phases, database=None, deadline=None, derandomize=True)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        def passes() -> bool:
            for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return False
            return bool(session.items)

        for name in IMPORTED_LATE:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self.counts = mutate(self.path, passes)
        return True


@dataclass(frozen=True)
class Judged:
    """What tests/rules/test_checks.py shows the checks, and what they find."""

    result: Any
    ruleset: Any
    today: Any
    found: list[Any]


def all_judged(place: Path) -> list[Judged]:
    """Every case of every check, and the valid submissions, with the findings that the tests expect."""
    from harness.checker import engine
    from tests.rules import box, test_checks

    judged: list[Judged] = []
    original = engine.judge

    def judge(result: Any, ruleset: Any, checks: Any, today: Any) -> list[Any]:
        found = original(result, ruleset, checks, today)
        judged.append(Judged(result, ruleset, today, found))
        return found

    engine.judge = judge
    for number, case in enumerate(test_checks.CASES):
        expected, found = box.findings_of(case, place / f"case_{number}")
        assert expected == found, case.label
    test_checks.test_a_valid_submission_has_no_findings(place / "valid")
    test_checks.test_a_metric_that_is_minimised_has_no_findings(place)
    for batch_size in (50, 100, 200):
        test_checks.test_a_valid_submission_of_the_open_division_has_no_findings(
            place / f"open_{batch_size}", batch_size
        )
    engine.judge = original
    return judged


def mutate_check(path: Path, judged: Sequence[Judged]) -> tuple[int, int]:
    """A mutant is killed if in any case of any check it finds more, less, or elsewhere. Messages may differ."""
    from harness.checker import engine, registry

    code = path.name[:6].upper()
    rule = registry.checks()[code]
    shown = [item for item in judged if code in item.ruleset.codes]

    def passes() -> bool:
        for item in shown:
            expected = [(found.path, found.line) for found in item.found if found.code == code]
            if rule.scope == engine.JUDGEMENT:
                others = tuple(found for found in item.found if found.code != code)
                faults = list(rule.check(item.result, others, item.ruleset, item.today))
            else:
                faults = list(faults_of(rule, item.result, item.ruleset))
            if sorted(map(str, expected)) != sorted(str((fault.path, fault.line)) for fault in faults):
                return False
            assert all(fault.message for fault in faults)
        return bool(shown)

    return mutate(path, passes)


def faults_of(rule: Rule, result: Result, ruleset: RuleSet) -> Iterator[Fault]:
    """What one check finds, shown what `engine.judge` shows it."""
    from harness.checker import engine

    if rule.scope != "log":
        yield from rule.check(result, ruleset.benchmarks.get(result.benchmark or ""), ruleset)
        return
    for log in result.runs:
        if rule.code == engine.FOREIGN_LOG or engine.FOREIGN_LOG not in ruleset.codes or not log.is_foreign:
            name = log.value("submission_benchmark")
            yield from rule.check(log, ruleset.benchmarks.get(name) if isinstance(name, str) else None, ruleset)


def mutate(path: Path, passes: Callable[[], bool]) -> tuple[int, int]:
    """The number of mutants of `path`, and how many of them pass."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    gc.freeze()
    began_s = _children_s()
    if not survives(passes, module, None, 600):
        raise SystemExit(f"{path}: no test, or a test fails without any fault")
    limit_s = max(MIN_LIMIT_S, math.ceil(LIMIT_FACTOR * (_children_s() - began_s)))
    number = survivors = 0
    for mutant in mutants(path):
        number += 1
        if survives(passes, module, mutant.code, limit_s):
            survivors += 1
            say(f"{path.relative_to(ROOT)}:{mutant.line}:{mutant.column}: {mutant.change}")
    say(f"# {path.relative_to(ROOT)}: {number} mutants, {number - survivors} killed, {survivors} survived")
    return number, survivors


def survives(passes: Callable[[], bool], module: ModuleType, code: CodeType | None, limit_s: int) -> bool:
    """Whether everything passes in a child whose `module` has `code` (None: its own)."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        has_passed = False
        try:
            if code is not None:
                infect(module, code)
            has_passed = passes()
        finally:  # whatever a mutant raises, a child never continues as its parent
            os._exit(0 if has_passed else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _children_s() -> float:
    """CPU seconds, so that a busy machine kills no mutant."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")
    parser.add_argument("--checks", nargs="+", metavar="FAMILY", help="families (CNV) or codes (CNV001) of checks")
    parser.add_argument("module", nargs="?", type=Path)
    parser.add_argument("tests", nargs=argparse.REMAINDER, help="arguments for pytest")
    options = parser.parse_args()
    os.chdir(ROOT)
    if options.list:
        for mutant in mutants(options.module):
            say(f"{options.module}:{mutant.line}:{mutant.column}: {mutant.change}")
        return
    base = Path(tempfile.mkdtemp(prefix="mutate-"))
    try:
        if options.checks:
            judged = all_judged(base)
            counts = [
                mutate_check(path, judged)
                for path in sorted((ROOT / "rules" / "checks").glob("*/[a-z]*[0-9]_*.py"))
                if {path.name[:6].upper(), path.name[:3].upper()} & set(options.checks)
            ]
        elif options.module is None or not options.tests:
            parser.error("name a module and its tests, or --checks")
        else:
            plugin = Plugin(options.module.resolve())
            quiet = ["-q", "--no-header", "--no-summary", "--capture=no", "--tb=no", "-p", "no:cacheprovider"]
            pytest.main([*quiet, f"--basetemp={base / 't'}", *options.tests], plugins=[plugin])
            counts = [plugin.counts]
    finally:
        shutil.rmtree(base)
    total, survived = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    say(f"# together: {total} mutants, {total - survived} killed, {survived} survived")
    sys.exit(0 if total else 1)


if __name__ == "__main__":
    main()
