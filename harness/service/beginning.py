"""A new service: its folder, its database, and the first people in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.service import people, rounds
from harness.service.instance import Instance, create_folder, wall_ms
from harness.service.migrating import migrate
from harness.service.rounds import Timetable


@dataclass(frozen=True, slots=True)
class First:
    """What a new service begins with. origin: the name of its log. organiser: a person of the organisation."""

    origin: str
    url: str
    organisation: str
    organiser: str
    round: str = "rolling"
    ruleset: str = "v1"
    is_reviewed: bool = True


def begin(folder: Path, first: First, database: str | None = None, now_ms: Callable[[], int] = wall_ms) -> str:
    """Make a service; return the organiser's token.

    Raises:
        OutputError: there is one already, or it cannot be written. TtaError: a name or an address is not permitted.
    """
    create_folder(folder, first.origin, first.url, database or "")
    instance = Instance(folder, now_ms)
    try:
        migrate(instance.database)
        at_ms = instance.now_ms()
        with instance.database.write() as connection:
            organisation = people.add_organisation(connection, first.organisation, at_ms)
            person = people.add_person(
                connection, first.organiser, organisation, at_ms, is_auditor=True, is_organiser=True
            )
            _, token = people.add_token(connection, person, "the first", people.SCOPES, at_ms)
            timetable = Timetable(opens_ms=at_ms)
            rounds.add_round(
                connection, instance, first.round, first.ruleset, timetable, None, is_reviewed=first.is_reviewed
            )
        return token
    finally:
        instance.close()
