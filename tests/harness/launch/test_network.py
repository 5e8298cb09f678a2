"""Addresses, interfaces and ports of this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.launch import network


def test_interface_is_the_one_that_has_the_address() -> None:
    assert network.interface_of("127.0.0.1") == "lo"
    assert network.interface_of("192.0.2.1") is None
    assert network.interface_of("2001:db8::1%eth0") is None
    assert network.has_interface("lo")
    assert not network.has_interface("lo7")


def test_interface_of_a_v6_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "if_inet6"
    table.write_text("fd000000000000000000000000000001 02 40 00 80 ib0\n")
    monkeypatch.setattr(network, "_V6", table)

    assert network.interface_of("fd00::1") == "ib0"
    assert network.interface_of("fd00::2") is None
    assert network.joined("fd00::1", 7) == "[fd00::1]:7"
    assert network.joined("10.0.0.1", 7) == "10.0.0.1:7"


def test_free_port_is_outside_the_range_of_outgoing_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "range"
    table.write_text("20010\t60999\n")
    monkeypatch.setattr(network, "_RANGE", table)

    assert 20_000 <= network.free_port("127.0.0.1") < 20_010
    table.write_text("20001\t60999\n")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 20_000))
        taken.listen()
        with pytest.raises(UsageError, match="ports from 20,000 to 20,000 are in use"):
            network.free_port("127.0.0.1")


def test_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError, match=r"192\.0\.2\.1 is not an address of this machine; the first node must be"):
        network.listener("192.0.2.1", 0)
