"""A service on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

import rules
from harness.service.database import Database
from harness.service.migrating import migrate
from tests import postgres
from tests.harness.service.world import World, world
from tests.rules_folder import write_ruleset


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """The PostgreSQL of this session; tests that need it are skipped where there is none."""
    if (why := postgres.missing()) is not None:
        pytest.skip(why)
    with postgres.running() as found:
        yield found


@pytest.fixture(scope="session")
def migrated(cluster: postgres.Cluster) -> str:
    """The name of a database with the tables, to copy."""
    url = cluster.database()
    database = Database(url)
    migrate(database)
    database.close()
    return str(make_url(url).database)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The address of a database without rows; None for SQLite, which is a file in the service's folder."""
    if request.param == "sqlite":
        yield None
        return
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    url = cluster.database(request.getfixturevalue("migrated"))
    yield url
    cluster.drop(url)


@pytest.fixture
def toy(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ruleset `v1` whose only benchmark is the fabricated one."""
    folder = write_ruleset(tmp_path_factory.mktemp("rules") / "v1")
    monkeypatch.setattr(rules, "__path__", [str(folder.parent), *rules.__path__])
    return folder


@pytest.fixture
def unreviewed(tmp_path: Path, toy: Path, database: str | None) -> Iterator[World]:
    """A service whose only round publishes what passes the check, on each database."""
    with world(tmp_path, database) as found:
        yield found


@pytest.fixture
def reviewed(tmp_path: Path, toy: Path, database: str | None) -> Iterator[World]:
    """A service whose only round is reviewed, on each database."""
    with world(tmp_path, database, is_reviewed=True) as found:
        yield found


@pytest.fixture
def small_reviewed(tmp_path: Path, toy: Path) -> Iterator[World]:
    """As `reviewed`, on SQLite alone."""
    with world(tmp_path, None, is_reviewed=True) as found:
        yield found


@pytest.fixture
def small(tmp_path: Path, toy: Path) -> Iterator[World]:
    """As `unreviewed`, on SQLite alone: for what does not depend on the database."""
    with world(tmp_path, None) as found:
        yield found
