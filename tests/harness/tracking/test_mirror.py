"""The mirror process: it follows, it ends, and the run never depends on it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.base import companion
from harness.base.companion import Companion, Orders
from harness.errors import OutputError
from harness.tracking.__main__ import Sender
from harness.tracking.mirror import start_mirror, tracking_uri
from tests import fabricate
from tests.harness.tracking.test_store import WARNINGS, content
from tests.killing import until

pytestmark = WARNINGS
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_store_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "result"
    path.mkdir()
    (path / "system.json").write_text("{}")
    return path


@pytest.fixture
def dead_server() -> Iterator[str]:
    """A port without a listener."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{closed.getsockname()[1]}"


def counts(uri: str) -> dict[str, tuple[str, int]]:
    """Return status and number of metric values of every run in a store, by `tta.run_id`."""
    return {run_id: (run["status"], len(run["points"])) for run_id, run in content(uri).items()}


# 3 evaluations x 5 curves without a target (no ruleset has toy_mini), 4 totals, 7 phases.
ALL = 3 * 2 + 3 * 3 + 4 + 7


@pytest.mark.slow
def test_follows_runs_that_grow_line_by_line(folder: Path, tmp_path: Path) -> None:
    """Logs that appear and grow are complete in the store at the end, and the folder is unchanged."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mirror = start_mirror(folder, uri)
    for index in range(2):
        with (folder / f"result_{index}.txt").open("a") as stream:
            for line in fabricate.text_of(fabricate.events(index)).splitlines(keepends=True):
                stream.write(line)
                stream.flush()
                time.sleep(0.02)

    assert mirror.finish(150)
    assert counts(uri) == {f"{index:032x}": ("FINISHED", ALL) for index in range(2)}
    assert sorted(path.name for path in folder.iterdir()) == ["result_0.txt", "result_1.txt", "system.json"]


@pytest.mark.slow
def test_ends_when_the_parent_is_killed(folder: Path, tmp_path: Path) -> None:
    """The parent dies by SIGKILL: no process is left behind, and its lines are sent, as a killed run."""
    fabricate.write_log(folder / "result_0.txt", fabricate.events()[:-6])
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    program = (
        "import sys, time; from pathlib import Path; from harness.tracking.mirror import start_mirror;"
        "print(start_mirror(Path(sys.argv[1]), sys.argv[2]).process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(folder), uri], stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert until(lambda: not _is_running(pid), 180, 0.1)  # it imports MLflow first, however busy the machine
    ((status, num_points),) = counts(uri).values()
    assert status == "KILLED"
    assert num_points > 10


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_dead_server_is_reported_once(folder: Path, dead_server: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A store that never answers costs one line on standard error, and no more than the time limit."""
    fabricate.write_log(folder / "result_0.txt", fabricate.events())
    mirror = start_mirror(folder, dead_server)
    said = capfd.readouterr().err
    give_up = time.monotonic() + 120  # it imports MLflow first, however busy the machine
    while not said and time.monotonic() < give_up:
        time.sleep(0.1)
        said += capfd.readouterr().err
    begin = time.monotonic()

    assert not mirror.finish(8)
    assert time.monotonic() - begin < 10
    rest = capfd.readouterr()
    assert rest.out == ""
    assert len((said + rest.err).splitlines()) == 1
    assert f"tta sync {folder}" in said


@pytest.mark.slow
def test_a_server_that_comes_late(folder: Path, tmp_path: Path) -> None:
    """A server that starts late gets what it missed, without duplicates."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
    mirror = start_mirror(folder, uri)
    log = folder / "result_0.txt"
    lines = fabricate.text_of(fabricate.events()).splitlines(keepends=True)
    log.write_text("".join(lines[:30]))
    time.sleep(4)
    server = _serve(tmp_path, uri)
    try:
        log.write_text("".join(lines))
        assert mirror.finish(150)
        assert counts(uri) == {"0" * 32: ("FINISHED", ALL)}
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)


def _serve(tmp_path: Path, uri: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", uri.rpartition(":")[2]]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{tmp_path / 'server.db'}"]
    command += ["--artifacts-destination", str(tmp_path / "artifacts")]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_mirror_never_takes_longer_than_its_limit(is_dead: bool) -> None:
    """One that was killed is not waited for; one that does not end is killed."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.PIPE)
    if is_dead:
        process.kill()
    begin = time.monotonic()

    assert not Companion(process).finish(30 if is_dead else 0.2)
    assert time.monotonic() - begin < 5
    assert process.returncode == -signal.SIGKILL


def test_it_takes_only_idle_time(folder: Path, tmp_path: Path) -> None:
    """The process has the idle scheduling policy, or the highest niceness, before any slow import."""
    mirror = start_mirror(folder, f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert mirror.process is not None
    place = Path(f"/proc/{mirror.process.pid}/stat")

    def is_idle() -> bool:
        fields = place.read_text().rpartition(")")[2].split()
        return int(fields[38]) == os.SCHED_IDLE or int(fields[16]) == 19

    try:
        assert until(is_idle, 10)
    finally:
        mirror.process.kill()
        mirror.finish(5)


def test_store_to_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The option has priority over the environment, and that over the file in the working folder."""
    monkeypatch.chdir(tmp_path)
    assert tracking_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server")
    assert tracking_uri() == "http://server"

    assert tracking_uri("http://other") == "http://other"


def test_starting_a_mirror_imports_no_mlflow() -> None:
    """Neither the command line nor the mirror's starter imports mlflow."""
    program = "import sys, harness.cli, harness.tracking.mirror; sys.exit('mlflow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_orders_come_by_standard_input() -> None:
    """`done 60` leaves a little less than 60 s; the end of the input, or another parent, a short limit."""
    reader, writer = os.pipe()
    adopted = Orders(reader, parent_pid=1_000_000_000)  # a fork of the referee may keep the pipe open
    adopted.wait(0)
    orders = Orders(reader, os.getppid())
    orders.wait(0)
    limits_s = [orders.limit_s]
    for piece in (b"do", b"ne 60\n"):
        os.write(writer, piece)
        orders.wait(0)
    limits_s.append(orders.limit_s)
    os.close(writer)
    orphan = Orders(reader, os.getppid())
    orphan.wait(0)
    os.close(reader)

    assert limits_s == [None, 59.0]
    assert adopted.limit_s == orphan.limit_s == companion.ORPHAN_LIMIT_S


class DeadFollower:
    """A follower whose store never answers."""

    num_calls = 0

    def send(self, is_last: bool) -> None:
        self.num_calls += 1
        raise OutputError("MLflow at fake: dead\x1b[31m")


def test_sender_waits_longer_and_complains_once(capsys: pytest.CaptureFixture[str]) -> None:
    """After a failure it waits, unless hurried, and complains once, in printable characters."""
    follower = DeadFollower()
    sender = Sender(follower, Path("here"))  # type: ignore[arg-type]
    sender.attempt(is_last=False)
    sender.attempt(is_last=False)
    assert follower.num_calls == 1
    sender.hurry()
    sender.attempt(is_last=True)

    assert follower.num_calls == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said
    assert "tta sync here" in said


def test_a_mirror_that_cannot_be_started_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If no process can be started, the run continues, and waiting for the mirror reports that nothing was sent."""
    monkeypatch.setattr(sys, "executable", str(folder / "no such python"))

    mirror = start_mirror(folder)

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "tta: the MLflow mirror cannot be started: No such file or directory\n")
    assert not mirror.finish(1)
