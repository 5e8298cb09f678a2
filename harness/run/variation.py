"""Which seeds differ between the runs of one folder of `tta variance`, and which all of them have."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from harness.log.seeds import SOURCES, Seeds


@dataclass(frozen=True, slots=True)
class Variation:
    """The seeds of a folder's runs, all derived from one.

    seed: from which they are derived. base: the point at which the fixed ones are held: another base, other seeds.
    varied: the sources that each run draws for itself; empty for repeats with all seeds the same.
    """

    seed: int
    base: int
    varied: tuple[str, ...]

    def of_run(self, index: int) -> Seeds:
        """Return the seeds of run number `index`: the same, whenever it is asked for."""
        own = "-".join(self.varied)
        return Seeds(
            {name: self._drawn(name, "base") for name in SOURCES if name not in self.varied},
            {name: self._drawn(name, own, index) for name in SOURCES if name in self.varied},
        )

    def _drawn(self, *what: object) -> int:
        text = " ".join(map(str, (self.seed, self.base, *what)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1
