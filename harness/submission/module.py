"""A module: one Python file whose functions replace parts of a workload.

In the open division they do something else; in the closed division they do the same in another way, as is measured.

The referee reads its text (`read_module`) and never imports it; the worker verifies its digest and imports it
(`load_module`). It runs in the worker's process and can reach more than the parts it replaces. Therefore it is kept
with the result, and every log has its name and digest, so that a person can read it. Standard library only.
"""

from __future__ import annotations

import ast
import hashlib
import re
import stat
import sys
import traceback
import types
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, printable, unknown_name
from harness.submission.layout import MODULE_PATTERN

MAX_BYTES = 1 << 20
OPEN = "open"
# Of a reimplementation: its weights in the reference's form, and back.
CONVERSIONS = ("to_reference", "from_reference")
_SCHEDULE = "learning_rate"  # a number that depends on the step alone: nothing to compute in another way
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Module:
    """A module as the log names it. name: of the file. parts: those that it replaces, sorted."""

    name: str
    sha256: str
    parts: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the value of `module` in a run's configuration."""
        return {"name": self.name, "sha256": self.sha256, "parts": list(self.parts)}

    def __str__(self) -> str:
        return f"{self.name} ({self.sha256[:12]}…)"


def parse_module(value: object) -> Module | None:
    """Return the `module` of a log's `tta_config`; None if that is null or absent.

    Raises:
        ValueError: it is neither null nor a module's name, digest and parts.
    """
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"name", "sha256", "parts"}:
        raise ValueError("it must be null, or have name, sha256 and parts")
    name, digest, parts = value["name"], value["sha256"], value["parts"]
    if not isinstance(name, str) or not MODULE_PATTERN.fullmatch(name):
        raise ValueError(f"{printable(name, 80)!r} is not the name of a Python file")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ValueError("its sha256 is not a SHA-256")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError("its parts are not a list of at least one name")
    return Module(name, digest, tuple(parts))


def permitted_parts(division: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Return the functions that a module may define in `division`. parts: the workload's."""
    if division == OPEN or not parts:
        return tuple(parts)
    return (*(part for part in parts if part != _SCHEDULE), *CONVERSIONS)


def read_module(path: Path, workload: str, parts: Sequence[str]) -> tuple[Module, bytes]:
    """Return the module in the file at `path`, and its text; none of it is executed.

    parts: the names that a module may define for `workload`.

    Raises:
        UsageError: it cannot be read, is not Python, defines none of the parts, or another public function.
    """
    if not parts:
        raise UsageError(f"{workload}: has no parts that a module could replace")
    shown = printable(path)
    if not MODULE_PATTERN.fullmatch(path.name):
        raise UsageError(f"{shown}: the file's name must be a Python name of at most 64 characters and end in .py")
    data = _bytes(path)
    if (nul := data.find(b"\0")) >= 0:  # Python before 3.11.4 does not report the line
        raise UsageError(f"{shown}, line {data.count(10, 0, nul) + 1}: not Python: null bytes")
    try:
        with warnings.catch_warnings(action="ignore"):  # such as those about odd escapes
            bound = list(_bound(ast.parse(data, str(path))))
    except SyntaxError as error:
        raise UsageError(f"{shown}, line {error.lineno or 1}: not Python: {printable(error.msg)}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{shown}: not Python: {printable(error) or type(error).__name__}") from None
    found: set[str] = set()
    for name, line, is_function in bound:
        if name in parts:
            found.add(name)
        elif is_function and not name.startswith("_"):
            raise UsageError(f"{shown}, line {line}: {_unknown(workload, name, parts)}")
    if not found - set(CONVERSIONS):
        replaced = ", ".join(part for part in parts if part not in CONVERSIONS)
        raise UsageError(f"{shown}: has none of the parts of {workload}: {replaced}")
    return Module(path.name, hashlib.sha256(data).hexdigest(), tuple(sorted(found))), data


def load_module(path: Path, module: Module, workload: str, parts: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Import the file at `path`, if it is `module`, and return what replaces each part.

    Raises:
        UsageError: it is another file, cannot be imported, or does not define what its text says.
    """
    data = _bytes(path)
    shown = printable(path.name)
    if hashlib.sha256(data).hexdigest() != module.sha256:
        raise UsageError(f"{shown}: was changed after the run was planned; its SHA-256 is not {module.sha256[:12]}…")
    imported = types.ModuleType(f"tta_module_{path.stem}")
    imported.__file__ = str(path)
    sys.modules[imported.__name__] = imported  # dataclasses and pickle look there
    try:
        # importlib's loader would read the file again, unverified, and leave a `__pycache__` in the result.
        with warnings.catch_warnings(action="ignore"):
            code = compile(data, str(path), "exec", dont_inherit=True)
        exec(code, imported.__dict__)  # noqa: S102  (its purpose)
    # The code is a submitter's: whatever it raises on import, sys.exit() included, means that it cannot be used.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        raise UsageError(f"{shown}{_line(error, path)}: cannot be imported: {_words(error)}") from None
    for name, value in vars(imported).items():
        is_its_own = isinstance(value, types.FunctionType) and value.__module__ == imported.__name__
        if is_its_own and not name.startswith("_") and name not in parts:
            raise UsageError(f"{shown}: {_unknown(workload, name, parts)}")
    found = {name: vars(imported)[name] for name in sorted(parts) if name in vars(imported)}
    if tuple(found) != module.parts:
        raise UsageError(
            f"{shown}: has the parts {', '.join(found) or 'none'} when imported, but {', '.join(module.parts)} in its "
            "text; define each by its name at the top level of the file"
        )
    for name, value in found.items():
        if not callable(value):
            raise UsageError(f"{shown}: {name!r} is of type {type(value).__name__}, which cannot be called")
    return found


def held_data(text: bytes) -> tuple[int, int]:
    """Return how many bytes the constants and comments of a module compress to, and the line where most of them begin.

    Constants are texts (docstrings too), bytes and numbers, wherever they are; a module can read its own comments.
    Nothing is executed.

    Raises:
        ValueError: it is not Python.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not Python: {printable(error) or type(error).__name__}") from None
    # A `#` in a text makes a remark of its end, which compresses to next to nothing; Python's tokenizer takes seconds.
    constants, remarks = _constants(tree), [line.partition(b"#")[2] for line in text.splitlines()]
    longest = max(remarks, key=len, default=b"")
    line, body = 1, tree.body
    while body:
        weight, heaviest = max(((len(_constants(item)), item) for item in body), key=lambda pair: pair[0])
        line, body = heaviest.lineno, getattr(heaviest, "body", [])
        if weight < len(longest):
            line, body = remarks.index(longest) + 1, []
    return len(zlib.compress(b"\n".join([constants, *remarks]))), line


def _constants(tree: ast.AST) -> bytes:
    return b"\n".join(_as_bytes(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):  # its digits may be more than Python prints
        return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return str(value).encode("utf-8", "surrogatepass")


def _bytes(path: Path) -> bytes:
    shown = printable(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{shown}: is not a file; a module is one Python file")
        if status.st_size > MAX_BYTES:
            raise UsageError(f"{shown}: has {status.st_size:,} bytes; a module has at most {MAX_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror}") from None


def _bound(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield every name that the file binds at its top level, its line, and whether it is a function's definition.

    Names in an `if`, `try`, `with` or loop count; names in a function or class do not.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, node.lineno, isinstance(node, _FUNCTIONS)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], node.lineno, False
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id, node.lineno, False
        elif not isinstance(node, _SCOPES):
            yield from _bound(node)


def _unknown(workload: str, name: str, parts: Sequence[str]) -> str:
    return f"{unknown_name(f'part of {workload}', name, parts)} (names of helpers must begin with _)"


def _line(error: BaseException, path: Path) -> str:
    """Return the line of the module where the error occurred, if any."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {printable(error.msg if isinstance(error, SyntaxError) else error, 300)}"
