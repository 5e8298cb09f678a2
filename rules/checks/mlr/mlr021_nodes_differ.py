"""The logs name a different number of nodes from the system description.

## What it does
If `submission_platform` begins with a number and an x ("8xXE9680", as launchers write it), compares the number with
`number_of_nodes` of the system description.

## Why it matters
A result of two nodes that is described as one node looks twice as good as it is.

## Example
`submission_platform` is 2xXE9680; `number_of_nodes` is "1".

## Instead
Describe the system that was used.

## Source
In all 60 published results of four rounds whose logs state such a number, it is that of the description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
_NUMBER = re.compile(r"([0-9]{1,6})x")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.num_nodes is None:
        return
    for log in result.runs:
        platform = log.value(keys.SUBMISSION_PLATFORM)
        match = _NUMBER.match(platform) if isinstance(platform, str) else None
        if match is not None and int(match[1]) != result.num_nodes:
            message = f"submission_platform is {printable(platform, 60)!r}; number_of_nodes is {result.num_nodes}"
            yield Fault(str(log.path), log.line_of(keys.SUBMISSION_PLATFORM), message)
            return
