"""A PostgreSQL of the tests' own, in a temporary folder, on a Unix socket; or one that TTA_TEST_DATABASE_URL names."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

VARIABLE = "TTA_TEST_DATABASE_URL"
_DEBIAN = Path("/usr/lib/postgresql")
_START_S = 120.0


def missing() -> str | None:
    """Why there is no PostgreSQL to test with; None if there is one."""
    if os.environ.get(VARIABLE):
        return None
    if _programs() is None:
        return f"there is no PostgreSQL here (Debian: postgresql; or name one in {VARIABLE})"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and there is no setpriv"
    return None


def _programs() -> Path | None:
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).parent


class Cluster:
    """A running PostgreSQL. url: of its first database. process: its first process; None of one that runs elsewhere."""

    def __init__(self, url: str, folder: Path | None = None, command: list[str] | None = None) -> None:
        self.url, self.folder, self._command = url, folder, command
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert self._command is not None
        assert self.folder is not None
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline_s = time.monotonic() + _START_S
        while not self._answers():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline_s:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)

    def start_again(self) -> None:
        """Start it after its first process was killed: the others, which end by themselves, must have ended first."""
        deadline_s = time.monotonic() + _START_S
        while True:
            try:
                self.start()
                return
            except RuntimeError:
                if time.monotonic() > deadline_s:
                    raise

    def _answers(self) -> bool:
        engine = create_engine(self.url)
        try:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except Exception:  # noqa: BLE001  (whatever it is, it does not answer yet)
            return False
        finally:
            engine.dispose()
        return True

    def stop(self) -> None:
        """End it, and all connections at once."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.send_signal(3)  # SIGQUIT: at once, without saving
                self.process.wait(10)

    def administer(self, statement: str) -> None:
        """Carry out a statement outside of any transaction."""
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.execute(text(statement))
        finally:
            engine.dispose()

    def database(self, template: str | None = None) -> str:
        """Make a new database, as a copy of another if one is named; return its address."""
        name = f"tta_{secrets.token_hex(6)}"
        self.administer(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.administer(f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)")


@contextmanager
def running(*, is_durable: bool = False) -> Iterator[Cluster]:
    """A PostgreSQL, ended and removed at the end. is_durable: what is committed survives the machine's end, too."""
    if url := os.environ.get(VARIABLE):
        yield Cluster(make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False))
        return
    programs = _programs()
    assert programs is not None, "ask missing() first"
    with tempfile.TemporaryDirectory(prefix="tta-pg-", dir="/tmp") as name:  # a socket's path has at most 107 bytes
        folder = Path(name)
        prefix: list[str] = []
        if os.geteuid() == 0:
            folder.chmod(0o755)
            shutil.chown(folder, 65534, 65534)
            prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        data = folder / "data"
        subprocess.run(
            [*prefix, str(programs / "initdb"), "-D", str(data), "-U", "tta", "-A", "trust", "--no-sync",
             "-E", "UTF8", "--locale=C"],
            check=True, capture_output=True,
        )  # fmt: skip
        options = {"listen_addresses": "", "unix_socket_directories": name, "max_connections": "200"}
        if not is_durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        command = [*prefix, str(programs / "postgres"), "-D", str(data)]
        for option, value in options.items():
            command += ["-c", f"{option}={value}"]
        cluster = Cluster(f"postgresql+psycopg://tta@/postgres?host={name}", folder, command)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
