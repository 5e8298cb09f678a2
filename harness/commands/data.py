"""`tta data prepare`: a suite's data, downloaded, converted or generated, verified, before any clock."""

from __future__ import annotations

from pathlib import Path

from harness.errors import DataError, ExitStatus
from harness.ruleset import catalog, load
from harness.run import data_cache


def prepare(workload: str, suite: str, ruleset_name: str, cache: Path | None, source: Path | None) -> ExitStatus:
    """Prepares the data of `<workload>_<suite>` and prints where they are and their digest.

    Raises:
        DataError: they cannot be had, are damaged, or are not those of the rules.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    rules = ruleset.benchmark(workload, suite)
    data = data_cache.prepare(catalog.workload(workload), suite, cache or data_cache.default_cache(), source)
    if rules.data_digest is not None and data.digest != rules.data_digest:
        raise DataError(
            f"{data.path}: the data's digest is {data.digest}; the rules of {rules.name} want {rules.data_digest}; "
            f"delete {data.path} and prepare again"
        )
    judged = "the digest the rules name" if rules.data_digest else "the rules name no digest for this suite"
    print(f"{data.path}: {data.num_files} files, {data.num_bytes:,} bytes")
    print(f"sha256 {data.digest} ({judged})")
    return ExitStatus.OK
