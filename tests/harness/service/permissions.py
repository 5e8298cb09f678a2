"""Asks every route of a service in the name of everybody, and writes the table of who may do what.

python -m tests.harness.service.permissions        writes docs/reference/permissions.md again
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

import rules
from harness.service import checkpoints
from tests.harness.service.world import World, write_submission
from tests.harness.service.world import send as send_submission
from tests.harness.service.world import world as opened
from tests.rules_folder import write_ruleset

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "permissions.md"
# A person of the team; one of another team in the round; one of a team that is not; an auditor; an organiser.
ROLES = ("nobody", "alice", "bob", "dora", "carol", "olga")
TITLES = ("nobody", "its team", "another team in the round", "a team that is not", "an auditor", "an organiser")
STATES = ("draft", "received", "under_review", "published")
_DIGEST, _NEVER = "a" * 64, "0" * 32
_TEXT = {"text": "a text"}
_REASON = {"reason": "a reason"}
_IDENTITY = {"system_sha256": _DIGEST, "code_sha256": _DIGEST, "config_sha256": _DIGEST}
# What is sent; a route that takes something and is not here is asked with what it refuses, which the test finds.
BODIES: dict[str, Any] = {
    "POST /tokens": {"label": "one", "scopes": ["read"]},
    "POST /submissions/{submission}/objections": {"rule": "LOG001", "text": "a text"},
    "POST /submissions/{submission}/comments": _TEXT,
    "POST /submissions/{submission}/dispute": _REASON,
    "POST /submissions/{submission}/actions/{action}": _REASON,
    "POST /objections/{objection}/decision": {"decision": "dismissed", "reason": "a reason"},
    "POST /hooks": {"url": "https://hooks.example.com/"},
    "POST /rounds": {"name": "another", "opens_ms": 200_000_000_000_000},
    "POST /campaigns": {"benchmark": "toy_mini", "division": "closed", "num_runs": 5, **_IDENTITY},
    "POST /campaigns/{campaign}/tickets": {"client_nonce": _DIGEST, "host_sha256": _DIGEST},
    "POST /tickets/{ticket}/heads": {"number": 1, "seq": 1, "head": _DIGEST, "elapsed_ns": 1},
    "POST /tickets/{ticket}/end": {"state": "aborted"},
    "POST /tickets/{ticket}/void": _REASON,
}
QUERIES = {
    "/search": "?q=a", "/log/proof/inclusion": "?leaf=0&size=1", "/log/proof/consistency": "?from=1&to=1",
}  # fmt: skip


def routes(world: World) -> Iterator[tuple[str, str]]:
    """Method and path, without the prefix, of every route of the interface."""
    document = world.client.get("/api/v1/openapi.json").json()
    for path, operations in document["paths"].items():
        for method in operations:
            if not path.startswith("/api/v1/uploads"):  # an upload is its person's; its tests ask others, too
                yield method.upper(), path.removeprefix("/api/v1")


def submission_in(world: World, state: str) -> str:
    """A new submission of alice's in a state."""
    found = world.submit(world.alice, finalise=state != "draft")
    if state in ("under_review", "published"):
        world.work()
    if state == "published":
        answer = world.olga.post(f"/submissions/{found}/actions/accept", json=_REASON)
        assert answer.status_code == 200, answer.text
        world.work()
    assert world.state(found) == state
    return found


class Asking:
    """A world whose things can be asked for by every role."""

    def __init__(self, world: World) -> None:
        self.world = world
        object.__setattr__(world.instance.settings.hooks, "hosts", ["hooks.example.com"])
        object.__setattr__(world.instance.settings.limits, "max_hooks", 1000)
        world.join("dora", "delta")
        world.submit(world.bob)  # takes part in the round
        world.work()
        self.number = 0
        self.digest = world.instance.ruleset("v1").digest
        self.size = str(checkpoints.newest(world.instance).checkpoint.size)

    def status(self, method: str, path: str, role: str, state: str) -> int:
        """The status of an answer, about new things where the request may change them."""
        world, named = self.world, path
        if "{submission}" in path:
            named = named.replace("{submission}", submission_in(world, state))
        if "{campaign}" in path or "{ticket}" in path:
            self.number += 1
            asked = {**BODIES["POST /campaigns"], "config_sha256": f"{self.number:064x}"}
            campaign = world.alice.post("/campaigns", json=asked).json()["id"]
            sent = {**BODIES["POST /campaigns/{campaign}/tickets"], "client_nonce": "b" * 64}
            ticket = world.alice.post(f"/campaigns/{campaign}/tickets", json=sent).json()["id"]
            named = named.replace("{campaign}", campaign).replace("{ticket}", ticket)
        if "{hook}" in path:
            made = world.alice.post("/hooks", json=BODIES["POST /hooks"]).json()["id"]
            named = named.replace("{hook}", made)
        if "{objection}" in path:
            about = submission_in(world, "under_review")
            sent = BODIES["POST /submissions/{submission}/objections"]
            objection = world.bob.post(f"/submissions/{about}/objections", json=sent).json()["id"]
            named = named.replace("{objection}", objection)
        if "{path}" in path:
            [*_, file] = world.alice.get(named.replace("/{path}", "")).json()["files"]
            named = named.replace("{path}", file["path"])
        others = {"benchmark": "toy_mini", "token": _NEVER, "size": self.size, "place": "0/000.p/1", "action": "accept",
                  "digest": self.digest}  # fmt: skip
        for name, value in others.items():
            named = named.replace(f"{{{name}}}", value)
        client = world.client if role == "nobody" else world.members[role].client
        body = BODIES.get(f"{method} {path}")
        if (method, path) == ("POST", "/rounds"):
            self.number += 1
            body = {**body, "name": f"round{self.number}"}
        if (method, path) == ("POST", "/submissions"):
            return self.announced(role)
        if (method, path) == ("POST", "/submissions/{submission}/files"):
            return client.post(f"/api/v1{named}", content=b"[]\n").status_code
        address = f"/api/v1{named}{QUERIES.get(path, '')}"
        return client.request(method, address, **({} if body is None else {"json": body})).status_code

    def announced(self, role: str) -> int:
        """The status of the announcement of a submission of alice's team."""
        write_submission(self.world.alice)
        if role == "alice":
            send_submission(self.world.alice, self.world.alice.tree, finalise=False)
            return 201
        from tests.harness.service.world import listing

        client: httpx2.Client = self.world.client if role == "nobody" else self.world.members[role].client
        return client.post("/api/v1/submissions", json={"files": listing(self.world.alice.tree)}).status_code


def cell(status: int) -> str:
    """What the table says of an answer."""
    if status < 300:
        return "yes"
    return {401: "no", 403: "no", 404: "no", 409: "not now", 422: "not so", 412: "not so"}.get(status, str(status))


def table(world: World) -> Iterator[str]:
    """The lines of the table."""
    asking = Asking(world)
    yield "| route | state | " + " | ".join(TITLES) + " |"
    yield "|---|---|" + "---|" * len(TITLES)
    for method, path in routes(world):
        for state in STATES if "{submission}" in path else ("",):
            cells = [cell(asking.status(method, path, role, state)) for role in ROLES]
            yield f"| `{method} {path}` | {state.replace('_', ' ')} | {' | '.join(cells)} |"


def page(world: World) -> str:
    """The page."""
    return HEAD + "\n".join(table(world)) + "\n"


HEAD = """# Who may do what

Every route of the service's interface (`/api/v1`), asked in the name of everybody about a submission in each of four
states: made by `python -m tests.harness.service.permissions`, and compared by a test. The submissions, campaigns,
tickets and hooks are one team's; the objections another's.

*yes*: it is done or shown. *no*: refused (401 or 403), or it is hidden from the caller (404). *not now*: permitted,
and not possible in this state (409). *not so*: what was asked does not fit (422).

"""


def main() -> int:
    """Write the page again."""
    with tempfile.TemporaryDirectory() as name:
        rules.__path__.insert(0, str(write_ruleset(Path(name) / "rules" / "v1").parent))
        with opened(Path(name), None, is_reviewed=True) as found:
            PAGE.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
