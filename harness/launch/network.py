"""Addresses, interfaces and ports of this node."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import random
import socket
import struct
from contextlib import suppress
from pathlib import Path

from harness.errors import UsageError

_SIOCGIFADDR = 0x8915  # netdevice(7)
_LOWEST, _HIGHEST = 20_000, 60_000
_ATTEMPTS = 100
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_V6 = Path("/proc/net/if_inet6")


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has an address; None if none has."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.version == 6:
        rows = [line.split() for line in _V6.read_text().splitlines()] if _V6.exists() else []
        return next((row[5] for row in rows if ipaddress.IPv6Address(bytes.fromhex(row[0])) == wanted), None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no address
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if ipaddress.IPv4Address(answer[20:24]) == wanted:
                    return name
    return None


def has_interface(name: str) -> bool:
    """Whether this node has an interface of that name."""
    return name in {known for _, known in socket.if_nameindex()}


def free_port(address: str) -> int:
    """Return a port that nothing listens on, outside the range that the kernel gives to outgoing connections.

    Raises:
        UsageError: the address is not this node's, or no port is free.
    """
    lowest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _HIGHEST
    ports = range(_LOWEST, lowest) if lowest > _LOWEST else range(_LOWEST, _HIGHEST)
    for port in random.SystemRandom().sample(ports, min(_ATTEMPTS, len(ports))):
        with suppress(OSError):
            listener(address, port).close()
            return port
    listener(address, 0).close()
    raise UsageError(f"{address}: {_ATTEMPTS} ports from {ports[0]:,} to {ports[-1]:,} are in use")


def listener(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an address of this node.

    Raises:
        OSError: the port is in use. UsageError: the address is not this node's.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(
                f"{address} is not an address of this machine; the first node must be the one where `tta run` runs, "
                "not a login node"
            ) from None
        raise


def joined(address: str, port: int) -> str:
    """Return `HOST:PORT`."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
