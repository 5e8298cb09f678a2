"""A module of the open division: the referee reads its text, the worker imports it, `tta run --module` does both."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.log import run_log
from harness.log.events import digest_of
from harness.submission import module as open_module
from harness.submission.module import Module
from harness.submission.result import named_module, read_result
from tests.killing import Running, toy_runs, toy_tree

PARTS = ("build_model", "build_optimizer", "learning_rate")
SOUND = '''\
"""A model of its own."""

import math
from functools import partial as build_optimizer

WIDTH = 8


class Net:
    def forward(self): ...


def _helper():
    def inner(): ...
    return math.tau


def build_model(suite):
    return suite, _helper()
'''


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """Forget what a test imported."""
    yield
    sys.modules.pop("tta_module_fast", None)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "fast.py"
        path.write_text(text)
        return path

    return write


def read(path: Path) -> Module:
    return open_module.read_module(path, "toy", PARTS)[0]


def load(path: Path, module: Module | None = None) -> dict[str, Callable[..., Any]]:
    return open_module.load_module(path, module or read(path), "toy", PARTS)


def test_text_says_what_a_module_replaces(written: Callable[[str], Path]) -> None:
    """Functions and imports count by name; helpers, classes and constants do not."""
    path = written(SOUND)

    module, text = open_module.read_module(path, "toy", PARTS)

    digest = hashlib.sha256(SOUND.encode()).hexdigest()
    assert module == Module("fast.py", digest, ("build_model", "build_optimizer"))
    assert text == SOUND.encode()


def test_loaded_functions_are_those_of_the_text(written: Callable[[str], Path], tmp_path: Path) -> None:
    """Loading leaves nothing next to the file, not even a compiled copy."""
    found = load(written(SOUND))

    assert sorted(found) == ["build_model", "build_optimizer"]
    assert found["build_model"]("mini")[0] == "mini"
    assert [path.name for path in tmp_path.iterdir()] == ["fast.py"]


def test_module_is_found_by_what_looks_for_its_classes(written: Callable[[str], Path]) -> None:
    """Data classes with texts as annotations look into sys.modules; a name like torch.py hides nothing."""
    text = (
        "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass _Net:\n"
        "    width: int = 3\n    kind: dataclasses.InitVar[str] = ''\ndef build_model(): return _Net().width\n"
    )

    assert load(written(text))["build_model"]() == 3
    assert "fast" not in sys.modules


def test_annotations_are_values_unless_the_module_says_otherwise(written: Callable[[str], Path]) -> None:
    """The future import of the loader does not apply to a module without one."""
    assert load(written("def build_model(x: int): ...\n"))["build_model"].__annotations__ == {"x": int}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has none of the parts of toy: build_model, build_optimizer, learning_rate"),
        ("x = 1\n", "has none of the parts"),
        ("class Net:\n    def build_model(self): ...\n", "has none of the parts"),
        ("def _f():\n    def build_model(): ...\n", "has none of the parts"),
        ("x = [build_model for build_model in ()]\n", "has none of the parts"),
        (
            "def build_model(): ...\n\ndef build_optimiser(): ...\n",
            "line 3: unknown part of toy 'build_optimiser'; did",
        ),
        (
            "def build_model(): ...\nasync def train(): ...\n",
            "line 2: unknown part of toy 'train'.*helpers must begin with _",
        ),
        ("def build_model(): ...\nif True:\n    def loss(): ...\n", "line 3: unknown part of toy 'loss'"),
        ("def build_model(:\n", "line 1: not Python"),
        ("x = 'a\n", "line 1: not Python"),
        ("def build_model(): ...\n\tx = 1\n", "line 2: not Python"),
        ("x = '\0'\n", "not Python"),
        ("# coding: nonsense\n", "not Python"),
        ("(" * 1000, "not Python"),
        ("x = " + "1+" * 100_000 + "1\n", "not Python"),
        ("x = " + "-" * 100_000 + "1\n", "not Python"),
        ("#" * ((1 << 20) + 1), "has 1,048,577 bytes; a module has at most 1,048,576"),
    ],
    ids=lambda text: text[:30],
)
def test_text_that_is_not_a_module_is_one_sentence(written: Callable[[str], Path], text: str, message: str) -> None:
    """The message has the file, the line, the name and the choice."""
    with pytest.raises(UsageError, match=message) as raised:
        read(written(text))

    assert "fast.py" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "def build_model(): ...\n",
        "async def build_model(): ...\n",
        "class build_model: ...\n",
        "build_model = dict\n",
        "build_model: object = dict\n",
        "x, (build_model, y) = 1, (dict, 2)\n",
        "if (build_model := dict): pass\n",
        "from builtins import dict as build_model\n",
        "try:\n    from nowhere import build_model\nexcept ImportError:\n    build_model = dict\n",
        "for build_model in (dict,): pass\n",
        "import warnings as _w\nwith _w.catch_warnings():\n    build_model = lambda: 1\n",
        "'\\d'\ndef build_model(): ...\n",
    ],
)
def test_every_way_to_bind_a_name_counts(written: Callable[[str], Path], text: str) -> None:
    """The parts found in the text are those that exist after the import."""
    path = written(text)

    assert read(path).parts == ("build_model",)
    assert list(load(path)) == ["build_model"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere_at_all\ndef build_model(): ...\n", "fast.py, line 1: cannot be imported: ModuleNotFoundError"),
        ("def build_model(): ...\nx = 1 / 0\n", "fast.py, line 2: cannot be imported: ZeroDivisionError: division"),
        ("def _f():\n    raise ValueError('a\\nb')\ndef build_model(): ...\n_f()\n", r"line 2: .*ValueError: a\\nb$"),
        ("def build_model(): ...\nimport sys\nsys.exit(0)\n", "line 3: cannot be imported: SystemExit: 0"),
        ("def build_model(): ...\nreturn 5\n", "line 2: cannot be imported: SyntaxError: 'return' outside function"),
        ("build_model = 5\n", "'build_model' is of type int, which cannot be called"),
        ("build_model = None\n", "'build_model' is of type NoneType"),
        ("if False:\n    build_model = dict\n", "has the parts none when imported, but build_model in its text"),
        (
            "def build_model(): ...\nglobals()['learning_rate'] = dict\n",
            "build_model, learning_rate when imported, but",
        ),
        ("def build_model(): ...\ndel build_model\n", "has the parts none when imported"),
        ("def build_model(): ...\nlearn = lambda: 1\n", "unknown part of toy 'learn'"),
        ("def build_model(): ...\ndef _f(): ...\nglobals()['build_modle'] = _f\n", "did you mean 'build_model'"),
    ],
)
def test_module_that_cannot_be_used_is_one_sentence(written: Callable[[str], Path], text: str, message: str) -> None:
    """The message of an error that only the import shows has the line or the name."""
    path = written(text)
    module = read(path)

    with pytest.raises(UsageError, match=message) as raised:
        load(path, module)

    assert "\n" not in str(raised.value)


def test_reading_never_runs_the_text_nor_loading_another_one(written: Callable[[str], Path], tmp_path: Path) -> None:
    """The referee only parses the file, and the worker verifies its digest before it imports it."""
    mark = tmp_path / "was_run"
    planned = read(written(f"open({str(mark)!r}, 'w')\ndef build_model(): ...\n"))
    path = written(f"open({str(mark)!r}, 'w')\ndef build_model(): ...  # exchanged\n")

    with pytest.raises(UsageError, match=r"fast\.py: was changed after the run was planned"):
        load(path, planned)

    assert not mark.exists()


@pytest.mark.parametrize("name", ["fast", "fast.txt", "my-model.py", "1.py", ".py", "é.py", "x" * 65 + ".py", "a b.py"])
def test_name_that_cannot_be_imported_is_refused(tmp_path: Path, name: str) -> None:
    """The name must be safe as a file name in every copy of the submission."""
    (tmp_path / name).write_text(SOUND)

    with pytest.raises(UsageError, match="must be a Python name"):
        read(tmp_path / name)


def test_module_of_the_closed_division_may_convert_weights_and_change_no_schedule() -> None:
    """The schedule is a number for each step: there is nothing to compute in another way."""
    parts = ("build_model", "build_optimizer", "learning_rate")

    assert open_module.permitted_parts("open", parts) == parts
    closed = open_module.permitted_parts("closed", parts)
    assert closed == ("build_model", "build_optimizer", "to_reference", "from_reference")
    assert open_module.permitted_parts("closed", ()) == ()


def test_conversions_alone_replace_nothing(written: Callable[[str], Path]) -> None:
    """They say how the weights of another network correspond to the reference's."""
    path = written("def to_reference(state):\n    return state\n")

    with pytest.raises(UsageError, match=r"has none of the parts of toy: build_model$"):
        open_module.read_module(path, "toy", open_module.permitted_parts("closed", ("build_model",)))


def test_workload_without_parts_takes_no_module(written: Callable[[str], Path]) -> None:
    """A module for such a workload is a usage error."""
    with pytest.raises(UsageError, match="toy: has no parts that a module could replace"):
        open_module.read_module(written(SOUND), "toy", ())


def test_record_is_read_back_as_it_was() -> None:
    """The record of a module gives the module again; null is none."""
    module = Module("fast.py", "a" * 64, ("build_model",))

    assert open_module.parse_module(module.record()) == module
    assert open_module.parse_module(None) is None


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "fast.py",
        0,
        False,
        {"name": "fast.py", "sha256": "a" * 64},
        {"name": "../fast.py", "sha256": "a" * 64, "parts": ["x"]},
        {"name": ["fast.py"], "sha256": "a" * 64, "parts": ["x"]},
        {"name": "fast.py", "sha256": "A" * 64, "parts": ["x"]},
        {"name": "fast.py", "sha256": 5, "parts": ["x"]},
        {"name": "fast.py", "sha256": "a" * 64, "parts": []},
        {"name": "fast.py", "sha256": "a" * 64, "parts": [5]},
        {"name": "fast.py", "sha256": "a" * 64, "parts": "build_model"},
        {"name": "fast.py", "sha256": "a" * 64, "parts": ["x"], "more": 1},
    ],
)
def test_record_of_another_form_is_refused(value: object) -> None:
    """A log may have any value there."""
    with pytest.raises(ValueError, match=r"name|sha256|parts"):
        open_module.parse_module(value)


MODULE = "def quality():\n    return 0.95\n"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Runs `tta run toy` in the open division with a module of this text, and waits for its end."""
    tree = toy_tree(tmp_path)
    with toy_runs(tree) as begin:

        def whole(text: str, *arguments: str) -> Running:
            (tree / "fast.py").write_text(text)
            running = begin("--division", "open", "--module", "fast.py", *arguments)
            running.wait()
            return running

        yield whole


@pytest.mark.slow
def test_run_uses_logs_and_keeps_its_module(run: Callable[..., Running], tmp_path: Path) -> None:
    """With its part the toy reaches 0.9 instead of 0.5, on two ranks; the log names the module, `code` has it."""
    text = f"import os\nprint('imported by rank', os.environ['RANK'], flush=True)\n{MODULE}"
    running = run(text, "--devices", "2")

    assert running.process.returncode == 0, running.errors
    printed = (tmp_path / "out" / "output" / "worker_0.txt").read_text().splitlines()
    assert sorted(line for line in printed if "imported" in line) == [f"imported by rank {rank}" for rank in (0, 1)]
    log = run_log.read(tmp_path / "out" / "result_0.txt")
    expected = {"name": "fast.py", "sha256": hashlib.sha256(text.encode()).hexdigest(), "parts": ["quality"]}
    assert log.field("tta_config", "module") == log.field("tta_resolved", "module") == expected
    assert log.one("tta_config").metadata["digest"] == digest_of(log.value("tta_config"))
    assert log.value("tta_config") == log.value("tta_resolved")
    assert [path.name for path in (tmp_path / "out" / "code").iterdir()] == ["fast.py"]
    assert (tmp_path / "out" / "code" / "fast.py").read_text() == text
    result = read_result(tmp_path / "out")
    assert result.code["fast.py"].sha256 == expected["sha256"]
    assert named_module(result.runs[0]) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "num_devices", "message"),
    [
        ("def quality(): ...\nx = 1 / 0\n", "1", "tta: fast.py, line 2: cannot be imported: ZeroDivisionError"),
        ("def quality(): ...\nx = 1 / 0\n", "2", "tta: fast.py, line 2: cannot be imported: ZeroDivisionError"),
        ("quality = 0.95\n", "1", "tta: fast.py: 'quality' is of type float, which cannot be called"),
    ],
)
def test_module_that_cannot_be_used_starts_no_run(
    run: Callable[..., Running], tmp_path: Path, text: str, num_devices: str, message: str
) -> None:
    """The status is 2, with one sentence, however many ranks fail."""
    running = run(text, "--devices", num_devices)

    assert running.process.returncode == 2
    assert message in running.errors.splitlines()[-1]
    assert "Traceback" not in running.errors
    log = run_log.read(tmp_path / "out" / "result_0.txt")
    assert log.one("run_stop").metadata["status"] == "aborted"
    assert log.first("run_start") is None


@pytest.mark.slow
def test_module_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """No copy of the submission has those files, and a random.py there must not change a run."""
    tree, here = toy_tree(tmp_path / "tree"), tmp_path / "here"
    here.mkdir()
    (here / "neighbour.py").touch()
    (here / "fast.py").write_text(f"import neighbour\n{MODULE}")
    command = ["run", "toy", "--ruleset", str(tree / "toy_rules"), "--data", "data", "--no-mlflow"]
    command += ["--division", "open", "--module", "fast.py"]

    running = Running(command, here, {"PYTHONPATH": str(tree)})

    assert running.wait() == 2
    assert "line 1: cannot be imported: ModuleNotFoundError: No module named 'neighbour'" in running.errors


@pytest.mark.slow
def test_run_with_a_module_can_be_checked(run: Callable[..., Running], tmp_path: Path) -> None:
    """The log of a real run with a module has everything that the checks look for."""
    assert run(MODULE).process.returncode == 0
    ruleset = tmp_path / "strict_rules"
    ruleset.mkdir()
    for name in ("toy.yaml", "prices.yaml"):
        (ruleset / name).write_text((tmp_path / "toy_rules" / name).read_text())
    text = (tmp_path / "toy_rules" / "ruleset.yaml").read_text()
    codes = ("LOG021", "HYP004", "HYP005", "HYP006", "HYP010", "RUN013", "PKG014", "PKG015")
    (ruleset / "ruleset.yaml").write_text(text + "".join(f"  {code}: error\n" for code in codes))

    checking = Running(["check", "out", "--ruleset", "strict_rules", "--format", "json"], tmp_path)
    shown, errors = checking.process.communicate(timeout=60)

    assert json.loads(shown)["results"][0]["findings"] == [], errors
