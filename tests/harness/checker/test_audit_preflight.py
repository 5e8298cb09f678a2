"""What the audit makes of the preflight in a system description: runs beyond a peak, odd machines, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.submission.preflight import carried
from harness.submission.system import PREFLIGHT_KEY
from tests import fabricate
from tests.auditing import audit, codes, found
from tests.fabricate import Step, find

# A run of `tests.fabricate` trains 3,000 samples in 7.7 s, and `tests.auditing` says that one has a forward pass of
# 1 MFLOP: 1.169 GFLOP/s.
REACHED = 3 * 1e6 * 3000 / 7.7
GPU = {"accelerators_per_node": "4", "accelerator_model_name": "Toy 100"}


def recorded(peak: float, devices: int = 1, threads: int | None = 2, number: int = 1, **rates: float) -> dict[str, Any]:
    """A preflight as a description has it. peak: of one device in fp32. number: tells it from others."""
    found: dict[str, Any] = {
        "made": "2025-11-21T12:00:00Z",
        "devices": devices,
        "threads": threads,
        "rates": {
            "matrix product 10 x 20 x 30, fp32": peak,
            "convolution 4 x 3 x 8 x 8 by 16 of 3 x 3 / 1, fp32": 0.7 * peak,
            "reading memory": 20 * peak,
            "reading the disk": 1e9 * number,
            **rates,
        },
        "warnings": [],
        "digest": f"{number:064x}",
    }
    if threads is None:
        del found["threads"]
    return found


def on_gpu(peak: float, devices: int = 4, **more: Any) -> dict[str, Any]:
    return recorded(peak, devices, **{"copy host to device": 1e10}, **more)


def submitted(tree: Path, preflight: object, system: dict[str, Any] | None = None, **options: Any) -> Path:
    """A submission whose description carries the preflight."""
    described = {**fabricate.SYSTEM, **(system or {}), PREFLIGHT_KEY: preflight}
    return fabricate.write_submission(tree, system=described, **options)


def fires(tree: Path, code: str) -> bool:
    return bool(found(tree, code, None))


@pytest.mark.parametrize(("of_peak", "is_found"), [(1.499, False), (1.501, True)])
def test_a_run_beyond_its_own_peak_is_found(of_peak: float, is_found: bool, tmp_path: Path) -> None:
    """AUD080: the fastest of five runs, at the limit and beyond; nothing else is odd about it."""
    submitted(tmp_path, recorded(REACHED / of_peak))

    suspicions = audit(tmp_path, None)

    assert codes(suspicions) == ({"AUD080"} if is_found else set())
    assert [item.finding.message for item in suspicions] == [
        "training does 1.17e+09 FLOP/s, 1.50 times the 7.79e+08 that the system's own preflight reached in fp32; 1.5 "
        "times can be (in 1 of 5 runs)"
    ] * is_found


def with_threads(threads: int) -> Any:
    def change(index: int, steps: list[Step]) -> list[Step]:
        for rank in find(steps, "tta_world").value:
            rank["num_threads"] = threads
        return steps

    return change


def in_precision(name: str) -> Any:
    def change(index: int, steps: list[Step]) -> list[Step]:
        find(steps, "tta_config").value["precision"] = name
        return steps

    return change


SLOW = REACHED / 2  # two times its peak


@pytest.mark.parametrize(
    ("preflight", "options", "is_found"),
    [
        pytest.param(recorded(SLOW), {}, True, id="a host"),
        pytest.param(recorded(SLOW, devices=2), {}, False, id="two processes that were measured at once"),
        pytest.param(recorded(SLOW, threads=None), {}, False, id="of so many threads as no one knows"),
        pytest.param(recorded(SLOW), {"change": with_threads(4)}, False, id="a run of twice the threads"),
        pytest.param(recorded(SLOW), {"change": with_threads(2)}, True, id="a run of as many threads"),
        pytest.param(recorded(SLOW), {"num_nodes": 2}, False, id="two nodes"),
        pytest.param(recorded(SLOW), {"division": "open"}, False, id="the open division has other networks"),
        pytest.param(recorded(SLOW), {"change": in_precision("bf16")}, False, id="a precision that was not measured"),
        pytest.param(
            recorded(SLOW, **{"matrix product 10 x 20 x 30, bf16": SLOW / 2}),
            {"change": in_precision("bf16")},
            True,
            id="bf16, slower than fp32 on this host",
        ),
        pytest.param(
            recorded(SLOW, **{"convolution 1 x 1, fp32": REACHED}),
            {},
            False,
            id="a convolution is faster than products",
        ),
        pytest.param(on_gpu(REACHED / 8), {"system": GPU}, True, id="four accelerators"),
        pytest.param(
            on_gpu(REACHED / 4, devices=1), {"system": GPU}, False, id="one of four accelerators was measured"
        ),
        pytest.param(
            {**recorded(SLOW), "warnings": ["reading memory: its times vary by 50 % (interquartile range)", "hot"]},
            {},
            True,
            id="one operation of four varies",
        ),
        pytest.param(
            {
                **recorded(SLOW),
                "warnings": [f"reading {what}: its times vary by 50 % (iqr)" for what in ("memory", "the disk")],
            },
            {},
            False,
            id="the machine was busy",
        ),
    ],
)
def test_the_peak_is_that_of_the_systems_devices(
    preflight: dict[str, Any], options: dict[str, Any], is_found: bool, tmp_path: Path
) -> None:
    """AUD080: of the run's precision or of fp32, of all devices, processes, threads and nodes."""
    submitted(tmp_path, preflight, **options)

    assert fires(tmp_path, "AUD080") == is_found


@pytest.mark.parametrize("value", [None, "h", [7, {"num_threads": "4"}, {"num_threads": 10**400}]])
def test_threads_that_a_log_does_not_state_are_none(value: object, tmp_path: Path) -> None:
    """AUD080: whatever is in the place of the world."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        find(steps, "tta_world").value = value
        return steps

    submitted(tmp_path, recorded(SLOW), change=change)

    assert fires(tmp_path, "AUD080")


def test_a_benchmark_without_operations_or_samples_is_not_looked_at(tmp_path: Path) -> None:
    """AUD080: the audit's rules do not know it, its runs count epochs, or the number of nodes is not described."""

    def in_epochs(index: int, steps: list[Step]) -> list[Step]:
        for step in steps:
            if step.key == "eval_accuracy":
                step.metadata["epoch_num"] = step.metadata.pop("samples_count")
        return steps

    def unevaluated(index: int, steps: list[Step]) -> list[Step]:
        return [step for step in steps if step.key != "eval_accuracy"]

    submitted(tmp_path / "other", recorded(1.0), rules=fabricate.benchmark_rules(suite="full"))
    submitted(tmp_path / "epochs", recorded(1.0), change=in_epochs)
    submitted(tmp_path / "none", recorded(1.0), change=unevaluated)
    submitted(tmp_path / "nodes", recorded(1.0), system={"number_of_nodes": "some"})

    assert not fires(tmp_path, "AUD080")


def machines(tree: Path, *peaks: float, **changes: Any) -> Path:
    """A submission of each of several submitters, on machines that are described alike. changes: to the first one."""
    for number, peak in enumerate(peaks, 1):
        record, names = recorded(1e12 * peak, number=number), {"submitter": f"s{number}", "system_name": f"box{number}"}
        if number == 1:
            record |= {name: value for name, value in changes.items() if name in record}
            names |= {name: value for name, value in changes.items() if name not in record}
        submitted(tree, record, names, num_runs=1)
    return tree


@pytest.mark.parametrize(
    ("peaks", "said"),
    [
        ((0.8, 1.0, 1.0, 1.0), None),
        ((0.7, 1.0, 1.0, 1.1), "1.43 times slower than the median of 4 machines"),
        ((1.4, 1.0, 1.0, 0.9), "1.40 times faster than the median of 4 machines"),
        ((1.3, 1.0, 1.0, 0.9), None),
        ((0.1, 1.0, 1.0), None),
    ],
    ids=["a little slower", "slower", "faster", "at the limit", "too few"],
)
def test_a_machine_unlike_its_like_is_found(peaks: tuple[float, ...], said: str | None, tmp_path: Path) -> None:
    """AUD081: in the middle one of three operations, for the disk does not count."""
    suspicions = found(machines(tmp_path, *peaks), "AUD081", None)

    assert ["s1" in item.finding.path for item in suspicions] == [True] * (said is not None)
    assert all(
        f"{said} that are described alike, in the middle one of 3" in item.finding.message for item in suspicions
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"devices": 2},
        {"host_processor_model_name": "Other 1"},
        {"host_processor_model_name": "unknown"},
        {"host_processor_vcpu_count": 2},
        {
            "warnings": [
                "reading memory: its times vary by 11 %",
                "matrix product 10 x 20 x 30, fp32: its times vary by 9 %",
            ]
        },
        {"rates": {"reading the disk": 5.0}},
    ],
    ids=["as many devices", "other processors", "unknown processors", "no text", "a busy machine", "the disk alone"],
)
def test_machines_that_are_not_alike_are_not_compared(changes: dict[str, Any], tmp_path: Path) -> None:
    """AUD081: one of four is ten times as slow, and another machine, or was busy."""
    assert not fires(machines(tmp_path, 0.1, 1.0, 1.0, 1.0, **changes), "AUD081")


def test_a_preflight_of_several_results_counts_once(tmp_path: Path) -> None:
    """AUD081: three results of one system do not make its peak the usual one."""
    machines(tmp_path, 0.5, 1.0, 1.0, 1.0)
    names = {"submitter": "s1", "system_name": "box1"}
    for workload in ("one", "two", "three"):
        rules = fabricate.benchmark_rules(workload=workload)
        submitted(tmp_path, recorded(0.5e12), names, num_runs=1, rules=rules)

    assert len(found(tmp_path, "AUD081", None)) == 1


SOUND = recorded(1e12)


@pytest.mark.parametrize(
    ("preflight", "system", "said"),
    [
        ("fast", {}, "tta_preflight is 'fast', not an object"),
        ({}, {}, "devices is 'None', not a number of them"),
        ({**SOUND, "devices": True}, {}, "devices is 'True'"),
        ({**SOUND, "devices": 0}, {}, "devices is '0'"),
        ({**SOUND, "threads": 10**9}, {}, "threads is '1000000000'"),
        ({**SOUND, "made": 1.0}, {}, "made is '1.0', not a time"),
        ({**SOUND, "made": "yesterday"}, {}, "made is 'yesterday', not a time"),
        ({**SOUND, "digest": "abc"}, {}, "digest is 'abc', not a SHA-256"),
        ({**SOUND, "digest": None}, {}, "digest is 'None', not a SHA-256"),
        ({**SOUND, "rates": {}}, {}, "it has no rates"),
        ({**SOUND, "rates": [1.0]}, {}, "it has no rates"),
        ({**SOUND, "rates": {"reading memory": 0}}, {}, "reading memory is '0', no rate of a machine"),
        ({**SOUND, "rates": {"reading memory": 1e30}}, {}, "reading memory is '1e+30'"),
        ({**SOUND, "rates": {"reading memory": "12"}}, {}, "reading memory is '12'"),
        ({**SOUND, "warnings": None}, {}, "its warnings are no list of texts"),
        ({**SOUND, "warnings": [1]}, {}, "its warnings are no list of texts"),
        (SOUND, GPU, "it has no operation of one; the description has 4 accelerators per node"),
        (on_gpu(1e12), {}, "it has copies between host and accelerator; the description has 0 accelerators"),
        (on_gpu(1e12, devices=8), GPU, "it is of 8 devices; the description has 4 accelerators per node"),
    ],
)
def test_what_is_no_preflight_of_the_system_is_found(
    preflight: object, system: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """AUD082: with the description's place; no other signal looks at it."""
    folder = submitted(tmp_path, preflight, system)

    (suspicion,) = audit(tmp_path, None)

    assert suspicion.finding.code == "AUD082"
    assert suspicion.finding.path == str(folder.parents[2] / "systems" / "box1.json")
    assert suspicion.finding.message.startswith(f"the preflight in the system description: {said}")


@pytest.mark.parametrize(
    ("preflight", "system"),
    [(SOUND, {}), (on_gpu(1e12), GPU), (on_gpu(1e12), {"accelerators_per_node": "some"}), (None, {})],
    ids=["host", "accelerators", "accelerators that are not counted", "none"],
)
def test_a_preflight_of_the_system_is_not_suspicious(preflight: object, system: dict[str, Any], tmp_path: Path) -> None:
    submitted(tmp_path, preflight, system)

    assert audit(tmp_path, None) == []


def test_a_description_that_there_is_not_carries_none() -> None:
    assert carried(None) is None
