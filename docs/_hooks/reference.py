"""Reference pages made from the code at build time: command line, exit codes, log keys, rules files, rulebook.

A page of `docs/reference/` has prose and marks such as `<!-- generated: exit-codes -->`, which become tables. The
rulebook has no pages on disk: each family of checks is a page, and so are their index and the signals of the audit.
Needs the harness without any of its extras.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import html
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
from harness.base.docstrings import Piece, pieces
from harness.checker.registry import checks, signals
from harness.checker.rulebook import FAMILIES, SCOPES, in_force
from harness.commands.verbs import parser as command_line_parser
from harness.energy.limits import EnergyLimits
from harness.findings import Rule
from harness.log import keys
from harness.log import power_format as power_keys
from harness.ruleset import model
from harness.ruleset.catalog import ruleset_folder, ruleset_folders
from harness.ruleset.load import load_ruleset

RULES = "reference/rules"
CHANGES = "reference/rules-changelog.md"
RULESET = "v1"
AUDIT = "AUD"
_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
_CODE = re.compile(rf"\b({'|'.join(FAMILIES)})[0-9]{{3}}\b")
_DOCUMENT = re.compile(r"\bdocs/([\w./-]+\.md)\b")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


# MkDocs calls these three.


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace the entry `reference/rules` of the navigation by the pages of the rulebook."""
    for section in config.nav or []:
        for items in section.values():
            for item in items if isinstance(items, list) else ():
                if item == {"Rulebook": RULES}:
                    entries = [{f"{family}: {title}": _family_page(family)} for family, title in FAMILIES.items()]
                    item["Rulebook"] = [f"{RULES}/index.md", *entries]
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
        ("After `run_stop`", keys.SUMMARY_KEYS),
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
        kind = "tta" if known is None else f"MLPerf Training, published {known.published}"
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
            f"{one.num_runs}, {one.drop} at each end",
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
        digest = f"`{one.data_digest}`" if one.data_digest else "not published"
        parts.append(
            f"### {name}\n\nPrecisions: {', '.join(one.precisions)}. SHA-256 of the prepared data: {digest}.\n\n"
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
    families = {family: [rule for rule in rules if rule.code.startswith(family)] for family in FAMILIES}
    assert sum(map(len, families.values())) == len(rules), "a check belongs to no family"
    codes, names = {rule.code for rule in rules}, set(documents)
    pages = {f"{RULES}/index.md": _rulebook_index(families)}
    for family, members in families.items():
        parts = [f"# {family}: {FAMILIES[family]}"]
        parts.append(_table(("code", "finds"), ((f"[{r.code}](#{r.code.lower()})", _text(r.title)) for r in members)))
        for rule in members:
            parts.append(f"## {rule.code} `{rule.name}` {{ #{rule.code.lower()} }}")
            scope = SCOPES[rule.scope]
            parts.append(f"*{scope[0].upper()}{scope[1:]}. {in_force(rule, known)}*")
            parts += [_piece(piece, codes, names) for piece in pieces(rule.document)]
        pages[_family_page(family)] = "\n\n".join(parts) + "\n"
    return pages


def _rulebook_index(families: dict[str, list[Rule]]) -> str:
    num_signals = len(families[AUDIT])
    num_checks = sum(map(len, families.values())) - num_signals
    parts = [
        "# Rulebook",
        f"{num_checks} checks and {num_signals} audit signals, generated from the files in `rules/checks/` and "
        "`rules/audits/`. Each entry says what the check does and why it matters, gives an example, says what to do "
        "instead, and names the source of the rule. `tta explain CODE` prints one of them.",
        "An *error* takes a result out of the ranking. A *warning* asks a person to look. A *note* is worth knowing. "
        "An audit *signal* is a question and never decides anything.",
    ]
    for family, members in families.items():
        page = Path(_family_page(family)).name
        rows = ((f"[{r.code}]({page}#{r.code.lower()})", f"`{r.name}`", _text(r.title)) for r in members)
        parts.append(f"## [{family}]({page}): {FAMILIES[family]} {{ #{family.lower()} }}")
        parts.append(_table(("code", "name", "finds"), rows))
    return "\n\n".join(parts) + "\n"


def _family_page(family: str) -> str:
    return f"{RULES}/{family.lower()}.md"


def _piece(piece: Piece, codes: set[str], names: set[str]) -> str:
    text = piece.spans[0][0] if piece.kind == "code" else ""
    if piece.kind == "code":
        return f"```text\n{text}\n```"
    line = "".join(_code(text) if is_code else _linked(text, codes, names) for text, is_code in piece.spans)
    return {"heading": f"#### {line}", "item": f"- {line}"}.get(piece.kind, line)


def _linked(text: str, codes: set[str], names: set[str]) -> str:
    """`text` with links to the checks and the documents that it names."""

    def check(match: re.Match[str]) -> str:
        code = match.group(0)
        return f"[{code}]({code[:3].lower()}.md#{code.lower()})" if code in codes else code

    def document(match: re.Match[str]) -> str:
        name = match.group(1)
        up = "../" * RULES.count("/") + "../"
        return f"[docs/{_text(name)}]({up}{name})" if name in names else match.group(0)

    return _DOCUMENT.sub(document, _CODE.sub(check, _text(text)))


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


def _table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(' '.join(cell.split()) for cell in line)} |" for line in lines)


def _text(text: str) -> str:
    """`text` with its Markdown escaped; what is between backticks becomes code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(_code(part) if at % 2 else _SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts))


def _code(text: str) -> str:
    """`text` as inline code, safe inside a table."""
    return f"<code>{html.escape(text, quote=False).translate(_AS_IS)}</code>"


_AS_IS = {ord(letter): f"&#{ord(letter)};" for letter in "|*_`[]\\"}


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
