"""What only an accelerator shows: the same mathematics as on a CPU, in every precision, captured and compiled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

from harness.run import data_cache, numerics, workloads
from tests.workloads import sessions

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

pytestmark = pytest.mark.gpu

NAMES = workloads.workload_names()
CAPTURED = [name for name in NAMES if "cuda_graphs" in workloads.workload(name).execution["standard"]]
Losses = Callable[..., list[float]]


@pytest.fixture
def losses(prepared: Callable[[str], data_cache.DataSet]) -> Losses:
    """The losses of the first steps of a workload's `mini`."""

    def found(name: str, precision: str = "fp32", num_steps: int = 6, **execution: bool) -> list[float]:
        run = sessions.config(name, prepared(name).path)
        with sessions.in_precision(precision):
            session: Any = workloads.workload(name).open(
                dataclasses.replace(run, precision=precision, execution=execution)
            )
            try:
                sessions.initialised(session)
                assert session.device.type == "cuda"
                session.start(prepared(name).path)
                return sessions.losses(session, num_steps)
            finally:
                session.close()

    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name != "speech_recognition"])  # its curve is of other data
def test_accelerator_trains_as_the_golden_curve_of_a_cpu(name: str, losses: Losses) -> None:
    """fp32 on both: the first losses are the same but for rounding."""
    expected = sessions.golden(name, "loss", None)

    assert losses(name, num_steps=3) == pytest.approx(expected[:3], rel=0.02, abs=0.01)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_precision_changes_losses_little(name: str, precision: str, losses: Losses) -> None:
    """Finite, and near those of fp32."""
    found = losses(name, precision)

    assert all(map(math.isfinite, found))
    assert found == pytest.approx(losses(name), rel=0.05, abs=0.05)


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_captured_steps_change_no_mathematics(name: str, precision: str, losses: Losses) -> None:
    """Every step is on its own data: the losses are those of steps that are not captured."""
    assert losses(name, precision, cuda_graphs=True) == pytest.approx(losses(name, precision), rel=0.01, abs=1e-3)


@pytest.mark.parametrize("name", ["image_classification", "translation"])
def test_compiled_steps_change_no_mathematics(name: str, losses: Losses) -> None:
    """Alone, and captured."""
    plain = losses(name)

    assert losses(name, compile=True) == pytest.approx(plain, rel=0.01, abs=1e-3)
    assert losses(name, compile=True, cuda_graphs=True) == pytest.approx(plain, rel=0.01, abs=1e-3)


def test_fp32_is_fp32_in_products_and_in_convolutions() -> None:
    """Against fp64; TF32 keeps ten bits and errs a thousand times as much."""
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float64) for _ in range(2))
    images, kernels = (
        torch.randn(*shape, device="cuda", dtype=torch.float64) for shape in ((8, 64, 16, 16), (64, 64, 3, 3))
    )
    errors = {}
    for precision in ("fp32", "tf32"):
        numerics.set_precision(precision)
        product = (a.float() @ b.float() - a @ b).norm() / (a @ b).norm()
        whole = torch.nn.functional.conv2d(images, kernels)
        convolved = (torch.nn.functional.conv2d(images.float(), kernels.float()) - whole).norm() / whole.norm()
        errors[precision] = product.item(), convolved.item()
    numerics.set_precision("fp32")

    assert max(errors["fp32"]) < 1e-5
    assert errors["tf32"][0] > 1e-5
