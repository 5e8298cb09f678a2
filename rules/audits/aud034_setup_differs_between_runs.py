"""The runs of one result state different settings.

## What it does
Compares between the runs the batch size, the sizes of the data and every hyperparameter that each log states once:
everything that is neither a seed nor a measurement, nor a number of samples that follows from the run.

## Why it matters
The runs of a result are one recipe with several seeds. A run with a setting of its own was made for something else.

## Example
Nine runs have global_batch_size 8, the tenth 16.

## Instead
Use one recipe.

## Source
MLPerf training rules, "Hyperparameters": the runs of a result are of one configuration.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "result"
LIMITS = ("min_runs",)
SETTINGS = (keys.GLOBAL_BATCH_SIZE, keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES, "gradient_accumulation_steps")
OF_DATA = ("data", "batches")  # where `train_samples` is a stopping point or grows by play, it differs from run to run
PREFIXES = ("opt_", "lars_", "sgd_", "lora_")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    if len(subject.runs) < rule["min_runs"]:
        return
    stated = [(run, _settings(run)) for run in subject.runs]
    names = sorted({name for _, settings in stated for name in settings})
    for name in names:
        values = [(run, settings[name]) for run, settings in stated if name in settings]
        common, times = Counter(value for _, value in values).most_common(1)[0]
        odd = [(run, value) for run, value in values if value != common]
        if odd and times > len(values) / 2:
            run, value = odd[0]
            yield evidence(
                run.path,
                run.log.line_of(name),
                f"{name} is {value}; in {times} other runs it is {common} ({len(odd)} of {len(values)} runs differ)",
                1 / len(odd),
                setting=name,
                runs=len(odd),
            )


def _settings(run: RunFacts) -> dict[str, str]:
    """Settings that are stated once, as JSON; what is logged after the run is a measurement of it."""
    benchmark = run.standard.benchmark
    is_of_data = benchmark is None or benchmark.train_samples in OF_DATA
    settings = SETTINGS if is_of_data else tuple(key for key in SETTINGS if key != keys.TRAIN_SAMPLES)
    end = run.stop.lineno if run.stop is not None else run.log.num_lines
    return {
        event.key: json.dumps(event.value, sort_keys=True)[:80]
        for event in run.log.events
        if (event.key in settings or event.key.startswith(PREFIXES))
        and run.log.counts[event.key] == 1
        and event.lineno < end
    }
