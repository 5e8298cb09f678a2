"""A module of the open division: its text is read by one side, its functions are taken by the other."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.submission import module as open_module
from harness.submission.module import Module

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
    """What a test imports is forgotten after it."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


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
    """Functions and imports by name; helpers, classes and constants are its own affair."""
    path = written(SOUND)

    module, text = open_module.read_module(path, "toy", PARTS)

    digest = hashlib.sha256(SOUND.encode()).hexdigest()
    assert module == Module("fast.py", digest, ("build_model", "build_optimizer"))
    assert text == SOUND.encode()


def test_loaded_functions_are_those_of_the_text(written: Callable[[str], Path], tmp_path: Path) -> None:
    """And nothing is left beside the file, no compiled copy either."""
    found = load(written(SOUND))

    assert sorted(found) == ["build_model", "build_optimizer"]
    assert found["build_model"]("mini")[0] == "mini"
    assert [path.name for path in tmp_path.iterdir()] == ["fast.py"]


def test_reading_never_runs_the_text(written: Callable[[str], Path], tmp_path: Path) -> None:
    """The referee's side looks and does not touch."""
    mark = tmp_path / "was_run"

    read(written(f"open({str(mark)!r}, 'w')\ndef build_model(): ...\n"))

    assert not mark.exists()


def test_module_is_found_by_what_looks_for_its_classes(written: Callable[[str], Path]) -> None:
    """Data classes with texts as annotations look into sys.modules; a name like torch.py hides nothing."""
    text = (
        "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass _Net:\n"
        "    width: int = 3\n    kind: dataclasses.InitVar[str] = ''\ndef build_model(): return _Net().width\n"
    )

    assert load(written(text))["build_model"]() == 3
    assert "fast" not in sys.modules


def test_annotations_of_ours_are_not_theirs(written: Callable[[str], Path]) -> None:
    """A module without the future import has annotations that are values."""
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
def test_text_that_is_no_module_is_one_sentence(written: Callable[[str], Path], text: str, message: str) -> None:
    """The file, the line, the name and the choice."""
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
    """What the text says and what is there when it is imported are the same."""
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
    """What only importing shows: the type, the line, the name."""
    path = written(text)
    module = read(path)

    with pytest.raises(UsageError, match=message) as raised:
        load(path, module)

    assert "\n" not in str(raised.value)


def test_file_that_was_exchanged_is_not_run(written: Callable[[str], Path], tmp_path: Path) -> None:
    """Between the plan and the worker: its digest is looked at first."""
    module = read(written(SOUND))
    mark = tmp_path / "was_run"
    path = written(f"open({str(mark)!r}, 'w')\ndef build_model(): ...\n")

    with pytest.raises(UsageError, match=r"fast\.py: was changed after the run was planned"):
        load(path, module)

    assert not mark.exists()


@pytest.mark.parametrize("name", ["fast", "fast.txt", "my-model.py", "1.py", ".py", "é.py", "x" * 65 + ".py", "a b.py"])
def test_name_that_is_no_modules_name_is_refused(tmp_path: Path, name: str) -> None:
    """It becomes a file's name in every copy of the submission."""
    (tmp_path / name).write_text(SOUND)

    with pytest.raises(UsageError, match="must be a Python name"):
        read(tmp_path / name)


def test_workload_without_parts_takes_no_module(written: Callable[[str], Path]) -> None:
    """There is nothing that it could replace."""
    with pytest.raises(UsageError, match="toy: has no parts that a module could replace"):
        open_module.read_module(written(SOUND), "toy", ())


def test_record_is_read_back_as_it_was() -> None:
    """And null, or nothing, is no module."""
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
    """It comes from a log, so it may be anything."""
    with pytest.raises(ValueError, match=r"name|sha256|parts"):
        open_module.parse_module(value)


def test_what_is_no_file_is_no_module(tmp_path: Path) -> None:
    """A folder of that name, and nothing of that name."""
    (tmp_path / "fast.py").mkdir()
    for path, why in ((tmp_path / "fast.py", "is not a file"), (tmp_path / "gone.py", "cannot be read")):
        with pytest.raises(UsageError, match=why):
            read(path)
