"""A benchmark of a round in words, as Markdown: what a log must say, what a result is. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.mlperf.model import KeyRule, Page, Round, RoundBenchmark


def benchmark_in_words(round_: Round, benchmark: RoundBenchmark) -> str:
    """The rules of `benchmark` for a reader."""
    kept = benchmark.num_runs - 2 * benchmark.drop
    each = "" if benchmark.drop == 1 else f"{benchmark.drop} "
    lines = [
        f"# {benchmark.name} in {round_.version}",
        "",
        f"- A result is {benchmark.num_runs} runs; the {each}fastest and the {each}slowest are left out, "
        f"and the mean of {kept} is the score.",
    ]
    for division in benchmark.pages:
        target = benchmark.target(division)
        if target is not None:
            lines.append(f"- {division}: one {benchmark.target_key} at least must meet `{target.text}`.")
    for division, limit_s in round_.max_init_s.items():
        lines.append(f"- {division}: from the first init_start to init_stop less than {limit_s / 60:g} minutes.")
    if (join := benchmark.join) is not None:
        lines.append(f"- The {join.key} of one {join.by} count as one {join.into}, by the {join.part} that each names.")
    if benchmark.distance is not None:
        unit = f", in {benchmark.convergence[0].unit}" if benchmark.convergence else ""
        lines.append(
            f"- closed: the distance from one evaluation to the next{unit}, must meet `{benchmark.distance.text}`; "
            "`tta audit` looks at it (AUD014), MLPerf's own program does not."
        )
    for division, page in benchmark.pages.items():
        lines += ["", f"## Keys, {division} division", "", *_page(page)]
        for value, variant in benchmark.variants.get(division, {}).items():
            own = Page({key: rule for key, rule in variant.keys.items() if page.keys.get(key) != rule})
            lines += ["", f"### Where {benchmark.variant_key} is {value}, also", "", *_page(own)]
    lines += ["", "## Reference convergence", "", *_references(benchmark)]
    return "\n".join(lines) + "\n"


def round_in_words(round_: Round) -> str:
    """The benchmarks of a round, one a line."""
    lines = [f"# {round_.version}", "", "| benchmark | runs | left out at either end | divisions | target (closed) |"]
    lines.append("|---|---:|---:|---|---|")
    for benchmark in round_.benchmarks.values():
        target = benchmark.target()
        shown = f"`{target.text}`" if target is not None else ""
        divisions = ", ".join(benchmark.pages)
        lines.append(f"| {benchmark.name} | {benchmark.num_runs} | {benchmark.drop} | {divisions} | {shown} |")
    return "\n".join(lines) + "\n"


def _page(page: Page) -> Iterator[str]:
    yield "| key | how often | what each line must meet | place |"
    yield "|---|---|---|---|"
    for key in sorted(page.keys):
        rule = page.keys[key]
        yield f"| {key} | {rule.count.words} | {_demands(rule)} | {_place(rule)} |"
    for group in dict.fromkeys(page.either):
        yield f"| {' or '.join(group)} | one of them at least | | |"


def _demands(rule: KeyRule) -> str:
    parts = [f"`{demand.text}`" for demand in rule.each]
    parts += [f"`{demand.text}` (the first line)" for demand in rule.first]
    if rule.target is not None:
        parts.append(f"`{rule.target.text}` (one line at least)")
    if rule.lists is not None:
        parts.append(f"together they name {len(rule.lists[1])} {rule.lists[0]}s, each once")
    return "; ".join(parts)


def _place(rule: KeyRule) -> str:
    return "; ".join(
        f"{word} {', '.join(keys)}" for word, keys in (("after", rule.after), ("before", rule.before)) if keys
    )


def _references(benchmark: RoundBenchmark) -> Iterator[str]:
    if not benchmark.convergence:
        yield "None is known: a result is not held against reference runs."
        return
    yield "| reference | batch size | runs | least | mean | most | unit |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for item in sorted(benchmark.convergence, key=lambda item: item.global_batch_size):
        mean = sum(item.points) / len(item.points)
        yield (
            f"| {item.name} | {item.global_batch_size:,} | {len(item.points)} | {min(item.points):,.10g} "
            f"| {mean:,.6g} | {max(item.points):,.10g} | {item.unit} |"
        )
