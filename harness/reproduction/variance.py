"""Makes runs in which one source of chance varies while the others are held, and reads them, and any others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError, WorkerError, printable
from harness.launch.runs import make_runs
from harness.log import keys
from harness.log.replay import replay_of
from harness.log.run_log import RunLog
from harness.log.seeds import SOURCES, WEIGHTS, Seeds, seeds_of
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run.benchmark import Request
from harness.run.variation import Variation
from harness.scoring.components import REPEATS, Group
from harness.scoring.timeline import samples_to_target
from harness.submission.result import Result, find_results, read_result

_ENOUGH_TO_COMPARE = 2


@dataclass(frozen=True, slots=True)
class Design:
    """Which runs are made.

    seed: from which all seeds are derived. num_bases: the points at which what does not vary is held. num_runs: at each
    of them, of each of `sources` and of the repeats; as many together have all seeds different.
    """

    seed: int
    num_bases: int
    num_runs: int
    sources: tuple[str, ...] = SOURCES

    @property
    def total(self) -> int:
        """The runs there are if every source has an effect."""
        return sum(number for _, _, number in self.folders())

    def folders(self) -> Iterator[tuple[str, Variation, int]]:
        """Yield name, seeds and number of runs of each folder. What the tolerance rests on is made first."""
        yield "all", Variation(self.seed, 0, SOURCES), self.num_bases * self.num_runs
        for base in range(self.num_bases):
            for source in self.sources:
                yield f"base{base}_{source}", Variation(self.seed, base, (source,)), self.num_runs
            yield f"base{base}_{REPEATS}", Variation(self.seed, base, ()), self.num_runs


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one folder with the same fixed seeds. seeds: of the first; None: made by `tta run`, all seeds differ."""

    path: Path
    logs: tuple[RunLog, ...]
    seeds: Seeds | None
    group: Group


@dataclass(frozen=True, slots=True)
class Study:
    """The runs of one benchmark and recipe.

    inert: the sources whose seeds change nothing in the first steps of training. notes: what is odd.
    """

    rules: BenchmarkRules
    runs: tuple[Runs, ...]
    inert: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def groups(self) -> list[Group]:
        """The groups of which components are made: runs in which nothing drawn differs are repeats."""

        def effective(group: Group) -> Group:
            return replace(group, varied=()) if set(group.varied) <= set(self.inert) else group

        return [effective(own.group) for own in self.runs]


def make(
    design: Design,
    base: Request,
    folder: Path,
    say: Callable[[str], None],
    carry_out: Callable[[Request], object] = make_runs,
) -> None:
    """Make the runs that are missing in `folder`. carry_out: makes those of one folder.

    Raises:
        WorkerError: runs could not be made. OutputError: runs there were made otherwise, or with other seeds.
        Interrupted: by a signal; the same call goes on. UsageError, DataError, SubmissionError: as `tta run`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inert: set[str] = set()
    for name, variation, number in design.folders():
        request = replace(base, out=folder / name, is_resumed=True, variation=variation)
        say(f"{name}: {number} runs")
        alone = set(variation.varied) if len(variation.varied) == 1 else set()
        if alone and variation.base == 0 and _change_nothing(_made(request, _ENOUGH_TO_COMPARE, carry_out)):
            inert |= alone
        if alone & inert:
            say(f"{name}: no further runs: the seed changes nothing in the first steps of training")
        else:
            _made(request, number, carry_out)


def _made(request: Request, number: int, carry_out: Callable[[Request], object]) -> tuple[RunLog, ...]:
    """Make the missing ones of so many runs of a folder; return all that are there."""
    assert request.out is not None
    carry_out(replace(request, runs=number))
    logs = read_result(request.out).runs
    if len(logs) < number:
        raise WorkerError(f"{request.out}: {len(logs)} of {number} runs could be made; their logs say why")
    return logs


def read(paths: Iterable[Path], ruleset: RuleSet) -> Study:
    """Return the runs at or below `paths`, grouped by what was fixed.

    Raises:
        UsageError: they are of several benchmarks or recipes, or of a benchmark that the ruleset lacks; or their seeds
            cannot be read. SubmissionError: there is no result.
    """
    notes: list[str] = []
    results = [read_result(found) for found in dict.fromkeys(found for path in paths for found in find_results(path))]
    logs = [(result, log) for result in results for log in result.runs]
    notes += [
        f"{printable(part.path)}: left out: {printable(part.message)}"
        for result in results
        for part in result.unreadable
    ]
    rules = _rules_of([log for _, log in logs], ruleset)
    _refuse_other_recipes([log for _, log in logs])
    by_fixed: dict[tuple[Path, str], list[tuple[RunLog, Seeds | None]]] = {}
    drawn: dict[tuple[str, ...], RunLog] = {}
    for result, log in logs:
        seeds = _seeds(log)
        if log.first(keys.TTA_END) is None:
            notes.append(f"{printable(log.path)}: left out: the log has no end")
            continue
        if seeds is None or not seeds.fixed:
            own = tuple(printable(log.value(keys.SEED) if seeds is None else seeds[name], 60) for name in SOURCES)
            if (other := drawn.setdefault(own, log)) is not log:
                notes.append(f"{printable(log.path)}: left out: has the seed of {printable(other.path)}")
                continue
        by_fixed.setdefault((_folder(result), _fixed(seeds)), []).append((log, seeds))
    runs = tuple(_runs(path, members, rules) for (path, _), members in by_fixed.items())
    if not runs:
        raise UsageError("variance: there are no finished runs here")
    inert = tuple(_inert(runs))
    return Study(rules, runs, inert, (*notes, *_missed(runs), *_odd(runs, inert)))


def _folder(result: Result) -> Path:
    return result.path if result.kind != "log" else result.path.parent


def _fixed(seeds: Seeds | None) -> str:
    return "" if seeds is None else json.dumps(seeds.record()["fixed"], sort_keys=True)


def _seeds(log: RunLog) -> Seeds | None:
    try:
        seeds = seeds_of(log)
    except ValueError as error:
        raise UsageError(f"{printable(log.path)}: tta_seeds: {error}") from None
    if seeds is not None and len(seeds.varied) not in (0, 1, len(SOURCES)):
        raise UsageError(
            f"{printable(log.path)}: tta_seeds: varies several sources, but not all; one at a time is read"
        )
    return seeds


def _rules_of(logs: Sequence[RunLog], ruleset: RuleSet) -> BenchmarkRules:
    names = sorted({printable(log.value(keys.SUBMISSION_BENCHMARK), 60) for log in logs})
    if len(names) != 1:
        raise UsageError(f"variance: runs of several benchmarks: {', '.join(names)}" if names else "variance: no runs")
    if names[0] not in ruleset.benchmarks:
        raise UsageError(f"variance: ruleset {ruleset.version} has no benchmark {names[0]!r}")
    return ruleset.benchmarks[names[0]]


def _refuse_other_recipes(logs: Sequence[RunLog]) -> None:
    """Runs of different recipes have different means and different scatter."""
    first = _recipe(logs[0])
    for log in logs[1:]:
        own = _recipe(log)
        for name in sorted({*first, *own}):
            if first.get(name) != own.get(name):
                now, then = printable(own.get(name), 60), printable(first.get(name), 60)
                raise UsageError(
                    f"{printable(log.path)}: {printable(name, 60)} is {now}, that of {printable(logs[0].path)} {then}; "
                    "name runs of one recipe"
                )


def _recipe(log: RunLog) -> Mapping[str, Any]:
    given = log.field(keys.TTA_CONFIG, "hyperparameters")
    return {**(given if isinstance(given, dict) else {}), "module": log.field(keys.TTA_CONFIG, "module")}


def _runs(path: Path, members: Sequence[tuple[RunLog, Seeds | None]], rules: BenchmarkRules) -> Runs:
    logs, seeds = tuple(log for log, _ in members), members[0][1]
    varied = SOURCES if seeds is None else tuple(name for name in SOURCES if name in seeds.varied)
    samples = [samples_to_target(log, rules) for log in logs]
    positive = (None if number is None or number <= 0 else number for number in samples)
    return Runs(path, logs, seeds, Group(varied, tuple(positive)))


def _missed(runs: Sequence[Runs]) -> Iterator[str]:
    for own in runs:
        for log, samples in zip(own.logs, own.group.samples, strict=True):
            if samples is None:
                stop = log.first(keys.RUN_STOP)
                reason = None if stop is None else stop.metadata.get("reason")
                yield f"{printable(log.path)}: missed the target: {printable(reason, 60)}"


def _inert(runs: Sequence[Runs]) -> Iterator[str]:
    """The sources that were varied by themselves, and to no effect."""
    for source in SOURCES:
        own = [one.logs for one in runs if one.group.varied == (source,)]
        if own and all(map(_change_nothing, own)):
            yield source


def _change_nothing(logs: Sequence[RunLog]) -> bool:
    """Whether at least two runs have their first steps, and all have the same."""
    replays = [replay for log in logs if (replay := replay_of(log)) is not None and replay.num_steps]
    return 1 < len(replays) == len(logs) and all(replay == replays[0] for replay in replays)


def _odd(runs: Sequence[Runs], inert: Sequence[str]) -> Iterator[str]:
    """What the first steps of the runs say of the seeds: what they do not hold, and what they do not touch."""
    for own in runs:
        drawn = {replay.weights["0"] for log in own.logs if (replay := replay_of(log)) is not None and replay.num_steps}
        if own.seeds is not None and WEIGHTS in own.seeds.fixed and len(drawn) > 1:
            yield f"{printable(own.path)}: the initial weights differ, although their seed is the same"
    for source in inert:
        yield f"{source}: the seed changes nothing in the first steps of training; runs of it count as repeats"
