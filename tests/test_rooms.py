"""What the import contracts in pyproject.toml cannot state about the rooms of the harness."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACES = {"__init__", "cli", "errors", "findings", "workload"}
# The rooms and modules that may import a library; no other part of the harness imports any.
HOMES = {
    "accelerate": {"run.all_reduce", "run.ranks"},
    "alembic": {"service.migrating", "service.migrations", "tracking.store"},  # the last for MLflow's exceptions
    "anyio": {"service.web"},
    "cryptography": {"service.signing"},
    "fastapi": {"service.api", "service.pages", "service.web"},
    "h11": {"service.delivering"},
    "jinja2": {"board", "characterise.page", "checker.report", "reproduction.page", "service.pages"},
    "joserfc": {"service.oidc"},
    "markupsafe": {"board", "characterise.report", "reproduction.page", "service.pages"},
    "mlflow": {"tracking.store", "tracking.system_metrics"},
    "msgspec": {"log"},
    "numpy": {"service.ranking", "run.array_stream", "run.evaluator", "run.ranks", "run.worker", "workload"},
    "omegaconf": {"base.typed_yaml", "ruleset.overrides"},
    "requests": {"tracking.store"},  # for MLflow's exceptions
    "rich": {"run.progress"},
    "rules": {"checker.registry", "ruleset.catalog"},
    "safetensors": {"run.weights"},
    "scipy": {"scoring.components", "scoring.target", "service.ranking"},
    "pyarrow": {"service.exporting"},
    "pydantic": {"service.api"},
    "sqlalchemy": {"service", "tracking.store"},  # the last for MLflow's exceptions
    "starlette": {"board.service", "service"},
    "torch": {
        *(f"characterise.{name}" for name in ("measuring", "network", "peaks", "program", "watching")),
        "run.all_reduce",
        "run.equivalence",
        "run.network",
        "run.numerics",
        "run.ranks",
        "run.replay",
        "run.weights",
        "run.worker",
    },
    "uvicorn": {"board.connections", "board.service", "service.serving"},
    "workloads": {"run.workloads"},
    "yaml": {"base", "launch.kubernetes", "mlperf.load", "submission.pack"},
}
# The pure rooms, and the facts that several audits and checks share.
OF_CHECKS = {"base", "cost", "energy", "log", "mlperf", "ruleset", "scoring", "submission", "errors", "findings"} | {
    "checker.audit",
    "workload",
}
OF_WORKLOADS = {"errors", "workload", "base.digests", "base.download", "base.processes"}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


MODULES = {module_of(path) for folder in ("harness", "rules") for path in files(folder)}


def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found


def is_within(module: str, homes: set[str]) -> bool:
    return any(module == f"harness.{home}" or module.startswith(f"harness.{home}.") for home in homes)


def test_root_has_faces_and_rooms_with_one_sentence_each() -> None:
    """`__init__.py` of a room is its docstring, of one line: nothing is re-exported."""
    assert {path.stem for path in (ROOT / "harness").glob("*.py")} == FACES
    for room in sorted((ROOT / "harness").glob("*/__init__.py")):
        tree = ast.parse(room.read_text())
        sentence = ast.get_docstring(tree)
        assert len(tree.body) == 1, room
        assert sentence is not None, room
        assert "\n" not in sentence, room


@pytest.mark.parametrize("path", files("harness"), ids=module_of)
def test_library_is_imported_at_its_home_only(path: Path) -> None:
    """torch in the worker and where it sets a precision, mlflow where its mirror is, rich in the live view."""
    for name in imports(path):
        top = name.split(".")[0]
        if top != "harness" and top not in sys.stdlib_module_names:
            assert is_within(module_of(path), HOMES.get(top, set())), f"{module_of(path)} imports {name}"


def test_modules_do_not_import_in_circles() -> None:
    """The contracts order the rooms; this orders the modules within each."""
    graph = {module_of(path): imports(path) & MODULES for path in files("harness")}
    for needed in graph.values():
        needed.discard("harness")  # for `__version__`

    list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("path", files("rules"), ids=module_of)
def test_check_imports_pure_rooms_and_its_family(path: Path) -> None:
    """No other check, no workload, no library."""
    for name in imports(path):
        is_of_family = name.startswith(f"{module_of(path.parent)}._")
        assert is_of_family or name.split(".")[0] in sys.stdlib_module_names or is_within(name, OF_CHECKS), name


# What belongs to no workload and serves all of them.
SHARED_BY_WORKLOADS = {"workloads.checkpoint", "workloads.execution", "workloads.streaming"}


@pytest.mark.parametrize("path", files("workloads"), ids=module_of)
def test_workload_knows_the_protocol_and_itself(path: Path) -> None:
    """Neither the clock, the log, the rules, a tracker, nor another workload; what all share knows none of them."""
    homes = {".".join(module_of(path).split(".")[:2]), *SHARED_BY_WORKLOADS}

    for name in imports(path):
        if name.startswith("harness"):
            assert is_within(name, OF_WORKLOADS), name
        elif name.startswith("workloads"):
            assert name == "workloads" or any(f"{name}.".startswith(f"{home}.") for home in homes), name
        else:
            assert name.split(".")[0] not in ("rules", "tests", "mlflow", "omegaconf", "psutil"), name
