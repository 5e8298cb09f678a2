"""The lines of one result come from different systems, users or programs.

## What it does
Compares between the runs: organisation, platform, division and benchmark as stated, the folder of the program
that wrote run_start and run_stop, the users in paths, and the hosts that the launcher names. And the number of hosts
with that of the nodes in the system description.

## Why it matters
The runs of a result are of one system and one program. A log that was borrowed brings its own names. A result of two
nodes, described as of one, is twice as good as it is.

## Example
Nine logs from /home/alice on node1, the tenth from /home/bob on gpu7.

## Instead
Run the same program on the same system for all runs.

## Source
MLPerf training rules, "System and framework must be consistent"; log identity is compared with its place nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from harness import events as key
from harness.auditing.facts import RunFacts, Subject
from harness.auditing.suspicion import SignalRule, Trace, trace

SCOPE = "result"
LIMITS = ("min_runs",)


def _stated(name: str) -> Callable[[RunFacts], object]:
    return lambda run: str(run.log.value(name))


def _files(run: RunFacts) -> object:
    """The folders of the programs that wrote the decisive lines."""
    events = [event for event in (run.start, run.stop) if event is not None]
    return tuple(sorted({str(event.metadata.get("file")).rpartition("/")[0] for event in events}))


KINDS: tuple[tuple[str, Callable[[RunFacts], object], float], ...] = (
    ("the organisation", _stated(key.SUBMISSION_ORG), 1.0),
    ("the platform", _stated(key.SUBMISSION_PLATFORM), 0.9),
    ("the division", _stated(key.SUBMISSION_DIVISION), 0.9),
    ("the benchmark", _stated(key.SUBMISSION_BENCHMARK), 1.0),
    ("the folder of the program", _files, 0.6),
    ("the user in paths", lambda run: tuple(sorted(run.text.users)), 0.6),
    ("the hosts", lambda run: tuple(sorted(run.text.hosts)), 0.2),
)


def check(subject: Subject, rule: SignalRule) -> Iterator[Trace]:
    num_nodes = subject.result.num_nodes
    many = [run for run in subject.runs if num_nodes is not None and len(run.text.hosts) > num_nodes]
    if many:
        run, num_hosts = many[0], len(many[0].text.hosts)
        message = f"names {num_hosts} hosts, {_shown(sorted(run.text.hosts))}; the system has {num_nodes} nodes"
        yield trace(run.path, None, f"{message} ({len(many)} of {len(subject.runs)} runs do)", 1.0, hosts=num_hosts)
    if len(subject.runs) < rule["min_runs"]:
        return
    for words, look, strength in KINDS:
        seen = [(run, found) for run in subject.runs if (found := look(run)) not in ((), "None")]
        common = Counter(found for _, found in seen).most_common(1)
        odd = [(run, found) for run, found in seen if found != common[0][0]]
        if odd and len(odd) < len(seen) / 2:
            run, found = odd[0]
            yield trace(
                run.path,
                None,
                f"{words} is {_shown(found)}; that of {common[0][1]} other runs is {_shown(common[0][0])} "
                f"({len(odd)} of {len(seen)} runs differ)",
                strength,
                kind=words,
                runs=len(odd),
            )


def _shown(found: object) -> str:
    text = found if isinstance(found, str) else ", ".join(str(item) for item in found)  # type: ignore[attr-defined]
    return text if len(text) <= 120 else f"{text[:117]}..."
