"""Reference pages made from the code at build time: command line, exit codes, log keys, rules files, rulebook.

A page of `docs/reference/` has prose and marks such as `<!-- generated: exit-codes -->`, which become tables. The
rulebook has no pages on disk: each family of checks is a page, and so are their index and the signals of the audit.
Needs the harness without any of its extras.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import itertools
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

# These pages describe the tree they are in, whatever else is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# Everything that the pages take from the harness.
from harness import errors
from harness.base.markdown import code as _code
from harness.base.markdown import table as _table
from harness.base.markdown import text as _text
from harness.checker import rulebook
from harness.checker.registry import checks, families, signals
from harness.cli import parser as command_line_parser
from harness.energy.limits import EnergyLimits
from harness.log import keys
from harness.log import power_format as power_keys
from harness.ruleset import model
from harness.ruleset.catalog import ruleset_folder, ruleset_folders
from harness.ruleset.load import load_ruleset

RULES = "reference/rules"
CHANGES = "reference/rules-changelog.md"
RULESET = "v1"
FAMILIES = families()
_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


# MkDocs calls these three.


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace the entry `reference/rules` of the navigation by the pages of the rulebook."""
    for section in config.nav or []:
        for items in section.values():
            for item in items if isinstance(items, list) else ():
                if item == {"Rulebook": RULES}:
                    pages = {
                        f"{name}: {rulebook.title(text)}": rulebook.page_of(name) for name, text in FAMILIES.items()
                    }
                    entries = [{title: f"{RULES}/{page}"} for title, page in pages.items()]
                    item["Rulebook"] = [f"{RULES}/{rulebook.INDEX}", *entries]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the rulebook, and the changelog of the rules."""
    from mkdocs.structure.files import File

    pages = rulebook_pages({file.src_uri for file in files})
    pages[CHANGES] = (Path(config.docs_dir).parent / "rules" / "CHANGELOG.md").read_text()
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Replace each mark by the text that its generator makes.

    Raises:
        KeyError: no generator has that name.
    """
    return _MARK.sub(lambda match: GENERATORS[match.group(1)](), markdown)


# The command line.


def command_line() -> str:
    """Every verb: what it is for, its usage, and its arguments."""
    top = command_line_parser()
    verbs = _verbs(top)
    rows = ((f"[{_code(name)}](#{_anchor(name)})", _text(verb.description or "")) for name, verb in verbs)
    parts = [_table(("verb", "purpose"), rows), *(f"## {name}\n\n{_verb(verb)}" for name, verb in verbs)]
    return "\n\n".join(parts)


def _verbs(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser]]:
    """Each command that can be called, `tta power import` among them, by the words it is called by."""
    found: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                found += [(verb.prog, verb), *_verbs(verb)]
    return found


def _verb(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=90)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    rows = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        name = formatter._format_action_invocation(action)
        text = formatter._expand_help(action) if action.help else ""
        if action.choices and action.metavar is not None:
            text = f"{text} ({', '.join(map(str, action.choices))})"
        rows.append((_code(name), _text(text) + (" *Required.*" if action.required and action.option_strings else "")))
    usage = re.sub(r"\x1b\[[0-9;]*m", "", formatter.format_help()).strip()
    arguments = _table(("argument", "meaning"), rows) if rows else "It takes no arguments."
    return f"{_text(parser.description or '')}\n\n```text\n{usage}\n```\n\n{arguments}"


# Exit codes.


def exit_codes() -> str:
    """The exit statuses with their comments."""
    comments = _comments(errors)
    rows = [(f"`{one.value}`", f"`{one.name}`", _text(comments[one.name])) for one in errors.ExitStatus]
    return _table(("status", "name", "meaning"), rows)


def exceptions() -> str:
    """The tree of exceptions, as the module draws it."""
    lines = (errors.__doc__ or "").splitlines()
    tree = itertools.takewhile(str.strip, itertools.dropwhile(lambda line: not line.startswith("TtaError"), lines))
    return "```text\n" + "\n".join(tree) + "\n```"


# The logs.


def log_keys() -> str:
    """The keys of a run's log by the part of the run that writes them, with the comments of the keys' module."""
    comments = _comments(keys)
    by_value = {value: name for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)}
    parts = []
    for title, group in (
        ("Header", keys.HEADER_KEYS),
        ("Start of the run", keys.OPENING_KEYS),
        ("Training", keys.BODY_KEYS),
        ("Checkpoints and interruptions", keys.RESUME_KEYS),
        ("After `run_stop`", keys.SUMMARY_KEYS),
        ("On several nodes, and in a scheduler's job", keys.NODES_KEYS),
    ):
        rows = [
            (f"`{value}`", "tta" if value.startswith("tta_") else "MLPerf", _value(comments.get(by_value[value], "")))
            for value in group
        ]
        parts.append(f"### {title}\n\n" + _table(("key", "vocabulary", "value"), rows))
    return "\n\n".join(parts)


def power_log_keys() -> str:
    """The keys of a node's power log, as their module lists them."""
    lines = (power_keys.__doc__ or "").splitlines()
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines if line.startswith("    ")]
    return _table(("key", "value"), ((f"`{name}`", _value(text)) for name, text in rows))


def _value(comment: str) -> str:
    """A comment beside a key; the JSON it begins with becomes code."""
    match = re.match(r"([{\[].*[}\]])(?:: |; |$)?(.*)", comment)
    return _text(comment) if match is None else f"{_code(match.group(1))} {_text(match.group(2))}".strip()


# The rules.


def rulesets() -> str:
    """The rulesets that come with the harness."""
    rows = []
    for name, loaded in _rulesets():
        known = loaded.round
        benchmarks = loaded.benchmarks if known is None else known.benchmarks
        kind = "tta"
        if known is not None:
            kind = f"MLPerf Training, {f'published {known.published}' if known.published else 'not published yet'}"
        rows.append((f"`{name}`", kind, str(len(benchmarks)), str(len(loaded.codes)), f"`{loaded.digest[:12]}`"))
    return _table(("ruleset", "kind", "benchmarks", "checks in force", "digest begins"), rows)


def rule_types() -> str:
    """The fields of the types that rules files are read into."""
    types = (
        model.Timing, EnergyLimits, model.Waiver, model.BenchmarkRules, model.Constraint,
        model.ReferenceRecipe, model.ReferenceConvergence,
    )  # fmt: skip
    return "\n\n".join(f"### {kind.__name__}\n\n{_fields(kind)}" for kind in types)


def _fields(kind: type[Any]) -> str:
    document = inspect.cleandoc(kind.__doc__ or "")
    head, _, _ = document.partition("\n")
    names = [field.name for field in dataclasses.fields(kind)]
    meanings = _meanings(document, names)
    rows = []
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            default = _code(_shown(field.default))
        else:
            default = "empty" if field.default_factory is not dataclasses.MISSING else "required"
        rows.append((f"`{field.name}`", _code(str(field.type)), default, _text(meanings.get(field.name, ""))))
    return f"{_text(head)}\n\n" + _table(("field", "type", "default", "meaning"), rows)


def _meanings(document: str, names: Iterable[str]) -> dict[str, str]:
    """What a docstring says of each field in sentences of the form `name, other: text.`"""
    name = rf"(?:{'|'.join(names)})"
    marks = list(re.finditer(rf"(?:^|(?<=\s))({name}(?:, {name})*):\s", document))
    found: dict[str, str] = {}
    for mark, following in itertools.zip_longest(marks, marks[1:]):
        text = " ".join(document[mark.end() : following.start() if following else None].split("\n\n")[0].split())
        found.update(dict.fromkeys(mark.group(1).split(", "), text.strip()))
    return found


def benchmarks() -> str:
    """The benchmarks of the default ruleset: what decides a run, then what may be set."""
    rules = dict(_rulesets())[RULESET]
    rows = [
        (
            f"[`{name}`](#{_anchor(name)})",
            f"{one.metric.name} {'≥' if one.metric.direction == 'max' else '≤'} {one.target:g}",
            f"{one.eval_every_samples:,}",
            f"{one.max_samples:,}",
            f"{one.max_seconds:,.0f}",
            f"{one.num_runs} (open: {one.open_runs}), {one.drop} at each end",
            f"{one.train_examples:,} / {one.eval_examples:,}",
        )
        for name, one in sorted(rules.benchmarks.items())
    ]
    head = ("benchmark", "target", "samples between evaluations", "samples at most", "seconds at most", "runs, dropped",
            "examples: train / test")  # fmt: skip
    parts = [_table(head, rows)]
    for name, one in sorted(rules.benchmarks.items()):
        settings = [
            (f"`{setting}`", _code(_shown(constraint.default)), _text(constraint.allowed))
            for setting, constraint in one.hyperparameters.items()
        ]
        data, network = (
            f"`{digest}`" if digest else "not published" for digest in (one.data_digest, one.network_digest)
        )
        parts.append(
            f"### {name}\n\nPrecisions: {', '.join(one.precisions)}. SHA-256 of the prepared data: {data}; "
            f"of the network: {network}.\n\n"
            + _table(("hyperparameter", "default", "permitted in the closed division"), settings)
        )
    return "\n\n".join(parts)


def _rulesets() -> list[tuple[str, model.RuleSet]]:
    """Every ruleset by name, `tta`'s first."""
    names = sorted((name for name, _ in ruleset_folders()), key=lambda name: ("/" in name, name))
    return [(name, load_ruleset(ruleset_folder(name), name)) for name in names]


# The rulebook.


def rulebook_pages(documents: Iterable[str] = ()) -> dict[str, str]:
    """Name and Markdown of every page of the rulebook. documents: the names of the pages that can be linked to."""
    rules = [*checks().values(), *(signal.as_rule for signal in signals().values())]
    known = [loaded for _, loaded in _rulesets()]
    up = "../" * (RULES.count("/") + 1)
    pages = rulebook.rulebook_pages(rules, known, FAMILIES, set(documents), up)
    return {f"{RULES}/{name}": text for name, text in pages.items()}


# What the pages are made of.


def _comments(module: ModuleType) -> dict[str, str]:
    """The comment at the end of each line of `module` that assigns a name, by name."""
    source = inspect.getsource(module)
    by_line = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    return {
        name: by_line[node.end_lineno]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and node.end_lineno in by_line
        for name in _targets(node)
    }


def _targets(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                yield name.id


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _anchor(text: str) -> str:
    return text.replace(" ", "-").lower()


GENERATORS: dict[str, Callable[[], str]] = {
    "command-line": command_line,
    "exit-codes": exit_codes,
    "exceptions": exceptions,
    "log-keys": log_keys,
    "power-keys": power_log_keys,
    "rulesets": rulesets,
    "rule-types": rule_types,
    "benchmarks": benchmarks,
}
