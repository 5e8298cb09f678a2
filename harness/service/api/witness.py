"""Witnessed runs: campaigns, tickets, and the heads of logs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from harness.service import witnessing
from harness.service.api.dependencies import Organiser, Submitter, TheInstance
from harness.service.witnessing import Proposed

router = APIRouter(tags=["witness"])
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=1 << 53)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CampaignModel(_Model):
    """A campaign to open. round: None: the only one that is open."""

    benchmark: str = Field(max_length=100)
    division: str = Field(max_length=100)
    system_sha256: Digest
    code_sha256: Digest
    config_sha256: Digest
    num_runs: int = Field(ge=1, le=1000)
    round: str | None = Field(None, max_length=100)


class TicketModel(_Model):
    """What a submitter adds to a ticket. is_sealed: its run has no network, and need not begin at once."""

    client_nonce: Digest
    host_sha256: Digest
    is_sealed: bool = False


class HeadModel(_Model):
    """The head of a log: digest of its last line, that line's number, and the run's clock when it was sent."""

    number: int = Field(ge=1, le=1 << 30)
    seq: Count
    head: Digest
    elapsed_ns: Count


class EndModel(_Model):
    """How a run ended."""

    state: str = Field(max_length=20)
    log_sha256: Digest | None = None
    reason: str | None = Field(None, max_length=500)


class ReasonModel(_Model):
    """Why."""

    reason: str = Field(max_length=500)


@router.post("/campaigns", status_code=201)
def open_campaign(instance: TheInstance, actor: Submitter, body: CampaignModel) -> dict[str, Any]:
    """Open a campaign: so many runs of one system, code and configuration, each with a ticket."""
    return witnessing.open_campaign(instance, actor, Proposed(**body.model_dump()))


@router.get("/campaigns/{campaign}")
def show(instance: TheInstance, actor: Submitter, campaign: str) -> dict[str, Any]:
    """Return a campaign of your team, with its tickets."""
    return witnessing.show(instance, actor, campaign)


@router.post("/campaigns/{campaign}/tickets", status_code=201)
def issue(instance: TheInstance, actor: Submitter, campaign: str, body: TicketModel) -> dict[str, Any]:
    """Issue the next ticket; from now on it counts."""
    return witnessing.issue(instance, actor, campaign, body.client_nonce, body.host_sha256, is_sealed=body.is_sealed)


@router.post("/campaigns/{campaign}/close")
def close(instance: TheInstance, actor: Submitter, campaign: str) -> dict[str, Any]:
    """Close a campaign, and publish what its seeds were made of."""
    return witnessing.close(instance, actor, campaign)


@router.post("/tickets/{ticket}/heads")
def receive(instance: TheInstance, actor: Submitter, ticket: str, body: HeadModel) -> dict[str, Any]:
    """Receive the head of a log that is being written."""
    return witnessing.receive(instance, actor, ticket, body.number, body.seq, body.head, body.elapsed_ns)


@router.post("/tickets/{ticket}/end")
def end(instance: TheInstance, actor: Submitter, ticket: str, body: EndModel) -> dict[str, Any]:
    """End a ticket: finished, missed or aborted."""
    return witnessing.end(instance, actor, ticket, body.state, body.log_sha256, body.reason)


@router.post("/tickets/{ticket}/void")
def void(instance: TheInstance, actor: Organiser, ticket: str, body: ReasonModel) -> dict[str, Any]:
    """Have a ticket not count, as an organiser of another team."""
    return witnessing.void(instance, actor, ticket, body.reason)
