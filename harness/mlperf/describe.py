"""Descriptions of a round and its benchmarks, as Markdown: what a log must have, what a result is. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.mlperf.model import Evaluated, KeyRule, LogRules, Round, RoundBenchmark, TrainSamples

_EVALUATED: dict[Evaluated, str] = {
    "online": "Evaluation is on the clock",
    "afterwards": "Checkpoints are evaluated after training; run_stop has the time of the first one that passed",
    "either": "Evaluation is on the clock or, from checkpoints, after training",
}
_TRAIN_SAMPLES: dict[TrainSamples, str] = {
    "run": "train_samples counts the samples up to the end of the run",
    "batches": "train_samples counts batches",
    "games": "train_samples counts self-play games, whose number grows during the run",
    "unstated": "train_samples is not the size of the data",
}


def benchmark_in_words(round_: Round, benchmark: RoundBenchmark) -> str:
    """Return the rules of one benchmark."""
    kept = benchmark.num_runs - 2 * benchmark.drop
    each = "" if benchmark.drop == 1 else f"{benchmark.drop} "
    lines = [
        f"# {benchmark.name} in {round_.version}",
        "",
        f"- A result is {benchmark.num_runs} runs. The {each}fastest and the {each}slowest are left out, "
        f"and the score is the mean of the other {kept}.",
    ]
    for division in benchmark.divisions:
        target = benchmark.target(division)
        if target is not None:
            lines.append(f"- {division}: at least one {benchmark.target_key} must meet `{target.text}`.")
    for division, limit_s in round_.max_init_s.items():
        lines.append(f"- {division}: less than {limit_s / 60:g} minutes from the first init_start to init_stop.")
    if (join := benchmark.join) is not None:
        lines.append(f"- The {join.key} lines of one {join.by} count as one {join.into}; each names its {join.part}.")
    lines += [f"- {fact}." for fact in _facts(benchmark)]
    if benchmark.distance is not None:
        unit = f" (in {benchmark.convergence[0].unit})" if benchmark.convergence else ""
        lines.append(
            f"- closed: the distance between evaluations{unit} must meet `{benchmark.distance.text}`; `tta audit` "
            "checks this (AUD014), MLPerf's own program does not."
        )
    for division, rules in benchmark.divisions.items():
        lines += ["", f"## Keys, {division} division", "", *_table(rules)]
        for value, variant in benchmark.variants.get(division, {}).items():
            own = LogRules({key: rule for key, rule in variant.keys.items() if rules.keys.get(key) != rule})
            lines += ["", f"### Additionally, if {benchmark.variant_key} is {value}", "", *_table(own)]
    lines += ["", "## Reference convergence", "", *_references(benchmark)]
    return "\n".join(lines) + "\n"


def _facts(benchmark: RoundBenchmark) -> Iterator[str]:
    """What logs of the benchmark are like, where it differs from most; see `RoundBenchmark`."""
    yield _EVALUATED[benchmark.evaluated]
    yield f"Evaluations state their position in training as {benchmark.position}"
    if benchmark.first_evaluations == "late":
        yield "The schedule of evaluations begins late: a run may be evaluated only once"
    if benchmark.train_samples != "data":
        yield _TRAIN_SAMPLES[benchmark.train_samples]
    if benchmark.training_set:
        yield f"The training set has {benchmark.training_set:,} samples"
    if benchmark.reprint_tolerance:
        yield f"Values of one evaluation that differ by up to {benchmark.reprint_tolerance:g} of themselves are equal"
    if benchmark.convergence_allowance:
        unit = f" {benchmark.convergence[0].unit}" if benchmark.convergence else ""
        yield f"A result may converge {benchmark.convergence_allowance:,g}{unit} faster than the acceptable mean"
    for code, severity in benchmark.codes.items():
        yield f"{code} is of severity {severity} here"


def round_in_words(round_: Round) -> str:
    """Return a table of the benchmarks of a round."""
    lines = [f"# {round_.version}", "", "| benchmark | runs | left out at each end | divisions | target (closed) |"]
    lines.append("|---|---:|---:|---|---|")
    for benchmark in round_.benchmarks.values():
        target = benchmark.target()
        shown = f"`{target.text}`" if target is not None else ""
        divisions = ", ".join(benchmark.divisions)
        lines.append(f"| {benchmark.name} | {benchmark.num_runs} | {benchmark.drop} | {divisions} | {shown} |")
    return "\n".join(lines) + "\n"


def _table(rules: LogRules) -> Iterator[str]:
    yield "| key | how often | constraints on each line | order |"
    yield "|---|---|---|---|"
    for key in sorted(rules.keys):
        rule = rules.keys[key]
        yield f"| {key} | {rule.count.words} | {_constraints(rule)} | {_order(rule)} |"
    for group in dict.fromkeys(rules.either):
        yield f"| {' or '.join(group)} | at least one of them | | |"


def _constraints(rule: KeyRule) -> str:
    parts = [f"`{constraint.text}`" for constraint in rule.each]
    parts += [f"`{constraint.text}` (first line only)" for constraint in rule.first]
    if rule.target is not None:
        parts.append(f"`{rule.target.text}` (at least one line)")
    if rule.lists is not None:
        parts.append(f"together they name {len(rule.lists[1])} {rule.lists[0]}s, each once")
    return "; ".join(parts)


def _order(rule: KeyRule) -> str:
    return "; ".join(
        f"{word} {', '.join(keys)}" for word, keys in (("after", rule.after), ("before", rule.before)) if keys
    )


def _references(benchmark: RoundBenchmark) -> Iterator[str]:
    if not benchmark.convergence:
        yield "No reference runs are known, so a result is not compared with any."
        return
    yield "| reference | batch size | runs | least | mean | most | unit |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for item in sorted(benchmark.convergence, key=lambda item: item.global_batch_size):
        mean = sum(item.points) / len(item.points)
        yield (
            f"| {item.name} | {item.global_batch_size:,} | {len(item.points)} | {min(item.points):,.10g} "
            f"| {mean:,.6g} | {max(item.points):,.10g} | {item.unit} |"
        )
