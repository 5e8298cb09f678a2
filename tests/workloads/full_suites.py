"""Full suites on small data: sessions, and runs of one epoch through the command line on two devices."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.log import keys, run_log
from harness.ruleset.model import BenchmarkRules, Constraint
from harness.run import data_cache, workloads
from harness.scoring import timeline
from harness.workload import RunConfig, Workload
from tests.rules_folder import write_ruleset
from tests.workloads import sessions

FIELDS = {field.name for field in dataclasses.fields(RunConfig)}


def config(name: str, tiny: Mapping[str, Any], folder: Path, num_devices: int = 1, **changed: Any) -> RunConfig:
    """A closed run on the data in `folder` with the `tiny` hyperparameters.

    changed: hyperparameters, and fields of the configuration. No worker processes, unless it says how many.
    """
    values = {**tiny, **{key: value for key, value in changed.items() if key not in FIELDS}}
    fields = {key: value for key, value in changed.items() if key in FIELDS}
    fields["execution"] = {"loader_workers": 0, **fields.get("execution", {})}
    run = sessions.config(name, folder, suite="full", num_devices=num_devices, **values)
    return dataclasses.replace(run, **fields)


def started(name: str, tiny: Mapping[str, Any], folder: Path, **changed: Any) -> Any:
    """A session that has been prepared, initialised and started."""
    session = workloads.workload(name).open(config(name, tiny, folder, **changed))
    sessions.initialised(session).start(folder)
    return session


def table(folder: Path) -> list[dict[str, Any]]:
    """The rows of a prepared split."""
    from workloads.streaming import shards

    rows: list[dict[str, Any]] = shards.read(folder).data.to_pylist()
    return rows


def prepare(workload: Workload, cache: Path, fill: Callable[[Path], None]) -> None:
    """Prepare the full suite of a workload in `cache` from what `fill` puts into a folder, as `data prepare` does.

    For data that `data prepare` itself would refuse as too small.
    """

    class Filling:
        name, labels = workload.name, workload.labels

        def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
            fill(data_dir)

    data_cache.prepare(Filling(), "full", cache)  # type: ignore[arg-type]


def small_rules(rules: BenchmarkRules, small: Mapping[str, Any], sizes: tuple[int, int]) -> BenchmarkRules:
    """With the hyperparameters `small`, as many examples for training and test as `sizes`, and a target that is reached
    after one epoch."""
    batch = int(small["global_batch_size"])
    changed = {name: Constraint(default=value, free=True) for name, value in small.items()}
    return dataclasses.replace(
        rules,
        hyperparameters={**rules.hyperparameters, **changed},
        target=rules.quality_range[rules.metric.direction == "min"],
        eval_every_samples=sizes[0] // batch * batch,
        max_samples=2 * sizes[0],
        train_examples=sizes[0],
        eval_examples=sizes[1],
        num_runs=1,
        open_runs=1,
        drop=0,
        reference_recipes=(),
        reference_convergence=(),
        baselines={},
        network_digest=None,  # it has other classes
    )


def run_an_epoch(place: Path, rules: BenchmarkRules, cache: Path, *options: object) -> float:
    """Run on two devices and on the data in `cache`; return the quality after one epoch, with which the run ends.

    The rules are then in `rules` and the result in `result`, both in `place`.
    """
    done = sessions.tta(
        place, "run", rules.workload, "--suite", "full", "--data", cache, "--devices", 2, "--seed", 1, "--no-mlflow",
        "--ruleset", write_ruleset(place / "rules", rules), "--out", "result", "--execution", "loader_workers=1",
        *options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    log = run_log.read(place / "result" / "result_0.txt")
    assert log.one(keys.RUN_STOP).metadata["status"] == "success"
    assert log.value(keys.TTA_DATA_TOUCHED_EARLY) == []
    replay = log.value(keys.TTA_REPLAY)
    assert (replay["steps"], len(replay["network"]["parameters"])) == (rules.replay_steps, 64)
    ((event, quality),) = timeline.qualities(log)
    assert event.samples_count == rules.eval_every_samples
    return quality


def assert_one_epoch(place: Path, rules: BenchmarkRules, source: Path, module: str | None, *options: object) -> None:
    """Prepare the data in `source`, run on two devices, and check the result: only what a small copy explains."""
    data = ("--data", place / "data")
    prepared = sessions.tta(place, "data", "prepare", rules.workload, "--suite", "full", *data, "--source", source)
    assert prepared.returncode == 0, prepared.stderr
    division: tuple[object, ...] = ()
    if module is not None:
        (place / "tiny.py").write_text(module)
        division = ("--division", "open", "--module", "tiny.py")

    run_an_epoch(place, rules, place / "data", *division, *options)

    checked = sessions.tta(place, "check", "result", "--ruleset", place / "rules", *data, "--format", "json")
    found = [finding for result in json.loads(checked.stdout)["results"] for finding in result["findings"]]
    errors = {finding["code"]: finding["message"] for finding in found if finding["severity"] == "error"}
    assert set(errors) <= {"CNV002"}, errors
    assert "RUL002" in {finding["code"] for finding in found}


def bytes_of_a_step(build: Callable[[], Any], build_optimizer: Callable[[Any], Any], loss: Callable[[Any], Any]) -> int:
    """The memory of a step of training at the end of its forward pass; nothing is allocated.

    That is what backward needs, the weights, their gradients, and the optimizer's state. Temporary tensors and what an
    allocator loses come on top.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    storages: dict[int, int] = {}

    def count(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage.nbytes()
        return tensor

    with FakeTensorMode():
        network = build()
        optimizer = build_optimizer(network)
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.grad = parameter.clone().detach()
            count(parameter.grad)
        optimizer.step()  # makes its state
        for tensor in [*network.parameters(), *(t for state in optimizer.state.values() for t in state.values())]:
            count(tensor)
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            kept = loss(network)
    assert kept.requires_grad
    return sum(storages.values())
