"""What every workload must do: its data, its session, and the real referee at its smallest size.

Workloads are found by their folders, so a new one is held to all of this; only ANNOUNCED needs a line for it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
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

from harness import cli
from harness.errors import DataError, UsageError
from harness.log import keys, run_log
from harness.log.numerics import PRECISIONS
from harness.run import data_cache, weights, worker, workloads
from harness.run.evaluator import Recorder
from harness.run.recompute import Recomputation
from harness.run.reevaluation import Reevaluation
from harness.run.replay import Observer, digest_of_weights
from harness.scoring import timeline
from harness.submission.predictions import IMPOSSIBLE, contradiction
from harness.submission.result import read_result
from harness.workload import EXECUTION, Quality, RunConfig, Session, Workload
from tests import fabricate, killing
from tests.rules_folder import write_ruleset
from tests.workloads import sessions
from tests.workloads.sessions import ROOT, RULESET, rules_of, tta

numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
pytest.importorskip("accelerate")

NAMES = workloads.workload_names()
HEAVY = {"torch", "accelerate", "numpy", "scipy"}.union(*(workloads.workload(name).libraries for name in NAMES))
BELOW_ONE = ("opt_momentum", "label_smoothing", "dropout", "focal_alpha")  # and every beta
MAX_LOG_BYTES = 100_000
MAX_VARIATION = 0.15

# What other data than a workload's own would announce.
ANNOUNCED = {
    "detection": {"image_shape": [64, 64, 1]},
    "image_classification": {"image_shape": [30, 30, 1]},
    "recommendation": {"num_users": 11_999},
    "reinforcement_learning": {"num_actions": 3},
    "speech_recognition": {"max_words": 3},
    "translation": {"max_length": 8},
}
# Solutions without training that reach the target of a `mini` suite, which their cards admit.
BEATEN_BY = {"reinforcement_learning": {"dynamic_programming"}}
Prepared = Callable[[str], data_cache.DataSet]
Opened = Callable[..., Session]

every_workload = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def opened(prepared: Prepared) -> Iterator[Opened]:
    """Sessions of a workload with the reference's hyperparameters, closed afterwards."""
    given: list[Session] = []

    def open_session(name: str, seed: int = 3, **changed: Any) -> Session:
        given.append(workloads.workload(name).open(config(name, prepared(name), seed, **changed)))
        return given[-1]

    yield open_session
    for session in given:
        session.close()


def config(name: str, data: data_cache.DataSet, seed: int = 3, **changed: Any) -> RunConfig:
    """A closed run on the mini data; `changed` are hyperparameters and fields of the configuration."""
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    run = sessions.config(name, data.path, seed=seed, **{k: v for k, v in changed.items() if k not in fields})
    return dataclasses.replace(run, **{k: v for k, v in changed.items() if k in fields})


@pytest.fixture
def started(prepared: Prepared, opened: Opened) -> Callable[..., Any]:
    """Sessions that have been prepared, initialised and started."""

    def start_session(name: str, **changed: Any) -> Session:
        session: Session = sessions.initialised(opened(name, **changed))
        session.start(prepared(name).path)
        return session

    return start_session


@pytest.fixture
def quality_of(prepared: Prepared) -> Callable[..., Quality]:
    """What the evaluator says of a session's predictions."""

    def found(session: Any) -> Quality:
        data = prepared(session.config.workload)
        return sessions.quality(session, data.path, data.labels)

    return found


def batch_of(name: str) -> int:
    return int(rules_of(name).defaults()["global_batch_size"])


def recipe_of(name: str) -> Any:
    return importlib.import_module(f"workloads.{name}.recipe").Recipe


@every_workload
def test_naming_it_imports_no_machine_learning_library(name: str) -> None:
    """The command line lists and explains workloads in milliseconds."""
    code = (
        f"import sys; from workloads.{name} import WORKLOAD; print([m for m in {sorted(HEAVY)!r} if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@every_workload
def test_it_and_the_rules_agree_on_what_is_measured(name: str) -> None:
    """Name, metric and direction; both suites; the parts that every open submission may replace."""
    workload = workloads.workload(name)

    assert isinstance(workload, Workload)
    assert workload.name == name
    assert {rules.suite for rules in RULESET.benchmarks.values() if rules.workload == name} >= {"mini", "standard"}
    assert rules_of(name).metric == workload.metric
    assert set(workload.parts) >= {"build_model", "build_optimizer", "learning_rate"}
    assert set(workload.execution) == {rules.suite for rules in RULESET.benchmarks.values() if rules.workload == name}
    assert set().union(*workload.execution.values()) <= set(EXECUTION)
    assert set(rules_of(name, "standard").precisions) <= set(PRECISIONS)


@every_workload
@pytest.mark.parametrize("suite", ["mini", "standard"])
def test_target_is_out_of_reach_without_training(name: str, suite: str) -> None:
    """No published baseline reaches the target but those that the card admits; it explains target, size and licence."""
    rules = rules_of(name, suite)
    card = (ROOT / "workloads" / name / "README.md").read_text()

    reached = {what for what, value in rules.baselines.items() if rules.metric.is_reached(value, rules.target)}

    assert reached == (BEATEN_BY.get(name, set()) if suite == "mini" else set())
    assert not reached or "Reached without training" in card
    assert rules.baselines or suite != "mini"
    assert f"{rules.target:g}" in card
    for word in ("parameters", "FLOPs", "licence", "## Not verified"):
        assert word in card, f"the card does not mention {word}"


# The batch sizes that were permitted when the reference runs were made; now they end where the points end.
FORMER_BATCHES = {
    "image_classification": (32.0, 1024.0),
    "detection": (4.0, 128.0),
    "recommendation": (128.0, 4096.0),
    "reinforcement_learning": (512.0, 65536.0),
    "speech_recognition": (8.0, 512.0),
    "translation": (8.0, 512.0),
}


@every_workload
def test_reference_points_match_the_committed_runs(name: str) -> None:
    """Twenty runs at the reference batch size and ten at two others; all reach the target, with little variation.

    The samples are those at which the target is crossed between two evaluations, as whole numbers.
    """
    rules = rules_of(name)
    folder = ROOT / "submissions" / "reference" / "convergence" / rules.name
    # A reference run does not stop at the target, so the target may have moved since, in steps of a hundredth of its
    # order of magnitude, and whether it is confirmed; nor does it depend on which other batch sizes are permitted.
    step = 10.0 ** math.floor(math.log10(abs(rules.target))) / 100
    targets = {rules.target} | {round(n * step, 6) for n in range(-1000, 1001)}
    batches = rules.hyperparameters["global_batch_size"]
    permitted = (batches, dataclasses.replace(batches, range=FORMER_BATCHES[name]))
    terms = {
        dataclasses.replace(
            rules,
            target=target,
            confirm_evaluations=confirm,
            hyperparameters={**rules.hyperparameters, "global_batch_size": batch_sizes},
        ).terms_digest
        for target in targets
        for confirm in (0, 1)
        for batch_sizes in permitted
    }
    found: dict[int, list[int]] = {}
    for path in sorted(folder.glob("*/result_*.txt"), key=lambda path: (path.parent.name, int(path.stem[7:]))):
        log = run_log.read(path)
        batch = int(log.value(keys.GLOBAL_BATCH_SIZE))
        samples = timeline.samples_to_target(log, rules)
        assert samples is not None, f"{path} does not reach {rules.target}"
        assert path.stat().st_size < MAX_LOG_BYTES
        assert log.field(keys.TTA_RULES, "terms_digest") in terms, f"{path}: made under other rules"
        found.setdefault(batch, []).append(round(samples))

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


@every_workload
def test_mini_data_have_the_golden_digests(name: str, prepared: Prepared) -> None:
    """Every byte is the same on every machine: file by file, and as the rules have it."""
    data = prepared(name)
    found = dict(sorted({**sessions.digests(data.path), **sessions.digests(data.labels)}.items()))

    assert found == sessions.golden(name, "sha256", found)
    assert data.digest == rules_of(name).data_digest


@every_workload
def test_mini_makes_its_own_data(name: str, tmp_path: Path) -> None:
    """A source that would be ignored is refused; an unknown suite is answered with a suggestion."""
    with pytest.raises(UsageError):
        workloads.workload(name).prepare_data("mini", tmp_path, tmp_path)
    with pytest.raises(UsageError, match="did you mean 'standard'"):
        workloads.workload(name).prepare_data("standrd", tmp_path, None)
    assert list(tmp_path.iterdir()) == []


@every_workload
def test_standard_refuses_a_source_without_its_data(name: str, tmp_path: Path) -> None:
    """An empty folder and one that does not exist, both named in the message."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises((DataError, UsageError), match=str(source) if name != "reinforcement_learning" else "."):
            workloads.workload(name).prepare_data("standard", data_dir, source)


@every_workload
def test_missing_or_damaged_file_is_named(name: str, prepared: Prepared, opened: Opened, tmp_path: Path) -> None:
    """A file that is missing, cut in half or empty is a DataError that names it, before any training.

    So is an array of another type or with a row too few. A run does not open the files for tuning, except in
    recommendation: the interaction that recipes are tuned on precedes the one to predict.
    """
    data = prepared(name)
    files = [path for path in sorted(data.path.iterdir()) if path.name != data_cache.METADATA_NAME]
    session = sessions.initialised(opened(name))
    messages: dict[str, str] = {}
    for path in files:
        copy = tmp_path / path.name
        shutil.copytree(data.path, copy, copy_function=os.link)
        (copy / path.name).unlink()
        try:
            session.start(copy)
        except DataError as error:
            messages[path.name] = str(error)
        for left in (path.stat().st_size // 2, 0) if path.name in messages else ():
            (copy / path.name).write_bytes(path.read_bytes()[:left])
            with pytest.raises(DataError, match=path.name):
                session.start(copy)
    arrays = [file for file in messages if file.endswith(".npy")]
    # Test arrays are read as those for training. Of arrays that differ in length, any may be the wrong one.
    for file in [file for file in arrays if not file.startswith("test")] or arrays:
        array = numpy.load(data.path / file)
        for wrong, named in ((array.astype(numpy.complex64), file), (array[:-1], str(tmp_path / file))):
            numpy.save(tmp_path / file / file, wrong)
            with pytest.raises(DataError, match=named):
                session.start(tmp_path / file)

    assert {file: text for file, text in messages.items() if file not in text} == {}
    if name != "recommendation":
        assert not [file for file in messages if file.startswith("validation")], "a run reads what recipes are tuned on"
    assert len(messages) >= 2 or name == "reinforcement_learning"


@every_workload
def test_labels_are_the_evaluators_alone(name: str, prepared: Prepared, tmp_path: Path) -> None:
    """They are a folder of their own; one that is missing, cut in half or empty is a DataError naming it."""
    data, workload = prepared(name), workloads.workload(name)
    assert {path.name for path in data.labels.iterdir()} <= set(workload.labels)
    messages = {}
    for path in data.labels.iterdir():
        copy = tmp_path / path.name
        shutil.copytree(data.labels, copy)
        (copy / path.name).unlink()
        try:
            workload.evaluator("mini", data.path, copy)
        except DataError as error:
            messages[path.name] = str(error)
        for left in (path.stat().st_size // 2, 0) if path.name in messages else ():
            (copy / path.name).write_bytes(path.read_bytes()[:left])
            with pytest.raises(DataError, match=path.name):
                workload.evaluator("mini", data.path, copy)

    assert {file: text for file, text in messages.items() if file not in text} == {}
    assert bool(messages) == bool(workload.labels)


@pytest.mark.slow
@every_workload
def test_kept_weights_are_evaluated_again(
    name: str, prepared: Prepared, started: Callable[..., Any], tmp_path: Path
) -> None:
    """Of three runs: the log's quality; one better by 0.05, which its weights do not have; weights of no network."""
    session, rules, data = started(name), rules_of(name), prepared(name)
    session.train_block(1)
    recorder = Recorder(session.predict)
    honest = workloads.workload(name).evaluator("mini", data.path, data.labels).quality(recorder)
    digest = hashlib.sha256(recorder.archive()).hexdigest()
    scale = 1.0 if rules.metric.unit == "fraction" else 100.0
    better = 0.05 * scale * (1 if rules.metric.direction == "max" else -1)
    kept = weights.serialised(session)

    def change(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        evaluation = fabricate.find(steps, keys.EVAL_ACCURACY, 2)
        evaluation.value = honest.value + (0.0, better, 0.0)[index]
        evaluation.metadata.update(predictions=digest, num_examples=honest.num_examples)
        if honest.signature is not None:
            evaluation.metadata["signature"] = honest.signature
        text = (kept, kept, kept[: len(kept) // 2])[index]
        fabricate.keep_weights(steps, tmp_path / "result" / f"weights_{index}.safetensors", text)
        return steps

    folder = fabricate.write_result(tmp_path / "result", 3, change, rules=rules, batch_size=batch_of(name))
    result = read_result(folder)
    said: list[str] = []

    cache = data.path.parents[2]
    again = Reevaluation(cache, tmp_path, None, "auto", said.append)(result, RULESET).reevaluated

    found = [contradiction(log, again[log.path.name], "the kept weights") for log in result.runs]
    assert found[0] == ""
    # Episodes that are not played alike, bit by bit, say nothing.
    is_open = recorder.num_replies > 1 and again["result_1.txt"].state == IMPOSSIBLE
    assert is_open or "; the kept weights have" in found[1]
    assert "the kept weights cannot be evaluated: weights_2.safetensors: not a safetensors file" in found[2]
    assert said[0] == "result_0.txt: evaluating its weights"


@pytest.mark.slow
@every_workload
def test_a_forged_quality_is_found(
    name: str, prepared: Prepared, started: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log whose quality is better by 0.005 than its predictions', by check, audit and reproduction; an honest one
    is not. Actions tell it on the same system only."""
    session, rules, data = started(name), rules_of(name), prepared(name)
    recorder = Recorder(session.predict)
    honest = workloads.workload(name).evaluator("mini", data.path, data.labels).quality(recorder)
    archive = recorder.archive()
    forged = honest.value + (0.005 if rules.metric.direction == "max" else -0.005)

    def change(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        evaluation = fabricate.find(steps, keys.EVAL_ACCURACY, 2)
        evaluation.value = (honest.value, forged)[index]
        digest = hashlib.sha256(archive).hexdigest()
        evaluation.metadata.update(predictions=digest, num_examples=honest.num_examples)
        if honest.signature is not None:
            evaluation.metadata["signature"] = honest.signature
        (tmp_path / f"predictions_{index}.npz").write_bytes(archive)
        fabricate.find(steps, keys.TTA_PREDICTIONS).value = {
            "file": f"predictions_{index}.npz",
            "num_bytes": len(archive),
        }
        return steps

    result = read_result(fabricate.write_result(tmp_path, 2, change, rules=rules))
    cache = data.path.parents[2]

    again = Recomputation(cache, is_same_system=True)(result, RULESET).recomputed
    assert [bool(contradiction(log, again[log.path.name])) for log in result.runs] == [False, True]
    for verb, code in (("check", "QUA016"), ("audit", "AUD063")):
        cli.main([verb, str(tmp_path), "--ruleset", "v1", "--format", "json", "--data", str(cache)])
        findings = json.loads(capsys.readouterr().out)["results"][0]["findings"]
        places = [Path(item["path"]).name for item in findings if item["code"] == code]
        assert places == ([] if recorder.num_replies > 1 else ["result_1.txt"])


@every_workload
def test_start_refuses_data_that_are_not_as_announced(name: str, prepared: Prepared, opened: Opened) -> None:
    """The network was built for other data."""
    metadata = {**config(name, prepared(name)).metadata, **ANNOUNCED[name]}
    session = sessions.initialised(opened(name, metadata=metadata))

    with pytest.raises(DataError, match=r"metadata\.json says"):
        session.start(prepared(name).path)


@pytest.mark.parametrize("name", ["detection", "image_classification"])
def test_moments_in_the_metadata_are_those_of_the_training_images(name: str, prepared: Prepared) -> None:
    """The pixels are normalised with them."""
    metadata = config(name, prepared(name)).metadata

    images = numpy.load(prepared(name).path / "train_images.npy")

    assert metadata["channel_mean"] == pytest.approx([images.mean()], abs=1e-4)
    assert metadata["channel_std"] == pytest.approx([images.std()], abs=1e-4)


@every_workload
def test_metadata_that_lack_a_key_are_refused(name: str, prepared: Prepared) -> None:
    """Old or foreign data are refused before the clock starts, naming the first key that is missing."""
    run = config(name, prepared(name))
    messages = {}
    for lost in run.metadata:
        try:
            workloads.workload(name).open(
                dataclasses.replace(run, metadata={k: v for k, v in run.metadata.items() if k != lost})
            )
        except DataError as error:
            messages[lost] = str(error)

    assert len(messages) >= 2
    assert {lost: text for lost, text in messages.items() if f"lacks {lost!r}" not in text} == {}
    with pytest.raises(DataError, match="lacks"):
        workloads.workload(name).open(dataclasses.replace(run, metadata={}))


@every_workload
@pytest.mark.parametrize("suite", ["mini", "standard"])
def test_recipes_of_the_rules_are_accepted(name: str, suite: str, prepared: Prepared) -> None:
    """The defaults, and every reference recipe."""
    rules = rules_of(name, suite)
    recipes = [{**r.hyperparameters, "global_batch_size": r.global_batch_size} for r in rules.reference_recipes]

    assert len({recipe["global_batch_size"] for recipe in recipes}) >= 3 or suite != "mini"
    for recipe in [{}, *recipes]:
        rules.resolve(recipe, "closed")
        if suite == "mini":
            workloads.workload(name).open(config(name, prepared(name), **recipe))


@every_workload
def test_run_that_goes_on_from_a_checkpoint_equals_one_without_interruption(
    name: str, started: Callable[..., Any], quality_of: Callable[..., Quality], tmp_path: Path
) -> None:
    """Bit by bit: losses, quality and weights, also across the end of an epoch; and saving changes nothing."""

    def course(session: Any) -> list[Any]:
        found = [session.train_block(1).mean_loss for _ in range(3)]
        return [*found, quality_of(session).value, digest_of_weights(session), torch.rand(1).item()]

    session = started(name)
    session.train_block(2 * batch_of(name))
    quality_of(session)
    worker.save(session, tmp_path)
    expected = course(session)
    other = started(name)
    other.train_block(batch_of(name))  # it has been somewhere else

    worker.load(other, tmp_path)

    assert course(other) == expected


@every_workload
def test_wrong_hyperparameters_are_one_sentence(name: str, prepared: Prepared) -> None:
    """A name that is misspelt or missing, another type, a number out of range, a schedule that never falls."""
    run = config(name, prepared(name))
    values = dict(run.hyperparameters)
    horizon = values["opt_learning_rate_training_steps"]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"global_batchsize": 3}, "did you mean 'global_batch_size'"),
        ({"global_batch_size": 0}, "expected at least"),
        ({"opt_name": "unheard_of"}, "opt_name is 'unheard_of', expected "),
        ({"opt_learning_rate_warmup_steps": horizon}, "warmup_steps must be below opt_learning_rate_training_steps"),
    ]
    if "num_train" in run.metadata:
        most = run.metadata["num_train"]
        cases.append(({"global_batch_size": int(str(most)) + 1}, f"larger than the training set of {most}"))
    for field in dataclasses.fields(recipe_of(name)):
        what, kind = field.name, str(field.type)
        for wrong in {"bool": (1,), "str": (3,), "int": (True, 1.5), "float": (True, "fast")}[kind]:
            cases.append(({what: wrong}, f"{what} is .*, expected {kind}"))
        if kind in ("int", "float"):
            cases.append(({what: -1}, f"{what} is -1, expected a finite number"))
        if kind == "float":
            cases.append(({what: math.nan}, f"{what} is nan, expected a finite number"))
        if "beta" in what or what in BELOW_ONE:
            cases.append(({what: 1.0}, "below 1"))
        with pytest.raises(UsageError, match=f"missing: {what}"):
            recipe_of(name).parse({k: v for k, v in values.items() if k != what})

    for changed, message in cases:
        with pytest.raises(UsageError, match=message) as caught:
            workloads.workload(name).open(dataclasses.replace(run, hyperparameters={**values, **changed}))
        assert "\n" not in str(caught.value)


@every_workload
def test_optimiser_of_a_submission_may_have_any_name(name: str, prepared: Prepared) -> None:
    """With its own optimiser `opt_name` is a label in the log; with the workload's it must be that one's."""
    run = config(name, prepared(name), division="open", opt_name="unheard_of")
    parts = {part: lambda *_: None for part in ("build_model", "build_optimizer")}

    workloads.workload(name).open(dataclasses.replace(run, parts=parts))

    with pytest.raises(UsageError, match="opt_name"):
        workloads.workload(name).open(dataclasses.replace(run, parts={"build_model": parts["build_model"]}))


@every_workload
def test_wrong_configuration_is_one_sentence(name: str, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown suite, devices that cannot share a batch, another world than declared."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for changed, message in (
        ({"suite": "huge"}, "unknown suite"),
        ({"num_devices": batch_of(name) + 1}, "cannot be shared by"),
    ):
        with pytest.raises(UsageError, match=message):
            opened(name, **changed)
    with pytest.raises(UsageError, match="1 processes were started for 2 devices"):
        opened(name, num_devices=2).prepare()


@every_workload
def test_learning_rate_rises_falls_and_stays(name: str) -> None:
    """A triangle with a floor: a run past its horizon still learns."""
    schedule = {"opt_learning_rate_warmup_steps": 3, "opt_learning_rate_training_steps": 7}
    peak = {"opt_base_learning_rate": 0.4, "opt_end_learning_rate": 0.004}
    recipe = recipe_of(name).parse({**rules_of(name).defaults(), **schedule, **peak})

    rates = [recipe.learning_rate(step) for step in range(9)]

    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.301, 0.202, 0.103, 0.004, 0.004])


@every_workload
def test_only_the_seed_decides_a_run(
    name: str,
    opened: Opened,
    started: Callable[..., Any],
    quality_of: Callable[..., Quality],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the last bit, also with dropout: neither warm-up nor evaluation changes the losses, another seed does."""
    rules, batch = rules_of(name), batch_of(name)
    dropout = {"dropout": 0.1} if "dropout" in rules.defaults() else {}

    def run(seed: int, is_evaluated: bool) -> tuple[list[float], Quality]:
        session = started(name, seed=seed, **dropout)
        losses = []
        for _ in range(3):
            block = session.train_block(batch)
            assert block.num_samples == batch
            assert 0 < block.data_wait_s < math.inf
            losses.append(block.mean_loss)
            if is_evaluated:
                assert quality_of(session) == quality_of(session)
        return losses, quality_of(session)

    evaluated, other = run(3, is_evaluated=True), run(4, is_evaluated=False)
    monkeypatch.setattr(type(opened(name)), "_warm_up", lambda self: None)
    cold = run(3, is_evaluated=False)

    assert evaluated == cold
    assert other[0] != cold[0]
    assert all(map(math.isfinite, cold[0]))
    assert cold[1].num_examples == rules.eval_examples
    assert rules.quality_range[0] <= cold[1].value <= rules.quality_range[1]


@pytest.mark.slow
@every_workload
def test_each_seed_varies_its_own_source(name: str, prepared: Prepared, opened: Opened) -> None:
    """As `tta variance` varies them. In reinforcement learning, what is seen depends on the network, too."""
    dropout = {"dropout": 0.1} if "dropout" in rules_of(name).defaults() else {}
    seeds = {"seed": 3, "weights_seed": 4, "noise_seed": 5}

    def run(**changed: int) -> tuple[str, str, float]:
        """Digests of the initial weights and of the first batch, and its loss."""
        observer = Observer()
        session: Any = opened(name, **{**seeds, **changed}, observer=observer, **dropout)
        session.prepare()
        worker.initialise(session, dataclasses.asdict(dataclasses.replace(session.config, observer=None)), 0)
        session.start(prepared(name).path)
        weights = digest_of_weights(session)
        observer.taken()
        loss = session.train_block(batch_of(name)).mean_loss
        return weights, observer.taken(), loss

    weights, batch, loss = run()
    assert run() == (weights, batch, loss)
    other_weights, same_batch, _ = run(weights_seed=8)
    assert other_weights != weights
    assert (same_batch == batch) == (name != "reinforcement_learning")
    same_weights, other_batch, _ = run(seed=8)
    assert same_weights == weights
    assert other_batch != batch
    *same, noisy_loss = run(noise_seed=8)
    assert same == [weights, batch]
    assert (noisy_loss != loss) == bool(dropout)


def first_losses(session: Any, name: str) -> list[float]:
    return [session.train_block(batch_of(name)).mean_loss for _ in range(3)]


@pytest.mark.parametrize("name", ["detection", "image_classification"])
def test_memory_format_changes_no_mathematics(name: str, started: Callable[..., Any]) -> None:
    """Weights and images have the chosen format, and the losses are the same but for rounding."""
    images = torch.zeros(2, 28, 28, 1, dtype=torch.uint8)
    losses = {}
    for is_channels_last in (True, False):
        session = started(name, execution={"channels_last": is_channels_last})
        weights = [p for p in session.network.parameters() if p.dim() == 4 and p.shape[1] > 1 and p.shape[2] > 1]
        assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights) is is_channels_last
        assert all(p.is_contiguous() for p in weights) is not is_channels_last
        assert session._normalised(images.expand(2, 28, 28, 2)).is_contiguous() is not is_channels_last
        losses[is_channels_last] = first_losses(session, name)

    assert losses[False] == pytest.approx(losses[True], rel=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of itself
@every_workload
def test_compiling_changes_no_mathematics(
    name: str, started: Callable[..., Any], quality_of: Callable[..., Quality], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network in training is compiled, and the losses are the same but for rounding.

    What is captured is ours; to write it out as C++, too, which takes minutes, is tried on one workload.
    """
    if name != "image_classification":
        monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    plain, compiled = started(name), started(name, execution={"compile": True})

    assert isinstance(compiled.model, torch._dynamo.OptimizedModule)
    assert compiled.network is not compiled.model
    assert first_losses(compiled, name) == pytest.approx(first_losses(plain, name), rel=1e-3)
    assert quality_of(compiled).num_examples == rules_of(name).eval_examples


@every_workload
def test_card_has_the_number_of_parameters_that_the_model_has(name: str, opened: Opened) -> None:
    """A figure that is not checked goes stale."""
    session = opened(name)
    session.prepare()
    held = [thing for thing in vars(session).values() if isinstance(thing, torch.nn.Module)]
    counts = {sum(p.numel() for p in module.parameters() if p.requires_grad) for module in held}

    card = (ROOT / "workloads" / name / "README.md").read_text()
    assert any(f"{count:,}" in card for count in counts), f"the card names none of {counts}"


@every_workload
def test_samples_are_counted_in_whole_batches(name: str, started: Callable[..., Any]) -> None:
    """A block ends with the first batch at or past the number requested."""
    session, batch = started(name), batch_of(name)

    assert [session.train_block(n).num_samples for n in (1, batch, batch + 1, 0)] == [batch, batch, 2 * batch, 0]
    assert session.step == 4


@every_workload
def test_diverged_run_ends_in_numbers(
    name: str, started: Callable[..., Any], quality_of: Callable[..., Quality]
) -> None:
    """The session does not judge: it reports a loss that is not finite, and neither training nor evaluation fails."""
    session, rules = started(name, opt_base_learning_rate=1e8), rules_of(name)

    losses = sessions.losses(session, 4)
    diverged = quality_of(session)
    with torch.no_grad():
        for parameter in session.network.parameters():
            parameter.fill_(math.nan)
    loss, lost = session.train_block(1).mean_loss, quality_of(session)

    assert (
        max(map(abs, losses)) > 10
        or not all(map(math.isfinite, losses))
        or not rules.metric.is_reached(diverged.value, rules.target)
    )
    assert not math.isfinite(loss)
    for quality in (diverged, lost):
        assert quality.num_examples == rules.eval_examples
        assert math.isfinite(quality.value)
        assert not rules.metric.is_reached(quality.value, rules.target)


@every_workload
def test_parts_of_the_open_division_are_used(name: str, started: Callable[..., Any]) -> None:
    """The submission's model and optimiser are built, and its schedule sets the rate: at 0 no weight moves."""
    called: list[object] = []
    own_model = importlib.import_module(f"workloads.{name}.model").build_model

    def build_model(*arguments: Any) -> Any:
        called.append("build_model")
        return own_model(*arguments)

    def build_optimizer(network: Any, recipe: Any) -> torch.optim.Optimizer:
        called.append(recipe.global_batch_size)
        return torch.optim.SGD(network.parameters(), lr=1.0)

    def learning_rate(recipe: Any, step: int) -> float:
        called.append(step)
        return 0.0

    parts = {"build_model": build_model, "build_optimizer": build_optimizer, "learning_rate": learning_rate}
    session = started(name, division="open", parts=parts)
    before = [parameter.detach().clone() for parameter in session.network.parameters()]

    session.train_block(2 * batch_of(name))

    assert called == ["build_model", batch_of(name), "build_model", 0, 1]  # prepared, then drawn
    assert isinstance(session.execution.optimizer, torch.optim.SGD)
    assert all(map(torch.equal, before, session.network.parameters()))
    assert set(parts) == set(workloads.workload(name).parts)


@every_workload
def test_session_can_be_closed_early_and_twice(name: str, opened: Opened) -> None:
    """A run that failed is closed too, whatever it reached."""
    session = opened(name)
    session.close()
    session.close()


def one_run(folder: Path, name: str, data: data_cache.DataSet, *options: object, status: int = 0) -> run_log.RunLog:
    """The log of a run of seed 1 on the mini data, in `result`."""
    fixed = ("--out", "result", "--seed", 1, "--no-mlflow", "--data", data.path.parents[1])

    done = tta(folder, "run", name, *fixed, *options)

    assert done.returncode == status, done.stderr
    return run_log.read(folder / "result" / "result_0.txt")


def small_rules(name: str, folder: Path, is_easy: bool, **changes: Any) -> Path:
    """The rules of mini with one run, few evaluations, and a target that every run reaches or none."""
    rules, batch = rules_of(name), batch_of(name)
    best, worst = rules.quality_range if rules.metric.direction == "min" else rules.quality_range[::-1]
    small = dataclasses.replace(
        rules,
        target=worst if is_easy else best,
        eval_every_samples=batch,
        max_samples=8 * batch if changes else 2 * batch,
        num_runs=1,
        drop=0,
        confirm_evaluations=0,
        reference_recipes=(),
        reference_convergence=(),
        baselines={},
        untrained_limit=None,
    )
    return write_ruleset(folder, dataclasses.replace(small, **changes))


@pytest.mark.parametrize(
    ("name", "devices"),
    [*((name, 1) for name in NAMES), pytest.param("reinforcement_learning", 2, marks=pytest.mark.slow)],
)
def test_real_referee_runs_it_to_a_target(name: str, devices: int, prepared: Prepared, tmp_path: Path) -> None:
    """From the command line to a log that the checks accept, but for the reference that these rules do not have."""
    rules = small_rules(name, tmp_path / "rules", is_easy=True)

    log = one_run(tmp_path, name, prepared(name), "--ruleset", rules, "--devices", devices)

    assert [event.samples_count for event, _ in timeline.qualities(log)] == [batch_of(name)]
    assert log.value(keys.TTA_DATA_TOUCHED_EARLY) == []
    checked = tta(tmp_path, "check", "result", "--ruleset", rules, "--format", "json")
    found = [finding for result in json.loads(checked.stdout)["results"] for finding in result["findings"]]
    assert [finding["code"] for finding in found if finding["severity"] == "error"] == ["CNV002"]


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("image_classification", 1),
        pytest.param("reinforcement_learning", 1, marks=pytest.mark.slow),  # its evaluator has a state
        pytest.param("recommendation", 2, marks=pytest.mark.slow),
    ],
)
def test_killed_run_goes_on_as_if_nothing_had_happened(
    name: str, devices: int, prepared: Prepared, tmp_path: Path
) -> None:
    """Losses, qualities and predictions equal those of a run that was not killed; the checks note it and no more."""
    rules = small_rules(name, tmp_path / "rules", is_easy=True, confirm_evaluations=4, permits_resume=True)
    options = ("--ruleset", rules, "--devices", devices, "--checkpoint-every", 0)
    whole = one_run(tmp_path, name, prepared(name), *options)
    (tmp_path / "result").rename(tmp_path / "whole")
    path = tmp_path / "result" / "result_0.txt"
    command = ["run", name, "--out", "result", "--seed", "1", "--no-mlflow", "--quiet"]
    command += ["--data", str(prepared(name).path.parents[1]), *map(str, options)]
    running = killing.Running(command, tmp_path, {"PYTHONPATH": str(ROOT)})
    try:
        assert killing.until(lambda: killing.has_event(path, keys.TTA_CHECKPOINT_STOP, 2), 240)
        running.process.kill()
        running.wait()
    finally:
        running.end()
    place = tmp_path / "result" / "checkpoints" / "run_0"
    assert {child.name for child in place.iterdir()} <= {f"checkpoint_{n}" for n in range(1, 5)} | {"unfinished"}

    log = one_run(tmp_path, name, prepared(name), *options, "--resume")

    assert course_of(log) == course_of(whole)
    assert log.defects == ()
    assert log.counts[keys.TTA_RESUME] == 1
    assert not (tmp_path / "result" / "checkpoints").exists()
    for folder, notes in (("result", {"RUN021"}), ("whole", set())):
        checked = tta(tmp_path, "check", folder, "--ruleset", rules, "--format", "json")
        found = [finding for result in json.loads(checked.stdout)["results"] for finding in result["findings"]]
        assert {finding["code"] for finding in found if finding["severity"] == "error"} == {"CNV002"}
        assert {finding["code"] for finding in found} & {"RUN021"} == notes


def course_of(log: run_log.RunLog) -> list[Any]:
    """All that training has determined.

    Not the digests of actions: the evaluator's episodes that are over begin again anywhere, and count for nothing.
    """
    losses = [(event.samples_count, event.value["train_loss"]) for event in log.all(keys.TRACKED_STATS)]
    is_same = log.value(keys.SUBMISSION_BENCHMARK) != "reinforcement_learning_mini"
    found = [
        (event.samples_count, event.value, event.metadata["predictions"] if is_same else None)
        for event in log.all(keys.EVAL_ACCURACY)
    ]
    return [losses, found, log.one(keys.RUN_START).metadata["weights_digest"]]


@every_workload
@pytest.mark.slow
@pytest.mark.release
def test_two_processes_reach_the_target_of_the_rules(name: str, prepared: Prepared, tmp_path: Path) -> None:
    """The unchanged rules on two ranks over gloo: the same global batch, sample count and target as on one."""
    rules = rules_of(name)

    log = one_run(tmp_path, name, prepared(name), "--runs", 1, "--devices", 2)

    decisive, reached = timeline.deciding(log, rules), timeline.samples_to_target(log, rules)
    assert decisive is not None
    assert reached is not None
    assert decisive.samples_count is not None
    assert decisive.samples_count % batch_of(name) == 0
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
@pytest.mark.release
def test_baselines_of_the_rules_are_what_is_measured(name: str, prepared: Prepared) -> None:
    """`tta baseline` reproduces what the rules publish; the tolerance is for other versions of the libraries."""
    rules = rules_of(name)

    found = workloads.workload(name).baselines("mini", prepared(name).path, prepared(name).labels)

    assert found == pytest.approx(rules.baselines, rel=0.05, abs=0.01)


@pytest.mark.slow
def test_real_referee_ends_it_at_the_budget(prepared: Prepared, tmp_path: Path) -> None:
    """No run is perfect after two batches: aborted, exit status 1."""
    name = "speech_recognition"  # whose quality is an error rate
    rules = small_rules(name, tmp_path / "rules", is_easy=False)

    log = one_run(tmp_path, name, prepared(name), "--ruleset", rules, status=1)

    stop = log.one(keys.RUN_STOP)
    assert stop.metadata["status"] == "aborted"
    assert stop.metadata["reason"] == "budget"
    assert [event.samples_count for event, _ in timeline.qualities(log)] == [batch_of(name), 2 * batch_of(name)]
