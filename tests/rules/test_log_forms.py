"""Every key of a run: present, once, with its event type, and each value of its form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checker import registry
from harness.findings import Fault
from harness.log import keys, run_log
from tests import fabricate
from tests.fabricate import Step, find
from tests.rules.box import drop, put

RUN = fabricate.events(mono_ns=fabricate.MONO_NS)
KEYS = list(dict.fromkeys(step.key for step in RUN if not step.key.startswith(keys.HYPERPARAMETER_PREFIX)))
VALUES = [
    *(f"submission_{name}" for name in ("benchmark", "division", "org", "platform", "status")),
    *("seed", "train_samples", "eval_samples", "cache_clear", "tta_world", "tta_data_touched_early"),
]
FIELDS = {
    "tta_format": "version harness run_id result_id index",
    "tta_rules": "ruleset terms_digest",
    "tta_system": "name digest",
    "tta_config": "benchmark division seed num_devices precision hyperparameters",
    "tta_resolved": "hyperparameters",
    "tta_numerics": "flags versions environment",
    "tta_data": "digest num_files num_bytes",
    "tracked_stats": "data_wait_s throughput",
    "tta_clock": "mono_ns",
    "tta_energy": "source",
    "tta_ledger": "run_s init_s data_s train_s eval_s checkpoint_s other_s",
    "tta_end": "num_events wall_drift_ms",
}
METADATA = {
    "tta_config": "digest",
    "tta_resolved": "digest",
    "run_start": "samples_count",
    "block_start": "samples_count",
    "block_stop": "samples_count",
    "eval_start": "samples_count",
    "eval_stop": "samples_count",
    "eval_accuracy": "samples_count num_examples",
    "run_stop": "status reason samples_count",
}


def faults(place: Path, code: str, damage: Callable[[list[Step]], object]) -> list[Fault]:
    """What one check finds in a log, which also has tta_clock."""
    steps = fabricate.events(mono_ns=fabricate.MONO_NS)
    damage(steps)
    log = run_log.read(fabricate.write_log(place / "result_0.txt", steps))
    rules = fabricate.benchmark_rules()
    return list(registry.checks()[code].check(log, rules, fabricate.ruleset({}, rules)))


@pytest.mark.parametrize(
    ("name", "field", "is_metadata"),
    [
        *((name, None, False) for name in VALUES),
        *((name, None, False) for name in FIELDS),
        *((name, field, False) for name, fields in FIELDS.items() for field in fields.split()),
        *((name, field, True) for name, fields in METADATA.items() for field in fields.split()),
    ],
)
def test_null_has_no_valid_form(tmp_path: Path, name: str, field: str | None, is_metadata: bool) -> None:
    """No value and no field may be null; it is found on its line, by its name."""

    def damage(steps: list[Step]) -> None:
        step = find(steps, name)
        if field is None:
            step.value = None
        elif is_metadata:
            step.metadata[field] = None
        else:
            step.value = {**step.value, field: None}

    (fault,) = faults(tmp_path, "LOG021", damage)
    assert fault.line == [step.key for step in RUN].index(name) + 1
    assert f"{field or name} is 'None'" in fault.message


@pytest.mark.parametrize("name", [name for name in KEYS if name.endswith(("_start", "_stop"))])
def test_both_ends_of_an_interval_have_their_type(tmp_path: Path, name: str) -> None:
    """A point is neither, and a start is not an end."""
    line = [step.key for step in RUN].index(name) + 1
    for wrong in {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"} - {find(RUN, name).event_type}:

        def damage(steps: list[Step], event_type: str = wrong) -> None:
            find(steps, name).event_type = event_type

        assert [fault.line for fault in faults(tmp_path, "LOG023", damage)] == [line]


@pytest.mark.parametrize("name", [name for name in KEYS if name not in ("tta_clock", "run_stop", "tta_end")])
def test_no_key_of_a_success_may_be_missing(tmp_path: Path, name: str) -> None:
    """Except tta_clock, which a run without meters lacks; run_stop and tta_end have their own findings."""
    found = faults(tmp_path, "LOG011", lambda steps: drop(steps, name))

    assert [fault.evidence["missing"] for fault in found] == [[name]]


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_logged_once_except_those_of_blocks_and_evaluations(tmp_path: Path, name: str) -> None:
    def damage(steps: list[Step]) -> None:
        step = find(steps, name)
        put(steps, Step(0, name, step.value, dict(step.metadata), step.event_type), name)

    found = faults(tmp_path, "LOG012", damage)
    assert [fault.evidence["key"] for fault in found] == ([] if name in keys.BODY_KEYS else [name])
