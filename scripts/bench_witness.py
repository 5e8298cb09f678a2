#!/usr/bin/env python3
"""What a witness costs in the timed region: runs with one against runs without, side by side.

Each round makes the same run, with the same number of samples, in rotating order: without a witness; with one that
answers; one that takes 2 s for each answer; one that refuses each head; and one that is gone once it has issued the
ticket. The witnesses are servers of this program on 127.0.0.1, so that nothing of a database is measured. Prints, for
each, the median of the ratios of run_start to run_stop with its 95 % interval (of order statistics).

    python scripts/bench_witness.py [--pairs 11] [--samples 61440] [--kinds answering,slow,refusing,gone]
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # callable from any folder

from harness.log import run_log  # noqa: E402
from harness.log.ticket import nonce_of, seed_of  # noqa: E402
from harness.submission.receipts import CLOSED, ENDED, HEAD, ISSUED, OPENED  # noqa: E402
from harness.transparency.event import Opening, event_text  # noqa: E402
from harness.transparency.witnessed import Witnessed  # noqa: E402
from scripts.bench_overhead import BENCHMARK, interval, shortened_rules  # noqa: E402

KINDS = ("answering", "slow", "refusing", "gone")
SLOW_S = 2.0
CAMPAIGN = "c" * 32


class Handler(BaseHTTPRequestHandler):
    """A witness that signs nothing. kind: how it answers heads."""

    kind = "answering"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
        what = self.path.rpartition("/")[2]
        subject = self.path.split("/")[-2]
        if what == "campaigns":
            self._answer(OPENED, CAMPAIGN, {})
        elif what == "tickets":
            name, server = secrets.token_hex(16), nonce_of(b"s" * 32, CAMPAIGN, 1)
            seed = seed_of(name, server, body["client_nonce"])
            self._answer(
                ISSUED, name, {**body, "campaign": CAMPAIGN, "number": 1, "server_nonce": server, "seed": seed}
            )
        elif self.kind == "gone":
            self.close_connection = True
        elif self.kind == "refusing":
            self._send(503, {"detail": "not now"})
        else:
            if self.kind == "slow":
                time.sleep(SLOW_S)
            self._answer({"heads": HEAD, "end": ENDED}.get(what, CLOSED), subject, body)

    def _answer(self, kind: str, subject: str, body: dict[str, Any]) -> None:
        text = event_text(0, time.time_ns() // 1_000_000, None, kind, subject, body, "0" * 64)
        receipt = Witnessed("bench/log", Opening(0, "ab" * 16, text)).record()
        self._send(200, {"id": subject, **body, "receipt": receipt})

    def _send(self, status: int, record: dict[str, Any]) -> None:
        data = json.dumps(record).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing is printed."""


@contextmanager
def witness(kind: str) -> Iterator[str]:
    """The address of a witness that answers in this way."""
    handler = type("Handler", (Handler,), {"kind": kind})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def run_s(rules: Path, out: Path, address: str | None) -> float:
    """Return the seconds from `run_start` to `run_stop` of a run that ends at its budget of samples."""
    command = [sys.executable, "-m", "harness.cli", "run", BENCHMARK[0], "--suite", BENCHMARK[1], "--no-mlflow"]
    command += ["--ruleset", str(rules), "--quiet", "--out", str(out)]
    command += [] if address is None else ["--witness", address]
    made = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TTA_BOARD_TOKEN": "tta_bench"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1, made.stderr  # the target is not reached
    log = run_log.read(out / "result_0.txt")
    return log.seconds(log.one("run_start"), log.one("run_stop"))


def measure(num_pairs: int, num_samples: int, kinds: list[str]) -> None:
    names = ["without", *kinds]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "rules")
        folder.mkdir()
        shortened_rules(folder, num_samples, target=1.0, num_runs=1, drop=0)
        print("pair  " + "  ".join(f"{name:>10}" for name in names), flush=True)
        for pair in range(num_pairs):
            first = pair % len(names)  # a drift of the machine affects all of them equally
            for name in names[first:] + names[:first]:
                out = Path(scratch, f"{name}_{pair}")
                if name == "without":
                    seconds[name].append(run_s(folder, out, None))
                else:
                    with witness(name) as address:
                        seconds[name].append(run_s(folder, out, address))
            print(f"{pair:>4}  " + "  ".join(f"{seconds[name][-1]:>10.3f}" for name in names), flush=True)
    for name in kinds:
        ratios = [one / other for one, other in zip(seconds[name], seconds["without"], strict=True)]
        low, high = interval(ratios)
        median = statistics.median(ratios)
        print(f"{name} witness / none: median ratio {median:.4f} (95 % {low:.4f} to {high:.4f}, {num_pairs} pairs)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--samples", type=int, default=61_440, help="samples a run trains on (default: %(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what is compared (default: %(default)s)")
    arguments = parser.parse_args()
    measure(arguments.pairs, arguments.samples, arguments.kinds.split(","))


if __name__ == "__main__":
    main()
