"""Names to things: a workload by its folder, a check by its code. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import MissingDependencyError, UsageError, unknown_name
from harness.findings import Rule

if TYPE_CHECKING:
    from harness.checker.audit.signals import Signal
    from harness.workload import Workload

# A workload imports these when it is used, not when it is found, and so it does with its own `libraries`.
_TRAINING_LIBRARIES = ("torch", "accelerate")
_FILE = re.compile(r"([a-z]{3}[0-9]{3})_([a-z0-9_]+)")


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


def checks(codes: Container[str] | None = None) -> dict[str, Rule]:
    """Every check by code, sorted; with `codes`, those of them alone, and no other is imported."""
    import rules.checks

    found: dict[str, Rule] = {}
    for folder in (Path(place) for place in rules.checks.__path__):
        for path in sorted(folder.glob("*/[!_]*.py")):
            family, match = path.parent.name, _FILE.fullmatch(path.stem)
            assert match is not None, f"rules/checks/{family}/{path.name} is not named <code>_<fault>.py"
            code, name = match.group(1).upper(), match.group(2)
            if codes is not None and code not in codes:
                continue
            assert code.lower().startswith(family), f"rules/checks/{family}/{path.name} is in another family's folder"
            assert code not in found, f"two checks have the code {code}"
            module = importlib.import_module(f"rules.checks.{family}.{path.stem}")
            found[code] = Rule(code, name, module.SCOPE, module.check, inspect.cleandoc(module.__doc__ or ""))
    return dict(sorted(found.items()))


def signals() -> dict[str, Signal]:
    """Every signal of `tta audit` by code, sorted."""
    import rules.audits
    from harness.checker.audit.signals import Signal

    found: dict[str, Signal] = {}
    for module_name in sorted(module.name for module in pkgutil.iter_modules(rules.audits.__path__)):
        match = _FILE.fullmatch(module_name)
        assert match is not None, f"rules/audits/{module_name}.py is not named <code>_<suspicion>.py"
        code, name = match.group(1).upper(), match.group(2)
        assert code not in found, f"two signals have the code {code}"
        module = importlib.import_module(f"rules.audits.{module_name}")
        document = inspect.cleandoc(module.__doc__ or "")
        found[code] = Signal(code, name, module.SCOPE, module.check, document, module.LIMITS)
    return found


def audit_file() -> Path:
    """The audit's rules that come with the harness."""
    import rules

    return Path(next(iter(rules.__path__))) / "audits" / "audit.yaml"


def check(code: str) -> Rule:
    """The check with `code`, in any case; a signal of the audit as a check.

    Raises:
        UsageError: there is none.
    """
    known = {**checks(), **{item.code: item.as_rule for item in signals().values()}}
    if code.upper() not in known:
        raise UsageError(unknown_name("check", code, known))
    return known[code.upper()]


def ruleset_folders() -> Iterator[tuple[str, Path]]:
    """Name and folder of every ruleset that comes with the harness."""
    import rules

    root = Path(next(iter(rules.__path__)))
    for path in sorted(root.rglob("ruleset.yaml")):
        yield path.parent.relative_to(root).as_posix(), path.parent


def ruleset_folder(name: str) -> Path:
    """The folder of the ruleset `name`, or `name` itself if it is a folder with a ruleset.yaml.

    Raises:
        UsageError: there is none.
    """
    folders = dict(ruleset_folders())
    if name in folders:
        return folders[name]
    if (Path(name) / "ruleset.yaml").is_file():
        return Path(name)
    raise UsageError(unknown_name("ruleset", name, folders))
