"""The templates of the service: its own and those of the static board, whose frame, style and rules it shares."""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
    )
    found.filters.update(
        shown=words.shown, plural=words.plural, bytes=words.num_bytes, significant=words.significant, time=_time,
        benchmark_slug=board_pages.benchmark_slug, state=lambda state: WORDS[State(state)],
        kind=lambda state: KINDS.get(State(state), ""), happened=_happened,
        sentence=_sentence,
    )  # fmt: skip
    found.globals.update(frame="service_", policy=CONTENT_POLICY, ACTIONS=ACTIONS, ranked_row=ranked_row)
    return found


def page(template: str, path: str, at: str | None = None, **context: Any) -> str:
    """Return a page. path: its own, without a slash at its beginning.

    at: where it is shown, which links are relative to; another than its own if it answers a form.
    """
    root = "../" * (path if at is None else at).count("/")
    return environment().get_template(template).render(root=root, path=path, **context)


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
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    said = f'<time datetime="{at.isoformat(timespec="seconds")}">{at:%Y-%m-%d %H:%M}</time>'
    return Markup(said)  # noqa: S704  (digits and signs)


_WITNESSED = {
    "W1": "Registered: every start counted, seeds drawn",
    "W2": "Witnessed: every start counted, seeds drawn, logs streamed",
}


def ranked_row(row: Mapping[Any, Any], root: str, reproduced: Tally) -> Markup:
    """Return a row of a table of results as HTML. reproduced: what is counted of its reproductions.

    Not as a template: pages have 50 of them, and 50 take 7 ms as a template and 1 ms so.
    """

    def number(name: str) -> str:
        return "–" if row[name] is None else words.significant(row[name])

    def name(column: str, most: int) -> str:
        return escape(words.shown(row[column], most))

    ranks = '<span class="soft">–</span>'
    if row["first"] is not None:
        ranks = f"{row['first']}" if row["first"] == row["last"] else f"{row['first']}&#8288;–&#8288;{row['last']}"
    below, witness, accelerators = "", "", "none"
    if row["low"] is not None:
        below = f'<span class="soft small below">{number("low")} to {number("high")}</span>'
    if row["witness"] in _WITNESSED:
        witness = f' <span class="soft small" title="{_WITNESSED[row["witness"]]}">{row["witness"]}</span>'
    if row["num_accelerators"]:
        accelerators = f"{row['num_accelerators']} × {name('accelerator', 60)}"
    page = f"{root}results/{row['submission']}.html"
    who = f'<a href="{page}">{name("organisation_name", 80)}</a><span>{name("system", 80)}{witness}</span>'
    if row["repeats"] is not None:
        who += f"<span>{REPEATS_CHIP}</span>"
    cells = (
        ("rank", "Rank", ranks), ("who", "Submitter", who),
        ("time", "Score, s", f"<b>{number('seconds')}</b>{below}"),
        ("number", "Measured, s", number("measured_seconds")), ("", "Accelerators", accelerators),
        ("number", "Energy, J", number("joules")), ("", "Reproduced", reproduced_cell(reproduced, page)),
        ("", "Published", _time(row["published_ms"])),
    )  # fmt: skip
    found = ""
    for kind, label, content in cells:
        tag = 'th scope="row" role="rowheader"' if kind == "who" else 'td role="cell"'
        said = f' class="{kind}"' if kind else ""
        found += f'<{tag}{said} data-label="{label}"><span>{content}</span></{tag[:2]}>\n'
    return Markup(f'<tr role="row">{found}</tr>')  # noqa: S704  (names are escaped above)


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
