"""MLPerf's rounds: `ruleset.yaml` with `kind: mlperf`, and one file a benchmark, each laid over the round before.

    kind: mlperf
    extends: 5.0.0              the round this one differs from; a sibling folder
    keys: {run_start: {count: once, after: [init_stop]}}
    divisions: {closed: {keys: ...}, open: {keys: ...}}
    benchmarks: {bert: null}    gone in this round

A mapping is laid over the one of the same name, anything else replaces it, `null` removes it. A benchmark's file
is laid over the file of the round before, or over what its own `extends: 4.1.0/ssd` names.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.errors import RulesError, printable, unknown_name
from harness.loader.typed import YAML_ERRORS, only

KIND = "mlperf"
RULESET_FILE = "ruleset.yaml"
PAGE = {"keys", "either"}
_TOP = {"kind", "extends", "published", "codes", "max_init_s", "divisions", "benchmarks", "waivers", *PAGE}
_BENCHMARK = {"extends", "num_runs", "drop", "divisions", "variants", "join", "convergence"}
_MAX_BYTES = 4 << 20


class RawRound(NamedTuple):
    """A round as mappings, everything laid over, with the digest of every file it was made from."""

    top: dict[str, Any]
    benchmarks: dict[str, dict[str, Any]]
    digests: dict[str, str]


def read_round(folder: Path, done: dict[Path, RawRound] | None = None) -> RawRound:
    """The round in `folder`, laid over those it extends; `done` keeps what was read for a next call.

    Raises:
        RulesError: a file is missing, is not YAML as rules have it, or extends what is not there or itself.
    """
    return _read(folder, (), {} if done is None else done)


def _read(folder: Path, below: tuple[Path, ...], done: dict[Path, RawRound]) -> RawRound:
    if folder in done:
        return done[folder]
    path = folder / RULESET_FILE
    own, digest = _load(path)
    only(own, _TOP, str(path))
    if folder in below:
        raise RulesError(f"{path}: extends: the rounds extend each other in a circle")
    gone = mapping_of(own.pop("benchmarks", {}), f"{path}: benchmarks")
    top, benchmarks, digests = own, dict[str, dict[str, Any]](), {f"{folder.name}/{RULESET_FILE}": digest}
    if (parent := own.pop("extends", None)) is not None:
        base = _read(_sibling(folder, parent, str(path)), (*below, folder), done)
        top, benchmarks, digests = _laid(_inherited(base.top), own), dict(base.benchmarks), {**base.digests, **digests}
    for name, content in gone.items():
        if content is not None or name not in benchmarks:
            raise RulesError(f"{path}: benchmarks: {name}: can only be null, of a benchmark of the round before")
        del benchmarks[name]
    for file in sorted(folder.glob("*.yaml")):
        if file.name == RULESET_FILE:
            continue
        content, digests[f"{folder.name}/{file.name}"] = _load(file)
        only(content, _BENCHMARK, str(file))
        base_of = benchmarks.get(file.stem, {})
        if (named := content.pop("extends", None)) is not None:
            base_of = _named_benchmark(folder, named, (*below, folder), done, str(file))
        benchmarks[file.stem] = _laid(base_of, content)
    done[folder] = RawRound(top, benchmarks, digests)
    return done[folder]


def _inherited(top: dict[str, Any]) -> dict[str, Any]:
    """What a round takes over: not the waivers, each of which is for one case."""
    return {name: content for name, content in top.items() if name != "waivers"}


def _sibling(folder: Path, name: object, place: str) -> Path:
    rounds = sorted(path.parent.name for path in folder.parent.glob(f"*/{RULESET_FILE}"))
    if not isinstance(name, str) or name not in rounds:
        raise RulesError(f"{place}: extends: {unknown_name('round', str(name), rounds)}")
    return folder.parent / name


def _named_benchmark(
    folder: Path, named: object, below: tuple[Path, ...], done: dict[Path, RawRound], place: str
) -> dict[str, Any]:
    parent, _, name = str(named).partition("/")
    known = _read(_sibling(folder, parent, place), below, done).benchmarks
    if name not in known:
        raise RulesError(f"{place}: extends: {unknown_name('benchmark', name, known)}")
    return known[name]


def _laid(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; neither is changed."""
    merged = dict(base)
    for name, content in over.items():
        if content is None:
            merged.pop(name, None)
        elif isinstance(content, dict):
            below = merged.get(name)
            merged[name] = _laid(below if isinstance(below, dict) else {}, content)
        else:
            merged[name] = content
    return merged


def is_round(path: Path) -> bool:
    """Whether a ruleset.yaml has the line `kind: mlperf`, without reading it as YAML."""
    try:
        return path.is_file() and f"kind: {KIND}".encode() in path.read_bytes()[:_MAX_BYTES].splitlines()
    except OSError:
        return False


# PyYAML may have been built without libyaml; its own loader reads the same, slower.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, without aliases and with each name once.

    Not OmegaConf's: a round is some hundred files, of which OmegaConf would take seconds to make its objects.
    """

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.seen: set[int] = set()  # nodes; an alias is a node that is there already

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if id(node) in self.seen:
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: an alias; rules are plain values")
        self.seen.add(id(node))
        return super().construct_object(node, deep)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            name, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(name, str):
                raise yaml.YAMLError(f"line {line}: {printable(name, 60)} is not a name; write it in quotes")
            if name in mapping:
                raise yaml.YAMLError(f"line {line}: {printable(name, 60)!r} stands twice")
            mapping[name] = self.construct_object(value_node, deep=True)
        return mapping


def _load(path: Path) -> tuple[dict[str, Any], str]:
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_BYTES else None
        if data is None:
            raise RulesError(f"{path}: there is no such file, or it has more than 4 MiB")
        content = yaml.load(data, _Loader)  # noqa: S506  (a safe loader)
    except OSError as error:
        raise RulesError(f"{path}: cannot be read: {error.strerror}") from None
    except YAML_ERRORS as error:
        raise RulesError(f"{path}: not YAML: {' '.join(printable(error, 400).split())}") from None
    return mapping_of(content, str(path)), hashlib.sha256(data).hexdigest()


def mapping_of(content: object, place: str) -> dict[str, Any]:
    """`content`, which must be a mapping, as one of its own."""
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping of names to values")
    return dict(content)
