"""`tta data prepare`: download, convert or generate a suite's data, and verify it, before any clock starts."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commands._arguments import Parser, add_benchmark
from harness.errors import DataError, ExitStatus
from harness.ruleset import catalog, load
from harness.run import data_cache, workloads


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=("prepare",), help="prepare the data and print its digest")
    add_benchmark(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return prepare(arguments.workload, arguments.suite, arguments.ruleset, arguments.data, arguments.source)


def prepare(workload: str, suite: str, ruleset_name: str, cache: Path | None, source: Path | None) -> ExitStatus:
    """Prepare the data of `<workload>_<suite>`; print where it is, and its digest.

    Raises:
        DataError: the data cannot be obtained, is damaged, or is not what the rules name.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    rules = ruleset.benchmark(workload, suite)
    data = data_cache.prepare(workloads.workload(workload), suite, cache or data_cache.default_cache(), source)
    if rules.data_digest is not None and data.digest != rules.data_digest:
        raise DataError(
            f"{data.path}: the digest of the data is {data.digest}; the rules of {rules.name} require "
            f"{rules.data_digest}; delete {data.path.parent} and prepare it again"
        )
    judged = "the digest that the rules name" if rules.data_digest else "the rules name no digest for this suite"
    print(f"{data.path}: {data.num_files} files, {data.num_bytes:,} bytes")
    print(f"sha256 {data.digest} ({judged})")
    return ExitStatus.OK
