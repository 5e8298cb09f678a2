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
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.base.typed_yaml import YAML_ERRORS, only
from harness.errors import RulesError, printable, unknown_name

KIND = "mlperf"
RULESET_FILE = "ruleset.yaml"
PAGE = {"keys", "either"}
_TOP = {"kind", "extends", "published", "codes", "max_init_s", "divisions", "benchmarks", "waivers", *PAGE}
_BENCHMARK = {"extends", "num_runs", "drop", "divisions", "variants", "join", "convergence", "distance"}
_MAX_BYTES = 4 << 20
_CIRCLE = "the rounds extend each other in a circle"


class Layers(NamedTuple):
    """A round before its benchmarks are read: `ruleset.yaml`, everything laid over, and the files of each benchmark.

    files: by benchmark, the file of the first round that has one first. digests: of every `ruleset.yaml`.
    """

    top: dict[str, Any]
    files: dict[str, tuple[Path, ...]]
    digests: dict[str, str]


class RawRound(NamedTuple):
    """A round as mappings, everything laid over, with the digest of every file it was made from."""

    top: dict[str, Any]
    benchmarks: dict[str, dict[str, Any]]
    digests: dict[str, str]


def read_round(folder: Path) -> RawRound:
    """The round in `folder`, laid over those it extends; of what it has no more, nothing is read.

    Raises:
        RulesError: a file is missing, is not YAML as rules have it, or extends what is not there or itself.
    """
    reader = _Reader()
    layers = reader.layers(folder)
    benchmarks = {name: reader.benchmark(files) for name, files in layers.files.items()}
    return RawRound(layers.top, benchmarks, {**layers.digests, **reader.digests})


def read_layers(folders: Iterable[Path]) -> list[Layers]:
    """What `read_round` begins with, of several rounds, each file once.

    Raises:
        RulesError: as there.
    """
    reader = _Reader()
    return [reader.layers(folder) for folder in folders]


class _Reader:
    """Reads each file once. `digests`: of the benchmarks' files."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._layers: dict[Path, Layers] = {}
        self._benchmarks: dict[tuple[Path, ...], dict[str, Any]] = {}

    def layers(self, folder: Path, above: tuple[Path, ...] = ()) -> Layers:
        """Of the round in `folder`, which those `above` extend."""
        if folder in self._layers:
            return self._layers[folder]
        path = folder / RULESET_FILE
        top, digest = _load(path)
        only(top, _TOP, str(path))
        if folder in above:
            raise RulesError(f"{path}: extends: {_CIRCLE}")
        gone = mapping_of(top.pop("benchmarks", {}), f"{path}: benchmarks")
        files, digests = dict[str, tuple[Path, ...]](), {f"{folder.name}/{RULESET_FILE}": digest}
        if (parent := top.pop("extends", None)) is not None:
            base = self.layers(_sibling(folder, parent, str(path)), (*above, folder))
            top, files, digests = _laid(_inherited(base.top), top), dict(base.files), {**base.digests, **digests}
        for name, content in gone.items():
            if content is not None or name not in files:
                raise RulesError(f"{path}: benchmarks: {name}: can only be null, of a benchmark of the round before")
            del files[name]
        for file in sorted(folder.glob("*.yaml")):
            if file.name != RULESET_FILE:
                files[file.stem] = (*files.get(file.stem, ()), file)
        self._layers[folder] = Layers(top, files, digests)
        return self._layers[folder]

    def benchmark(self, files: tuple[Path, ...], above: tuple[Path, ...] = ()) -> dict[str, Any]:
        """The last of `files`, laid over the one that it names, else over those before it."""
        if files in self._benchmarks:
            return self._benchmarks[files]
        *before, file = files
        content, self.digests[f"{file.parent.name}/{file.name}"] = _load(file)
        only(content, _BENCHMARK, str(file))
        if file in above:
            raise RulesError(f"{file}: extends: {_CIRCLE}")
        base = tuple(before)
        if (named := content.pop("extends", None)) is not None:
            parent, _, name = str(named).partition("/")
            known = self.layers(_sibling(file.parent, parent, str(file))).files
            if name not in known:
                raise RulesError(f"{file}: extends: {unknown_name('benchmark', name, known)}")
            base = known[name]
        below = self.benchmark(base, (*above, file)) if base else {}
        self._benchmarks[files] = _laid(below, content)
        return self._benchmarks[files]


def _inherited(top: dict[str, Any]) -> dict[str, Any]:
    """What a round takes over: not the waivers, each of which is for one case."""
    return {name: content for name, content in top.items() if name != "waivers"}


def _sibling(folder: Path, name: object, place: str) -> Path:
    rounds = sorted(path.parent.name for path in folder.parent.glob(f"*/{RULESET_FILE}"))
    if not isinstance(name, str) or name not in rounds:
        raise RulesError(f"{place}: extends: {unknown_name('round', str(name), rounds)}")
    return folder.parent / name


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


_TAG = "tag:yaml.org,2002:"
# PyYAML may have been built without libyaml; its own loader reads the same, slower.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, without aliases and with each name once.

    Not OmegaConf's: a round is some hundred files, of which OmegaConf would take seconds to make its objects.
    """

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.seen: set[int] = set()  # nodes; an alias is a node that is there already

    def get_single_data(self) -> Any:
        node = self.get_single_node()
        return None if node is None else self._made(node)

    def _made(self, node: Any) -> Any:
        """What PyYAML's constructor makes of the node, without its bookkeeping for aliases, which are refused."""
        if id(node) in self.seen:
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: an alias; rules are plain values")
        self.seen.add(id(node))
        if node.id == "mapping" and node.tag == _TAG + "map":
            return self._mapping(node)
        if node.id == "sequence" and node.tag == _TAG + "seq":
            return [self._made(item) for item in node.value]
        if node.id != "scalar":
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: the tag {printable(node.tag, 60)!r}")
        return node.value if node.tag == _TAG + "str" else self.construct_object(node)

    def _mapping(self, node: Any) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name, line = self._made(key_node), key_node.start_mark.line + 1
            if not isinstance(name, str):
                raise yaml.YAMLError(f"line {line}: {printable(name, 60)} is not a name; write it in quotes")
            if name in mapping:
                raise yaml.YAMLError(f"line {line}: {printable(name, 60)!r} stands twice")
            mapping[name] = self._made(value_node)
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
