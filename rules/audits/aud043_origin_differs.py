"""The runs of one result come from different systems, users or programs.

## What it does
Compares between the runs the stated organisation, platform, division and benchmark, the folder of the program that
wrote run_start and run_stop, the users in paths, and the hosts that the launcher names; in `tta` logs also what every
rank reports in `tta_world`: its host, its device and machine, its number of threads. Also compares the number of hosts
with the number of nodes in the system description, and a rank's threads with the processors of a node, if the
description states them.

## Why it matters
The runs of a result are of one system and one program. A borrowed log brings its own names. A result of two nodes that
is described as one node looks twice as good as it is; so does one of 64 threads that is described as two.

## Example
Nine logs from /home/alice on node1, the tenth from /home/bob on gpu7.

## Instead
Run the same program on the same system for all runs.

## Source
MLPerf training rules, "System and framework must be consistent". No MLPerf tool compares the identity in a log with its
place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.base.values import int_of_digits
from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.errors import printable
from harness.log import keys
from harness.scoring import timeline

SCOPE = "result"
LIMITS = ("min_runs",)


def _stated(name: str) -> Callable[[RunFacts], object]:
    return lambda run: str(run.log.value(name))


def _files(run: RunFacts) -> object:
    """The folders of the programs that wrote run_start and run_stop."""
    events = [event for event in (run.start, run.stop) if event is not None]
    return tuple(sorted({str(event.metadata.get("file")).rpartition("/")[0] for event in events}))


def _of_ranks(*names: str) -> Callable[[RunFacts], object]:
    """A function that returns what the ranks report under `names`, each distinct answer once."""

    def look(run: RunFacts) -> object:
        answers = ([printable(rank[name], 40) for name in names if name in rank] for rank in timeline.ranks(run.log))
        return tuple(sorted({" ".join(words) for words in answers if words}))

    return look


KINDS: tuple[tuple[str, Callable[[RunFacts], object], float], ...] = (
    ("the organisation", _stated(keys.SUBMISSION_ORG), 1.0),
    ("the platform", _stated(keys.SUBMISSION_PLATFORM), 0.9),
    ("the division", _stated(keys.SUBMISSION_DIVISION), 0.9),
    ("the benchmark", _stated(keys.SUBMISSION_BENCHMARK), 1.0),
    ("the folder of the program", _files, 0.6),
    ("the user in paths", lambda run: tuple(sorted(run.text.users)), 0.6),
    ("the hosts", lambda run: tuple(sorted(run.text.hosts)), 0.2),
    ("the host of the ranks", _of_ranks("host"), 0.5),
    ("the device of the ranks", _of_ranks("device", "device_name"), 0.9),
    ("the number of threads of a rank", _of_ranks("num_threads"), 0.7),
)


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    num_nodes = subject.result.num_nodes
    many = [run for run in subject.runs if num_nodes is not None and len(run.text.hosts) > num_nodes]
    if many:
        run, num_hosts = many[0], len(many[0].text.hosts)
        message = f"the log names {num_hosts} hosts, {_shown(sorted(run.text.hosts))}; the system has {num_nodes} nodes"
        yield evidence(run.path, None, f"{message} ({len(many)} of {len(subject.runs)} runs do)", 1.0, hosts=num_hosts)
    processors = _num_processors(subject.result.system or {})
    busy = [(run, num) for run in subject.runs if processors is not None and (num := _num_threads(run)) > processors]
    if busy:
        run, num = busy[0]
        message = f"a rank uses {num} threads; the description has {processors} processors per node"
        line = run.log.line_of(keys.TTA_WORLD)
        yield evidence(run.path, line, f"{message} ({len(busy)} of {len(subject.runs)} runs do)", 0.7, threads=num)
    if len(subject.runs) < rule["min_runs"]:
        return
    for words, look, strength in KINDS:
        seen = [(run, found) for run in subject.runs if (found := look(run)) not in ((), "None")]
        common = Counter(found for _, found in seen).most_common(1)
        odd = [(run, found) for run, found in seen if found != common[0][0]]
        if odd and len(odd) < len(seen) / 2:
            run, found = odd[0]
            yield evidence(
                run.path,
                None,
                f"{words}: {_shown(found)}; in {common[0][1]} other runs: {_shown(common[0][0])} "
                f"({len(odd)} of {len(seen)} runs differ)",
                strength,
                kind=words,
                runs=len(odd),
            )


def _shown(found: object) -> str:
    text = found if isinstance(found, str) else ", ".join(str(item) for item in found)  # type: ignore[attr-defined]
    return text if len(text) <= 120 else f"{text[:117]}..."


def _num_threads(run: RunFacts) -> int:
    """The number of threads of the rank that has the most."""
    found = [rank.get("num_threads") for rank in timeline.ranks(run.log)]
    return max((num for num in found if isinstance(num, int)), default=0)


def _num_processors(system: Mapping[str, Any]) -> int | None:
    """The most virtual processors a node can have: descriptions do not say if counts are per processor or in total."""
    counts = (int_of_digits(system.get(f"host_processor_{name}_count")) for name in ("core", "vcpu"))
    found = [num for num in counts if num is not None]
    return max(found) * (int_of_digits(system.get("host_processors_per_node")) or 1) if found else None
