"""Versions of the schema: an older database is brought forward with what is in it, and once, whoever asks at once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, select, text

from harness.base.processes import python_environment
from harness.cli import main
from harness.errors import OutputError, UsageError
from harness.service import migrating, reindexing, schema, verifying
from harness.service.database import Database, sqlite_url
from harness.service.editions import Kept
from harness.service.instance import DATABASE_VARIABLE
from tests import postgres
from tests.harness.service.test_pages import published
from tests.harness.service.test_repetitions import column, settle, submit
from tests.harness.service.world import World

LATER = '''"""A later version: a table, and a column of an old one, which is filled."""
from alembic import op
from sqlalchemy import Column, String, text

revision = "later"
down_revision = {before!r}


def upgrade():
    op.create_table("later", Column("id", String(32), primary_key=True))
    with op.batch_alter_table("organisation") as table:
        table.add_column(Column("key", String(100), nullable=True))
    op.execute(text("UPDATE organisation SET key = name_key"))
{more}'''


def later(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> None:
    """Have this code know one version more."""
    before, target = migrating.newest(), folder / "migrations"
    shutil.copytree(migrating._PLACE, target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "versions" / "later.py").write_text(LATER.format(before=before, more=more))
    monkeypatch.setattr(migrating, "_PLACE", target)


def where(world: World) -> list[str]:
    address = world.instance.database.url.render_as_string(hide_password=False)
    return ["--data", str(world.instance.folder), "--database", address]


def test_a_database_with_data_is_brought_forward(
    unreviewed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until then no process works with it, and what answers says that it is not ready; afterwards all is there."""
    world = unreviewed
    submission, before = published(world), migrating.newest()
    later(tmp_path, monkeypatch)

    for process in ("web", "worker", "deliver"):
        assert main(["board", process, *where(world), *(["--port", "0"] if process == "web" else [])]) == 2
        assert "this `tta` needs later; run `tta board migrate`" in capsys.readouterr().err
    assert world.client.get("/readyz").status_code == 503
    assert world.client.get("/healthz").status_code == 200
    assert main(["board", "migrate", *where(world)]) == 0
    assert f"the database is of version later; before: {before}" in capsys.readouterr().out
    assert main(["board", "migrate", *where(world)]) == 0

    assert world.client.get("/readyz").status_code == 200
    assert world.alice.get(f"/submissions/{submission}").json()["state"] == "published"
    with world.instance.database.read() as connection:
        keys = connection.execute(text("SELECT key, name_key FROM organisation")).all()
    assert keys
    assert all(key == name_key for key, name_key in keys)
    assert list(verifying.faults(world.instance)) == []
    monkeypatch.undo()
    with pytest.raises(UsageError, match="version later, which this `tta` does not know"):
        migrating.require_newest(world.instance.database)


BACK_TO_0001 = (
    "DROP TABLE repetition", "DROP INDEX ix_board_row_digest", "DROP INDEX ix_board_row_repeats",
    "ALTER TABLE board_row DROP COLUMN digest", "ALTER TABLE board_row DROP COLUMN repeats",
    "DROP TABLE repeatable", "UPDATE alembic_version SET version_num = '0001'",
)  # fmt: skip


@pytest.mark.parametrize("is_checked", [True, False], ids=["checked again", "made again"])
def test_rows_of_version_0001_are_compared_when_they_are_made_again(unreviewed: World, is_checked: bool) -> None:
    """By workers, or by `reindex`. Until then no result repeats another, and everything else is as it was."""
    world = unreviewed
    first, digest = submit(world, world.alice)
    again, _ = submit(world, world.bob, digest)
    settle(world)
    with world.instance.database.write() as connection:
        for statement in BACK_TO_0001:
            connection.execute(text(statement))
    assert world.client.get("/readyz").status_code == 503

    assert migrating.migrate(world.instance.database) == ("0001", migrating.newest())

    with world.instance.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    world.instance.kept = Kept()  # of a process that has just been started
    assert column(world) == {first: "–", again: "–"}
    if is_checked:
        assert reindexing.judge_again(world.instance) == 2
        settle(world)
    else:
        found = list(reindexing.differences(world.instance, is_mended=True))
        assert sum(item.endswith("digest is not what the logs make of it") for item in found) == 2
    assert reindexing.judge_again(world.instance) == 0
    assert column(world) == {first: "by 1", again: "–"}
    assert list(verifying.faults(world.instance)) == []


def test_a_migration_that_fails_changes_nothing(
    unreviewed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did before is undone, and the database is of its old version."""
    database, before = unreviewed.instance.database, migrating.newest()
    later(tmp_path, monkeypatch, '    op.execute(text("UPDATE nothing SET a = 1"))\n')

    with pytest.raises(OutputError, match=r"cannot be migrated: .*nothing"):
        migrating.migrate(database)

    assert migrating.version(database) == before
    found = inspect(database.engine)
    assert "later" not in found.get_table_names()
    assert "key" not in {column["name"] for column in found.get_columns("organisation")}
    with database.read() as connection:
        assert connection.execute(select(schema.organisation.c.name)).all()


def test_the_migrations_make_the_tables_that_the_code_has(unreviewed: World) -> None:
    """Nothing is missing and nothing is left over, in either database."""
    with unreviewed.instance.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


def test_one_process_migrates_at_a_time(cluster: postgres.Cluster) -> None:
    """In PostgreSQL another one waits at a lock, and then finds nothing to do."""
    url = cluster.database()
    first, second = Database(url), Database(url)
    found: list[tuple[str | None, str]] = []
    thread = threading.Thread(target=lambda: found.append(migrating.migrate(second)))
    with first.locked():
        thread.start()
        waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        with first.read() as connection:
            while connection.execute(waiting).scalar_one() == 0:
                assert thread.is_alive()
        assert migrating.version(first) is None
    thread.join()

    assert found == [(None, migrating.newest())]
    assert migrating.migrate(first) == (migrating.newest(), migrating.newest())
    for database in (first, second):
        database.close()
    cluster.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def untouched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without tables."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "board.sqlite")
        return
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    url = cluster.database()
    yield url
    cluster.drop(url)


@pytest.mark.slow
def test_processes_that_migrate_at_once_all_succeed(tmp_path: Path, untouched: str) -> None:
    """Four, from nothing; the tables are made once."""
    assert main(["board", "init", str(tmp_path / "data"), "--organisation", "a", "--organiser", "b"]) == 0
    command = [sys.executable, "-m", "harness.cli", "board", "migrate", "--data", str(tmp_path / "data")]
    environment = {**python_environment(), DATABASE_VARIABLE: untouched}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ended = [(process.communicate(timeout=120), process.returncode) for process in processes]

    assert [status for _, status in ended] == [0] * 4, ended
    database = Database(untouched)
    migrating.require_newest(database)
    with database.read() as connection:
        assert connection.execute(select(schema.log_head)).all() == [(0, 0, "0" * 64)]
    database.close()
