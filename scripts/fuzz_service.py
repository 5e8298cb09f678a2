#!/usr/bin/env python3
"""Sends generated requests to every route of a service with a few results in it, and counts the answers by status.

    scripts/fuzz_service.py [--requests 20000] [--seed 0]

The requests are made from the service's own OpenAPI document, valid and not, by schemathesis, in the name of nobody, of
two teams' members, of an auditor and of an organiser; half of the ids in paths and bodies are of things that are there.
Exit status 1 if an answer was 5xx, or if the log does not verify at the end.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

sys.path.insert(0, str(Path(__file__).parents[1]))

import rules
from harness.service import verifying
from tests.harness.service.world import World, world
from tests.rules_folder import write_ruleset

_NAMES = {
    "submission": "submission_id", "submission_id": "submission_id", "campaign": "campaign", "ticket": "ticket",
    "benchmark": "benchmark", "round": "round", "supersedes": "submission_id",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the requests; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        rules.__path__.insert(0, str(write_ruleset(Path(name) / "rules" / "v1").parent))
        return _fuzzed_in(Path(name), parsed.requests, parsed.seed)


def _fuzzed_in(folder: Path, num_requests: int, seed_: int) -> int:
    with world(folder, None, is_reviewed=True) as found:
        counts, faults = fuzzed(found, num_requests, seed_)
        faults += list(verifying.faults(found.instance))
    print(", ".join(f"{status}: {number:,}" for status, number in sorted(counts.items())))
    for fault in faults[:50]:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def fuzzed(found: World, num_requests: int, seed_: int) -> tuple[Counter[int], list[str]]:
    """Send so many requests to a service; return the number of answers by status, and what was 5xx or raised."""
    ids = _known(found)
    headers: list[dict[str, str]] = [{}]
    headers += [{"authorization": f"Bearer {member.token}"} for member in found.members.values()]
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", found.client.app)
    operations = [item.ok() for item in schema.get_all_operations()]
    counts, faults = Counter[int](), list[str]()
    for operation in operations:
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
        cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

        @seed(seed_)
        @settings(
            max_examples=max(1, num_requests // len(operations)), deadline=None, database=None,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        )  # fmt: skip
        @given(case=cases, choice=st.integers(0, 2**32))
        def send(case: Any, choice: int) -> None:
            source = random.Random(choice)
            _fill(case.path_parameters, ids, source)
            if isinstance(case.body, dict):
                _fill(case.body, ids, source)
            try:
                answer = case.call(headers=source.choice(headers))
            except Exception as error:  # noqa: BLE001  (whatever it raises is what is looked for)
                faults.append(f"{case.method} {case.path}: {type(error).__name__}: {str(error)[:300]}")
                return
            counts[answer.status_code] += 1
            if answer.status_code >= 500:
                faults.append(f"{case.method} {case.formatted_path}: {answer.status_code}: {answer.text[:300]}")

        send()
    return counts, faults


def _fill(values: Any, ids: dict[str, list[str]], source: random.Random) -> None:
    """Put an id of something that is there in the place of half of those that were made up."""
    if isinstance(values, dict):
        for name in values:
            if _NAMES.get(name) in ids and source.random() < 0.5:
                values[name] = source.choice(ids[_NAMES[name]])


def _known(found: World) -> dict[str, list[str]]:
    """Two published results, one under review, an announced one; a campaign with a ticket."""
    submissions = [found.submit(found.alice), found.submit(found.bob), found.submit(found.alice, finalise=False)]
    found.work()
    identity = dict.fromkeys(("system_sha256", "code_sha256", "config_sha256"), "a" * 64)
    asked = {"benchmark": "toy_mini", "division": "closed", "num_runs": 5, **identity}
    answer = found.alice.post("/campaigns", json=asked)
    ids = {"submission_id": submissions, "benchmark": ["toy_mini"]}
    assert answer.status_code == 201, answer.text
    campaign = answer.json()["id"]
    nonces = {"client_nonce": "b" * 64, "host_sha256": "c" * 64}
    ticket = found.alice.post(f"/campaigns/{campaign}/tickets", json=nonces).json()["id"]
    return {**ids, "campaign": [campaign], "ticket": [ticket]}


if __name__ == "__main__":
    sys.exit(main())
