"""The rulebook: the documents of all checks and signals as Markdown, one page per family. Pure.

The site of the documentation and `tta explain --all --out DIR` are made from it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Mapping, Sequence

from harness.base.docstrings import Piece, pieces
from harness.base.markdown import code, table, text
from harness.findings import Rule
from harness.ruleset.model import RuleSet

SCOPES = {
    "log": "looks at each log",
    "result": "looks at a whole result",
    "tree": "looks at all results together",
    "judgement": "looks at the other findings",
}
AUDIT = "AUD"
INDEX = "index.md"
_CODE = re.compile(r"\b[A-Z]{3}[0-9]{3}\b")
_DOCUMENT = re.compile(r"\bdocs/([\w./-]+\.md)\b")


def title(sentence: str) -> str:
    """The title of a family: its sentence up to the colon."""
    return sentence.partition(":")[0].rstrip(".")


def page_of(family: str) -> str:
    return f"{family.lower()}.md"


def rulebook_pages(
    rules: Iterable[Rule],
    rulesets: Sequence[RuleSet],
    families: Mapping[str, str],
    documents: Container[str] = (),
    documents_folder: str = "",
) -> dict[str, str]:
    """The Markdown of every page by file name: `index.md`, and one page for each family that has a rule.

    rulesets: in the order in which they are named. families: the sentence about each family, by its three letters.
    documents: the pages of the site that can be linked to, in `documents_folder` as seen from these pages.
    """
    members: dict[str, list[Rule]] = {family: [] for family in families}
    for rule in rules:
        members[rule.code[:3]].append(rule)
    members = {family: found for family, found in members.items() if found}
    codes = {rule.code for found in members.values() for rule in found}
    pages = {INDEX: _index(members, families)}

    def linked(plain: str) -> str:
        """Escaped, with links to the checks and the documents that it names."""

        def check(match: re.Match[str]) -> str:
            name = match.group(0)
            return f"[{name}]({page_of(name[:3])}#{name.lower()})" if name in codes else name

        def document(match: re.Match[str]) -> str:
            name = match.group(1)
            known = f"[docs/{text(name)}]({documents_folder}{name})"
            return known if name in documents else match.group(0)

        return _DOCUMENT.sub(document, _CODE.sub(check, text(plain)))

    def shown(piece: Piece) -> str:
        if piece.kind == "code":
            return f"```text\n{piece.spans[0][0]}\n```"
        line = "".join(code(span) if is_code else linked(span) for span, is_code in piece.spans)
        return {"heading": f"#### {line}", "item": f"- {line}"}.get(piece.kind, line)

    for family, found in members.items():
        parts = [f"# {family}: {text(title(families[family]))}", text(_capital(families[family].partition(": ")[2]))]
        parts.append(table(("code", "finds"), ((f"[{r.code}](#{r.code.lower()})", text(r.title)) for r in found)))
        for rule in found:
            parts.append(f"## {rule.code} `{rule.name}` {{ #{rule.code.lower()} }}")
            parts.append(f"*{_capital(SCOPES[rule.scope])}. {in_force(rule, rulesets)}*")
            parts += [shown(piece) for piece in pieces(rule.document)]
        pages[page_of(family)] = "\n\n".join(parts) + "\n"
    return pages


def _index(members: Mapping[str, Sequence[Rule]], families: Mapping[str, str]) -> str:
    num_signals = len(members.get(AUDIT, ()))
    num_checks = sum(map(len, members.values())) - num_signals
    parts = [
        "# Rulebook",
        f"{num_checks} checks and {num_signals} audit signals, generated from the files in `rules/checks/` and "
        "`rules/audits/`. Each entry says what the check does and why it matters, gives an example, says what to do "
        "instead, and names the source of the rule. `tta explain CODE` prints one of them.",
        "An *error* takes a result out of the ranking. A *warning* asks a person to look. A *note* is worth knowing. "
        "An audit *signal* is a question and never decides anything.",
    ]
    for family, found in members.items():
        page = page_of(family)
        rows = ((f"[{r.code}]({page}#{r.code.lower()})", f"`{r.name}`", text(r.title)) for r in found)
        parts.append(f"## [{family}]({page}): {text(title(families[family]))} {{ #{family.lower()} }}")
        parts.append(table(("code", "name", "finds"), rows))
    return "\n\n".join(parts) + "\n"


def in_force(rule: Rule, rulesets: Sequence[RuleSet]) -> str:
    """`Error in v1; warning in mlperf_training/4.0.0 to 6.0.0.`; neighbours of one severity are named as a span."""
    if rule.code[:3] == AUDIT:
        return "In force in every audit."
    parts = []
    for (severity, family), members in itertools.groupby(
        rulesets, key=lambda ruleset: (ruleset.severity_in_words(rule.code), ruleset.version.rpartition("/")[0])
    ):
        names = [ruleset.version for ruleset in members]
        span = names[0] if len(names) == 1 else f"{names[0]} to {names[-1].removeprefix(f'{family}/')}"
        if severity is not None:
            parts.append(f"{severity} in {span}")
    return f"{_capital('; '.join(parts))}." if parts else "In force in no ruleset that comes with the harness."


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
