"""Recommendation in the full suite: Criteo's forms, the preparation, DLRM, its loaders and its metric."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.base.files import sha256_of
from harness.errors import DataError, UsageError
from tests.workloads import criteo, full_suites, sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.recommendation import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from workloads.recommendation import full_data, full_workload
from workloads.recommendation.full_model import BOTTOM, TOP, WIDTH, Dlrm, build_optimizer
from workloads.recommendation.full_recipe import FullRecipe
from workloads.streaming import shards

NUM_ROWS = 1003
RULES = sessions.rules_of(WORKLOAD.name, "full")
SMALL = {
    "global_batch_size": 128,
    "opt_base_learning_rate": 0.5,
    "opt_learning_rate_warmup_steps": 2,
    "opt_learning_rate_training_steps": 40,
}
# The sizes of DLRM's tables for these data, which has one row for every value in the seven days.
DLRM_TABLES = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip


def prepare(folder: Path, source: Path, rows_per_piece: int = 200) -> Path:
    """The data prepared from a source, labels among them."""
    data_dir = folder / "data"
    data_dir.mkdir(parents=True, exist_ok=True)
    full_data.prepare(data_dir, source, rows_per_piece, num_processes=1)
    return data_dir


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("criteo")
    return prepare(folder, criteo.write(folder / "source", "train.txt", criteo.rows(NUM_ROWS)))


def config(folder: Path, num_workers: int = 0, **changed: Any) -> Any:
    run = sessions.config(WORKLOAD.name, folder, "full", **{**SMALL, **changed})
    return dataclasses.replace(run, execution={"loader_workers": num_workers})


def started(folder: Path, **changed: Any) -> Any:
    session: Any = sessions.initialised(WORKLOAD.open(config(folder, **changed)))
    session.start(folder)
    return session


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


# ---- the preparation


@pytest.mark.parametrize("form", ["train.txt.gz", "dac.tar.gz", "parquet"])
def test_every_form_of_the_source_gives_the_same_bytes(tmp_path: Path, data_dir: Path, form: str) -> None:
    """Also row groups that end elsewhere than the shards do."""
    source = criteo.write(tmp_path / "source", form, criteo.rows(NUM_ROWS))

    assert digests(prepare(tmp_path, source)) == digests(data_dir)


def test_several_processes_give_the_same_bytes(tmp_path: Path, data_dir: Path) -> None:
    """Which of them counts and writes what changes nothing."""
    source = criteo.write(tmp_path / "source", "train.txt", criteo.rows(NUM_ROWS))
    (tmp_path / "data").mkdir()

    full_data.prepare(tmp_path / "data", source, 400, num_processes=2)

    assert (tmp_path / "data" / "test_clicks.npy").read_bytes() == (data_dir / "test_clicks.npy").read_bytes()
    assert json.loads((tmp_path / "data" / "metadata.json").read_text()) == json.loads(
        (data_dir / "metadata.json").read_text()
    )


def table(data_dir: Path, split: str) -> tuple[np.ndarray, list[int]]:
    """The rows of a split, and the clicks."""
    rows = shards.read(data_dir / split)[:]
    return np.array(rows["row"].to_pylist()), rows["click"].to_pylist() if "click" in rows.column_names else []


def test_categories_are_numbered_by_how_often_they_occur_in_training(tmp_path: Path) -> None:
    """From the most frequent on; rarer than ten times, or new on the last day, is 0; missing is a value as well."""
    often = {"0000000b": 20, "0000000a": 20, "ffffffff": 10, "0000000c": 9, "": 25, "0000000d": 14}
    values = [value for value, count in often.items() for _ in range(count)]
    made = [["1" if r % 3 else "0", str(r), *[""] * 12, value, *[""] * 25] for r, value in enumerate(values)]
    folder = prepare(tmp_path, criteo.write(tmp_path / "source", "train.txt", made))

    rows, clicks = table(folder, "train")

    assert rows[:, 13].tolist() == [3] * 20 + [2] * 20 + [4] * 10 + [0] * 9 + [1] * 25
    assert rows[:, 0].tolist() == list(range(84))
    assert not rows[:, 1:13].any()
    assert (rows[:, 14:] == 1).all()
    assert clicks == [min(r % 3, 1) for r in range(84)]
    assert set(table(folder, "test")[0][:, 13]) == {0}
    assert json.loads((folder / "metadata.json").read_text())["vocabulary_sizes"] == [5, *[2] * 25]


def test_the_last_day_is_halved_into_test_and_validation(data_dir: Path) -> None:
    """As DLRM divides it: of the official file the rules have the sizes; 1,003 rows are 860, 72 and 71 in order."""
    made = criteo.rows(NUM_ROWS)

    train, test, end = full_data.split_bounds(45_840_617)
    assert (train, test - train, end - test) == (RULES.train_examples, RULES.eval_examples, 3_274_329)
    rows = {split: table(data_dir, split) for split in full_data.SPLITS}
    assert {split: len(found) for split, (found, _) in rows.items()} == {"train": 860, "validation": 71, "test": 72}
    counts = [[int(field or 0) for field in row[1:14]] for row in made]
    assert rows["train"][0][:, :13].tolist() == counts[:860]
    assert rows["test"][0][:, :13].tolist() == counts[860:932]
    assert rows["validation"][0][:, :13].tolist() == counts[932:]
    clicks = [int(row[0]) for row in made]
    assert rows["train"][1] + rows["validation"][1] == clicks[:860] + clicks[932:]
    assert np.load(data_dir / "test_clicks.npy").tolist() == clicks[860:932]


def test_negative_counts_are_kept_and_seen_as_none() -> None:
    """Criteo's second count goes down to -3; the network takes the logarithm of one more than the count."""
    network = Dlrm(2, [3], 4, (5,), (6,))
    rows = torch.tensor([[-3, 7, 2], [0, 7, 2]], dtype=torch.int32)

    odds = network(rows)

    assert odds[0].item() == odds[1].item()


def test_what_an_attempt_has_finished_is_not_done_again(tmp_path: Path, data_dir: Path) -> None:
    """Unpacking, counting and shards; the last step fails first, because a file is in the way."""
    source = criteo.write(tmp_path / "source", "train.txt.gz", criteo.rows(NUM_ROWS))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train").write_text("in the way")
    with pytest.raises(OSError, match="train"):
        full_data.prepare(tmp_path / "data", source, 200, num_processes=1)
    kept = tmp_path / shards.UNFINISHED_NAME
    before = {path.relative_to(kept): path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert {"".join(path.suffixes[-2:]) for path in before} >= {".txt", ".pieces", ".vocabulary.npz", ".arrow"}

    with pytest.raises(OSError, match="train"):
        full_data.prepare(tmp_path / "data", source, 200, num_processes=1)
    after = {path.relative_to(kept): path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    made = {".txt", ".pieces", ".npz", ".arrow"}
    assert {path for path in before if path.suffix in made and before[path] != after.get(path)} == set()
    (tmp_path / "data" / "train").unlink()
    assert digests(prepare(tmp_path, source)) == digests(data_dir)
    assert not kept.exists()


def changed(field: int, value: str) -> list[criteo.Row]:
    made = criteo.rows(40)
    made[17][field] = value
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (changed(0, "2"), "a label that is not 0 or 1"),
        (changed(0, ""), "a label that is not 0 or 1"),
        (changed(3, "many"), "rows that cannot be read"),
        (changed(3, str(2**31)), "rows that cannot be read"),
        (changed(14, "xyzxyzxy"), "a category that is not eight hexadecimal digits"),
        (changed(39, "abc"), "a category that is not eight hexadecimal digits"),
        ([*criteo.rows(40), ["1"] * 39], "rows that cannot be read"),
        ([row[:39] for row in criteo.rows(40)], "rows that cannot be read|39 columns"),
        (criteo.rows(13), "13 rows are too few for 7 days"),
    ],
    ids=["label", "no label", "count", "large count", "no digits", "short", "columns", "all columns", "few"],
)
def test_text_that_is_not_criteos_is_refused(tmp_path: Path, made: list[criteo.Row], message: str) -> None:
    """The message names the file and what is wrong."""
    source = criteo.write(tmp_path / "source", "train.txt", made)

    with pytest.raises(DataError, match=message) as caught:
        prepare(tmp_path, source)
    assert str(source) in str(caught.value)


def empty_archive(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(__file__, "dac/readme.txt")


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("train.txt", lambda path: path.write_bytes(b""), "empty or cut off"),
        ("train.txt", lambda path: path.write_bytes(criteo.as_text(criteo.rows(30))[:-1]), "empty or cut off"),
        ("train.txt.gz", lambda path: path.write_bytes(gzip.compress(bytes(10**5))[:60]), "damaged"),
        ("train.txt.gz", lambda path: path.write_bytes(b"not packed"), "damaged"),
        ("dac.tar.gz", lambda path: path.write_bytes(b"not packed"), "damaged"),
        ("dac.tar.gz", empty_archive, r"contains no file train\.txt"),
        ("x.parquet", lambda path: path.write_bytes(b"PAR1"), "damaged"),
        ("readme.md", lambda path: path.write_text("?"), "no data of Criteo's recognised"),
    ],
)
def test_source_that_is_damaged_or_unknown_is_refused(tmp_path: Path, name: str, make: Any, message: str) -> None:
    """As a folder, and as the file itself."""
    (tmp_path / "source").mkdir()
    make(tmp_path / "source" / name)

    for source in (tmp_path / "source", tmp_path / "source" / name):
        with pytest.raises(DataError, match=message):
            prepare(tmp_path, source)


def test_source_must_be_given(tmp_path: Path) -> None:
    """A licence has to be accepted first."""
    with pytest.raises(UsageError, match="--source"):
        WORKLOAD.prepare_data("full", tmp_path, None)


# ---- the network


def parameters(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_network_has_the_parameters_and_operations_of_the_published_one() -> None:
    """The paper: "approximately 540M parameters" (section 5). Two operations per multiplication and addition."""
    with torch.device("meta"):
        network = Dlrm(13, DLRM_TABLES, WIDTH, BOTTOM, TOP)
        rows = torch.zeros(8, 39, dtype=torch.int32)

    with FlopCounterMode(display=False) as counter:
        network(rows)

    bottom = 13 * 512 + 512 * 256 + 256 * 64 + 64 * 16
    top = (27 * 26 // 2 + 16) * 512 + 512 * 256 + 256
    assert counter.get_total_flops() == 8 * 2 * (bottom + top + 27 * 27 * 16) == 8 * 972_064
    assert parameters(network) - sum(DLRM_TABLES) * 16 == bottom + 848 + top + 769 == 475_985
    assert parameters(network) == 540_677_217


def test_memory_of_a_step_at_real_size() -> None:
    """With DLRM's tables and a batch of 32,768: tables and their gradient 4.3 GB, all else below 1 GB."""
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with FakeTensorMode():
        network = Dlrm(13, DLRM_TABLES, WIDTH, BOTTOM, TOP)
        optimizer = build_optimizer(network, FullRecipe.parse(RULES.defaults()))
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = network(torch.zeros(32768, 39, dtype=torch.int32)).mean()
        loss.backward()
        optimizer.step()
        state = sum(p.numel() * p.element_size() + p.grad.numel() * p.element_size() for p in network.parameters())

    assert 4.3e9 < state < 4.4e9
    assert not optimizer.state or not any(optimizer.state.values())
    assert 0.3e9 < sum(kept) < 1e9


def test_the_network_multiplies_every_pair_once() -> None:
    """One row by hand: a perceptron, three vectors, three dot products, a perceptron."""
    torch.manual_seed(0)
    network = Dlrm(2, [3, 5], 4, (6,), (7,))

    odds = network(torch.tensor([[4, -1, 2, 3]], dtype=torch.int32))

    dense = network.bottom(torch.tensor([math.log(5), 0.0]))
    first, second = network.table.weight[2], network.table.weight[3 + 3]
    products = [first @ dense, second @ dense, second @ first]
    assert odds.item() == pytest.approx(network.top(torch.cat([dense, torch.stack(products)])).item(), abs=1e-6)
    assert network.table.weight[:3].abs().max() <= 3**-0.5
    assert network.table.weight[3:].abs().max() <= 5**-0.5


# ---- the session


def test_loss_follows_the_golden_curve(data_dir: Path) -> None:
    """Five steps from seed 3 on the fabricated rows."""
    curve = losses(started(data_dir), 5)

    expected = sessions.golden(WORKLOAD.name, "full_loss", [round(loss, 6) for loss in curve])
    assert curve == pytest.approx(expected, rel=1e-4)


def test_one_batch_can_be_learnt_by_heart(data_dir: Path) -> None:
    """The whole training set in one batch, again and again."""
    all_rows = {"global_batch_size": 860, "opt_base_learning_rate": 1.0, "opt_learning_rate_training_steps": 10**6}
    session = started(data_dir, **all_rows)

    curve = losses(session, 150)

    assert curve[-1] < 0.2 < 0.5 < curve[0]
    assert session.training.position == (150, 0)


def test_worker_processes_change_nothing(data_dir: Path) -> None:
    """Nor does where a batch ends in an epoch of 860: 3 x 256, 92 rows are dropped."""
    session, other = started(data_dir, global_batch_size=256), started(data_dir, num_workers=1, global_batch_size=256)

    block = session.train_block(1000)
    assert block.num_samples == 1024
    assert 0 < block.data_wait_s < 60
    assert other.train_block(1000).mean_loss == block.mean_loss
    assert losses(session, 2) == losses(other, 2)
    assert session.training.position == other.training.position == (2, 0)
    other.close()


def test_run_that_goes_on_from_a_checkpoint_equals_one_without_interruption(tmp_path: Path, data_dir: Path) -> None:
    """Bit by bit, over the end of an epoch."""
    session, other = started(data_dir), started(data_dir)
    losses(session, 5)
    session.save(tmp_path)
    expected = losses(session, 4), sessions.quality(session, data_dir)

    other.load(tmp_path)

    assert (losses(other, 4), sessions.quality(other, data_dir)) == expected


@pytest.mark.parametrize("batch", [5, 72, 100])
def test_evaluation_is_exact_at_any_size(data_dir: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """72 test rows in batches of 5, of 72, of more: every one is scored, in its place."""
    monkeypatch.setattr(full_workload.FullSession, "eval_batch", batch)
    session = started(data_dir)
    losses(session, 6)

    scores = session.predict({})["scores"]

    with torch.no_grad():
        expected = session.network(torch.tensor(table(data_dir, "test")[0], dtype=torch.int32))
    assert scores.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert sessions.quality(session, data_dir).num_examples == 72


def test_two_processes_train_and_evaluate_as_one(tmp_path: Path, data_dir: Path) -> None:
    """The same batches, shared: the same losses and the same weights but for rounding, the same rows evaluated."""
    session = started(data_dir)
    expected = sessions.course(session, 700, data_dir)
    script = """
from tests.workloads.test_recommendation_full import config
from tests.workloads import sessions
from workloads.recommendation import WORKLOAD
import dataclasses
session = sessions.initialised(WORKLOAD.open(dataclasses.replace(config(folders[0]), num_devices=2)))
session.start(folders[0])
result = course(session, 700, folders[0])
"""

    ranks = on_two_processes(script, tmp_path, data_dir)

    assert ranks[0]["counts"] == expected["counts"] == [768, 72]
    for name, value in expected["course"].items():
        assert ranks[0]["course"][name] == pytest.approx(value, rel=1e-3, abs=1e-3)


def test_start_refuses_data_that_are_not_as_announced(data_dir: Path) -> None:
    """The network was built for others."""
    run = config(data_dir)
    for name in ("num_train", "num_test"):
        changed_run = dataclasses.replace(run, metadata={**run.metadata, name: 500})
        session: Any = sessions.initialised(WORKLOAD.open(changed_run))
        with pytest.raises(DataError, match=rf"{name} is .*; metadata\.json says 500"):
            session.start(data_dir)
        session.close()
    with pytest.raises(DataError, match="lacks 'num_counts'"):
        WORKLOAD.open(dataclasses.replace(run, metadata={}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"opt_name": "adam"}, "opt_name is 'adam', expected sgd"),
        ({"global_batch_size": 0}, "expected at least 1"),
        ({"global_batch_size": 861}, "larger than the training set of 860"),
        ({"opt_learning_rate_warmup_steps": 40}, "must be below"),
    ],
)
def test_wrong_hyperparameters_are_one_sentence(data_dir: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(config(data_dir, **values))
    with pytest.raises(UsageError, match="cannot be shared by 3 devices"):
        WORKLOAD.open(dataclasses.replace(config(data_dir), num_devices=3))


def test_learning_rate_rises_and_falls(data_dir: Path) -> None:
    """A run past its horizon goes on at the end rate."""
    recipe = FullRecipe.parse({**RULES.defaults(), **SMALL, "opt_end_learning_rate": 0.1})

    rates = [recipe.learning_rate(step) for step in (0, 1, 2, 21, 40, 50)]

    assert rates == pytest.approx([0.5 / 3, 1 / 3, 0.5, 0.3, 0.1, 0.1])


def test_parts_of_the_open_division_are_used(data_dir: Path) -> None:
    """Their model, their optimiser, their schedule: at rate 0 no weight moves."""
    parts = {
        "build_model": lambda suite, sizes, recipe: Dlrm(13, sizes["vocabulary_sizes"], 4, (), ()),
        "build_optimizer": lambda network, recipe: torch.optim.Adagrad(network.parameters()),
        "learning_rate": lambda recipe, step: 0.0,
    }
    run = dataclasses.replace(config(data_dir, opt_name="adagrad"), division="open", parts=parts)
    session: Any = sessions.initialised(WORKLOAD.open(run))
    session.start(data_dir)
    before = {name: weight.clone() for name, weight in session.weights().items()}

    losses(session, 2)

    assert session.network.table.weight.shape[1] == 4
    assert all(torch.equal(weight, before[name]) for name, weight in session.weights().items())


# ---- the metric


def area(data_dir: Path, scores: Any) -> float:
    return WORKLOAD.evaluator("full", data_dir, data_dir).quality(lambda _: {"scores": scores}).value


def test_area_counts_the_pairs_in_order(data_dir: Path) -> None:
    """Perfect is 1, reversed 0, a constant one half; a score that is not a number is the lowest."""
    clicks = np.load(data_dir / "test_clicks.npy").astype(np.float32)
    num_clicks = clicks.sum()

    assert area(data_dir, clicks) == 1
    assert area(data_dir, -clicks) == 0
    assert area(data_dir, np.full(72, np.nan, np.float32)) == 0.5
    assert area(data_dir, np.where(clicks == 1, np.inf, -np.inf)) == 1
    lost = clicks.copy()
    lost[np.argmax(clicks)] = np.nan
    assert area(data_dir, lost) == pytest.approx(1 - 1 / num_clicks)


@pytest.mark.parametrize("scores", [None, np.zeros(71), np.zeros((72, 1)), np.zeros(72, np.int64)])
def test_predictions_that_are_not_a_score_for_each_row_are_refused(data_dir: Path, scores: Any) -> None:
    """What the training process sends is foreign input."""
    with pytest.raises(ValueError, match="a score for each of 72 rows, as floats"):
        WORKLOAD.evaluator("full", data_dir, data_dir).quality(lambda _: {} if scores is None else {"scores": scores})


def test_labels_and_metadata_that_are_damaged_are_named(tmp_path: Path, data_dir: Path) -> None:
    """Missing, cut in half, of another length, all alike."""
    path = tmp_path / "test_clicks.npy"
    open_evaluator = functools.partial(WORKLOAD.evaluator, "full", data_dir, tmp_path)
    with pytest.raises(DataError, match=r"test_clicks\.npy is missing"):
        open_evaluator()
    for content, message in (
        ((data_dir / "test_clicks.npy").read_bytes()[:150], "damaged"),
        (b"", "damaged"),
        (np.zeros(72, np.uint8), "0 or 1 and some of each"),
        (np.arange(2, dtype=np.uint8), "expected 72 clicks"),
    ):
        np.save(path, content) if isinstance(content, np.ndarray) else path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            open_evaluator()
    with pytest.raises(DataError, match=r"metadata\.json cannot be read"):
        WORKLOAD.evaluator("full", tmp_path, data_dir)


def test_counting_clicks_beats_chance_and_no_perfect_score(data_dir: Path) -> None:
    """The fabricated clicks depend on two categories."""
    found = WORKLOAD.baselines("full", data_dir, data_dir)

    assert set(found) == {"best_category", "naive_bayes"}
    assert all(0.6 < value < 0.95 for value in found.values())


# ---- the whole of it


@pytest.mark.slow
def test_referee_runs_an_epoch_on_two_processes(tmp_path: Path) -> None:
    """Prepared from the archive and run from the command line, under rules with a low target and no reference."""
    rules = full_suites.small_rules(RULES, SMALL, (860, 72))

    full_suites.assert_one_epoch(
        tmp_path, rules, criteo.write(tmp_path / "source", "dac.tar.gz", criteo.rows(NUM_ROWS)), None
    )
