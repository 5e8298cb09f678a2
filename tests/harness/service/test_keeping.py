"""Keeping a service: backups that come back whole, a verification that finds what was altered, trees that move in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import main
from harness.service import checkpoints, keeping, verifying
from harness.service.instance import Instance, wall_ms
from harness.service.migrating import migrate, newest, require_newest
from harness.transparency.checkpoint import Checkpoint, SignedCheckpoint
from tests import postgres
from tests.harness.service.world import World, write_submission


def filled(world: World) -> str:
    submission = world.submit(world.alice)
    world.submit(world.bob, num_runs=2)
    world.work()
    world.time.advance(1)
    world.work()
    return submission


@pytest.fixture
def empty(database: str | None, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Another empty database of the same kind."""
    if database is None:
        yield None
        return
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    url = cluster.database()
    yield url
    cluster.drop(url)


def test_a_backup_comes_back_as_it_was(unreviewed: World, tmp_path: Path, empty: str | None) -> None:
    """With every file, event and row; under the same name while nobody has seen more."""
    world = unreviewed
    filled(world)
    before = world.client.get("/api/v1/boards/toy_mini").json()

    keeping.back_up(world.instance, tmp_path / "backup")
    found = keeping.restore(tmp_path / "backup", tmp_path / "restored", empty, tmp_path / "backup" / "checkpoint")

    assert found == []
    from fastapi.testclient import TestClient

    from harness.service.web import application

    restored = Instance(tmp_path / "restored", database=empty)
    assert TestClient(application(restored)).get("/api/v1/boards/toy_mini").json() == before
    restored.close()
    for path in (tmp_path / "backup", tmp_path / "restored"):
        assert path.stat().st_mode & 0o077 == 0


def test_an_older_backup_does_not_go_on_under_its_name(small: World, tmp_path: Path) -> None:
    """Once somebody has seen a checkpoint of more events."""
    filled(small)
    keeping.back_up(small.instance, tmp_path / "backup")
    seen = SignedCheckpoint(Checkpoint("board.test/log", 10_000, b"x" * 32), ())
    (tmp_path / "seen").write_text(seen.note)

    with pytest.raises(keeping.InputError, match="would show two histories"):
        keeping.restore(tmp_path / "backup", tmp_path / "restored", None, tmp_path / "seen")

    assert not (tmp_path / "restored").exists()


def test_nothing_is_overwritten(small: World, tmp_path: Path) -> None:
    """Neither by a backup nor by what is made of one; another folder is no backup."""
    filled(small)
    keeping.back_up(small.instance, tmp_path / "backup")

    with pytest.raises(keeping.OutputError, match="exists already"):
        keeping.back_up(small.instance, tmp_path / "backup")
    with pytest.raises(keeping.OutputError, match="exists already"):
        keeping.restore(tmp_path / "backup", small.instance.folder, None, None)
    with pytest.raises(keeping.UsageError, match="is not a backup"):
        keeping.restore(small.instance.folder, tmp_path / "other", None, None)


def test_files_states_and_rows_that_were_altered_are_found(small: World) -> None:
    """A byte of a file, a missing file, a state without its event."""
    submission = filled(small)
    assert list(verifying.faults(small.instance)) == []
    blob = next(small.instance.blobs.folder.glob("??/*"))
    data = blob.read_bytes()

    blob.chmod(0o600)
    blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert any("have the digest" in fault for fault in verifying.faults(small.instance))
    blob.unlink()
    assert any("is missing" in fault for fault in verifying.faults(small.instance))
    blob.write_bytes(data)
    with small.instance.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE submission SET state = 'retracted' WHERE id = '{submission}'")
    assert any("its events say published" in fault for fault in verifying.faults(small.instance))


def test_a_tree_moves_in_once(small: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its results are received for their organisations; a second time they are there already; others are named."""
    tree = write_submission(small.alice)
    (tree / "odd").mkdir()
    (tree / "odd" / "result_0.txt").write_text("no log")
    data = ["--data", str(small.instance.folder)]

    first = main(["board", "import", str(tree), *data])
    out = capsys.readouterr()
    second = main(["board", "import", str(tree), *data])

    assert (first, second) == (1, 1)
    assert "odd: not imported" in out.out
    assert "1 received, 1 refused" in out.err
    small.time.now_ms = wall_ms()  # the command has the time of the machine
    small.work()
    small.time.advance(1)
    small.work()
    assert small.client.get("/api/v1/boards").json()["tables"][0]["results"] == 1


def test_people_and_rounds_at_the_command_line(small: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Added, changed, listed and kept out; what is wrong is one sentence."""
    data = ["--data", str(small.instance.folder)]

    def status(*words: str) -> int:
        return main(["board", *words, *data])

    assert status("organisation", "newco") == 0
    assert status("organisation", "NewCo") == 2
    assert "differs from it only in case" in capsys.readouterr().err
    assert status("person", "nina", "--organisation", "newco", "--roles", "auditor") == 0
    assert status("person", "nina", "--roles", "organiser") == 0
    assert status("person", "nina", "--roles", "king") == 2
    assert status("person", "nobody", "--roles", "") == 2
    assert status("person", "nina") == 2
    assert status("person", "x", "--organisation", "none") == 2
    assert status("token", "nobody") == 2
    assert status("token", "nina", "--days", "0") == 2
    capsys.readouterr()
    assert status("token", "nina", "--scopes", "read", "--days", "1") == 0
    token = capsys.readouterr().out.strip()
    me = small.client.get("/api/v1/me", headers={"authorization": f"Bearer {token}"})
    assert me.json()["scopes"] == ["read"]
    assert status("round", "r2", "--opens", "2026-01-01", "--closes", "2026-02-01T12:00") == 0
    assert status("round", "r3", "--opens", "2026-01-02", "--closes", "2026-01-01") == 2
    assert status("round", "r4", "--opens", "soon") == 2
    capsys.readouterr()
    assert (status("person"), status("round"), status("organisation")) == (0, 0, 0)
    out = capsys.readouterr().out
    assert "organiser" in out
    assert "2026-02-01 12:00" in out
    assert status("person", "nina", "--disable") == 0
    assert status("verify") == 0


def test_another_version_of_the_schema_is_refused(unreviewed: World) -> None:
    """One without tables, and one that this `tta` does not know; a second migration changes nothing."""
    database = unreviewed.instance.database
    assert migrate(database) == (newest(), newest())
    require_newest(database)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    for refused in (require_newest, migrate):
        with pytest.raises(keeping.UsageError, match="9999, which this `tta` does not know"):
            refused(database)


def test_a_folder_that_is_no_service_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, with wrong settings, or with a damaged key; each in one sentence with status 2."""
    folder = tmp_path / "data"
    assert main(["board", "worker", "--data", str(folder)]) == 2
    assert "tta board init" in capsys.readouterr().err
    init = ["board", "init", str(folder), "--organisation", "acme", "--organiser", "olga"]
    assert main(init) == 0
    assert main(init) == 2
    settings = (folder / "board.yaml").read_text()
    for text, why in (
        ("origin: a b\nurl: http://x/\n", "origin"),
        ("origin: a\nurl: ftp://x/\n", "url"),
        ("origin: a\nurl: http://x/\nrulesets: [v99]\n", "rulesets"),
        ("origin: a\nurl: http://x/\nlimits: {max_files: 0}\n", "max_files"),
        ("origin: a\nurl: http://x/\nlimit: 1\n", "did you mean 'limits'|not in"),
        ("origin: a\nurl: http://x/\ndatabase: mysql://x/y\n", "mysql"),
    ):
        (folder / "board.yaml").write_text(text)
        capsys.readouterr()
        assert main(["board", "migrate", "--data", str(folder)]) == 2, text
        said = capsys.readouterr().err
        assert any(part in said for part in why.split("|")), said
    (folder / "board.yaml").write_text(settings)
    (folder / "checkpoint_key").chmod(0o600)
    (folder / "checkpoint_key").write_text("no key")
    assert main(["board", "migrate", "--data", str(folder)]) == 2
    assert "not the key of a service" in capsys.readouterr().err


def test_a_checkpoint_is_in_the_backup(small: World, tmp_path: Path) -> None:
    """The newest of its time: whoever restores can show it to those who have later ones."""
    filled(small)
    keeping.back_up(small.instance, tmp_path / "backup")

    assert (tmp_path / "backup" / "checkpoint").read_text() == checkpoints.newest(small.instance).note
