"""How often two halves of one result of an MLPerf round differ significantly: the intervals of the board of rounds.

    python -m tests.interop.round_intervals DIR [DIR ...]

Both halves are of the same machine and recipe, so a test at 5 % should tell them apart in 5 % of all splits, or fewer.
Results with at least eight runs that comply are split at random, each half scored without its fastest and its slowest
run, and the halves compared as the rows of a table are.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.base.stats import p_equal
from harness.checker.results import AUTO, Rulesets
from harness.errors import InputError
from harness.mlperf.model import Round
from harness.mlperf.score import RoundRun, RoundScore, olympic, round_score
from harness.scoring.round_estimate import round_estimate
from harness.submission.result import find_results, read_result

MIN_RUNS, NUM_SPLITS, LEVEL = 8, 200, 0.05


def half(score: RoundScore, runs: Sequence[RoundRun], round_: Round) -> RoundScore:
    """The score of some of the runs, without normalisation, with one run left out at either end."""
    benchmark = round_.benchmark(score.benchmark)
    assert benchmark is not None
    raw, why_not = olympic([run.seconds for run in runs], replace(benchmark, drop=1))
    return replace(score, runs=tuple(runs), raw_seconds=raw, seconds=raw, why_not=why_not)


def share_apart(score: RoundScore, round_: Round, source: random.Random) -> float | None:
    """The share of the splits of a result whose halves differ significantly; None if it has too few runs."""
    runs = [run for run in score.runs if run.complies and run.seconds is not None]
    benchmark = round_.benchmark(score.benchmark)
    if benchmark is None or len(runs) < MIN_RUNS:
        return None
    one_dropped = replace(round_, benchmarks={**round_.benchmarks, benchmark.name: replace(benchmark, drop=1)})
    apart = 0
    for _ in range(NUM_SPLITS):
        mixed = source.sample(runs, len(runs))
        halves = mixed[: len(runs) // 2], mixed[len(runs) // 2 :]
        one, other = (round_estimate(half(score, part, round_), one_dropped) for part in halves)
        assert one is not None
        assert other is not None
        apart += p_equal(one, other) < LEVEL
    return apart / NUM_SPLITS


def main() -> None:
    parser = argparse.ArgumentParser(description="How often two halves of one result differ significantly.")
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args().folders
    source = random.Random(14)
    shares: dict[str, list[float]] = defaultdict(list)
    for folder in folders:
        rulesets = Rulesets.named(AUTO, [folder])
        for path in find_results(folder):
            try:
                result = read_result(path)
            except InputError:
                continue
            round_ = rulesets.load(rulesets.choose(result).name).round
            if round_ is None or not result.runs:
                continue
            score = round_score(result.runs, round_)
            share = share_apart(score, round_, source)
            if share is not None:
                shares[str(score.benchmark)].append(share)
    print(f"{NUM_SPLITS} splits a result; share of splits that differ at {LEVEL:.0%}\n")
    print("| benchmark | results | mean share | worst |\n|---|---:|---:|---:|")
    for name, found in sorted(shares.items()):
        print(f"| {name} | {len(found)} | {sum(found) / len(found):.1%} | {max(found):.1%} |")
    every = [share for found in shares.values() for share in found]
    print(f"| all | {len(every)} | {sum(every) / len(every):.1%} | {max(every):.1%} |")


if __name__ == "__main__":
    main()
