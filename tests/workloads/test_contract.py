"""What every workload must do, found by itself: its data, its session, and the real referee at its smallest size."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError, UsageError
from harness.log import events as key
from harness.log import run_log
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.run import data_cache
from harness.scoring import timeline
from harness.workload import RunConfig, Session, Workload
from tests.rules_folder import write_ruleset

pytest.importorskip("torch")
pytest.importorskip("accelerate")

ROOT = Path(__file__).parents[2]
NAMES = catalog.workload_names()
RULESET = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")
HEAVY = ("torch", "torchvision", "torchaudio", "transformers", "accelerate", "sklearn", "numpy", "gymnasium")
MAX_LOG_BYTES = 100_000
MAX_VARIATION = 0.15

every_workload = pytest.mark.parametrize("name", NAMES)


def rules_of(name: str, suite: str = "mini") -> BenchmarkRules:
    return RULESET.benchmark(name, suite)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], data_cache.DataSet]:
    """The mini data of a workload, made once for all tests (and for all processes of xdist)."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "contract_data"
    return lambda name: data_cache.prepare(catalog.workload(name), "mini", cache)


@pytest.fixture
def opened(prepared: Callable[[str], data_cache.DataSet]) -> Iterator[Callable[..., Session]]:
    """Sessions of a workload with the reference's hyperparameters, closed afterwards."""
    sessions: list[Session] = []

    def open_session(name: str, seed: int = 3, **changed: Any) -> Session:
        sessions.append(catalog.workload(name).open(config(name, prepared(name), seed, **changed)))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def config(name: str, data: data_cache.DataSet, seed: int = 3, **changed: Any) -> RunConfig:
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    values = {**rules_of(name).defaults(), **{k: v for k, v in changed.items() if k not in fields}}
    given = {k: v for k, v in changed.items() if k in fields}
    run = RunConfig(name, "mini", "closed", seed, values, data.metadata)
    return dataclasses.replace(run, **given)


def started(session: Session, data: data_cache.DataSet) -> Session:
    session.prepare()
    session.start(data.path)
    return session


def own(name: str, part: str) -> Callable[..., Any]:
    """The workload's own function of that name, wherever in its folder it is."""
    for path in sorted((ROOT / "workloads" / name).glob("*.py")):
        found = getattr(importlib.import_module(f"workloads.{name}.{path.stem}"), part, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise AssertionError(f"workloads/{name} has no function {part}")


def batch_of(name: str) -> int:
    return int(rules_of(name).defaults()["global_batch_size"])


# ---- what it says of itself


@every_workload
def test_naming_it_imports_no_machine_learning_library(name: str) -> None:
    """The command line lists and explains workloads in milliseconds."""
    code = f"import sys; from workloads.{name} import WORKLOAD; print([m for m in {HEAVY!r} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@every_workload
def test_it_and_the_rules_agree_on_what_is_measured(name: str) -> None:
    """Name, metric and direction; both suites; the parts every open submission may bring."""
    workload = catalog.workload(name)

    assert isinstance(workload, Workload)
    assert workload.name == name
    assert {rules.suite for rules in RULESET.benchmarks.values() if rules.workload == name} >= {"mini", "standard"}
    assert rules_of(name).metric == workload.metric
    assert set(workload.parts) >= {"build_model", "build_optimizer", "learning_rate"}


@every_workload
@pytest.mark.parametrize("suite", ["mini", "standard"])
def test_target_lies_above_everything_that_does_not_train(name: str, suite: str) -> None:
    """The rules publish the baselines; none of them may reach the target. A card tells the story."""
    rules = rules_of(name, suite)
    card = (ROOT / "workloads" / name / "README.md").read_text()

    reached = {what: value for what, value in rules.baselines.items() if rules.metric.is_reached(value, rules.target)}

    assert reached == {}
    assert rules.baselines or suite != "mini"
    assert f"{rules.target:g}" in card
    for word in ("parameters", "FLOPs", "licence", "## Not verified"):
        assert word in card, f"the card does not speak of {word}"


@every_workload
def test_reference_points_are_what_the_committed_runs_say(name: str) -> None:
    """Twenty runs at the reference batch size, ten at two more; every one reaches the target, and they agree."""
    rules = rules_of(name)
    folder = ROOT / "submissions" / "reference" / "convergence" / rules.name
    # A reference run does not stop at the target, so the target alone may have moved since: from another multiple of
    # a hundredth of its size.
    step = 10.0 ** math.floor(math.log10(abs(rules.target))) / 100
    targets = {rules.target} | {round(n * step, 6) for n in range(-1000, 1001)}
    terms = {dataclasses.replace(rules, target=target).terms_digest for target in targets}
    found: dict[int, list[int]] = {}
    for path in sorted(folder.glob("*/result_*.txt"), key=lambda path: (path.parent.name, int(path.stem[7:]))):
        log = run_log.read(path)
        batch = int(log.value(key.GLOBAL_BATCH_SIZE))
        samples = timeline.samples_to_target(log, rules)
        assert samples is not None, f"{path} does not reach {rules.target}"
        assert path.stat().st_size < MAX_LOG_BYTES
        assert log.field(key.TTA_RULES, "terms_digest") in terms, f"{path}: made under other rules"
        found.setdefault(batch, []).append(samples)

    written: dict[int, list[int]] = {}
    for point in rules.reference_convergence:
        written.setdefault(point.global_batch_size, []).extend(point.samples_to_target)
    assert {batch: sorted(values) for batch, values in found.items()} == {
        batch: sorted(values) for batch, values in written.items()
    }
    assert len(written) >= 3
    assert len(written[batch_of(name)]) >= 20
    assert min(len(values) for values in written.values()) >= 10
    reference = written[batch_of(name)]
    assert statistics.stdev(reference) / statistics.mean(reference) <= MAX_VARIATION


# ---- its data


@every_workload
def test_mini_data_have_the_digest_of_the_rules(name: str, prepared: Callable[[str], data_cache.DataSet]) -> None:
    """The same bytes on every machine."""
    assert prepared(name).digest == rules_of(name).data_digest


@every_workload
def test_mini_makes_its_own_data(name: str, tmp_path: Path) -> None:
    """A source that would be ignored is refused, and so is a suite that does not exist."""
    with pytest.raises(UsageError):
        catalog.workload(name).prepare_data("mini", tmp_path, tmp_path)
    with pytest.raises(UsageError, match="did you mean 'standard'"):
        catalog.workload(name).prepare_data("standrd", tmp_path, None)
    assert list(tmp_path.iterdir()) == []


@every_workload
def test_standard_source_that_is_not_there_is_one_sentence(name: str, tmp_path: Path) -> None:
    """A folder without any known layout, and a folder that does not exist."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises((DataError, UsageError), match=str(source) if name != "reinforcement_learning" else "."):
            catalog.workload(name).prepare_data("standard", data_dir, source)


@every_workload
def test_missing_or_damaged_file_is_named(
    name: str, prepared: Callable[[str], data_cache.DataSet], opened: Callable[..., Session], tmp_path: Path
) -> None:
    """Half of a file, or none of it: a DataError that names it, before anything is trained on it.

    What is there for baselines and tuning a run does not open, so that it does not miss it either.
    """
    data = prepared(name)
    files = [path for path in sorted(data.path.iterdir()) if path.name != data_cache.METADATA_NAME]
    session = opened(name)
    session.prepare()
    said: dict[str, str] = {}
    for path in files:
        copy = tmp_path / path.name
        shutil.copytree(data.path, copy, copy_function=os.link)
        (copy / path.name).unlink()
        try:
            session.start(copy)
        except DataError as error:
            said[path.name] = str(error)
        for left in (path.stat().st_size // 2, 0) if path.name in said else ():
            (copy / path.name).write_bytes(path.read_bytes()[:left])
            with pytest.raises(DataError, match=path.name):
                session.start(copy)

    assert {file: text for file, text in said.items() if file not in text} == {}
    assert not [file for file in said if file.startswith("validation")], "a run reads what recipes are tuned on"
    assert len(said) >= 2 or name == "reinforcement_learning"


@every_workload
def test_metadata_that_lack_a_key_are_refused(name: str, prepared: Callable[[str], data_cache.DataSet]) -> None:
    """Old or foreign data are told apart before the clock starts."""
    run = config(name, prepared(name))

    with pytest.raises(DataError):
        catalog.workload(name).open(dataclasses.replace(run, metadata={}))


# ---- its hyperparameters


@every_workload
@pytest.mark.parametrize("suite", ["mini", "standard"])
def test_recipes_of_the_rules_are_accepted(
    name: str, suite: str, prepared: Callable[[str], data_cache.DataSet]
) -> None:
    """The defaults, and every reference recipe."""
    rules = rules_of(name, suite)
    recipes = [{**r.hyperparameters, "global_batch_size": r.global_batch_size} for r in rules.reference_recipes]

    assert len({recipe["global_batch_size"] for recipe in recipes}) >= 3 or suite != "mini"
    for recipe in [{}, *recipes]:
        rules.resolve(recipe, "closed")
        if suite == "mini":
            catalog.workload(name).open(config(name, prepared(name), **recipe))


@every_workload
def test_wrong_hyperparameters_are_one_sentence(name: str, prepared: Callable[[str], data_cache.DataSet]) -> None:
    """Unknown, missing, of the wrong kind, not finite; and what devices cannot share."""
    data = prepared(name)
    run = config(name, data)
    workload = catalog.workload(name)
    values = dict(run.hyperparameters)
    for wrong in (
        {**values, "global_batchsize": 3},
        {k: v for k, v in values.items() if k != "global_batch_size"},
        {**values, "global_batch_size": True},
        {**values, "global_batch_size": 1.5},
        {**values, "global_batch_size": 0},
        {**values, "opt_base_learning_rate": math.nan},
        {**values, "opt_base_learning_rate": -1.0},
        {**values, "opt_base_learning_rate": "fast"},
    ):
        with pytest.raises(UsageError) as caught:
            workload.open(dataclasses.replace(run, hyperparameters=wrong))
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError):
        workload.open(dataclasses.replace(run, num_devices=batch_of(name) + 1))
    with pytest.raises(UsageError):
        workload.open(dataclasses.replace(run, precision="fp8"))


# ---- its session


@every_workload
def test_same_seed_same_run_and_evaluation_changes_nothing(
    name: str, prepared: Callable[[str], data_cache.DataSet], opened: Callable[..., Session]
) -> None:
    """To the last bit: with evaluations between the blocks and without. Another seed is another run."""
    rules, batch, data = rules_of(name), batch_of(name), prepared(name)
    evaluated, plain, other = (started(opened(name, seed=seed), data) for seed in (3, 3, 4))

    losses: dict[str, list[float]] = {"evaluated": [], "plain": [], "other": []}
    qualities = []
    for _ in range(3):
        for what, session in (("evaluated", evaluated), ("plain", plain), ("other", other)):
            block = session.train_block(batch)
            assert block.num_samples == batch
            assert 0 <= block.data_wait_s < math.inf
            losses[what].append(block.mean_loss)
        qualities.append(evaluated.evaluate())
    twice = evaluated.evaluate()

    assert losses["evaluated"] == losses["plain"]
    assert losses["other"] != losses["plain"]
    assert all(math.isfinite(loss) for loss in losses["plain"])
    assert twice == qualities[-1] == plain.evaluate()
    assert twice.num_examples == rules.eval_examples
    assert rules.quality_range[0] <= twice.value <= rules.quality_range[1]


@every_workload
def test_card_has_the_number_of_parameters_that_the_model_has(name: str, opened: Callable[..., Session]) -> None:
    """A figure that nobody counts again goes stale."""
    import torch

    session = opened(name)
    session.prepare()
    held = [thing for thing in vars(session).values() if isinstance(thing, torch.nn.Module)]
    counts = {sum(p.numel() for p in module.parameters() if p.requires_grad) for module in held}

    card = (ROOT / "workloads" / name / "README.md").read_text()
    assert any(f"{count:,}" in card for count in counts), f"the card names none of {counts}"


@every_workload
def test_samples_are_counted_in_whole_batches(
    name: str, prepared: Callable[[str], data_cache.DataSet], opened: Callable[..., Session]
) -> None:
    """A block ends with the first batch at or past what was asked."""
    session, batch = started(opened(name), prepared(name)), batch_of(name)

    assert [session.train_block(n).num_samples for n in (1, batch, batch + 1)] == [batch, batch, 2 * batch]


@every_workload
def test_learning_rate_that_diverges_ends_in_numbers(
    name: str, prepared: Callable[[str], data_cache.DataSet], opened: Callable[..., Session]
) -> None:
    """A loss that is not finite is told; neither training nor the metric falls over it."""
    session, rules = started(opened(name, opt_base_learning_rate=1e8), prepared(name)), rules_of(name)

    losses = [session.train_block(batch_of(name)).mean_loss for _ in range(4)]
    quality = session.evaluate()

    assert (
        max(map(abs, losses)) > 10
        or not all(map(math.isfinite, losses))
        or not rules.metric.is_reached(quality.value, rules.target)
    )
    assert not rules.metric.is_reached(quality.value, rules.target)


@every_workload
def test_parts_of_the_open_division_take_the_place_of_its_own(
    name: str, prepared: Callable[[str], data_cache.DataSet], opened: Callable[..., Session]
) -> None:
    """A rate of zero from the submitter's schedule is the rate that is used; its builders are called."""
    called = []

    def recorded(part: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            called.append(part)
            return own(name, part)(*arguments, **named)

        return call

    parts = {
        "build_model": recorded("build_model"),
        "build_optimizer": recorded("build_optimizer"),
        "learning_rate": lambda recipe, step: 0.0,
    }
    session = started(opened(name, division="open", parts=parts), prepared(name))
    before = session.evaluate()

    session.train_block(2 * batch_of(name))

    assert called == ["build_model", "build_optimizer"]
    assert session.evaluate().value == pytest.approx(before.value, abs=0.2 * (1 + abs(before.value)))


@every_workload
def test_closing_early_or_twice_is_well(name: str, opened: Callable[..., Session]) -> None:
    """Whatever was reached: a run that failed is closed, too."""
    session = opened(name)
    session.close()
    session.close()


# ---- the real program


def run_cli(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "harness.cli", *arguments]
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)


def small_rules(name: str, folder: Path, is_easy: bool) -> Path:
    """The rules of mini with two evaluations at most, a target anybody or nobody reaches, and two runs."""
    rules, batch = rules_of(name), batch_of(name)
    best, worst = rules.quality_range if rules.metric.direction == "min" else rules.quality_range[::-1]
    small = dataclasses.replace(
        rules,
        target=worst if is_easy else best,
        eval_every_samples=batch,
        max_samples=2 * batch,
        num_runs=1,
        drop=0,
        confirm_evaluations=0,
        reference_recipes=(),
        reference_convergence=(),
        baselines={},
    )
    return write_ruleset(folder, small)


@every_workload
@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_real_referee_runs_it_to_a_target(
    name: str, devices: int, prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """From the command line to a log that the checks accept."""
    data = prepared(name)
    law = small_rules(name, tmp_path / "law", is_easy=True)
    arguments = ["run", name, "--ruleset", str(law), "--out", "result", "--seed", "1", "--no-mlflow"]

    done = run_cli([*arguments, "--data", str(data.path.parents[1]), "--devices", str(devices)], tmp_path)

    assert done.returncode == 0, done.stderr
    log = run_log.read(tmp_path / "result" / "result_0.txt")
    assert [event.samples_count for event, _ in timeline.qualities(log)] == [batch_of(name)]
    assert log.value(key.TTA_DATA_TOUCHED_EARLY) == []
    checked = run_cli(["check", "result", "--ruleset", str(law), "--format", "json"], tmp_path)
    found = [finding for result in json.loads(checked.stdout)["results"] for finding in result["findings"]]
    assert [finding for finding in found if finding["severity"] == "error"] == []


@every_workload
@pytest.mark.slow
def test_two_processes_reach_the_target_of_the_rules(
    name: str, prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """The law as it is, two ranks over gloo: the same global batch, the same samples counted, the same target."""
    data, rules = prepared(name), rules_of(name)
    arguments = ["run", name, "--out", "result", "--seed", "1", "--runs", "1", "--no-mlflow", "--devices", "2"]

    done = run_cli([*arguments, "--data", str(data.path.parents[1])], tmp_path)

    assert done.returncode == 0, done.stderr
    log = run_log.read(tmp_path / "result" / "result_0.txt")
    reached = timeline.samples_to_target(log, rules)
    assert reached is not None
    assert reached % batch_of(name) == 0
    reference = [
        samples
        for point in rules.reference_convergence
        if point.global_batch_size == batch_of(name)
        for samples in point.samples_to_target
    ]
    mean, spread = statistics.mean(reference), statistics.stdev(reference)
    assert abs(reached - mean) <= 5 * spread + rules.eval_every_samples


@every_workload
@pytest.mark.slow
def test_baselines_of_the_rules_are_what_is_measured(name: str, prepared: Callable[[str], data_cache.DataSet]) -> None:
    """`tta baseline` gives what the rules publish; the tolerance is for other versions of the libraries."""
    rules = rules_of(name)

    found = catalog.workload(name).baselines("mini", prepared(name).path)

    assert found == pytest.approx(rules.baselines, rel=0.05, abs=0.01)


@every_workload
@pytest.mark.slow
def test_real_referee_ends_it_at_the_budget(
    name: str, prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """A perfect quality after two batches is nobody's: aborted, exit status 1."""
    data = prepared(name)
    law = small_rules(name, tmp_path / "law", is_easy=False)
    arguments = ["run", name, "--ruleset", str(law), "--out", "result", "--seed", "1", "--no-mlflow"]

    done = run_cli([*arguments, "--data", str(data.path.parents[1])], tmp_path)

    assert done.returncode == 1, done.stderr
    log = run_log.read(tmp_path / "result" / "result_0.txt")
    stop = log.one(key.RUN_STOP)
    assert stop.metadata["status"] == "aborted"
    assert stop.metadata["reason"] == "budget"
    assert [event.samples_count for event, _ in timeline.qualities(log)] == [batch_of(name), 2 * batch_of(name)]
