"""A team whose runs are witnessed by a service in the same process, with clocks that are moved by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from harness.log import keys, run_log
from harness.log.ticket import Ticket, config_digest
from harness.submission.layout import receipts_name
from harness.submission.receipts import parse_receipts
from harness.witness.campaign import Campaign, Identity
from harness.witness.following import Followed
from tests import fabricate
from tests.fabricate import MONO_NS, Step
from tests.harness.service.world import START_MS, World
from tests.harness.witness.clients import InProcess
from tests.rules.box import configure, put, recount


class Setting:
    """A team with a result that is about to be made. campaign: open at the service."""

    def __init__(self, world: World) -> None:
        self.world, self.client = world, InProcess(world.alice)
        self.said: list[str] = []
        self.system = {**fabricate.SYSTEM, "submitter": "acme", "system_name": "witnessed1"}
        shutil.rmtree(world.alice.tree, ignore_errors=True)
        self.place = fabricate.write_submission(world.alice.tree, system=self.system)
        log = run_log.read(self.place / "result_0.txt")
        self.identity = Identity(
            "toy_mini", "closed", str(log.field(keys.TTA_SYSTEM, "digest")), str(log.field(keys.TTA_CODE, "digest")),
            config_digest(log.value(keys.TTA_CONFIG)), 5,
        )  # fmt: skip
        self.now_ns = 0
        self.campaign = Campaign(self.client, self.identity, self.place)

    def write(self, index: int, ticket: Ticket, change: Callable[[list[Step]], None] | None = None) -> list[str]:
        """The lines of a run with a ticket, of which none is written yet."""
        curve = (0.5 + 0.003 * index, 0.8 + 0.002 * index, 0.95 + 0.001 * index)
        steps = fabricate.events(
            index, qualities=curve, block_s=2.0 + 0.01 * index, system=self.system, mono_ns=MONO_NS
        )
        configure(steps, seed=ticket.seed)
        put(steps, Step(0.0, keys.TTA_TICKET, ticket.record()), keys.TTA_RULES)
        recount(steps)
        if change is not None:
            change(steps)
        text = fabricate.text_of(steps, fabricate.WALL_START_MS + 60_000 * index)
        (self.place / f"result_{index}.txt").unlink(missing_ok=True)
        return text.splitlines(keepends=True)

    def follow(self, index: int) -> Followed:
        return Followed(self.place / f"result_{index}.txt", self.client, self.said.append, lambda: self.now_ns)

    def stream(self, index: int, lines: list[str], followed: Followed) -> None:
        """Write line after line, at its time; after each the process looks."""
        path = self.place / f"result_{index}.txt"
        for line in lines:
            with path.open("a") as stream:
                stream.write(line)
            elapsed_ns = int(line.partition('"elapsed_ns": ')[2].partition(",")[0])
            self.at(index, elapsed_ns + 1_000_000)
            followed.read()
            followed.send()

    def at(self, index: int, elapsed_ns: int) -> None:
        """Let it be that time of a run, here and at the service."""
        self.now_ns = MONO_NS + elapsed_ns
        self.world.time.now_ms = START_MS + 60_000 * index + 2_000 + elapsed_ns // 1_000_000

    def run(self, index: int, change: Callable[[list[Step]], None] | None = None) -> Followed:
        """A whole run, streamed."""
        self.at(index, 0)
        ticket = self.campaign.draw(index)
        followed = self.follow(index)
        self.stream(index, self.write(index, ticket, change), followed)
        return followed

    def heads(self, index: int) -> int:
        path = self.place / receipts_name(f"result_{index}")
        return len(parse_receipts(path.read_bytes(), "file").heads)
