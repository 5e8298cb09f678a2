"""Brings a database to this code's version, and refuses to work with one of another version."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import SQLAlchemyError

from harness.errors import InputError, OutputError, UsageError
from harness.service.database import Database, reason

_PLACE = Path(__file__).parent / "migrations"


def newest() -> str:
    """Return the version of the schema that this code has."""
    head = ScriptDirectory(str(_PLACE)).get_current_head()
    assert head is not None, "there is no migration"
    return head


def version(database: Database) -> str | None:
    """Return the version of a database; None of one without tables.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with database.read() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except SQLAlchemyError as error:
        raise InputError(f"{database.place}: cannot be read: {reason(error)}") from None


def migrate(database: Database) -> tuple[str | None, str]:
    """Bring a database to the newest version, one process at a time; return the versions before and after.

    Raises:
        UsageError: it is of a later version than this code. OutputError: the database refuses.
    """
    database.ping()
    config = Config()
    config.set_main_option("script_location", str(_PLACE).replace("%", "%%"))
    with database.locked():
        before = version(database)
        if before is not None and before not in _known():
            raise UsageError(_later(database, before))
        try:
            with database.write() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except SQLAlchemyError as error:
            raise OutputError(f"{database.place}: cannot be migrated: {reason(error)}") from None
    return before, newest()


def require_newest(database: Database) -> None:
    """Raises:
    UsageError: the database is of another version than this code.
    """
    database.ping()
    found, wanted = version(database), newest()
    if found == wanted:
        return
    if found is not None and found not in _known():
        raise UsageError(_later(database, found))
    older = "has no tables" if found is None else f"is of version {found}, this `tta` needs {wanted}"
    raise UsageError(f"{database.place}: the database {older}; run `tta board migrate`")


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory(str(_PLACE)).walk_revisions()}


def _later(database: Database, found: str) -> str:
    return f"{database.place}: the database is of version {found}, which this `tta` does not know; install a later one"
