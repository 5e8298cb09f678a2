"""YAML that somebody sent, every value of it a text, with nothing in it that readers take differently."""

from __future__ import annotations

from typing import Any

import yaml

from harness.errors import printable


class _Texts(yaml.BaseLoader):
    """BaseLoader makes texts, lists and mappings of them, no objects; of a key that stands twice it takes the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    raise yaml.YAMLError(f"the key {printable(key.value)!r} stands twice")
                names.add(key.value)
        return super().construct_mapping(node, deep)


def texts(data: bytes) -> Any:
    """The value in `data`.

    Raises:
        ValueError: it is no YAML, nested too deeply, or a key stands twice in a mapping; one line.
    """
    try:
        return yaml.load(data, _Texts)  # noqa: S506  (makes texts only)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
