"""The templates of the service: its own and those of the static board, whose frame, style and rules it shares."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.board.index import Board
from harness.board.leaderboard import Leaderboard
from harness.board.pages import render as board_pages
from harness.board.pages import words
from harness.board.pages.reproduced import REPEATS_CHIP, completed, reproduced_cell
from harness.board.reproductions import Links, Tally, tally
from harness.checker import registry
from harness.ruleset.model import RuleSet
from harness.service.states import WORDS, State

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'"
)
_HERE = Path(__file__).parent
# What a state looks like: the classes of the style sheet.
KINDS = {
    State.PUBLISHED: "valid", State.MOVED_TO_OPEN: "valid", State.ACCEPTED: "valid", State.CHECKED: "note",
    State.UNDER_REVIEW: "note", State.OBJECTED: "warning", State.DISPUTED: "warning", State.INVALID: "invalid",
    State.CHECK_FAILED: "invalid", State.REJECTED: "invalid", State.RETRACTED: "invalid",
}  # fmt: skip


# What is said of an event, by its kind; of another, the kind.
_HAPPENED = {
    "submission.announced": "Files announced",
    "submission.finalise": "Received",
    "submission.renew": "Announced again",
    "submission.expire": "Withdrawn: its files did not come in time",
    "submission.withdraw": "Withdrawn by its team",
    "submission.find_valid": "Checked: valid",
    "submission.find_invalid": "Checked: not valid",
    "submission.fail_check": "The check itself failed",
    "submission.check_again": "To be checked again",
    "submission.judged": "Checked by newer rules or a newer tta",
    "submission.open_review": "Review opened",
    "submission.object": "Objection",
    "submission.answer_all": "Every objection is decided",
    "submission.commented": "Comment",
    "submission.proposed": "Proposal",
    "submission.accept": "Accepted",
    "submission.reject": "Rejected",
    "submission.publish": "Published",
    "submission.dispute": "Disputed",
    "submission.uphold": "Dispute settled: it stays as it was",
    "submission.move_to_open": "Dispute settled: moved to the open division",
    "submission.retract": "Dispute settled: retracted",
    "submission.superseded": "Superseded by a newer result of its team",
    "objection.withdrawn": "Objection withdrawn",
}
# What the button of an action says.
ACTIONS = {
    "withdraw": "Withdraw", "check_again": "Check again", "open_review": "Open the review", "object": "Object",
    "accept": "Accept", "reject": "Reject", "dispute": "Dispute", "uphold": "Uphold", "retract": "Retract",
    "move_to_open": "Move to the open division",
}  # fmt: skip


@functools.cache
def environment() -> Environment:
    """Return the templates; every text is escaped, and an undefined name is an error."""
    found = Environment(
        loader=ChoiceLoader(
            [FileSystemLoader(_HERE / "templates"), FileSystemLoader(Path(board_pages.__file__).parent / "templates")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    found.filters.update(
        shown=words.shown, plural=words.plural, bytes=words.num_bytes, significant=words.significant, time=_time,
        benchmark_slug=board_pages.benchmark_slug, state=lambda state: WORDS[State(state)],
        kind=lambda state: KINDS.get(State(state), ""), happened=_happened,
        sentence=_sentence,
    )  # fmt: skip
    found.globals.update(frame="service_", policy=CONTENT_POLICY, ACTIONS=ACTIONS, ranked_rows=ranked_rows)
    return found


def page(template: str, path: str, at: str | None = None, **context: Any) -> str:
    """Return a page. path: its own, without a slash at its beginning.

    at: where it is shown, which links are relative to; another than its own if it answers a form.
    """
    root = "../" * (path if at is None else at).count("/")
    return environment().get_template(template).render(root=root, path=path, **context)


def part(template: str, **context: Any) -> str:
    """Return a part of a page."""
    return environment().get_template(template).render(**context)


def result_page(stored: str, links: Links, repeats: str | None) -> Markup:
    """Return what the page of a result shows below its state: what is stored of it, with what changes meanwhile.

    repeats: the digest of what it repeats.
    """
    parts: Any = environment().get_template("reproductions.html").module
    body = completed(
        stored,
        parts.tally(tally(links.reproductions)),
        parts.links(links, repeats, "../", lambda submission: f"results/{submission}.html"),
    )
    return Markup(body)  # noqa: S704  (made by the check and by a template, escaped)


def _sentence(text: str) -> str:
    """The message of an error as a sentence; one that begins with a name keeps it as it is."""
    first, _, _ = text.partition(" ")
    begun = text if first.endswith(":") else text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "?")) else f"{begun}."


def _happened(event: Mapping[str, Any]) -> str:
    """What an event of a submission's history says."""
    kind, body = event["kind"], event["body"]
    if kind == "objection.decided":
        return f"Objection {body['decision']}"
    if kind == "submission.proposed":
        return f"Proposed: {ACTIONS[body['action']].lower()}"
    return _HAPPENED.get(kind, str(kind).partition(".")[2].replace("_", " "))


def _time(at_ms: int | None) -> Markup:
    """A time in UTC, for people and for programs."""
    if at_ms is None:
        return Markup("–")
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    said = f'<time datetime="{at}">{at[:10]} {at[11:16]}</time>'
    return Markup(said)  # noqa: S704  (digits and signs)


_WITNESSED = {
    "W1": "Registered: every start counted, seeds drawn",
    "W2": "Witnessed: every start counted, seeds drawn, logs streamed",
}


def ranked_rows(rows: Iterable[Mapping[Any, Any]], root: str, tallies: Mapping[str, Tally]) -> Markup:
    """Return the rows of a table of results as HTML. tallies: what is counted of the reproductions of each, by verdict.

    Not as a template: pages have 50 of them, and 50 take 7 ms as a template and 1 ms so.
    """
    return Markup("".join(_ranked_row(row, root, tallies[row["verdict"]]) for row in rows))  # noqa: S704  (as below)


@functools.lru_cache(maxsize=4096)
def _name(text: str, most: int) -> str:
    return str(escape(words.shown(text, most)))


def _number(value: float | None) -> str:
    return "–" if value is None else words.significant(value)


def _ranked_row(row: Mapping[Any, Any], root: str, reproduced: Tally) -> str:
    first, last, low, num = row["first"], row["last"], row["low"], row["num_accelerators"]
    ranks, below, witness, repeats = '<span class="soft">–</span>', "", "", ""
    if first is not None:
        ranks = f"{first}" if first == last else f"{first}&#8288;–&#8288;{last}"
    if low is not None:
        below = f'<span class="soft small below">{_number(low)} to {_number(row["high"])}</span>'
    if row["witness"] in _WITNESSED:
        witness = f' <span class="soft small" title="{_WITNESSED[row["witness"]]}">{row["witness"]}</span>'
    if row["repeats"] is not None:
        repeats = f"<span>{REPEATS_CHIP}</span>"
    accelerators = f"{num} × {_name(row['accelerator'], 60)}" if num else "none"
    page = f"{root}results/{row['submission']}.html"
    who = f'<a href="{page}">{_name(row["organisation_name"], 80)}</a><span>{_name(row["system"], 80)}{witness}</span>'
    return f"""<tr role="row"><td role="cell" class="rank" data-label="Rank"><span>{ranks}</span></td>
<th scope="row" role="rowheader" class="who" data-label="Submitter"><span>{who}{repeats}</span></th>
<td role="cell" class="time" data-label="Score, s"><span><b>{_number(row["seconds"])}</b>{below}</span></td>
<td role="cell" class="number" data-label="Measured, s"><span>{_number(row["measured_seconds"])}</span></td>
<td role="cell" data-label="Accelerators"><span>{accelerators}</span></td>
<td role="cell" class="number" data-label="Energy, J"><span>{_number(row["joules"])}</span></td>
<td role="cell" data-label="Reproduced"><span>{reproduced_cell(reproduced, page)}</span></td>
<td role="cell" data-label="Published"><span>{_time(row["published_ms"])}</span></td>
</tr>
"""


_fixed: dict[str, Mapping[str, bytes]] = {}  # by the ruleset's digest


def fixed_pages(name: str, ruleset: RuleSet) -> Mapping[str, bytes]:
    """Return the pages that depend on the rules alone, and the style sheet, by path; they are made once a process."""
    if ruleset.digest not in _fixed:
        _fixed[ruleset.digest] = _made(name, ruleset)
    return _fixed[ruleset.digest]


def _made(name: str, ruleset: RuleSet) -> Mapping[str, bytes]:
    empty = Board(ruleset, registry.checks(), ruleset.prices, Leaderboard(name, ruleset.digest, ()), {}, ())
    render = board_pages.renderer_of(empty)
    render.environment.loader = environment().loader
    render.environment.globals.update(frame="service_", policy=CONTENT_POLICY, actor=None)
    found = dict(board_pages.rules_pages(empty, render))
    found.update((path, data) for path, data in board_pages.static_files())
    return found
