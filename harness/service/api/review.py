"""Review: objections and their decisions, acceptance, rejection, disputes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from harness.service import review
from harness.service.api.dependencies import Submitter, TheInstance, with_scope
from harness.service.people import Actor
from harness.service.review import Objection

router = APIRouter(tags=["review"])
# Everybody who is known may object and dispute; a token for submitting is enough.
Known = Submitter
Reviewer = Annotated[Actor, Depends(with_scope("review"))]
Action = Literal["open_review", "accept", "reject", "uphold", "move_to_open", "retract"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ReasonModel(_Strict):
    """Why, in words."""

    reason: str = Field("", max_length=100_000)


class ObjectionModel(_Strict):
    """What is objected to: the rule, the file and the line, and why."""

    rule: str = Field(max_length=200)
    text: str = Field(max_length=100_000)
    path: str | None = Field(None, max_length=500)
    line: int | None = Field(None, ge=1, le=1 << 31)


class DecisionModel(_Strict):
    """upheld or dismissed, and why."""

    decision: Literal["upheld", "dismissed"]
    reason: str = Field(max_length=100_000)


class CommentModel(_Strict):
    """A comment; objection: the one that it answers."""

    text: str = Field(max_length=100_000)
    objection: str | None = Field(None, max_length=32)


@router.post("/submissions/{submission}/objections", status_code=201)
def object_to(instance: TheInstance, actor: Known, submission: str, body: ObjectionModel) -> dict[str, Any]:
    """Object to a submission under review, of another organisation."""
    what = Objection(body.rule, body.text, body.path, body.line)
    return {"id": review.object_to(instance, actor, submission, what)}


@router.post("/objections/{objection}/decision", status_code=204)
def decide(instance: TheInstance, actor: Reviewer, objection: str, body: DecisionModel) -> None:
    """Decide about an objection, as an organiser of another organisation."""
    review.decide(instance, actor, objection, body.decision, body.reason)


@router.post("/objections/{objection}/withdraw", status_code=204)
def withdraw(instance: TheInstance, actor: Known, objection: str) -> None:
    """Withdraw an own objection."""
    review.withdraw_objection(instance, actor, objection)


@router.post("/submissions/{submission}/comments", status_code=201)
def comment(instance: TheInstance, actor: Known, submission: str, body: CommentModel) -> dict[str, Any]:
    """Add a comment for the team and the reviewers of a submission."""
    return {"id": review.comment(instance, actor, submission, body.text, body.objection)}


@router.post("/submissions/{submission}/dispute")
def dispute(instance: TheInstance, actor: Known, submission: str, body: ReasonModel) -> dict[str, Any]:
    """Dispute a published result of another organisation; two organisers settle it."""
    return {"state": review.act(instance, actor, submission, "dispute", body.reason)}


@router.post("/submissions/{submission}/check_again")
def check_again(instance: TheInstance, actor: Known, submission: str) -> dict[str, Any]:
    """Have a submission checked again whose check failed."""
    return {"state": review.act(instance, actor, submission, "check_again")}


@router.post("/submissions/{submission}/actions/{action}")
def act(
    instance: TheInstance, actor: Reviewer, submission: str, action: Action, body: ReasonModel, response: Response
) -> dict[str, Any]:
    """Open a review, accept, reject, or settle a dispute. 202: proposed; another organiser has to want the same."""
    state = review.act(instance, actor, submission, action, body.reason)
    response.status_code = 202 if state is None else 200
    return {"state": state}
