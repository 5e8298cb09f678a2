"""MLPerf's rounds as the frozen types of `harness.mlperf.model`, from the mappings of `harness.mlperf.roundfiles`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard

from harness.base.typed_yaml import only
from harness.errors import RulesError, printable, unknown_name
from harness.findings import Severity
from harness.mlperf import formula
from harness.mlperf.formula import Formula
from harness.mlperf.model import Count, Join, KeyRule, Page, Round, RoundBenchmark, RoundReference
from harness.mlperf.roundfiles import PAGE, RULESET_FILE, RawRound, mapping_of, read_layers, read_round
from harness.ruleset.model import RuleSet, Timing
from harness.ruleset.waivers import read_waivers
from harness.ruleset.whichround import Candidate

ROUNDS_FOLDER = "mlperf_training"
_KEY = {"count", "each", "first", "target", "after", "before", "lists"}
_REFERENCE = {"global_batch_size", "unit", "points", "hyperparameters"}
_COUNTS = {"once": Count(1, 1), "optional": Count(0, 1), "any": Count()}


def load_round(folder: Path, version: str) -> RuleSet:
    """The ruleset of a round in `folder`: a round, the codes in force, no benchmarks of ours.

    Raises:
        RulesError: a file is missing, is no such file, or says what cannot be.
    """
    raw = read_round(folder)
    place = str(folder / RULESET_FILE)
    codes = mapping_of(raw.top.get("codes"), f"{place}: codes")
    for code, severity in codes.items():
        if severity not in list(Severity):
            raise RulesError(f"{place}: codes: {code}: {unknown_name('severity', str(severity), list(Severity))}")
    found = _round(raw, version, folder)
    digest = hashlib.sha256(repr(sorted(raw.digests.items())).encode())
    return RuleSet(
        version=version,
        digest=digest.hexdigest(),
        divisions=tuple(found.divisions),
        timing=Timing(max_init_s=dict(found.max_init_s)),
        codes={str(code): str(severity) for code, severity in codes.items()},
        benchmarks={},
        waivers=read_waivers(raw.top.get("waivers"), codes, f"{place}: waivers"),
        round=found,
    )


def _round(raw: RawRound, version: str, folder: Path) -> Round:
    place = str(folder / RULESET_FILE)
    limits = mapping_of(raw.top.get("max_init_s"), f"{place}: max_init_s")
    divisions = mapping_of(raw.top.get("divisions"), f"{place}: divisions")
    if set(limits) != set(divisions) or not all(_is_number(limit) and limit > 0 for limit in limits.values()):
        raise RulesError(f"{place}: max_init_s must give a number above zero for each of {', '.join(divisions)}")
    page = _page({name: raw.top[name] for name in PAGE if name in raw.top}, Page(), place)
    pages = {name: _page(content, page, f"{place}: divisions: {name}") for name, content in divisions.items()}
    return Round(
        version=version,
        page=page,
        divisions=pages,
        max_init_s={name: float(limit) for name, limit in limits.items()},
        published=_date(raw.top.get("published"), place),
        benchmarks={
            name: _benchmark(name, content, pages, f"{folder / name}.yaml")
            for name, content in sorted(raw.benchmarks.items())
        },
    )


def _date(content: object, place: str) -> str:
    try:
        if isinstance(content, str) and date.fromisoformat(content).isoformat() == content:
            return content
    except ValueError:
        pass
    raise RulesError(f"{place}: published is {printable(content)!r}; it must be 'YYYY-MM-DD', in quotes")


def round_candidates(folders: Iterable[tuple[str, Path]]) -> list[Candidate]:
    """Of the rulesets in `folders`, by name, the rounds of MLPerf's, with what tells them apart.

    Raises:
        RulesError: a file of a round is missing or is no such file.
    """
    rounds = [(name, folder) for name, folder in folders if folder.parent.name == ROUNDS_FOLDER]
    read = read_layers(folder for _, folder in rounds)
    return [
        Candidate(name, _date(layers.top.get("published"), str(folder / RULESET_FILE)), frozenset(layers.files))
        for (name, folder), layers in zip(rounds, read, strict=True)
    ]


def _page(content: object, below: Page, place: str) -> Page:
    """The page `content` on top of `below`: a rule of its own for a key replaces the one below."""
    mapping = mapping_of(content, place)
    only(mapping, PAGE, place)
    keys = dict(below.keys)
    for name, rule in mapping_of(mapping.get("keys", {}), f"{place}: keys").items():
        keys[str(name)] = _key(str(name), rule, f"{place}: keys: {name}")
    either = mapping.get("either", [])
    if not isinstance(either, list):
        raise RulesError(f"{place}: either must be a list of lists of keys")
    page = Page(keys, (*below.either, *(_texts(group, f"{place}: either") for group in either)))
    known = {*keys, *(key for group in page.either for key in group)}
    for rule in keys.values():
        asked = {*rule.after, *rule.before}.union(*(demand.names for demand in _demands(rule)))
        if absent := sorted(asked - known):
            raise RulesError(f"{place}: keys: {rule.key}: {unknown_name('key', absent[0], known)}")
    return page


def _demands(rule: KeyRule) -> Iterable[Formula]:
    return (*rule.each, *rule.first, *([rule.target] if rule.target is not None else []))


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


def _benchmark(name: str, content: dict[str, Any], below: dict[str, Page], place: str) -> RoundBenchmark:
    num_runs, drop = content.get("num_runs"), content.get("drop")
    if not _is_whole(num_runs) or not _is_whole(drop) or not 0 <= 2 * drop < num_runs:
        raise RulesError(f"{place}: num_runs and drop must be whole numbers, num_runs more than twice drop")
    divisions = mapping_of(content.get("divisions"), f"{place}: divisions")
    only(divisions, set(below), f"{place}: divisions")
    pages = {div: _page(page, below[div], f"{place}: divisions: {div}") for div, page in divisions.items()}
    variants = mapping_of(content.get("variants", {}), f"{place}: variants")
    only(variants, {"key", *pages}, f"{place}: variants")
    join = mapping_of(content.get("join", {}), f"{place}: join")
    only(join, {"key", "by", "part", "into"}, f"{place}: join")
    if join and set(_texts(list(join.values()), f"{place}: join")) and len(join) < 4:
        raise RulesError(f"{place}: join needs key, by, part and into")
    references = mapping_of(content.get("convergence", {}), f"{place}: convergence")
    return RoundBenchmark(
        name=name,
        num_runs=num_runs,
        drop=drop,
        pages=pages,
        variant_key=variants.get("key"),
        variants={
            div: {
                str(value): _page(page, pages[div], f"{place}: variants: {div}: {value}")
                for value, page in mapping_of(by_value, f"{place}: variants: {div}").items()
            }
            for div, by_value in variants.items()
            if div != "key"
        },
        join=Join(**join) if join else None,
        convergence=tuple(
            _reference(str(key), name, item, f"{place}: convergence: {key}") for key, item in references.items()
        ),
        distance=_distance(content["distance"], f"{place}: distance") if "distance" in content else None,
    )


def _distance(content: object, place: str) -> Formula:
    (found,) = _formulas([content], place)
    if others := sorted(found.names - {"global_batch_size"}):
        raise RulesError(f"{place}: asks for {others[0]}; it may ask for value and global_batch_size")
    return found


def _reference(name: str, benchmark: str, content: object, place: str) -> RoundReference:
    mapping = mapping_of(content, place)
    only(mapping, _REFERENCE, place)
    points, size, unit = mapping.get("points"), mapping.get("global_batch_size"), mapping.get("unit")
    if not isinstance(points, list) or not points or not all(_is_number(point) and point > 0 for point in points):
        raise RulesError(f"{place}: points must be a list of numbers above zero")
    if not _is_whole(size) or size < 1:
        raise RulesError(f"{place}: global_batch_size is {printable(size)}; it must be a whole number above zero")
    if unit not in ("epochs", "samples"):
        raise RulesError(f"{place}: unit is {printable(unit)!r}; it must be epochs or samples")
    hyperparameters = mapping_of(mapping.get("hyperparameters", {}), f"{place}: hyperparameters")
    return RoundReference(name, benchmark, size, unit, tuple(float(point) for point in points), hyperparameters)


def _texts(content: object, place: str) -> tuple[str, ...]:
    if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
        raise RulesError(f"{place}: must be a list of texts")
    return tuple(content)


def _is_number(content: object) -> TypeGuard[float]:
    return isinstance(content, int | float) and not isinstance(content, bool)


def _is_whole(content: object) -> TypeGuard[int]:
    return isinstance(content, int) and not isinstance(content, bool)
