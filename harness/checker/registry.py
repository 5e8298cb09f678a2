"""TODO-DOC."""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError, unknown_name
from harness.findings import Rule

if TYPE_CHECKING:
    from harness.checker.audit.signals import Signal


_FILE = re.compile(r"([a-z]{3}[0-9]{3})_([a-z0-9_]+)")


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
