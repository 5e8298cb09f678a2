"""`tta board organisation`, `person`, `token`, `hook` and `round`: who and what there is, at the machine itself."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.base.text_table import aligned
from harness.commands._arguments import Parser
from harness.commands.board.serving import add_data, opened
from harness.errors import ExitStatus, UsageError, printable

if TYPE_CHECKING:
    from harness.service.instance import Instance

ROLES = ("auditor", "organiser")


def add_organisation(parser: Parser) -> None:
    """Add the arguments of `tta board organisation`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a new one: its folder's name, too; none: list them")
    add_data(parser)


def call_organisation(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import people

        if arguments.name is None:
            with instance.database.read() as connection:
                print("\n".join(people.organisations(connection)))
            return ExitStatus.OK
        with instance.database.write() as connection:
            people.add_organisation(connection, arguments.name, instance.now_ms())
    return ExitStatus.OK


def add_person(parser: Parser) -> None:
    """Add the arguments of `tta board person`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a person; none: list them")
    parser.add_argument("--organisation", metavar="NAME", help="a new person's, which must be there")
    parser.add_argument("--email", metavar="ADDRESS", help="a new person's")
    parser.add_argument("--subject", metavar="TEXT", help="the person's name at the proxy or identity provider")
    parser.add_argument("--roles", metavar="NAMES", help="auditor, organiser, separated by commas; '': none")
    parser.add_argument("--disable", action="store_true", help="keep the person out from now on")
    add_data(parser)


def call_person(arguments: argparse.Namespace) -> ExitStatus:
    roles = _roles(arguments.roles)
    with opened(arguments) as instance:
        from harness.service import people

        if arguments.name is None:
            print(_listed(instance))
            return ExitStatus.OK
        now_ms = instance.now_ms()
        flags = {f"is_{role}": role in (roles or ()) for role in ROLES}
        with instance.database.write() as connection:
            known = people.person_named(connection, arguments.name)
            if arguments.organisation is not None:
                organisation = people.organisation_named(connection, arguments.organisation)
                if organisation is None:
                    raise UsageError(f"there is no organisation {printable(arguments.organisation)!r}")
                people.add_person(
                    connection, arguments.name, organisation, now_ms, email=arguments.email, subject=arguments.subject,
                    **flags,
                )  # fmt: skip
            elif known is None:
                raise UsageError(f"there is no person {printable(arguments.name)!r}; a new one needs --organisation")
            elif arguments.disable:
                people.disable(connection, known, None, now_ms)
            elif roles is None and arguments.subject is None:
                raise UsageError(
                    "say what to do: --organisation for a new person, --roles, --subject or --disable for a known one"
                )
            else:
                if roles is not None:
                    people.change_roles(connection, known, None, now_ms, **flags)
                if arguments.subject is not None:
                    people.change_subject(connection, known, arguments.subject, None, now_ms)
    return ExitStatus.OK


def _roles(text: str | None) -> list[str] | None:
    if text is None:
        return None
    found = [item.strip() for item in text.split(",") if item.strip()]
    for item in found:
        if item not in ROLES:
            raise UsageError(f"--roles {printable(item)!r}: there are {' and '.join(ROLES)}; everybody may submit")
    return found


def _listed(instance: Instance) -> str:
    from harness.service import people

    with instance.database.read() as connection:
        rows = people.everybody(connection)
    lines = []
    for name, team, is_auditor, is_organiser, disabled_ms in rows:
        roles = [role for role, has in zip(ROLES, (is_auditor, is_organiser), strict=True) if has]
        lines.append((name, team, ", ".join(roles) or "submitter", "disabled" if disabled_ms else ""))
    return aligned(("name", "organisation", "roles", ""), lines, frozenset(range(4)))


def add_token(parser: Parser) -> None:
    """Add the arguments of `tta board token`."""
    parser.add_argument("person", metavar="PERSON", help="whose token it will be")
    parser.add_argument("--scopes", default="read,submit,review", metavar="NAMES", help="(default: %(default)s)")
    parser.add_argument("--days", type=float, metavar="N", help="after which it expires (default: never)")
    parser.add_argument("--label", default="made by the organiser", metavar="TEXT", help="what it is for")
    add_data(parser)


def call_token(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.days is not None and not 0 < arguments.days <= 36_500:
        raise UsageError(f"--days {arguments.days}: must be above 0 and at most 36,500")
    with opened(arguments) as instance:
        from harness.service import people

        with instance.database.write() as connection:
            person = people.person_named(connection, arguments.person)
            if person is None:
                raise UsageError(f"there is no person {printable(arguments.person)!r}")
            scopes = [item.strip() for item in arguments.scopes.split(",")]
            _, secret = people.add_token(connection, person, arguments.label, scopes, instance.now_ms(), arguments.days)
    print(secret)
    print(f"tta: the line above is {printable(arguments.person)}'s token; it is kept nowhere else", file=sys.stderr)
    return ExitStatus.OK


def add_hook(parser: Parser) -> None:
    """Add the arguments of `tta board hook`."""
    parser.add_argument("url", nargs="?", metavar="URL", help="where a new one sends to; none: list them")
    parser.add_argument("--organisation", metavar="NAME", help="whose it is (default: it sends what is public)")
    parser.add_argument("--delete", metavar="ID", help="delete the one with this id")
    add_data(parser)


def call_hook(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.delete is not None and arguments.url is not None:
        raise UsageError("name either a URL, for a new hook, or --delete ID")
    with opened(arguments) as instance:
        from harness.service import hooks, people

        if arguments.delete is not None:
            with instance.database.write() as connection:
                hooks.remove(connection, hooks.find(connection, None, arguments.delete))
            return ExitStatus.OK
        if arguments.url is None:
            with instance.database.read() as connection:
                rows = hooks.everyone(connection)
            lines = [(row.id, row.name or "(public)", row.url, row.reason or "") for row in rows]
            print(aligned(("id", "organisation", "address", ""), lines, frozenset(range(4))))
            return ExitStatus.OK
        with instance.database.write() as connection:
            organisation = None
            if arguments.organisation is not None:
                organisation = people.organisation_named(connection, arguments.organisation)
                if organisation is None:
                    raise UsageError(f"there is no organisation {printable(arguments.organisation)!r}")
            _, secret = hooks.add(connection, instance, organisation, arguments.url)
    print(secret)
    print("tta: the line above is the hook's secret, which is shown this once", file=sys.stderr)
    return ExitStatus.OK


def add_round(parser: Parser) -> None:
    """Add the arguments of `tta board round`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a new round; none: list them")
    parser.add_argument("--ruleset", default="v1", metavar="NAME", help="(default: %(default)s)")
    for option, what in (
        ("--opens", "when it opens (default: now)"),
        ("--closes", "when it takes no more results, and their review begins (default: never; reviewed as they come)"),
        ("--objections-until", "when no more objections are taken"),
        ("--publish", "when accepted results are published, all at once (default: as they are accepted)"),
    ):
        parser.add_argument(option, type=_as_time, metavar="TIME", help=f"{what}; 2026-12-31T18:00, in UTC")
    parser.add_argument("--no-review", action="store_true", help="publish what passes the check")
    add_data(parser)


def _as_time(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a time such as 2026-12-31T18:00") from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def call_round(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import rounds, schema
        from harness.service.rounds import Timetable

        if arguments.name is None:
            with instance.database.read() as connection:
                rows = connection.execute(schema.round.select().order_by(schema.round.c.opens_ms)).all()
            lines = []
            for row in rows:
                times = (row.opens_ms, row.closes_ms, row.objections_until_ms, row.publish_ms)
                lines.append((row.name, row.ruleset, *map(_time, times), "" if row.is_reviewed else "unreviewed"))
            header = ("name", "ruleset", "opens", "closes", "objections until", "publishes", "")
            print(aligned(header, lines, frozenset(range(7))))
            return ExitStatus.OK
        opens_ms = instance.now_ms() if arguments.opens is None else arguments.opens
        timetable = Timetable(opens_ms, arguments.closes, arguments.objections_until, arguments.publish)
        with instance.database.write() as connection:
            rounds.add_round(
                connection, instance, arguments.name, arguments.ruleset, timetable, None,
                is_reviewed=not arguments.no_review,
            )  # fmt: skip
    return ExitStatus.OK


def _time(at_ms: int | None) -> str:
    return "–" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
