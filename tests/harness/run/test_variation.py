"""The seeds of the runs of `tta variance`: what is fixed is the same, what varies differs, all are known in advance."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.errors import OutputError
from harness.log.seeds import NOISE, ORDER, SOURCES, WEIGHTS, parse_seeds
from harness.run.result_folder import opened
from harness.run.variation import Variation
from tests import fabricate, scripted
from tests.fabricate import Step
from tests.rules.box import put


def test_only_what_varies_differs_between_runs() -> None:
    for varied in ((), (WEIGHTS,), (ORDER,), (NOISE,), SOURCES):
        seeds = [Variation(0, 1, varied).of_run(index) for index in range(50)]

        for source in SOURCES:
            assert len({own[source] for own in seeds}) == (50 if source in varied else 1)
        assert all(parse_seeds(own.record()) == own for own in seeds)


def test_folders_of_one_base_hold_the_same_point() -> None:
    """What one varies is fixed in the others; another base, or another seed, is another point."""
    point = Variation(3, 0, ()).of_run(0)

    for source in SOURCES:
        alone = Variation(3, 0, (source,)).of_run(4)
        assert alone.fixed == {name: seed for name, seed in point.fixed.items() if name != source}
        assert alone[source] != point[source]
    assert not set(point.fixed.values()) & set(Variation(3, 1, ()).of_run(0).fixed.values())
    assert not set(point.fixed.values()) & set(Variation(4, 0, ()).of_run(0).fixed.values())


def test_the_same_command_draws_the_same_seeds_everywhere() -> None:
    """A run that is made again after an interruption, or on another machine, is the same run."""
    assert Variation(0, 0, (WEIGHTS,)).of_run(1).record() == {
        "fixed": {"order": 2029330918, "noise": 1878665779},
        "varied": {"weights": 2124081829},
    }


def test_plan_states_the_seeds_and_gives_them_to_the_worker() -> None:
    """A run of one seed has no word of them: its log and its configuration are what they were."""
    plain, seeds = scripted.plan(), Variation(0, 0, (WEIGHTS,)).of_run(0)
    plan = dataclasses.replace(plain, seed=seeds[ORDER], seeds=seeds)

    assert ("tta_seeds", seeds.record(), None) in list(plan.header())
    for found in (plan.config, plan.run_config):
        assert (found["seed"], found["weights_seed"]) == (seeds[ORDER], seeds[WEIGHTS])
        assert found["noise_seed"] == seeds[NOISE]
    assert "tta_seeds" not in {key for key, _, _ in plain.header()}
    assert not {"weights_seed", "noise_seed"} & {*plain.config, *plain.run_config}


def test_folder_with_other_fixed_seeds_is_refused(tmp_path: Path) -> None:
    """Those that vary may differ; with others fixed, the runs would not be of one point."""
    seeds, changed = Variation(0, 0, (WEIGHTS,)).of_run(5), Variation(1, 0, (WEIGHTS,)).of_run(0)
    plan = dataclasses.replace(scripted.plan(), seeds=Variation(0, 0, (WEIGHTS,)).of_run(0))

    def varied(index: int, steps: list[Step]) -> list[Step]:
        """As the referee writes a run of that plan."""
        put(steps, Step(0.0, "tta_seeds", seeds.record()), "tta_rules")
        for step in steps:
            for key, value, _ in plan.header():
                if step.key == key != "tta_seeds":
                    step.value = json.loads(json.dumps(value))
        return steps

    fabricate.write_result(tmp_path / "out", 1, varied)

    with opened(tmp_path / "out", plan, b"", is_resumed=True) as contents:
        assert set(contents.runs) == {0}
    with (
        pytest.raises(OutputError, match=r"tta_seeds.fixed.order is \d+, but \d+ is given now"),
        opened(tmp_path / "out", dataclasses.replace(plan, seeds=changed), b"", is_resumed=True),
    ):
        pass
