"""Finds the workloads in `workloads/` and imports the one that is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

from harness.errors import MissingDependencyError, UsageError, unknown_name
from harness.workload import Workload

# Checked before a workload is used, together with its own `libraries`: importing a workload imports none of them.
_TRAINING_LIBRARIES = ("torch", "accelerate")
_SHARED = ("streaming",)  # what several workloads use


def workload_names() -> list[str]:
    """Return the names of the packages in `workloads/` that are workloads, sorted."""
    import workloads

    packages = (module.name for module in pkgutil.iter_modules(workloads.__path__) if module.ispkg)
    return sorted(name for name in packages if name not in _SHARED)


def workload(name: str) -> Workload:
    """Return the workload called `name`.

    Raises:
        UsageError: there is no such workload. MissingDependencyError: a library it needs is not installed.
    """
    if name not in workload_names():
        raise UsageError(unknown_name("workload", name, workload_names()))
    found = importlib.import_module(f"workloads.{name}").WORKLOAD
    assert isinstance(found, Workload), f"workloads/{name} does not export its WORKLOAD"
    assert found.name == name, f"workloads/{name} does not export its WORKLOAD"
    for library in (*_TRAINING_LIBRARIES, *found.libraries):
        if importlib.util.find_spec(library) is None:
            raise MissingDependencyError(
                f"the workload {name!r} needs {library!r}, which is not installed: pip install 'tta-harness[train]'"
            )
    return found
