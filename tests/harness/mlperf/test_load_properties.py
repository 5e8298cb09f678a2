"""The files of a round are read as YAML reads them, value for value; what could be read in two ways is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import RulesError
from harness.mlperf import load
from harness.ruleset import catalog

ROUNDS = catalog.ruleset_folder("mlperf_training/5.1.0").parent
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(["yes", "1e3", "0x10", "~", "2020-01-01", "a: b", "- a", "&a", "*a", "<<", "#", "12:30", "1_000"])
    | st.dates()
)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("round_", sorted(path.name for path in ROUNDS.iterdir() if path.is_dir()))
def test_every_file_of_a_round_says_what_yaml_says(round_: str) -> None:
    """Texts, numbers and truth values with their types, in their order; the digest is of the file's bytes."""
    files = sorted((ROUNDS / round_).glob("*.yaml"))
    assert files
    for file in files:
        content, digest = load._load(file)

        assert repr(content) == repr(yaml.load(file.read_bytes(), Loader=LOADER))
        assert digest == hashlib.sha256(file.read_bytes()).hexdigest()


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=8), _VALUES, min_size=1, max_size=4), st.sampled_from([None, True, False]))
def test_what_is_written_as_yaml_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any], flow: bool | None
) -> None:
    """Whatever is in it, in blocks and in brackets; each of two equal values is written out."""
    dumper: Any = type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda self, data: True})
    path = tmp_path_factory.getbasetemp() / "round.yaml"
    path.write_text(yaml.dump(document, Dumper=dumper, default_flow_style=flow, sort_keys=False), encoding="utf-8")

    assert repr(load._load(path)[0]) == repr(document)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x",
        "a: &x {b: *x}",
        "a: 1\na: 1",
        "a: {b: 1, c: {d: 1, 'd': 2}}",
        "a: [{b: 1, b: 1}]",
        "1: a",
        "a: {true: 1}",
        "null: a",
        "? [a]\n: b",
        "a: {2020-01-01: 1}",
        "a: !!python/name:os.system x",
        "a: !!python/object/apply:os.system [x]",
        "a: !other x",
        "a: !!int x",
        "a: 1\n---\nb: 2",
        "a: \x01",
        "- a",
        "5",
        "a: [",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(tmp_path: Path, text: str) -> None:
    """An alias, a key twice, a key that is not text, a tag, a second document: one sentence with the file."""
    (tmp_path / "round.yaml").write_text(text)

    with pytest.raises(RulesError, match=r"round\.yaml: ") as raised:
        load._load(tmp_path / "round.yaml")

    assert str(raised.value).isprintable()
