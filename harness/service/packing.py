"""Packs a result that a person picked in a browser, as `tta submit` does: in a process of its own, which is confined.

python -m harness.service.packing FOLDER TREE CHOICES
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.base.processes import python_environment
from harness.errors import InputError, UsageError
from harness.service import confined
from harness.service.settings import Limits
from harness.submission import pack
from harness.submission.claiming import claim_of
from harness.submission.result import find_results, read_result

_SLOTS = threading.BoundedSemaphore(2)  # each has a core for a second or two, and the memory of a check
_REFUSED = 2


@dataclass(frozen=True, slots=True)
class Choices:
    """What a person chose for a result. category: empty: what the system description says."""

    ruleset: str
    category: str = ""
    notes: str = ""
    weights_at: str = ""


def packed(folder: Path, tree: Path, choices: Choices, limits: Limits, now_ms: int) -> None:
    """Write the submission of the result that is in `folder` or below it into `tree`, which is empty.

    Raises:
        UsageError: there is not one result, or its claim cannot be made; the sentence says what to do.
    """
    asked = {"choices": asdict(choices), "limits": [limits.check_cpu_s, limits.check_memory_bytes], "at_ms": now_ms}
    command = [sys.executable, "-m", "harness.service.packing", str(folder), str(tree), json.dumps(asked)]
    with _SLOTS:
        done = subprocess.run(
            command, env=python_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise UsageError(done.stderr.strip().replace(f"{folder}/", "").replace(str(folder), "the folder"))


def pack_into(tree: Path, folder: Path, choices: Choices, at_ms: int) -> None:
    """Read the one result in `folder`, and lay its submission out in `tree`."""
    found = find_results(folder)
    if len(found) != 1:
        raise UsageError(f"{len(found)} results are in {folder}; pick the folder of one")
    result = read_result(found[0])
    today = datetime.fromtimestamp(at_ms / 1000, UTC).date()
    claim = claim_of(
        result,
        choices.ruleset,
        today,
        category=choices.category or None,
        notes=choices.notes,
        weights_at=choices.weights_at,
    )
    with pack.packed(tree, result, claim) as staging:
        for part in sorted(staging.iterdir()):
            part.rename(tree / part.name)


def main(arguments: list[str]) -> int:
    """Pack in a child that is bounded in time and memory; 2, and why, if it cannot be packed."""
    folder, tree, text = arguments
    asked: dict[str, Any] = json.loads(text)
    choices, at_ms = Choices(**asked["choices"]), asked["at_ms"]
    cpu_s, memory_bytes = asked["limits"]
    try:
        confined.run(lambda: pack_into(Path(tree), Path(folder), choices, at_ms), cpu_s, memory_bytes, lambda: True)
    except (InputError, confined.ChildError) as error:
        print(error, file=sys.stderr)
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
