"""The checks and signals that come with the harness, by code: one file each in `rules/checks/` and `rules/audits/`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

from harness.findings import Rule

if TYPE_CHECKING:
    from harness.checker.audit.signals import Signal


_NEXT_SECTION = "\n\n## Why it matters\n"
_ONLINE_ONLY = "Runs that are evaluated afterwards, from checkpoints, are left out."
_FILE = re.compile(r"([a-z]{3}[0-9]{3})_([a-z0-9_]+)")


def checks(codes: Container[str] | None = None) -> dict[str, Rule]:
    """Every check by code, sorted; with `codes`, only those, and no other is imported."""
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
    """Every signal of `tta audit` by code, sorted, with its rate of alarms at the end of its document."""
    import rules.audits
    from harness.checker.audit.rules import load_rates
    from harness.checker.audit.signals import Signal

    rates = load_rates(rates_file())
    found: dict[str, Signal] = {}
    for module_name in sorted(module.name for module in pkgutil.iter_modules(rules.audits.__path__)):
        match = _FILE.fullmatch(module_name)
        assert match is not None, f"rules/audits/{module_name}.py is not named <code>_<suspicion>.py"
        code, name = match.group(1).upper(), match.group(2)
        assert code not in found, f"two signals have the code {code}"
        module = importlib.import_module(f"rules.audits.{module_name}")
        document = f"{inspect.cleandoc(module.__doc__ or '')}\n\n## Alarm rate\n{rates.sentence(code)}"
        is_online_only = getattr(module, "ONLINE_ONLY", False)
        if is_online_only:
            assert module.SCOPE != "tree", f"{code}: a signal for trees looks at all runs"
            document = document.replace(_NEXT_SECTION, f"\n{_ONLINE_ONLY}{_NEXT_SECTION}", 1)
        found[code] = Signal(code, name, module.SCOPE, module.check, document, module.LIMITS, is_online_only)
    return found


def checks_and_signals() -> dict[str, Rule]:
    """Every check and, after them, every signal."""
    return {**checks(), **{code: signal.as_rule for code, signal in signals().items()}}


def families() -> dict[str, str]:
    """What each family of checks looks for, by its three letters, and AUD: the docstrings of their packages."""
    import rules.audits
    import rules.checks

    names = sorted(module.name for module in pkgutil.iter_modules(rules.checks.__path__) if module.ispkg)
    packages = {name.upper(): importlib.import_module(f"rules.checks.{name}") for name in names}
    packages["AUD"] = rules.audits
    return {name: inspect.cleandoc(package.__doc__ or "") for name, package in packages.items()}


def audit_file() -> Path:
    """The rules of the audit that come with the harness."""
    return _audits() / "audit.yaml"


def rates_file() -> Path:
    """How often the signals speak on published results."""
    return _audits() / "rates.yaml"


def _audits() -> Path:
    import rules

    return Path(next(iter(rules.__path__))) / "audits"
