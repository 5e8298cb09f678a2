"""What `tta_isolation` says about the confinement of a worker, and whether that is all that there can be."""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import mapping_or_empty

# What each field has in a worker that reaches neither the referee nor the results nor, before its time, the data.
FULL: dict[str, object] = {
    "files": "confined",
    "processes": "confined",
    "network": "loopback",
    "data": "at start",
    "no_new_privs": True,
    "referee_dumpable": False,
}


def gaps(value: object) -> Iterator[str]:
    """Yield each field of `FULL` in which the value of `tta_isolation` is weaker, and what it has; none if full."""
    facts = mapping_or_empty(value)
    for name, full in FULL.items():
        if facts.get(name) != full:
            yield f"{name} {facts.get(name)}"
