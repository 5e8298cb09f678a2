"""Sends what hooks are owed, in a process of its own: a receiver that is slow keeps no check of a result waiting.

A name is looked up, its address is checked, and that address is connected to: what the name means a moment later does
not matter. Redirects are not followed, proxies not used, and of the answer nothing is read but its head.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from ipaddress import ip_address
from types import FrameType
from urllib.parse import SplitResult

import h11
from sqlalchemy.exc import SQLAlchemyError

from harness import __version__
from harness.base.processes import die_with_parent, python_environment
from harness.errors import InputError, UsageError, printable
from harness.service import hooks
from harness.service.database import is_unreachable, reason
from harness.service.hooks import Address, Lease, Outcome
from harness.service.instance import DATABASE_VARIABLE, Instance

TIMEOUT_S = 15.0  # for everything after the look-up: connecting, sending, and the head of the answer
NUM_AT_ONCE = 8
IDLE_S = 0.5
_UNREACHABLE_S = 2.0
_READ_BYTES = 1 << 14
_PORTS = {"https": 443, "http": 80}


def attempt(instance: Instance, lease: Lease) -> None:
    """Make one delivery, or try to, and note what became of it."""
    body = hooks.content(instance, lease)
    if body is None:
        hooks.drop(instance, lease)
    else:
        hooks.record(instance, lease, _sent(instance, lease, body))


def _sent(instance: Instance, lease: Lease, body: bytes) -> Outcome:
    try:
        parts = hooks.require_url(instance.settings.hooks, lease.url)  # the organisers may have changed their mind
        address = _permitted(instance, parts)
        context = _context(instance.settings.hooks.ca) if parts.scheme == "https" else None
        head = hooks.headers(lease, instance.now_ms(), body)
        status = asyncio.run(_exchange(parts, str(address), context, head, body))
    except TimeoutError:
        return Outcome(f"no answer within {TIMEOUT_S:.0f} s")
    except h11.ProtocolError:
        return Outcome("the answer is not HTTP")
    except (UsageError, InputError, OSError) as error:
        return Outcome(printable(error, 300))
    if 200 <= status < 300:
        return Outcome("", status)
    more = "; redirects are not followed" if 300 <= status < 400 else ""
    return Outcome(f"the receiver answered {status}{more}", status)


def _permitted(instance: Instance, parts: SplitResult) -> Address:
    """Return the first address of a name that may be called.

    Raises:
        UsageError: none may. OSError: it has none.
    """
    refusal: UsageError | None = None
    for *_, place in socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM):
        address = ip_address(str(place[0]).partition("%")[0])
        try:
            hooks.require_address(instance.settings.hooks, parts, address)
        except UsageError as error:
            refusal = refusal or error
        else:
            return address
    assert refusal is not None, "a name without an address is an error of the look-up"
    raise refusal


@functools.cache
def _context(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise InputError(f"hooks.ca: {ca}: cannot be read: {printable(error.strerror or error)}") from None


async def _exchange(
    parts: SplitResult, address: str, context: ssl.SSLContext | None, head: Iterable[tuple[str, str]], body: bytes
) -> int:
    """Send a body to an address and return the status of the answer.

    Raises:
        TimeoutError: it took too long. OSError: the connection failed. h11.ProtocolError: the answer is not HTTP.
    """
    connection = h11.Connection(h11.CLIENT)
    own = [
        ("host", parts.netloc),
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("connection", "close"),
        ("user-agent", f"tta-harness/{__version__}"),
    ]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = [h11.Request(method="POST", target=target, headers=[*own, *head]), h11.Data(body), h11.EndOfMessage()]
    port, name = parts.port or _PORTS[parts.scheme], None if context is None else parts.hostname
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=name)
        try:
            writer.write(b"".join(connection.send(item) or b"" for item in sent))
            await writer.drain()
            while not isinstance(event := connection.next_event(), h11.Response):
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(_READ_BYTES))
            return event.status_code
        finally:
            writer.transport.abort()


def deliver_due(instance: Instance) -> int:
    """Make every delivery that is due, one after the other; return how many were tried."""
    count = 0
    hooks.spread(instance)
    while (lease := hooks.claim(instance)) is not None:
        attempt(instance, lease)
        count += 1
    return count


class Deliverer:
    """Goes on until it is told to end, and then ends what it has begun."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._ending = threading.Event()

    def end(self, number: int = 0, frame: FrameType | None = None) -> None:
        """End; a handler of signals."""
        self._ending.set()

    def run(self) -> None:
        """Deliver. A database that cannot be reached is waited for."""
        signal.signal(signal.SIGTERM, self.end)
        signal.signal(signal.SIGINT, self.end)
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(NUM_AT_ONCE, "deliverer") as pool:
            while not self._ending.is_set():
                try:
                    hooks.spread(self._instance)
                    while len(running) < NUM_AT_ONCE and (lease := hooks.claim(self._instance)) is not None:
                        running.add(pool.submit(attempt, self._instance, lease))
                    if not running:
                        self._ending.wait(IDLE_S)
                    done, running = wait(running, IDLE_S, FIRST_COMPLETED)
                    for item in done:
                        item.result()
                except SQLAlchemyError as error:
                    if not is_unreachable(error):
                        raise
                    print(f"tta: the database cannot be reached: {reason(error)}", file=sys.stderr, flush=True)
                    self._ending.wait(_UNREACHABLE_S)


class Keeper:
    """Keeps a deliverer going next to a worker, where hooks are switched on; it ends with the worker."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Start the process if none is running; say when one has ended."""
        if not self._instance.settings.hooks.are_on:
            return
        if self._process is not None:
            if (status := self._process.poll()) is None:
                return
            print(f"tta: the sender of hooks ended with status {status}; another starts", file=sys.stderr)
        database, folder = self._instance.database.url.render_as_string(hide_password=False), self._instance.folder
        command = [sys.executable, "-m", "harness.cli", "board", "deliver", "--data", str(folder)]
        environment = {**python_environment(), DATABASE_VARIABLE: database}  # not on the command line
        self._process = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent)

    def end(self) -> None:
        """End it, after what it has begun."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
