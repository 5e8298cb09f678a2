"""Reimplementations of real workloads: the honest ones are equivalent, the others are not, from seeds drawn here."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from harness.run import data_cache
from tests.equivalences import FOLDER, HONEST, Bench

torch = pytest.importorskip("torch")
NUM_STEPS = 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's
@pytest.mark.parametrize("name", ["image_classification", "translation"])
def test_modules_are_told_apart(name: str, prepared: Callable[[str], data_cache.DataSet]) -> None:
    """Other layouts, compiled, in one kernel; and less smoothing, no bias, sums in bf16, no decay, no shifts."""
    bench = Bench(name, prepared(name))
    measurement = bench.measurement([secrets.randbits(31)], NUM_STEPS)
    reference = bench.reference(measurement)

    found = {}
    for path in sorted((FOLDER / name).glob("*.py")):
        torch.compiler.reset()
        found[path.stem] = bench.ratios(measurement, reference, path)

    assert len(found) >= 6
    wrong = {stem: ratios for stem, ratios in found.items() if (max(ratios.values()) <= 1) != (stem in HONEST)}
    assert wrong == {}, measurement.seeds
