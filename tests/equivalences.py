"""How often the measurement of equivalence decides rightly: a program for people.

    python -m tests.equivalences image_classification 20

In every round the reference is trained from a seed that is drawn then, and each module of
`tests/equivalents/<workload>` follows it: those of `HONEST` must be equivalent, the others not. Prints the counts, and
the ratio of difference and tolerance that came nearest to the wrong side; exits with 1 if one was on it.
"""

from __future__ import annotations

import math
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from harness.log.equivalence import QUANTITIES
from harness.ruleset import catalog, load
from harness.run import data_cache, equivalence, numerics, workloads
from harness.run.replay import Observer
from harness.run.worker import seed_all
from harness.submission import module as open_module
from harness.workload import RunConfig, Session

FOLDER = Path(__file__).parent / "equivalents"
HONEST = {"other_layout", "compiled", "one_kernel", "own_loss"}


class OneRank:
    """The world of a single process."""

    def gather(self, item: object) -> list[Any]:
        return [item]


@contextmanager
def as_before(name: str) -> Iterator[None]:
    """Undo what a module changes in the loss and in the session as it is imported."""
    session: Any = __import__(f"workloads.{name}.workload", fromlist=["TrainingSession"]).TrainingSession
    loss, methods = functional.cross_entropy, dict(vars(session))
    try:
        yield
    finally:
        functional.cross_entropy = loss
        for method, value in methods.items():
            if vars(session)[method] is not value:
                setattr(session, method, value)


class Bench:
    """A workload's mini suite, of which references and modules are opened."""

    def __init__(self, name: str, data: data_cache.DataSet) -> None:
        self.workload, self.data = workloads.workload(name), data
        self.rules = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmark(name, "mini")
        numerics.set_precision("fp32")

    def config(self, seed: int, observer: Observer, parts: Mapping[str, Any]) -> RunConfig:
        name, recipe, metadata = self.workload.name, self.rules.defaults(), self.data.metadata
        return RunConfig(name, "mini", "closed", seed, recipe, metadata, parts=parts, observer=observer)

    def measurement(self, seeds: list[int], steps_per_seed: int) -> equivalence.Measurement:
        batch = int(self.rules.defaults()["global_batch_size"])
        return equivalence.Measurement(seed_all, seeds, steps_per_seed, self.data.path, batch, "fp32", OneRank())

    def reference(self, measurement: equivalence.Measurement) -> equivalence.Reference:
        return equivalence.reference_of(
            measurement, lambda seed, observer: self.workload.open(self.config(seed, observer, {}))
        )

    def ratios(
        self, measurement: equivalence.Measurement, reference: equivalence.Reference, path: Path
    ) -> dict[str, float]:
        """By quantity, the difference of the module at `path` divided by its tolerance."""
        parts = open_module.permitted_parts("closed", self.workload.parts)
        module, _ = open_module.read_module(path, self.workload.name, parts)

        def opened(seed: int, observer: Observer) -> tuple[Session, equivalence.Layout]:
            config = self.config(seed, observer, equivalence.Parts(functions))
            return self.workload.open(config), equivalence.layout_of(functions)

        with as_before(self.workload.name):
            functions = open_module.load_module(path, module, self.workload.name, parts)
            found = equivalence.differences(measurement, reference, opened)
        return {name: _ratio(item["difference"], item["tolerance"]) for name, item in found.items()}


def _ratio(difference: float, tolerance: float) -> float:
    return 0.0 if difference == 0 else difference / tolerance if tolerance else math.inf


def main(name: str, num_rounds: int, steps_per_seed: int = 50, only: str = "") -> int:
    cache = Path(tempfile.gettempdir()) / "tta-equivalences"
    bench = Bench(name, data_cache.prepare(workloads.workload(name), "mini", cache))
    paths = [path for path in sorted((FOLDER / name).glob("*.py")) if only in path.stem]
    worst: dict[str, list[float]] = {path.stem: [] for path in paths}
    for number in range(1, num_rounds + 1):
        measurement = bench.measurement([secrets.randbits(31)], steps_per_seed)
        reference = bench.reference(measurement)
        for path in paths:
            torch.compiler.reset()
            ratios = bench.ratios(measurement, reference, path)
            worst[path.stem].append(max(ratios.values()))
            shown = " ".join(f"{quantity} {ratios[quantity]:.2g}" for quantity in QUANTITIES)
            print(f"{number} {path.stem}: {shown}", flush=True)
    status = 0
    for stem, found in worst.items():
        is_honest = stem in HONEST
        right = sum((ratio <= 1) == is_honest for ratio in found)
        nearest = max(found) if is_honest else min(found)
        print(f"{name} {stem}: {right} of {len(found)} {'accepted' if is_honest else 'refused'}, nearest {nearest:.3g}")
        status |= right < len(found)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:5]))
