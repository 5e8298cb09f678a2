"""The pace of a run from a profile, a sweep, or a prediction: numbers that a reader can check in the head."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.characterise.cells import REAL, SYNTHETIC, Cell, Row
from harness.characterise.pacing import of_profile, of_sweep, predicted, predicted_step_s, read_profile
from harness.characterise.power import Drawn
from harness.characterise.preflight import Preflight
from harness.characterise.profile import Profile, document
from harness.characterise.sweep import Sweep
from harness.errors import InputError, UsageError
from harness.scoring.estimate import Power
from tests import fabricate
from tests.harness.characterise.test_preflight import measured as of_preflight

RULES = fabricate.benchmark_rules(eval_every_samples=1000)
BOX = {
    "system_name": "box",
    "number_of_nodes": "1",
    "accelerators_per_node": "8",
    "accelerator_model_name": "H100",
    "host_processor_model_name": "CPU",
}


def summary(median: float, mad: float = 0.0, num: int = 50) -> dict[str, float]:
    return {"median": median, "mad": mad, "low": median, "high": median, "num": num}


def profile(**changed: Any) -> Profile:
    """A step of 100 samples in 1 s, of which the optimizer is 0.1 s; evaluations take 2 s."""
    phases = {"data": 0.1, "forward": 0.3, "backward": 0.5, "optimizer": 0.1, "other": 0.0001}
    measured = {
        "plain_step_s": 1.0001,
        "load_s": 0.5,
        "prepare_s": 4.0,
        "initialise_s": 1.0,
        "peak_flop_per_s": 1e12,
        "steps": {
            "seconds": summary(1.0001, 0.01),
            "phases": {name: summary(value) for name, value in phases.items()},
            "waited": summary(0.0),
            "exchange": summary(0.0),
            "exchanged_bytes": 0,
            "other_bytes": 0,
            "num_updates": 1,
            "loss_is_finite": True,
        },
        "network": {
            "fingerprint": {},
            "forward_flops": 10**9,
            "uncounted": {},
            "reasons": [],
            "counted_on": ["meta"],
            "memory": {"gradients": 1 << 20},
        },
        "evaluation": {"seconds": summary(2.0), "inference": summary(1.0), "num_examples": 10},
    }
    fields: dict[str, Any] = {
        "benchmark": RULES.name,
        "workload": RULES.workload,
        "suite": RULES.suite,
        "precision": "fp32",
        "num_devices": 1,
        "batch_size": 100,
        "num_steps": 50,
        "made": 1e9,
        "system": BOX,
        "measured": measured,
        "memory_at": {},
        "largest": None,
    }
    return Profile(**{**fields, **changed})


def preflight(bus: float = float(1 << 20), system: dict[str, str] | None = None) -> Preflight:
    """A bus bandwidth of 1 MiB/s: the gradients, of 1 MiB, take 2 (n - 1) / n seconds."""
    found = of_preflight()
    found["all_reduces"][0]["bytes_per_s"] = bus
    return Preflight(1e9, system or BOX, 2, found, None, {}, {}, ())


def test_pace_of_a_profile_has_its_evaluations() -> None:
    """10.001 ms a sample in training, and 2 s every 1,000 samples."""
    found = of_profile(profile(), RULES, "profile.json")

    assert found.pace is not None
    assert found.pace.sample_s == pytest.approx(0.010001 + 0.002)
    assert (found.pace.fixed_s, found.pace.init_s) == (0.5, 5.0)
    assert found.pace.system is not None
    assert found.pace.system.accelerators_per_node == 1  # of the eight, as many as were used
    assert (found.batch_size, found.num_devices, found.is_predicted) == (100, 1, False)
    assert "box" in found.note
    assert "an evaluation of 2 s every 1,000 samples" in found.note


def test_interval_of_a_profile_is_that_of_the_median_of_its_steps() -> None:
    """MAD 0.01 of 1.0001: standard deviation 1.4826 of that, standard error of a median of 50 1.2533 / sqrt(50)."""
    ((variance, dof),) = of_profile(profile(), RULES, "p").pace.errors  # type: ignore[union-attr]

    assert variance == pytest.approx((1.2533 * 1.4826 * 0.01 / 1.0001) ** 2 / 50)
    assert dof == 49


def test_interval_of_a_profile_has_what_differs_between_its_parts() -> None:
    """Three parts at 1, 2 and 4 seconds a step: logarithms ln 2 apart, with two degrees of freedom."""
    measured = profile()
    measured.measured["plain_parts_s"] = [1.0, 2.0, 4.0]  # type: ignore[index]

    found = of_profile(measured, RULES, "p").pace

    assert found is not None
    assert len(found.errors) == 2
    assert found.errors[1] == pytest.approx((math.log(2) ** 2, 2))


def test_paces_of_a_sweep_are_those_of_its_real_cells() -> None:
    rows = (
        Row(Cell(1, "fp32", 50, REAL), "ok", "", (0.5, 0.5)),
        Row(Cell(1, "fp32", 50, SYNTHETIC), "ok", "", (0.1, 0.1)),
        Row(Cell(2, "bf16", 100, REAL), "ok", "", (0.25, 0.25)),
        Row(Cell(4, "bf16", 100, REAL), "oom", "8 GiB"),
    )

    one, two = of_sweep(Sweep(RULES.name, 2, 0.0, BOX, rows), RULES, "cells.jsonl")

    assert [c.pace.sample_s for c in (one, two) if c.pace] == pytest.approx([0.01, 0.0025])
    assert (two.batch_size, two.num_devices, two.precision) == (100, 2, "bf16")
    assert two.pace is not None
    assert two.pace.system is not None
    assert two.pace.system.accelerators_per_node == 2
    with pytest.raises(UsageError, match="no cell was measured with real data"):
        of_sweep(Sweep(RULES.name, 2, 0.0, BOX, rows[1:2]), RULES, "cells.jsonl")


WATTS = Drawn(Power(300.0, 15.0, "B", "node (ac)"))
ONE = {**BOX, "accelerators_per_node": "1"}


def test_power_of_a_profile_is_that_of_its_pace() -> None:
    """A prediction has none, and a profile without a meter says why not."""
    one = replace(profile(), power=WATTS, system=ONE)

    found, none = of_profile(one, RULES, "p"), of_profile(profile(), RULES, "p")

    assert found.pace is not None
    assert (found.pace.power, found.pace.no_power) == (WATTS.power, "")
    assert "power: 300.0 W (± 15.0 W), measured, class B, of node (ac), of training, taken for the" in found.note
    assert none.pace is not None
    assert (none.pace.power, none.pace.no_power) == (None, "no meter was read while this was measured")
    assert "power" not in none.note
    more = predicted(one, preflight(), RULES, 2, "p")
    assert more.pace is not None
    assert (more.pace.power, more.pace.no_power) == (None, "a prediction has no power")


def test_power_of_idle_accelerators_is_not_that_of_a_pace() -> None:
    """One of eight trained; the meters saw them all."""
    found = of_profile(replace(profile(), power=WATTS), RULES, "p")

    assert found.pace is not None
    assert (found.pace.power, found.pace.no_power) == (None, "the meters saw 8 accelerators, of which 1 trained")


def test_power_of_a_cell_is_that_of_its_pace() -> None:
    row = Row(Cell(1, "fp32", 50, REAL), "ok", "", (0.5, 0.5), power=WATTS)

    (found,) = of_sweep(Sweep(RULES.name, 2, 0.0, ONE, (row,)), RULES, "cells.jsonl")

    assert found.pace is not None
    assert found.pace.power == WATTS.power
    assert "power: 300.0 W" in found.note


@pytest.mark.parametrize(("devices", "seconds"), [(1, 1.0001), (2, 0.45005 + 0.1 + 1.0), (4, 0.225025 + 0.1 + 1.5)])
def test_prediction_is_compute_over_n_and_communication(devices: int, seconds: float) -> None:
    """What is computed is divided, the optimizer is not, and the gradients pass a ring."""
    assert predicted_step_s(profile(), preflight(), devices) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("num_bytes", "seconds"),
    [(1 << 10, 1.0), (1 << 20, 1.0), (2 << 20, 1.0), (4 << 20, 1.0), (8 << 20, 2.0)],
    ids=["less", "smallest", "between", "largest", "more"],
)
def test_all_reduce_of_a_size_that_was_not_measured(num_bytes: int, seconds: float) -> None:
    """1 MiB and 4 MiB took a second each: so do less, and what lies between; more has the bandwidth of the largest."""
    measured, found = preflight(), profile()
    (one,) = measured.measured["all_reduces"]
    larger = {**one, "bytes": 4 << 20, "bytes_per_s": float(4 << 20)}
    measured.measured["all_reduces"].insert(0, larger)  # in any order
    found.measured["network"]["memory"]["gradients"] = num_bytes  # type: ignore[index]

    assert predicted_step_s(found, measured, 2) == pytest.approx(0.45005 + 0.1 + seconds)


@pytest.mark.parametrize(
    ("normalised", "accelerators", "devices", "sums"),
    [
        ({"calls": 9, "groups": 1}, "8", 2, 18),
        ({"calls": 9, "groups": 1}, "0", 2, 36),
        ({"calls": 18, "groups": 2}, "8", 2, 0),
        ({"calls": 18, "groups": 2}, "8", 4, 18),
        ({"calls": 0, "groups": 0}, "8", 2, 0),
    ],
    ids=["one_group", "of_a_host", "as_many_groups_as_devices", "more_devices_than_groups", "none"],
)
def test_prediction_has_the_sums_of_batch_normalisation(
    normalised: dict[str, int], accelerators: str, devices: int, sums: int
) -> None:
    """Nine layers, whose statistics are summed in forward and backward where devices have a group between them."""
    plain, found = profile(), profile(system={**BOX, "accelerators_per_node": accelerators})
    found.measured["network"]["batch_norm"] = normalised  # type: ignore[index]

    more = predicted_step_s(found, preflight(), devices) - predicted_step_s(plain, preflight(), devices)

    assert more == pytest.approx(sums * 2 * (devices - 1) / devices)


def test_prediction_takes_off_what_hooks_cost() -> None:
    """Phases that were watched are scaled to the step without hooks."""
    slow = profile()
    slow.measured["steps"]["phases"] = {  # type: ignore[index]
        name: summary(2 * one["median"]) for name, one in slow.measured["steps"]["phases"].items()
    }

    assert predicted_step_s(slow, preflight(), 2) == pytest.approx(predicted_step_s(profile(), preflight(), 2))


def test_prediction_is_marked_and_says_what_it_is() -> None:
    found = predicted(profile(), preflight(), RULES, 2, "profile.json")

    assert found.is_predicted
    assert found.num_devices == 2
    assert found.note.startswith("predicted, not measured: a step of 1.55 s on 2 devices")
    assert found.pace is not None
    assert found.pace.sample_s == pytest.approx(0.0155005 + 0.001)  # evaluations are divided as well


@pytest.mark.parametrize(
    ("changed", "other", "said"),
    [
        ({"num_devices": 2}, {}, "a prediction needs that of one"),
        ({"batch_size": 101}, {}, "the profile's batch of 101 cannot be shared"),
        ({}, {"system": {**BOX, "accelerator_model_name": "A100"}}, "was measured on .*, and the preflight on"),
        ({"benchmark": "other_mini"}, {}, "is of other_mini, not of"),
    ],
)
def test_what_cannot_be_predicted(changed: dict[str, Any], other: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        predicted(profile(**changed), preflight(**other), RULES, 2, "profile.json")


def test_preflight_of_one_device_predicts_nothing() -> None:
    alone = preflight()
    alone.measured["all_reduces"].clear()

    with pytest.raises(UsageError, match="has no all-reduce"):
        predicted_step_s(profile(), alone, 2)


def test_profile_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    one = replace(profile(), power=WATTS)
    path.write_text(json.dumps(document(one)))

    assert read_profile(path) == replace(one, system=dict(BOX))


@pytest.mark.parametrize(
    "damage",
    [
        lambda shown: shown.pop("kind"),
        lambda shown: shown.update(batch_size=0),
        lambda shown: shown["measured"].update(plain_step_s=0),
        lambda shown: shown["measured"].update(plain_parts_s=[1.0, "1.0"]),
        lambda shown: shown["measured"].update(plain_parts_s=[1.0, -1.0]),
        lambda shown: shown["measured"].update(load_s="1"),
        lambda shown: shown["measured"]["steps"]["phases"].pop("optimizer"),
        lambda shown: shown["measured"]["evaluation"].update(seconds=3),
        lambda shown: shown.update(measured=[]),
        lambda shown: shown.update(power=300.0),
    ],
)
def test_file_that_is_no_profile(tmp_path: Path, damage: Any) -> None:
    shown = document(profile())
    damage(shown)
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(shown))

    with pytest.raises(InputError, match=r"profile\.json: is not a profile"):
        read_profile(path)
