"""MLflow's monitors of the machine: what they read here, how often, and what happens without them."""

from __future__ import annotations

import sys

import pytest

from harness.tracking.system_metrics import PERIOD_S, SystemMetrics

pytest.importorskip("mlflow")


def test_the_machine_is_read_once_a_period() -> None:
    """Processors and memory of this machine, in percent; nothing in between."""
    machine = SystemMetrics()

    values = machine.read(1.0)

    assert values is not None
    assert 0 <= values["cpu_utilization_percentage"] <= 100
    assert 0 < values["system_memory_usage_percentage"] <= 100
    assert machine.read(1.0 + PERIOD_S / 2) is None
    assert machine.read(1.0 + PERIOD_S) is not None


def test_an_accelerator_is_read_where_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kind of monitor that works."""
    from mlflow.system_metrics.metrics import gpu_monitor

    class Fake:
        def collect_metrics(self) -> None:
            pass

        def aggregate_metrics(self) -> dict[str, float]:
            return {"gpu_0_utilization_percentage": 97.0}

        def clear_metrics(self) -> None:
            pass

    monkeypatch.setattr(gpu_monitor, "GPUMonitor", Fake)

    assert (SystemMetrics().read(0.0) or {})["gpu_0_utilization_percentage"] == 97.0


def test_without_the_library_of_the_monitors_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror goes on without them."""
    monkeypatch.delitem(sys.modules, "mlflow.system_metrics.metrics.cpu_monitor", raising=False)
    monkeypatch.setitem(sys.modules, "psutil", None)

    assert SystemMetrics().read(0.0) is None
