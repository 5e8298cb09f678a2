"""The files for containers: what they name is there, and what they start runs. No container is started here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.base.processes import python_environment
from harness.cli import parser
from harness.errors import ExitStatus, InputError
from harness.service import oidc
from harness.service.database import PASSWORD_VARIABLE, Database
from harness.service.instance import DATABASE_VARIABLE
from tests import postgres
from tests.harness.service.server import address_of, reference_result
from tests.harness.service.world import World

FOLDER = Path(__file__).parents[3] / "scripts" / "board"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
OWN = {name: service for name, service in COMPOSE["services"].items() if "build" in service}
# Of the image `postgres`, as its documentation has them.
POSTGRES_VARIABLES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD_FILE"}
NEW = ["--organisation", "reference", "--organiser", "olga", "--no-review"]


def words(name: str) -> list[str]:
    """The arguments of `tta` of a service's process."""
    program, *rest = [*OWN[name].get("entrypoint", ["tta"]), *OWN[name].get("command", [])]
    assert program == "tta"
    return rest


@pytest.mark.parametrize("name", OWN)
def test_every_command_is_one_of_tta(name: str) -> None:
    """With the arguments that it takes, in the folder that the volume is at."""
    arguments = parser().parse_args([*words(name), *(NEW if name == "init" else [])])

    place = arguments.folder if name == "init" else arguments.data
    assert f"board:{place}" in OWN[name]["volumes"]
    assert 'ENTRYPOINT ["tta"]' in DOCKERFILE


def test_every_variable_and_secret_is_one_that_is_read() -> None:
    """By the service, or by PostgreSQL's image; secrets are files that git does not have."""
    for name, service in COMPOSE["services"].items():
        known = {DATABASE_VARIABLE, PASSWORD_VARIABLE, oidc.SECRET_VARIABLE} if name in OWN else POSTGRES_VARIABLES
        assert set(service["environment"]) <= known
        for variable, value in service["environment"].items():
            if variable.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    address = Database(OWN["web"]["environment"][DATABASE_VARIABLE])
    of_image = COMPOSE["services"]["postgres"]["environment"]
    assert (address.url.username, address.url.database) == (of_image["POSTGRES_USER"], of_image["POSTGRES_DB"])
    assert address.url.host in COMPOSE["services"]
    address.close()
    for secret in COMPOSE["secrets"].values():
        ignored = ["git", "-C", str(FOLDER), "check-ignore", "--quiet", secret["file"]]
        assert subprocess.run(ignored, check=False).returncode == 0


def test_what_is_named_elsewhere_is_there() -> None:
    """Volumes, networks, secrets and services; the folders that the image is made of."""
    services = COMPOSE["services"]
    for service in services.values():
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(COMPOSE["volumes"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        for other, condition in service.get("depends_on", {}).items():
            needed = {"service_healthy": "healthcheck", "service_completed_successfully": "command"}
            assert needed[condition["condition"]] in services[other]
    assert (FOLDER / OWN["web"]["build"]["context"] / OWN["web"]["build"]["dockerfile"]).samefile(FOLDER / "Dockerfile")
    root = FOLDER.parents[1]
    kept = re.findall(r"^!(\S+)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()
    ]
    assert sorted(kept) == sorted(copied)
    assert all((root / name).exists() for name in copied)


def test_processes_may_do_little() -> None:
    """None of ours is root or can write outside of its volume; the database is in no network but the inner one."""
    for service in OWN.values():
        assert service["user"] == "10001:10001"
        assert f"USER {service['user']}\n" in DOCKERFILE
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert COMPOSE["services"]["postgres"]["networks"] == OWN["worker"]["networks"] == ["inside"]
    assert [name for name, service in OWN.items() if "ports" in service] == ["web"]


def health(port: int) -> list[str]:
    """The program that asks whether the process that answers does."""
    kind, program, *rest = OWN["web"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    assert "127.0.0.1:8765/" in rest[-1]
    return [sys.executable, *rest[:-1], rest[-1].replace(":8765/", f":{port}/")]


def test_the_question_after_its_health_is_a_route(small: World) -> None:
    """That answers 200 when all is well; as the other one does that the comment names."""
    [path] = re.findall(r":8765(/\w+)", " ".join(health(8765)))
    named = re.findall(r"/\w+z\b", (FOLDER / "compose.yaml").read_text())
    assert path in named
    for each in {*named, "/healthz"}:
        assert small.client.get(each).text == "ok\n"


def test_a_password_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the address has none; SQLite has none; a file that is not there is named."""
    (tmp_path / "password").write_text("s:e@c\n")
    monkeypatch.setenv(PASSWORD_VARIABLE, str(tmp_path / "password"))
    for address, password in (("postgresql://tta@db/x", "s:e@c"), ("postgresql://tta:own@db/x", "own")):
        database = Database(address)
        assert database.url.password == password
        assert password not in database.place
        database.close()
    Database(f"sqlite:///{tmp_path}/x").close()
    monkeypatch.setenv(PASSWORD_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InputError, match=f"{PASSWORD_VARIABLE}: {tmp_path}/none: cannot be read"):
        Database("postgresql://tta@db/x")


@contextmanager
def running(command: list[str], environment: dict[str, str], status: int) -> Iterator[subprocess.Popen[str]]:
    """A process that is told to end, and ends with a status."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == status


@pytest.mark.slow
def test_the_processes_run_together(cluster: postgres.Cluster, tmp_path: Path) -> None:
    """Folder, migration, one that answers and one that works, as composed: a result is received, checked, published."""
    data, url = tmp_path / "board", cluster.database()
    (tmp_path / "password").write_text("any\n")
    environment = {
        **python_environment(), DATABASE_VARIABLE: url, PASSWORD_VARIABLE: str(tmp_path / "password"),
        "XDG_CONFIG_HOME": str(tmp_path), "OMP_NUM_THREADS": "1",
    }  # fmt: skip

    def command(name: str, *more: str) -> list[str]:
        own = [{"/srv/board": str(data), "0.0.0.0": "127.0.0.1", "8765": "0"}.get(word, word) for word in words(name)]
        return [sys.executable, "-m", "harness.cli", *own, *more]

    def done(*arguments: str, **more: str) -> str:
        told = {**environment, **more}
        ended = subprocess.run(arguments, env=told, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    data.mkdir()  # as the volume is
    token = done(*command("init", *NEW)).strip()
    assert "of version" in done(*command("migrate"))
    interrupted = ExitStatus.INTERRUPTED  # a worker ends as it is told, after its job; what answers is interrupted
    with running(command("web"), environment, interrupted) as web, running(command("worker"), environment, 0):
        address = address_of(web)
        done(*health(int(address.rstrip("/").rpartition(":")[2])))
        tta = (sys.executable, "-m", "harness.cli")
        result = str(reference_result(tmp_path / "results"))
        done(*tta, "submit", result, "--to", address, TTA_BOARD_TOKEN=token)
        status = done(*tta, "status", result, "--watch", "--format", "json", TTA_BOARD_TOKEN=token)
    cluster.drop(url)

    assert '"published"' in status
