"""The arrows between the modules, by a walk over their imports, so that the drawing in the design cannot rot.

0  errors clock                                     standard library only
1  pure: nouns, readers, arithmetic                 0 and 1
2  adapters: each wraps one outside thing           0 and 1, never each other
3  rooms: referee, worker, board, following         0 to 2, never each other
4  verbs: commands/*, mirror_process                0 to 3, never each other
5  the command line                                 everything
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = {
    0: "errors clock",
    1: "auditing billing channel claims columns convergence counters course datacache demandwords derivation "
    "derivationrules documents download energy energyevent energyfaults energyrank energyreading estimating "
    "events findings formula grouping integral interrupts judging loggedenergy logline loglines logpass logtail "
    "logwriter meterchoice mirror mirrorvalues mlperf_energy money nearness nodeclock ownership parts picture "
    "picturetotals picturevalues placing plan power powercollector powercsv powerdoubts powerfolders powerlines "
    "powerlog powernode powerpicture powerrecord powertail pricefile pricelists prices pricing ranking recording "
    "render resultfolder roundconvergence roundderivation roundlog roundplace rounds roundscore roundtable "
    "roundwords rowdocument rulebook ruleset runenergy runlog runresult sarif scoreenergy scoring signature "
    "sources sqlitefile statistics strictjson strictyaml submission summary system target trackingview trees "
    "typedtotals unheard unread waiving whichround whichrules workload",
    2: "launch loader machine meters recorder registry tracking view",
    3: "agent board checking following metering referee report worker",
    4: "commands mirror_process",
    5: "arguments cli energyverbs moneyverbs trainverbs verbs",
}
LAYER = {name: layer for layer, names in LAYERS.items() for name in names.split()}
# Who may import what is not ours. Whatever is named here is imported by nobody else in harness/.
OUTSIDE = {
    "torch": {"worker"},
    "accelerate": {"worker"},
    "mlflow": {"tracking"},
    "alembic": {"tracking"},  # MLflow's own, for what it raises
    "sqlalchemy": {"tracking"},
    "requests": {"tracking"},
    "omegaconf": {"loader"},
    "msgspec": {"events", "loglines"},
    "psutil": {"launch"},
    "rich": {"view"},
    "jinja2": {"board", "report"},
    "markupsafe": {"board"},
    "starlette": {"board"},
    "uvicorn": {"board"},
    "yaml": {"loader", "placing", "strictyaml"},
    "scipy": {"convergence", "statistics"},
}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it; `from harness import x` counts as `harness.x`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def noun(module: str) -> str:
    """`harness.board.pages.render` -> `board`; the package itself is an empty text."""
    parts = module.split(".")
    if len(parts) < 2 or parts[1].startswith("__"):
        return ""
    return parts[1]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def ours(path: Path) -> set[str]:
    """The nouns of harness/ that a file imports."""
    return {noun(name) for name in imports(path) if name.split(".")[0] == "harness"} - {""}


def test_every_module_has_a_layer_and_every_layer_its_modules() -> None:
    """A new noun is placed here before it is used; a noun that is gone is taken out."""
    there = {noun(module_of(path)) for path in files("harness")} - {""}

    assert sorted(there - set(LAYER)) == [], "give it a layer in this test"
    assert sorted(set(LAYER) - there) == [], "it is gone; take it out of this test"
    assert len(LAYER) == sum(len(names.split()) for names in LAYERS.values())


@pytest.mark.parametrize("path", files("harness"), ids=module_of)
def test_harness_imports_only_what_lies_below(path: Path) -> None:
    """Lower layers, its own package, and, for what is pure, other pure modules."""
    me = noun(module_of(path))
    layer = LAYER.get(me, 0)

    for other in ours(path) - {me}:
        same = LAYER[other] == layer and layer in (1, 5)
        assert LAYER[other] < layer or same, f"{me} (layer {layer}) imports {other} (layer {LAYER[other]})"


@pytest.mark.parametrize("path", files("harness"), ids=module_of)
def test_outside_libraries_are_imported_where_they_are_at_home(path: Path) -> None:
    """torch in the worker, mlflow in tracking, omegaconf in the loader; what is not in the table is nobody's."""
    me = noun(module_of(path))

    for name in imports(path):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top == "harness" or (me == "registry" and top in ("rules", "workloads")):
            continue
        assert me in OUTSIDE.get(top, set()), f"{me} imports {top}"


def test_nobody_imports_the_worker() -> None:
    """It is started as a process, never by import: importing it would import torch."""
    assert [module_of(path) for path in files("harness") if "worker" in ours(path)] == []


def test_verbs_do_not_import_each_other() -> None:
    """What two commands share goes down to a noun."""
    for path in files("harness/commands"):
        assert [name for name in imports(path) if name.startswith("harness.commands")] == [], path.name


def test_pure_modules_do_not_import_in_circles() -> None:
    """Layer 1 is a hierarchy, too."""
    graph = {noun(module_of(path)): ours(path) for path in files("harness") if LAYER.get(noun(module_of(path))) == 1}
    done: set[str] = set()

    while ready := {name for name in graph if name not in done and not (graph[name] & set(graph)) - done - {name}}:
        done |= ready

    assert sorted(set(graph) - done) == []


@pytest.mark.parametrize("path", files("rules"), ids=module_of)
def test_check_imports_only_pure_modules(path: Path) -> None:
    """No check imports another, a workload, or any library; nothing of ours above layer 1."""
    for name in imports(path):
        top = name.split(".")[0]
        assert top == "harness" or top in sys.stdlib_module_names, f"{path.name} imports {name}"
        if top == "harness":
            assert LAYER[noun(name)] <= 1, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", files("workloads"), ids=module_of)
def test_workload_knows_the_protocol_and_itself(path: Path) -> None:
    """Of ours only the protocol, the errors and the downloader; never another workload, the rules or a tracker."""
    room = path.relative_to(ROOT).parts[1]

    for name in imports(path):
        top = name.split(".")[0]
        if top == "harness":
            assert noun(name) in ("workload", "errors", "download"), f"{path} imports {name}"
        elif top == "workloads":
            assert name.split(".")[1] == room, f"{path} imports {name}"
        else:
            assert top not in ("rules", "tests", "mlflow", "omegaconf", "psutil"), f"{path} imports {name}"


@pytest.mark.parametrize("path", [*files("harness"), *files("rules")], ids=module_of)
def test_no_file_is_over_300_lines(path: Path) -> None:
    """A long file is a room that wants to be two."""
    assert len(path.read_text().splitlines()) <= 300


def test_three_files_of_a_workload_have_600_lines_together() -> None:
    """A workload reads in one sitting."""
    for folder in sorted(path for path in (ROOT / "workloads").iterdir() if (path / "workload.py").exists()):
        texts = [(folder / name).read_text() for name in ("workload.py", "model.py", "data.py")]
        assert sum(len(text.splitlines()) for text in texts) <= 600, folder.name
