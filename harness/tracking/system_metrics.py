"""What the machine does beside a run, by MLflow's own monitors: processors, memory, disk, network, accelerators.

Read in the mirror process at the lowest priority, of the whole machine on which the referee runs; never in the
processes that are timed. Shown by MLflow, used by nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PERIOD_S = 10.0  # MLflow's own


class SystemMetrics:
    """The monitors that work here; none without psutil, which MLflow's monitors need."""

    def __init__(self) -> None:
        self._monitors: Sequence[Any] = _monitors()
        self._next_s = 0.0

    def read(self, now_s: float) -> dict[str, float] | None:
        """Return the values by MLflow's names, or None if it is not yet time for them. now_s: monotonic seconds."""
        if now_s < self._next_s or not self._monitors:
            return None
        self._next_s = now_s + PERIOD_S
        values: dict[str, float] = {}
        for monitor in self._monitors:
            monitor.collect_metrics()
            values |= monitor.aggregate_metrics()
            monitor.clear_metrics()
        return values


def _monitors() -> list[Any]:
    try:
        from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
        from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
        from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
        from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor
        from mlflow.system_metrics.metrics.rocm_monitor import ROCMMonitor
    except ModuleNotFoundError:
        return []
    everywhere: list[Any] = [CPUMonitor, DiskMonitor, NetworkMonitor]
    monitors = [kind() for kind in everywhere]
    for kind in (GPUMonitor, ROCMMonitor):
        try:
            monitors.append(kind())
        except (ImportError, RuntimeError):  # as they say that there is none
            continue
        break
    return monitors
