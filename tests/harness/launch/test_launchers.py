"""How nodes are named and helpers started, without a helper."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.launch.launchers import ByHandLauncher, HostsLauncher, LocalLauncher, Started, read_hosts
from harness.launch.protocol import Node
from tests.killing import until

NODES = [Node(0, "n1", "10.0.0.1"), Node(1, "n2", "10.0.0.2")]
COMMAND = [sys.executable, "-c", "import sys; sys.exit('tta: ' + sys.stdin.readline().strip())", "node", "--node", "1"]


def hosts(folder: Path, text: str) -> Path:
    path = folder / "nodes.txt"
    path.write_text(text)
    return path


def test_file_of_hosts_names_each_node_and_its_address(tmp_path: Path) -> None:
    path = hosts(tmp_path, "# two nodes\nn1 10.0.0.1\n\nn2 10.0.0.2  # the other\n")

    assert read_hosts(path, 2) == NODES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n1 10.0.0.1\n", "has 1 nodes; --nodes is 2"),
        ("n1 10.0.0.1\nn1 10.0.0.2\n", "nodes 0 and 1 have the name n1"),
        ("n1 10.0.0.1\nn2 10.0.0.1\n", "nodes 0 and 1 have the address 10.0.0.1"),
        ("n1 10.0.0.1\nn2 10.0.0.2 x\n", "nodes.txt:2: must be NAME or NAME ADDRESS"),
        ("n1 10.0.0.1\n-oProxyCommand=sh\n", "nodes.txt:2: must be NAME"),
        ("n1 127.0.1.1\nn2 10.0.0.2\n", "nodes.txt:1: 127.0.1.1 is 127.0.1.1, where no other node reaches it"),
        ("n1 10.0.0.1\nn2.invalid\n", "n2.invalid has no address"),
    ],
)
def test_file_of_hosts_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_hosts(hosts(tmp_path, text), 2)


def test_pattern_makes_the_name_of_the_address(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"n1-ib\.invalid has no address"):
        read_hosts(hosts(tmp_path, "n1\nn2\n"), 2, "{}-ib.invalid")


def test_program_reads_the_token_and_its_last_line_says_why_it_ended() -> None:
    started = Started(COMMAND, "the token")

    assert until(lambda: started.ended() is not None)
    assert str(started.ended()).endswith("ended with status 1: the token")
    started.close(0.0)


def test_program_that_goes_on_is_killed_when_it_is_given_up() -> None:
    started = Started([sys.executable, "-c", "import time; time.sleep(1000)"], "t")

    assert started.ended() is None
    started.close(0.0)
    with pytest.raises(UsageError, match=r"/nowhere: cannot be started: No such file"):
        Started(["/nowhere"], "t")


def test_hosts_are_given_one_command_line_for_their_shell() -> None:
    """What stands in place of ssh prints its arguments on standard error."""
    echo = [sys.executable, "-c", "import sys; sys.exit(repr(sys.argv[1:]))"]
    launcher = HostsLauncher(NODES, echo)
    handle = launcher.start(NODES[1], ["tta", "node", "a b"], "t")

    assert until(lambda: handle.ended() is not None)
    assert str(handle.ended()).endswith("""['n2', "tta node 'a b'"]""")
    handle.close(0.0)
    assert launcher.facts()["kind"] == "hosts"
    with pytest.raises(UsageError, match="nossh is not installed here"):
        HostsLauncher(NODES, ["nossh"])


@pytest.mark.parametrize(("is_known", "end"), [(True, "--node 1"), (False, "(it asks for the token: secret)")])
def test_by_hand_shows_the_line_and_the_token_only_to_who_has_not_set_it(is_known: bool, end: str) -> None:
    said: list[str] = []
    launcher = ByHandLauncher(NODES, said.append, is_known)
    handle = launcher.start(NODES[1], COMMAND, "secret")

    assert said[0].startswith("on node 1 (n2): tta node --node 1")
    assert said[0].endswith(end)
    assert handle.ended() is None
    handle.close(0.0)
    assert launcher.facts() == {"kind": "hosts", "ssh": None}


def test_local_has_all_nodes_on_the_loopback_interface() -> None:
    launcher = LocalLauncher(3)

    assert [(node.number, node.address) for node in launcher.nodes] == [(n, "127.0.0.1") for n in range(3)]
    assert launcher.facts() == {"kind": "local"}
