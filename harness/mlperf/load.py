"""MLPerf's rounds: YAML files to mappings, and the mappings to the types of `harness.mlperf.model`.

A round is a folder with a `ruleset.yaml` that says `kind: mlperf`, and one file a benchmark, merged over the round
that it extends:

    kind: mlperf
    extends: 5.0.0              the round that this one differs from; a sibling folder
    keys: {run_start: {count: once, after: [init_stop]}}
    divisions: {closed: {keys: ...}, open: {keys: ...}}
    benchmarks: {bert: null}    removed in this round

A mapping is merged with the one of the same name, anything else replaces it, and `null` removes it. A benchmark's file
is merged over the file of the previous round, or over the one that its `extends` names. Only what YAML calls plain
values is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, get_args

import yaml

from harness.base.typed_yaml import YAML_ERRORS, mapping_of, only
from harness.base.values import is_number, is_whole, mapping_or_empty
from harness.errors import RulesError, printable, unknown_name
from harness.findings import Severity
from harness.mlperf import formula, model
from harness.mlperf.formula import Formula
from harness.mlperf.model import Count, Join, KeyRule, LogRules, Round, RoundBenchmark, RoundReference

KIND = "mlperf"
RULESET_FILE = "ruleset.yaml"
ROUNDS_FOLDER = "mlperf_training"
_LOG_RULES = {"keys", "either"}
_TOP = {"kind", "extends", "published", "codes", "max_init_s", "divisions", "benchmarks", "waivers", *_LOG_RULES}
# Facts of a benchmark that are one of several words, and those that are a number.
_WORDS = {
    "evaluated": get_args(model.Evaluated),
    "first_evaluations": get_args(model.FirstEvaluations),
    "position": get_args(model.Position),
    "train_samples": get_args(model.TrainSamples),
}
_NUMBERS = ("training_set", "reprint_tolerance", "convergence_allowance")
_BENCHMARK = {"extends", "num_runs", "drop", "divisions", "variants", "join", "convergence", "distance", "codes"}
_BENCHMARK |= {*_WORDS, *_NUMBERS}
_KEY = {"count", "each", "first", "target", "after", "before", "lists"}
_REFERENCE = {"global_batch_size", "unit", "points", "hyperparameters"}
_COUNTS = {"once": Count(1, 1), "optional": Count(0, 1), "any": Count()}
_MAX_BYTES = 4 << 20
_CIRCLE = "the rounds extend each other in a circle"
_TAG = "tag:yaml.org,2002:"
# PyYAML may have been built without libyaml; its own loader reads the same, slower.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Layers(NamedTuple):
    """A round before its benchmarks are read: the merged `ruleset.yaml`, and the files of each benchmark.

    files: by benchmark, from the earliest round that has it to the latest. digests: of every `ruleset.yaml`.
    """

    top: dict[str, Any]
    files: dict[str, tuple[Path, ...]]
    digests: dict[str, str]


class RawRound(NamedTuple):
    """A round as merged mappings, with the digest of every file that it was made from."""

    top: dict[str, Any]
    benchmarks: dict[str, dict[str, Any]]
    digests: dict[str, str]


def read_round(folder: Path) -> RawRound:
    """Read the round in `folder`, merged over those it extends; the files of removed benchmarks are not read.

    Raises:
        RulesError: a file is missing, is not plain YAML, or extends itself or something that does not exist.
    """
    reader = _Reader()
    layers = reader.layers(folder)
    benchmarks = {name: reader.benchmark(files) for name, files in layers.files.items()}
    return RawRound(layers.top, benchmarks, {**layers.digests, **reader.digests})


def read_layers(folders: Iterable[Path]) -> list[Layers]:
    """Do the first half of `read_round` for several rounds, reading each file once.

    Raises:
        RulesError: as `read_round`.
    """
    reader = _Reader()
    return [reader.layers(folder) for folder in folders]


class _Reader:
    """Reads each file once. digests: of the benchmarks' files."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._layers: dict[Path, Layers] = {}
        self._benchmarks: dict[tuple[Path, ...], dict[str, Any]] = {}

    def layers(self, folder: Path, above: tuple[Path, ...] = ()) -> Layers:
        """Return the layers of the round in `folder`, which the rounds `above` extend."""
        if folder in self._layers:
            return self._layers[folder]
        path = folder / RULESET_FILE
        top, digest = _load(path)
        only(top, _TOP, str(path))
        if folder in above:
            raise RulesError(f"{path}: extends: {_CIRCLE}")
        removed = mapping_of(top.pop("benchmarks", {}), f"{path}: benchmarks")
        files, digests = dict[str, tuple[Path, ...]](), {f"{folder.name}/{RULESET_FILE}": digest}
        if (parent := top.pop("extends", None)) is not None:
            base = self.layers(_sibling(folder, parent, str(path)), (*above, folder))
            top, files, digests = _merged(_inherited(base.top), top), dict(base.files), {**base.digests, **digests}
        for name, content in removed.items():
            if content is not None or name not in files:
                raise RulesError(f"{path}: benchmarks: {name}: can only be null, for a benchmark of the previous round")
            del files[name]
        for file in sorted(folder.glob("*.yaml")):
            if file.name != RULESET_FILE:
                files[file.stem] = (*files.get(file.stem, ()), file)
        self._layers[folder] = Layers(top, files, digests)
        return self._layers[folder]

    def benchmark(self, files: tuple[Path, ...], above: tuple[Path, ...] = ()) -> dict[str, Any]:
        """Return the last of `files`, merged over the one that it extends, else over those before it."""
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
        self._benchmarks[files] = _merged(below, content)
        return self._benchmarks[files]


def _inherited(top: dict[str, Any]) -> dict[str, Any]:
    """Return what a round inherits: all but the waivers, each of which is for one case."""
    return {name: content for name, content in top.items() if name != "waivers"}


def _sibling(folder: Path, name: object, place: str) -> Path:
    rounds = sorted(path.parent.name for path in folder.parent.glob(f"*/{RULESET_FILE}"))
    if not isinstance(name, str) or name not in rounds:
        raise RulesError(f"{place}: extends: {unknown_name('round', str(name), rounds)}")
    return folder.parent / name


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `over` merged over `base`; neither is changed."""
    found = dict(base)
    for name, content in over.items():
        if content is None:
            found.pop(name, None)
        elif isinstance(content, dict):
            found[name] = _merged(mapping_or_empty(found.get(name)), content)
        else:
            found[name] = content
    return found


def is_round(path: Path) -> bool:
    """Whether a ruleset.yaml has the line `kind: mlperf`, without reading it as YAML."""
    try:
        return path.is_file() and f"kind: {KIND}".encode() in path.read_bytes()[:_MAX_BYTES].splitlines()
    except OSError:
        return False


class _Loader(_SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, which refuses aliases and repeated names.

    Not OmegaConf: a round is about a hundred files, and OmegaConf would need seconds to build its objects.
    """

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.seen: set[int] = set()  # ids of nodes; an alias is a node that was seen before

    def get_single_data(self) -> Any:
        node = self.get_single_node()
        return None if node is None else self._value(node)

    def _value(self, node: Any) -> Any:
        """Return the value of the node, as PyYAML's constructor does, but without its bookkeeping for aliases."""
        if id(node) in self.seen:
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: an alias; rules are plain values")
        self.seen.add(id(node))
        if node.id == "mapping" and node.tag == _TAG + "map":
            return self._mapping(node)
        if node.id == "sequence" and node.tag == _TAG + "seq":
            return [self._value(item) for item in node.value]
        if node.id != "scalar":
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: the tag {printable(node.tag, 60)!r}")
        return node.value if node.tag == _TAG + "str" else self.construct_object(node)

    def _mapping(self, node: Any) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name, line = self._value(key_node), key_node.start_mark.line + 1
            if not isinstance(name, str):
                raise yaml.YAMLError(f"line {line}: {printable(name, 60)} is not a name; write it in quotes")
            if name in mapping:
                raise yaml.YAMLError(f"line {line}: {printable(name, 60)!r} occurs twice")
            mapping[name] = self._value(value_node)
        return mapping


def _load(path: Path) -> tuple[dict[str, Any], str]:
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_BYTES else None
        if data is None:
            raise RulesError(f"{path}: no such file, or larger than 4 MiB")
        content = yaml.load(data, _Loader)  # noqa: S506  (a safe loader)
    except OSError as error:
        raise RulesError(f"{path}: cannot be read: {error.strerror}") from None
    except YAML_ERRORS as error:
        raise RulesError(f"{path}: not YAML: {' '.join(printable(error, 400).split())}") from None
    return mapping_of(content, str(path)), hashlib.sha256(data).hexdigest()


def parse_round(raw: RawRound, version: str, folder: Path) -> Round:
    """Return the round that was read from `folder`, called `version`.

    Raises:
        RulesError: a key is unknown, or a value has the wrong type or contradicts another.
    """
    place = str(folder / RULESET_FILE)
    limits = mapping_of(raw.top.get("max_init_s"), f"{place}: max_init_s")
    divisions = mapping_of(raw.top.get("divisions"), f"{place}: divisions")
    if set(limits) != set(divisions) or not all(is_number(limit) and limit > 0 for limit in limits.values()):
        raise RulesError(f"{place}: max_init_s must give a number above zero for each of {', '.join(divisions)}")
    rules = _log_rules({name: raw.top[name] for name in _LOG_RULES if name in raw.top}, LogRules(), place)
    by_division = {
        name: _log_rules(content, rules, f"{place}: divisions: {name}") for name, content in divisions.items()
    }
    return Round(
        version=version,
        rules=rules,
        divisions=by_division,
        max_init_s={name: float(limit) for name, limit in limits.items()},
        published=publication_date(raw.top, place),
        benchmarks={
            name: _benchmark(name, content, by_division, f"{folder / name}.yaml")
            for name, content in sorted(raw.benchmarks.items())
        },
    )


def publication_date(top: dict[str, Any], place: str) -> str:
    """Return the day, YYYY-MM-DD, on which the results of a round were published; empty if they are not yet.

    Raises:
        RulesError: `published` is missing, or is neither such a date nor `not yet`.
    """
    content = top.get("published")
    if content == "not yet":
        return ""
    try:
        if isinstance(content, str) and date.fromisoformat(content).isoformat() == content:
            return content
    except ValueError:
        pass
    raise RulesError(f"{place}: published is {printable(content)!r}; it must be 'YYYY-MM-DD', in quotes, or not yet")


def _log_rules(content: object, below: LogRules, place: str) -> LogRules:
    """Return the rules in `content` on top of those `below`; a rule for a key replaces the one below."""
    mapping = mapping_of(content, place)
    only(mapping, _LOG_RULES, place)
    keys = dict(below.keys)
    for name, rule in mapping_of(mapping.get("keys", {}), f"{place}: keys").items():
        keys[str(name)] = _key(str(name), rule, f"{place}: keys: {name}")
    either = mapping.get("either", [])
    if not isinstance(either, list):
        raise RulesError(f"{place}: either must be a list of lists of keys")
    rules = LogRules(keys, (*below.either, *(_texts(group, f"{place}: either") for group in either)))
    known = {*keys, *(key for group in rules.either for key in group)}
    for rule in keys.values():
        constraints = (*rule.each, *rule.first, *([rule.target] if rule.target is not None else []))
        used = {*rule.after, *rule.before}.union(*(constraint.names for constraint in constraints))
        if absent := sorted(used - known):
            raise RulesError(f"{place}: keys: {rule.key}: {unknown_name('key', absent[0], known)}")
    return rules


def _key(name: str, content: object, place: str) -> KeyRule:
    mapping = mapping_of(content, place)
    only(mapping, _KEY, place)
    lists = mapping_of(mapping.get("lists", {}), f"{place}: lists")
    if len(lists) > 1:
        raise RulesError(f"{place}: lists: has more than one field")
    return KeyRule(
        key=name,
        count=_count(mapping.get("count", "any"), place),
        each=_formulas(mapping.get("each", []), f"{place}: each"),
        first=_formulas(mapping.get("first", []), f"{place}: first"),
        target=_formulas([mapping["target"]], f"{place}: target")[0] if "target" in mapping else None,
        after=_texts(mapping.get("after", []), f"{place}: after"),
        before=_texts(mapping.get("before", []), f"{place}: before"),
        lists=next(((str(field), _texts(items, f"{place}: lists")) for field, items in lists.items()), None),
    )


def _count(word: object, place: str) -> Count:
    if isinstance(word, str) and word in _COUNTS:
        return _COUNTS[word]
    if isinstance(word, str) and word.endswith("+") and word[:-1].isascii() and word[:-1].isdigit():
        return Count(int(word[:-1]))
    raise RulesError(f"{place}: count is {printable(word)!r}; it must be once, optional, any, or like 1+ and 2+")


def _formulas(content: object, place: str) -> tuple[Formula, ...]:
    texts = _texts([content] if isinstance(content, str) else content, place)
    try:
        return tuple(formula.parse(text) for text in texts)
    except RulesError as error:
        raise RulesError(f"{place}: {error}") from None


def _benchmark(name: str, content: dict[str, Any], below: dict[str, LogRules], place: str) -> RoundBenchmark:
    num_runs, drop = content.get("num_runs"), content.get("drop")
    if not is_whole(num_runs) or not is_whole(drop) or not 0 <= 2 * drop < num_runs:
        raise RulesError(f"{place}: num_runs and drop must be whole numbers, num_runs more than twice drop")
    divisions = mapping_of(content.get("divisions"), f"{place}: divisions")
    only(divisions, set(below), f"{place}: divisions")
    by_division = {div: _log_rules(item, below[div], f"{place}: divisions: {div}") for div, item in divisions.items()}
    variants = mapping_of(content.get("variants", {}), f"{place}: variants")
    only(variants, {"key", *by_division}, f"{place}: variants")
    join = mapping_of(content.get("join", {}), f"{place}: join")
    only(join, {"key", "by", "part", "into"}, f"{place}: join")
    if join and set(_texts(list(join.values()), f"{place}: join")) and len(join) < 4:
        raise RulesError(f"{place}: join needs key, by, part and into")
    references = mapping_of(content.get("convergence", {}), f"{place}: convergence")
    return RoundBenchmark(
        name=name,
        num_runs=num_runs,
        drop=drop,
        divisions=by_division,
        variant_key=variants.get("key"),
        variants={
            div: {
                str(value): _log_rules(item, by_division[div], f"{place}: variants: {div}: {value}")
                for value, item in mapping_of(by_value, f"{place}: variants: {div}").items()
            }
            for div, by_value in variants.items()
            if div != "key"
        },
        join=Join(**join) if join else None,
        convergence=tuple(
            _reference(str(key), name, item, f"{place}: convergence: {key}") for key, item in references.items()
        ),
        distance=_distance(content["distance"], f"{place}: distance") if "distance" in content else None,
        codes=severities(content.get("codes", {}), f"{place}: codes"),
        **_facts(_with_position(content, join, place), place),
    )


def _with_position(content: dict[str, Any], join: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the content with the field of metadata that joined evaluations have in common as their position."""
    if not join:
        return content
    if (stated := content.get("position", join["by"])) != join["by"]:
        raise RulesError(f"{place}: position is {printable(stated)!r}; evaluations are joined by {join['by']}")
    return {**content, "position": join["by"]}


def _facts(content: dict[str, Any], place: str) -> dict[str, Any]:
    for name, words in _WORDS.items():
        if (word := content.get(name, words[0])) not in words:
            raise RulesError(f"{place}: {name} is {printable(word)!r}; it must be one of {', '.join(words)}")
    for name in _NUMBERS:
        if not is_number(number := content.get(name, 0)) or number < 0:
            raise RulesError(f"{place}: {name} is {printable(number)!r}; it must be a number of at least 0")
    return {name: content[name] for name in (*_WORDS, *_NUMBERS) if name in content}


def severities(content: object, place: str) -> dict[str, str]:
    """Return codes of checks with their severities.

    Raises:
        RulesError: it is not a mapping, or a severity does not exist.
    """
    codes = mapping_of(content, place)
    for code, severity in codes.items():
        if severity not in list(Severity):
            raise RulesError(f"{place}: {code}: {unknown_name('severity', str(severity), list(Severity))}")
    return {str(code): str(severity) for code, severity in codes.items()}


def _distance(content: object, place: str) -> Formula:
    (found,) = _formulas([content], place)
    if others := sorted(found.names - {"global_batch_size"}):
        raise RulesError(f"{place}: uses {others[0]}; it may use only value and global_batch_size")
    return found


def _reference(name: str, benchmark: str, content: object, place: str) -> RoundReference:
    mapping = mapping_of(content, place)
    only(mapping, _REFERENCE, place)
    points, size, unit = mapping.get("points"), mapping.get("global_batch_size"), mapping.get("unit")
    if not isinstance(points, list) or not points or not all(is_number(point) and point > 0 for point in points):
        raise RulesError(f"{place}: points must be a list of numbers above zero")
    if not is_whole(size) or size < 1:
        raise RulesError(f"{place}: global_batch_size is {printable(size)}; it must be a whole number above zero")
    if unit not in ("epochs", "samples"):
        raise RulesError(f"{place}: unit is {printable(unit)!r}; it must be epochs or samples")
    hyperparameters = mapping_of(mapping.get("hyperparameters", {}), f"{place}: hyperparameters")
    return RoundReference(name, benchmark, size, unit, tuple(float(point) for point in points), hyperparameters)


def _texts(content: object, place: str) -> tuple[str, ...]:
    if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
        raise RulesError(f"{place}: must be a list of texts")
    return tuple(content)
