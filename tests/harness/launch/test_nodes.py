"""What the options of several nodes mean, and which make no sense together."""

from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import UsageError
from harness.launch import facts, nodes
from harness.launch.launchers import ByHandLauncher, HostsLauncher, LocalLauncher
from harness.run.benchmark import Launch


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.txt"
    path.write_text("n1 10.0.0.1\nn2 10.0.0.2\n")
    return path


def test_launcher_is_the_one_that_was_asked_for(hosts: Path) -> None:
    own = nodes.launcher_of(Launch("hosts", hosts, ssh="env -i"), 2, print)
    by_hand = nodes.launcher_of(Launch("hosts", hosts, is_by_hand=True), 2, print)

    assert isinstance(own, HostsLauncher)
    assert own.facts()["ssh"] == "env -i"
    assert isinstance(by_hand, ByHandLauncher)
    assert isinstance(nodes.launcher_of(Launch("local"), 2, print), LocalLauncher)


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch(), "--nodes 2: also needs --launcher"),
        (Launch("hosts"), "also needs --hosts FILE"),
        (Launch("local", ssh="ssh"), "--ssh: --launcher local has all nodes on this machine"),
        (Launch("local", address_of="{}-ib"), "--address-of: --launcher local"),
    ],
)
def test_options_that_do_not_fit_are_refused(launch: Launch, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nodes.launcher_of(launch, 2, print)


def test_helpers_started_by_hand_are_not_started_by_ssh(hosts: Path) -> None:
    with pytest.raises(UsageError, match="--by-hand: nothing is started by --ssh then"):
        nodes.launcher_of(Launch("hosts", hosts, is_by_hand=True, ssh="ssh"), 2, print)


@pytest.mark.parametrize("launch", [Launch("hosts"), Launch(interface="ib0"), Launch(is_by_hand=True), Launch(port=7)])
def test_one_node_reaches_no_other(launch: Launch) -> None:
    with (
        pytest.raises(UsageError, match="with one node, there is no other to reach; see --nodes"),
        nodes.opened(launch, 1, print),
    ):
        pass
    with nodes.opened(Launch("local"), 1, print) as cluster:
        assert cluster is None


def test_more_processes_than_accelerators_are_refused_and_said_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(facts, "devices_here", lambda: ["H100"])
    with pytest.raises(UsageError, match=r"this machine: --devices 8: it has 1 accelerators that can be used \("):
        nodes.refuse_too_many(8, said.append)
    nodes.refuse_too_many(1, said.append)
    monkeypatch.setattr(facts, "devices_here", list)
    nodes.refuse_too_many(8, said.append)

    assert len(said) == 1
    assert said[0].startswith("no accelerator: --devices 8 starts 8 processes that share ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--connect", "h:1"], "--connect: also needs --node"),
        (["--connect", "h:1", "--node", "x"], "not a whole number"),
        (["--sweep", "a b"], "is not the mark of a run"),
        (["--connect", "h:1", "--node", "0", "--counted-by", "NO_SUCH"], "--counted-by NO_SUCH: is '' in"),
        (["--connect", "h:1", "--node", "1"], "the environment has no TTA_NODE_TOKEN"),
        (["--connect", "nowhere", "--node", "0", "--counted-by", "RANK_OF_NODE"], "must be HOST:PORT"),
    ],
)
def test_verb_of_the_helper_refuses_what_it_cannot_use(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a token in the environment, the first line of standard input is one; here it is empty, or long enough."""
    token = "0" * 32 if "RANK_OF_NODE" in arguments else ""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
    monkeypatch.setenv("RANK_OF_NODE", "1")
    monkeypatch.setenv("TTA_NODE_TOKEN", "")
    monkeypatch.delenv("TTA_NODE_TOKEN")

    assert main(["node", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert "TTA_NODE_TOKEN" not in os.environ or not token


def test_sweep_ends_what_has_the_mark(capsys: pytest.CaptureFixture[str]) -> None:
    """Also a process that left its session."""
    mark = "0123456789abcdef" + str(os.getpid())
    left = subprocess.Popen(["sleep", "1000"], env={**os.environ, "TTA_MARK": mark}, start_new_session=True)

    assert main(["node", "--sweep", mark]) == 0
    assert left.wait(5) == -9
    assert main(["node", "--sweep", mark]) == 0
    assert re.findall("ended: (.*)", capsys.readouterr().err) == ["sleep", "nothing was left"]
