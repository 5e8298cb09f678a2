"""A tree of submissions, such as a shared folder, brought into a service on the real way, for the teams in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from harness.errors import InputError, TtaError, UsageError, printable
from harness.service import people, schema, submitting
from harness.service.instance import Instance
from harness.service.people import SCOPES, Actor
from harness.submission.layout import BENCHMARKS, MODULE_PATTERN, RESULTS, SYSTEMS
from harness.submission.result import find_results

IMPORTER = "imported"


def import_tree(instance: Instance, tree: Path, round_name: str | None, say: Callable[[str], None]) -> tuple[int, int]:
    """Submit every result of a tree to a round, for the organisations in it, which are added where they are new.

    A result that is there already is left as it is. Return how many were received, and how many refused; why, is said.

    Raises:
        SubmissionError: the tree has no result, or cannot be read.
    """
    received = refused = 0
    for path in find_results(tree):
        place = path.relative_to(tree).as_posix()
        try:
            submission = _import_one(instance, tree, path, round_name)
        except TtaError as error:
            refused += 1
            say(f"{printable(place, 300)}: not imported: {printable(error, 1000)}")
            continue
        received += 1
        say(f"{printable(place, 300)}: {submission}")
    return received, refused


def _import_one(instance: Instance, tree: Path, path: Path, round_name: str | None) -> str:
    parts = path.relative_to(tree).parts
    if len(parts) != 4 or parts[1] != RESULTS:
        raise UsageError(f"is not at <submitter>/{RESULTS}/<system>/<benchmark>")
    organisation, _, system, benchmark = parts
    files = [item for item in sorted(path.rglob("*")) if item.is_file() and not item.is_symlink()]
    description = tree / organisation / SYSTEMS / f"{system}.json"
    files += [description] if description.is_file() else []
    for folder in sorted((tree / organisation / BENCHMARKS).glob("*")):
        if benchmark.startswith(folder.name):
            files += [item for item in sorted(folder.iterdir()) if MODULE_PATTERN.fullmatch(item.name)]
    return submitting.hand_in(instance, _actor(instance, organisation), tree, files, round_name)


def _actor(instance: Instance, organisation: str) -> Actor:
    """Return the person who stands for an organisation's imported results; nobody can sign in as this one."""
    name, now_ms = f"{IMPORTER}: {organisation}"[:100], instance.now_ms()
    with instance.database.write() as connection:
        team = people.organisation_named(connection, organisation)
        team = team or people.add_organisation(connection, organisation, now_ms)
        person = people.person_named(connection, name)
        person = person or people.add_person(connection, name, team, now_ms)
        known = connection.execute(
            select(schema.person.c.organisation).where(schema.person.c.id == person)
        ).scalar_one()
        if known != team:
            raise InputError(f"the person {name!r} is of another organisation")
    return Actor(person, name, team, organisation, scopes=frozenset(SCOPES))
