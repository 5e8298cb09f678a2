"""The list of the code or of the packages is missing, or is not the one that the logs name.

## What it does
Compares the SHA-256 of provenance/code.txt and provenance/packages.txt with the digests in `tta_code` and
`tta_packages` of the first log that has them. IDN004 compares the logs.

## Why it matters
Without the list, a digest that is not a release's says that something differs, but not what.

## Example
provenance/code.txt was edited so that the changed workload is not in it.

## Instead
Submit the lists as `tta run` wrote them, with the logs.

## Source
docs/reference/log-format.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CODE_LIST, PACKAGES_LIST
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind == "log":
        return
    for key, name in ((keys.TTA_CODE, CODE_LIST), (keys.TTA_PACKAGES, PACKAGES_LIST)):
        named = [(log, digest) for log in result.runs if (digest := log.field(key, "digest")) is not None]
        entry = result.files.get(name)
        if not named:
            continue
        log, digest = named[0]
        if entry is None:
            yield Fault(str(result.path / name), None, f"is missing; {log.path.name} names its digest")
        elif entry.sha256 != digest:
            yield Fault(
                str(result.path / name),
                None,
                f"its SHA-256 is {entry.sha256}; {key} in {log.path.name} names {printable(digest, 64)}",
            )
