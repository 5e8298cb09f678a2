"""Fuzzes what reads other people's files: python -m tests.fuzz reader --runs 200000 --seed 1

With atheris, coverage guides it; without, a seeded loop of mutations runs over the same targets
(tests/fuzz/targets.py). Both print which engine ran and how many inputs. An input that raises anything but the
reader's own refusal is written to --crashes, and the exit status is 1 (atheris: its own, 77).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

# The modules whose branches guide a target: instrumenting all its imports takes minutes, and each input five times as
# long.
GUIDED_BY = {
    "reader": ("harness.log.run_log", "harness.log.parse", "harness.log.events"),
    "round": ("harness.mlperf.compliance", "harness.mlperf.score", "harness.mlperf.formula", "rules.checks"),
    "loader": ("harness.ruleset.load", "harness.cost.price_file", "yaml"),
    "submission": (
        "harness.submission.claim",
        "harness.submission.result",
        "harness.submission.billing",
        "harness.base.strict_json",
        "harness.log.power_log",
    ),
    "formula": ("harness.mlperf.formula",),
}
MAX_BYTES = 1 << 16


def mutated(data: bytes, seeds: list[bytes], words: tuple[bytes, ...], chance: random.Random) -> bytes:
    """`data` with one to six changes: bits, bytes, words, numbers, pieces cut, doubled, moved or from another seed."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice((1, 2, 8, 64, 1024)))
        match chance.randrange(8):
            case 0 if start < len(changed):
                changed[start] ^= 1 << chance.randrange(8)
            case 1:
                changed[start:end] = b""
            case 2:
                changed[start:start] = changed[start:end] * chance.choice((1, 2, 30))
            case 3:
                changed[start:start] = chance.choice(words)
            case 4:
                changed[start:end] = chance.choice(words)
            case 5:
                other = chance.choice(seeds)
                cut = chance.randrange(len(other) + 1)
                changed[start:end] = other[cut : cut + chance.choice((8, 64, 1024))]
            case 6:
                numbers = list(re.finditer(rb"-?\d+", changed))[:2000]
                if numbers:
                    number = chance.choice(numbers)
                    changed[slice(*number.span())] = str(chance.choice((0, -1, 2**31, 2**63, 2**64, 10**30))).encode()
            case _:
                changed[start:start] = bytes([chance.randrange(256)])
    return bytes(changed[:MAX_BYTES])


def loop(name: str, target: Target, runs: int, seed: int, crashes: Path) -> int:
    """Runs `runs` mutations; returns how many of them crashed."""
    chance, seeds, num_crashes = random.Random(seed), target.seeds(), 0
    started_s, slowest_s, slowest = time.process_time(), 0.0, b""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        for _ in range(runs):
            data = mutated(chance.choice(seeds), seeds, target.words, chance)
            before_s = time.process_time()
            try:
                target.run(data, Path(place))
            except Exception:  # noqa: BLE001  (any exception is what this looks for)
                num_crashes += 1
                crashes.mkdir(exist_ok=True)
                (crashes / f"{name}-{seed}-{num_crashes}").write_bytes(data)
                if num_crashes <= 20:
                    traceback.print_exc(limit=-4)
            if (took_s := time.process_time() - before_s) > slowest_s:
                slowest_s, slowest = took_s, data
    print(
        f"{name}: {runs:,} inputs by the seeded loop (seed {seed}), {num_crashes} crashes, "
        f"{time.process_time() - started_s:.0f} CPU-s, the slowest {slowest_s:.3f} s of {len(slowest):,} bytes"
    )
    return num_crashes


def guided(name: str, runs: int, seed: int, crashes: Path) -> None:
    """Runs atheris, which ends the process and prints its own count."""
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with atheris.instrument_imports(include=list(GUIDED_BY[name]), enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    target, place = TARGETS[name], Path(tempfile.mkdtemp(prefix="tta-fuzz-"))
    corpus = place / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(data)
    crashes.mkdir(exist_ok=True)
    print(f"{name}: {runs:,} inputs by atheris (seed {seed})", flush=True)
    options = [f"-runs={runs}", f"-seed={seed}", f"-max_len={MAX_BYTES}", f"-artifact_prefix={crashes}/{name}-"]
    atheris.Setup(
        [sys.argv[0], *options, "-print_final_stats=1", "-verbosity=0", str(corpus)],
        lambda data: target.run(data, place),
    )
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=tuple(GUIDED_BY))
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("auto", "atheris", "loop"), default="auto")
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"), help="where crashing inputs are written")
    arguments = parser.parse_args()
    has_atheris = importlib.util.find_spec("atheris") is not None
    if arguments.engine == "atheris" and not has_atheris:
        parser.error("atheris is not installed (pip install atheris); without it: --engine loop")
    if has_atheris and arguments.engine != "loop":
        guided(arguments.target, arguments.runs, arguments.seed, arguments.crashes)
    from tests.fuzz.targets import TARGETS

    return int(loop(arguments.target, TARGETS[arguments.target], arguments.runs, arguments.seed, arguments.crashes) > 0)


if __name__ == "__main__":
    sys.exit(main())
