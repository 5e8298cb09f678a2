"""What `tta_loaded` says of a run, in sentences, as the checks of this family take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.base.values import is_whole, mapping_or_empty
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.scoring import timeline

_OTHERS = ("worker", "evaluator")
_MOST = 3  # files that a sentence names
_WORDS = {
    "outside": "from elsewhere than the code, its packages and Python",
    "changed": "not as the list of the code or of their package has them",
    "compiled": "from a cache of compiled kernels, without compile=true",
}


def faults(log: RunLog) -> Iterator[Fault]:
    """Yield what the referee or the worker of a run had loaded that no list accounts for."""
    loaded = log.value(keys.TTA_LOADED)
    if not isinstance(loaded, dict):  # LOG011 or LOG021 reports that
        return
    line, path = log.line_of(keys.TTA_LOADED), str(log.path)
    for process in _OTHERS:
        if loaded.get(process) is None and timeline.status(log) == timeline.SUCCESS:
            yield Fault(path, line, f"the {process} did not list the files that it had loaded")
    is_compiled = mapping_or_empty(log.field(keys.TTA_CONFIG, keys.EXECUTION_FIELD)).get("compile") is True
    for process in ("referee", *_OTHERS):
        found = mapping_or_empty(loaded.get(process))
        for kind, words in _WORDS.items():
            number = found.get(f"num_{kind}", 0)
            if is_whole(number) and number > 0 and not (kind == "compiled" and is_compiled):
                named = ", ".join(_names(found.get(kind)))
                message = f"the {process} had loaded {number:,} {'file' if number == 1 else 'files'} {words}"
                yield Fault(
                    path, line, f"{message}: {named}" if named else message, {"process": process, f"num_{kind}": number}
                )


def _names(listed: object) -> Iterator[str]:
    """The first paths of a list whose entries are paths, or mappings with one."""
    for item in listed[:_MOST] if isinstance(listed, list) else []:
        yield printable(item.get("path") if isinstance(item, Mapping) else item, 120)
