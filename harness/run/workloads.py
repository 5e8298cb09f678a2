"""TODO-DOC."""

from __future__ import annotations

import importlib.util
import pkgutil
from typing import TYPE_CHECKING

from harness.errors import MissingDependencyError, UsageError, unknown_name

if TYPE_CHECKING:
    from harness.workload import Workload


# A workload imports these when it is used, not when it is found, and so it does with its own `libraries`.
_TRAINING_LIBRARIES = ("torch", "accelerate")


def workload_names() -> list[str]:
    """The folders of `workloads/` that export a workload."""
    import workloads

    return sorted(module.name for module in pkgutil.iter_modules(workloads.__path__) if module.ispkg)


def workload(name: str) -> Workload:
    """The workload called `name`.

    Raises:
        UsageError: there is none of that name. MissingDependencyError: a library it needs is not installed.
    """
    from harness.workload import Workload

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
