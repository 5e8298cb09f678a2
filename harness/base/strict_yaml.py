"""Strict YAML for untrusted input: every value is a text, and readers cannot take it differently."""

from __future__ import annotations

from typing import Any

import yaml

from harness.errors import printable


class _Texts(yaml.BaseLoader):
    """BaseLoader makes texts, lists and mappings, never objects; of a key that occurs twice it would take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    raise yaml.YAMLError(f"the key {printable(key.value)!r} occurs twice")
                names.add(key.value)
        return super().construct_mapping(node, deep)


def texts(data: bytes) -> Any:
    """Return the value in `data`, made of texts, lists and mappings.

    Raises:
        ValueError: it is not YAML, is nested too deeply, or a mapping has a key twice; the message has one line.
    """
    try:
        return yaml.load(data, _Texts)  # noqa: S506  (makes texts only)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
