"""The states of a submission and what leads from one to another. Pure: a table, and questions to it.

`checking` is no state: it is a job that a worker has (`harness.service.jobs`). That a result was superseded is a field
of its own, as it may be published, disputed or retracted all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a submission is on its way."""

    DRAFT = "draft"  # announced; files are missing
    RECEIVED = "received"  # whole; waits for a worker
    CHECK_FAILED = "check_failed"  # the check itself failed, which says nothing about the result
    INVALID = "invalid"
    CHECKED = "checked"  # valid; waits for the review
    UNDER_REVIEW = "under_review"
    OBJECTED = "objected"  # an objection is open
    ACCEPTED = "accepted"  # waits for the day of publication
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    PUBLISHED = "published"
    DISPUTED = "disputed"
    MOVED_TO_OPEN = "moved_to_open"  # published, in the open division
    RETRACTED = "retracted"


WORDS: Mapping[State, str] = {
    State.DRAFT: "announced, some files missing",
    State.RECEIVED: "received, waiting to be checked",
    State.CHECK_FAILED: "could not be checked",
    State.INVALID: "not valid",
    State.CHECKED: "valid, waiting for review",
    State.UNDER_REVIEW: "under review",
    State.OBJECTED: "objected to",
    State.ACCEPTED: "accepted, not yet published",
    State.REJECTED: "rejected",
    State.WITHDRAWN: "withdrawn",
    State.PUBLISHED: "published",
    State.DISPUTED: "published, disputed",
    State.MOVED_TO_OPEN: "published, moved to the open division",
    State.RETRACTED: "retracted after publication",
}
PUBLIC = (State.PUBLISHED, State.DISPUTED, State.MOVED_TO_OPEN, State.RETRACTED)  # everybody sees it
RANKED = (State.PUBLISHED, State.MOVED_TO_OPEN)
# Everybody who takes part in the round sees it.
IN_REVIEW = (State.UNDER_REVIEW, State.OBJECTED, State.ACCEPTED, State.REJECTED)
# Who has a submission in one of these takes part in its round: one that was found valid, and not withdrawn.
TAKES_PART = (State.CHECKED, *IN_REVIEW, *PUBLIC)
# A better result of the team may take its place: what is on its way to a table, or in one.
IMPROVABLE = (
    State.CHECKED, State.UNDER_REVIEW, State.OBJECTED, State.ACCEPTED, State.PUBLISHED, State.MOVED_TO_OPEN,
)  # fmt: skip
OPEN_TO_ITS_TEAM = (State.DRAFT, State.RECEIVED, State.CHECK_FAILED, State.INVALID, State.CHECKED)
_BEFORE_PUBLICATION = (
    State.DRAFT, State.RECEIVED, State.CHECK_FAILED, State.INVALID, State.CHECKED, State.UNDER_REVIEW, State.OBJECTED,
    State.ACCEPTED,
)  # fmt: skip


class Role(StrEnum):
    """Who does something, with respect to one submission. A person may be several of these at once."""

    SERVICE = "service"  # a worker, or the clock
    OWNER = "owner"  # of the submission's organisation
    ENTRANT = "entrant"  # of another organisation that has a valid submission in the round
    AUDITOR = "auditor"  # of another organisation
    ORGANISER = "organiser"  # of another organisation
    SIGNED_IN = "signed in"  # anybody who is known, of another organisation


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of state. roles: who may make it. num_people: how many must want it. needs_reason: in words."""

    action: str
    sources: tuple[State, ...]
    target: State
    roles: tuple[Role, ...]
    num_people: int = 1
    needs_reason: bool = False


TRANSITIONS: Mapping[str, Transition] = {
    item.action: item
    for item in (
        Transition("finalise", (State.DRAFT,), State.RECEIVED, (Role.OWNER,)),
        Transition("renew", (State.WITHDRAWN,), State.DRAFT, (Role.OWNER,)),  # announced again, with the same files
        Transition(
            "find_valid", (State.RECEIVED, State.CHECK_FAILED, State.INVALID), State.CHECKED, (Role.SERVICE,)
        ),
        Transition(
            "find_invalid", (State.RECEIVED, State.CHECK_FAILED, State.CHECKED), State.INVALID, (Role.SERVICE,)
        ),
        Transition("fail_check", (State.RECEIVED,), State.CHECK_FAILED, (Role.SERVICE,)),
        Transition("check_again", (State.CHECK_FAILED,), State.RECEIVED, (Role.ORGANISER, Role.OWNER)),
        Transition("withdraw", _BEFORE_PUBLICATION, State.WITHDRAWN, (Role.OWNER,)),
        Transition("expire", (State.DRAFT,), State.WITHDRAWN, (Role.SERVICE,)),
        Transition("open_review", (State.CHECKED,), State.UNDER_REVIEW, (Role.SERVICE, Role.ORGANISER)),
        Transition(
            "object", (State.UNDER_REVIEW, State.OBJECTED), State.OBJECTED, (Role.AUDITOR, Role.ENTRANT),
            needs_reason=True,
        ),
        Transition("answer_all", (State.OBJECTED,), State.UNDER_REVIEW, (Role.SERVICE,)),
        Transition("accept", (State.UNDER_REVIEW,), State.ACCEPTED, (Role.ORGANISER,), needs_reason=True),
        Transition(
            "reject", (State.UNDER_REVIEW, State.OBJECTED), State.REJECTED, (Role.ORGANISER,), num_people=2,
            needs_reason=True,
        ),
        # An unreviewed round publishes what is valid; a reviewed one what was accepted, on its day.
        Transition("publish", (State.ACCEPTED, State.CHECKED), State.PUBLISHED, (Role.SERVICE,)),
        Transition(
            "dispute", (State.PUBLISHED, State.MOVED_TO_OPEN), State.DISPUTED,
            (Role.SIGNED_IN, Role.ENTRANT, Role.AUDITOR, Role.ORGANISER), needs_reason=True,
        ),
        Transition("uphold", (State.DISPUTED,), State.PUBLISHED, (Role.ORGANISER,), num_people=2, needs_reason=True),
        Transition(
            "move_to_open", (State.DISPUTED,), State.MOVED_TO_OPEN, (Role.ORGANISER,), num_people=2, needs_reason=True
        ),
        Transition("retract", (State.DISPUTED,), State.RETRACTED, (Role.ORGANISER,), num_people=2, needs_reason=True),
    )
}  # fmt: skip


def refusal(action: str, state: State, roles: frozenset[Role]) -> str | None:
    """Return why somebody with these roles may not do this to a submission in this state; None if they may."""
    transition = TRANSITIONS[action]
    if not roles.intersection(transition.roles):
        named = " or ".join(str(role) for role in transition.roles if role is not Role.SERVICE) or "the service"
        return f"{action.replace('_', ' ')}: only {named} may do this"
    if state not in transition.sources:
        named = ", ".join(WORDS[source] for source in transition.sources)
        return f"{action.replace('_', ' ')}: the submission is {WORDS[state]}; it must be: {named}"
    return None


def actions(state: State, roles: frozenset[Role]) -> list[str]:
    """Return what somebody with these roles may do to a submission in this state."""
    return [action for action in TRANSITIONS if refusal(action, state, roles) is None]
