"""Translation at full size: Transformer-big against what is published, beam search, and sessions on a small WMT17."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.run import worker
from harness.run.replay import digest_of_weights
from harness.workload import texts_to_bytes
from tests.workloads import full_suites, sessions
from tests.workloads import wmt as copies

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

from torch import Tensor, nn  # noqa: E402 (after the check that torch is there)

from workloads.streaming.order import shuffled  # noqa: E402
from workloads.translation import WORKLOAD, beam, full, model, wmt  # noqa: E402
from workloads.translation.full_recipe import FullRecipe  # noqa: E402
from workloads.translation.subwords import END, PAD, START  # noqa: E402

NAME = "translation"
RULES = sessions.rules_of(NAME, "full")
SMALL = {
    "global_batch_size": 16,
    "opt_base_learning_rate": 0.004,
    "opt_learning_rate_warmup_steps": 5,
    # Larger than in the rules: gradients that are zero but for rounding, as of biases of keys, would move weights.
    "opt_adam_epsilon": 1e-5,
}


def tiny(suite: str, num_pieces: int, max_length: int, recipe: Any) -> nn.Module:
    """The network of `mini`."""
    return model.build_model("mini", num_pieces, max_length, dataclasses.replace(recipe, dropout=0.0))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wmt")
    (place / "made").mkdir()
    wmt.prepare(place / "made", copies.write_plain(place / "source"))
    return place / "made"


def opened(data_dir: Path, num_devices: int = 1, execution: dict[str, int] | None = None, **changed: Any) -> Any:
    """A session of the tiny network; the closed division would not permit these hyperparameters."""
    config = sessions.config(NAME, data_dir, "full", 3, num_devices, **{**SMALL, **changed})
    options = {"loader_workers": 0, **(execution or {})}
    return WORKLOAD.open(dataclasses.replace(config, parts={"build_model": tiny}, execution=options))


def started(data_dir: Path, **changed: Any) -> Any:
    session = sessions.initialised(opened(data_dir, **changed))
    session.start(data_dir)
    return session


def transformer_big() -> nn.Module:
    """As after the preparation of the official files, as far as that is known: the vocabulary is."""
    return model.build_model("full", wmt.NUM_PIECES, 256, FullRecipe.parse(RULES.defaults()))


def test_network_is_transformer_big() -> None:
    """Vaswani et al. 2017, Table 3: 213 million parameters with 37,000 pieces, so 209 with 32,768; and the operations
    of its matrices."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        network = transformer_big()
        counter = FlopCounterMode(display=False)
        with counter:
            network(torch.ones(1, 32, dtype=torch.int64), torch.ones(1, 32, dtype=torch.int64))
    num_parameters = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    d, inner, v = 1024, 4096, wmt.NUM_PIECES
    matrices = 6 * (4 * d * d + 2 * d * inner) + 6 * (8 * d * d + 2 * d * inner) + d * v  # the embedding is shared

    assert num_parameters == 209_911_808
    assert num_parameters + (37_000 - v) * d == pytest.approx(213e6, rel=0.01)
    attention = 2 * 18 * 32 * 32 * d * 2  # 18 attentions of 32 by 32: scores and sums
    assert counter.get_total_flops() == pytest.approx(2 * 32 * matrices + attention, rel=0.02)


def test_a_part_at_real_size_fits_where_the_card_says() -> None:
    """Forward and backward of 80 pairs of 128 pieces in bf16, and the state of Adam, without computing anything."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        network = transformer_big().requires_grad_(True)  # the tracker expects it of the positions, too
        optimizer = model.build_full_optimizer(network, FullRecipe.parse(RULES.defaults()))
        tracker = MemTracker()
        tracker.track_external(network, optimizer)
        pieces = torch.ones(80, 128, dtype=torch.int64)
        with tracker:
            for _ in range(2):  # the first step makes the optimizer's state
                with torch.autocast("cpu", torch.bfloat16):
                    logits = network(pieces, pieces)
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), pieces.flatten(), label_smoothing=0.1)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                peak = max(found["Total"] for found in tracker.get_tracker_snapshot("peak").values())
                tracker.reset_mod_stats()

    assert 18e9 < peak < 23e9


@pytest.mark.gpu
def test_a_part_on_an_accelerator_fits_where_the_card_says() -> None:
    """The same with everything computed; a beam search of it ends at its limit."""
    network = transformer_big().cuda()
    optimizer = model.build_full_optimizer(network, FullRecipe.parse(RULES.defaults()))
    pieces = torch.full((80, 128), START + 5, device="cuda")
    torch.cuda.reset_peak_memory_stats()

    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            logits = network(pieces, pieces)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), pieces.flatten(), label_smoothing=0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    assert torch.cuda.max_memory_allocated() < 25e9
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        assert beam.translate(network, pieces[:8], torch.full((8,), 20, device="cuda")).shape == (8, 20)


def test_learning_rate_rises_and_falls_with_the_root() -> None:
    """0.00125 after 1,100 steps, half of it after 4,400."""
    recipe = FullRecipe.parse(RULES.defaults())

    assert recipe.learning_rate(0) == pytest.approx(0.00125 / 1100)
    assert recipe.learning_rate(1099) == pytest.approx(0.00125)
    assert recipe.learning_rate(4399) == pytest.approx(0.000625)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opt_name": "adamw"}, "opt_name is 'adamw', expected adam"),
        ({"global_batch_size": 0}, "global_batch_size is 0, expected at least 1"),
        ({"opt_learning_rate_warmup_steps": 0}, "warmup_steps is 0, expected at least 1"),
        ({"opt_adam_beta_1": 1.0}, "opt_adam_beta_1 is 1.0, expected below 1"),
        ({"dropout": 1.0}, "dropout is 1.0, expected below 1"),
    ],
)
def test_impossible_recipe_is_one_sentence(changes: dict[str, Any], message: str) -> None:
    """In the open division, too."""
    with pytest.raises(UsageError, match=message):
        FullRecipe.parse({**RULES.defaults(), **changes})


def test_what_cannot_be_trained_is_refused_before_the_clock_starts(data_dir: Path) -> None:
    """Batches that devices or parts cannot share, a batch beyond the training set, metadata of something else."""
    config = sessions.config(NAME, data_dir, "full", **SMALL)

    with pytest.raises(UsageError, match="16 cannot be shared by 3 devices"):
        opened(data_dir, num_devices=3)
    with pytest.raises(UsageError, match="300 is larger than the training set of 208"):
        opened(data_dir, global_batch_size=300)
    with pytest.raises(UsageError, match="accumulation_steps 3: a device's share of 16 examples cannot be divided"):
        opened(data_dir, execution={"accumulation_steps": 3}).prepare()
    for key in ("num_pieces", "max_length", "max_test_length", "num_train", "num_test"):
        lacking = {name: value for name, value in config.metadata.items() if name != key}
        with pytest.raises(DataError, match=f"lacks '{key}'"):
            WORKLOAD.open(dataclasses.replace(config, metadata=lacking))


def test_data_that_are_not_as_announced_are_refused(data_dir: Path, tmp_path: Path) -> None:
    """Number of pieces, and lengths of other pairs."""
    import shutil

    session = sessions.initialised(opened(data_dir))
    session.metadata = {**session.metadata, "num_pieces": 9}
    with pytest.raises(DataError, match=r"num_pieces is \d+; metadata.json says 9"):
        session.start(data_dir)
    shutil.copytree(data_dir, tmp_path / "other")
    np.save(tmp_path / "other" / "train_lengths.npy", np.load(data_dir / "train_lengths.npy")[1:])
    with pytest.raises(DataError, match="207 lengths of 208 pairs"):
        started(tmp_path / "other")


def test_losses_are_the_golden_ones(data_dir: Path) -> None:
    """Five steps of the tiny network; in four parts they differ by rounding only, with worker processes not at all."""
    found = sessions.losses(started(data_dir), 5)

    expected = sessions.golden(NAME, "full_loss", [round(loss, 6) for loss in found])
    assert found == pytest.approx(expected, abs=2e-4)
    session = started(data_dir, execution={"loader_workers": 2})
    assert sessions.losses(session, 5) == found
    session.close()
    in_parts = sessions.losses(started(data_dir, execution={"accumulation_steps": 4}), 5)
    assert in_parts == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_share_the_epoch_by_length(num_ranks: int) -> None:
    """The global batches are those of the order, for any number of ranks; each share is sorted by length."""
    lengths = np.random.RandomState(0).randint(1, 100, (64, 2)).astype(np.uint8)
    order = shuffled(64, 16, seed=7)

    batches = full.by_length(order, lengths, num_ranks)(1)

    assert len(batches) == 4
    for found, batch in zip(batches, order(1), strict=True):
        assert sorted(found) == sorted(batch)
        for share in np.split(found, num_ranks):
            assert (np.diff(lengths[share][:, 1].astype(int)) >= 0).all()
    medians = [np.median(lengths[share][:, 1]) for share in np.split(batches[0], num_ranks)]
    assert max(medians) - min(medians) < 20


def test_every_test_sentence_is_translated_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """13 sentences in batches of 4; each translation is that of the sentence alone, in the order of the test set."""
    monkeypatch.setattr(full.FullSession, "eval_batch", 4)
    session = started(data_dir)
    session.train_block(16 * 20)

    found = bytes(session.predict({})["translations"]).decode().split("\n")

    alone = {}
    for indices, sources in session.testing:
        for index, row in zip(indices.tolist(), sources, strict=True):
            pieces = session._translated(row[row != PAD][None])[0].tolist()
            alone[index] = session.tokenizer.decode(pieces[: pieces.index(END)]).strip()
    assert found == [alone[i] for i in range(copies.NUM_TEST)]
    assert sessions.quality(session, data_dir).num_examples == copies.NUM_TEST


def test_words_can_be_learned(data_dir: Path) -> None:
    """A pair has the same words in the same order: the loss falls towards zero, and BLEU rises."""
    session = started(data_dir, label_smoothing=0.0)
    before = sessions.quality(session, data_dir).value

    first = session.train_block(16).mean_loss
    session.train_block(16 * 150)

    assert first == pytest.approx(math.log(session.num_pieces), abs=1.5)
    assert session.train_block(16).mean_loss < 0.25 * first
    found = sessions.quality(session, data_dir)
    assert found.value > before + 30
    assert found.signature is not None
    assert found.signature.startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:")


def test_quality_does_not_depend_on_case(data_dir: Path) -> None:
    """As in MLPerf's reference, where 25.0 is "BLEU uncased"."""
    evaluator = WORKLOAD.evaluator("full", data_dir, data_dir)
    lower = [line.lower() for line in copies.references()]

    assert evaluator.quality(lambda _: {"translations": texts_to_bytes(lower)}).value == pytest.approx(100)


def test_a_run_that_goes_on_equals_one_without_interruption(data_dir: Path, tmp_path: Path) -> None:
    """Bit by bit, across the end of an epoch; and saving changes nothing."""

    def course(session: Any) -> list[Any]:
        found = sessions.losses(session, 6)
        return [*found, sessions.quality(session, data_dir).value, digest_of_weights(session)]

    session = started(data_dir)
    session.train_block(16 * 10)
    worker.save(session, tmp_path)
    expected = course(session)
    other = started(data_dir)
    other.train_block(16 * 3)  # it has been somewhere else

    worker.load(other, tmp_path)

    assert course(other) == expected


TWO = """
from tests.workloads.test_translation_full import opened
session = sessions.initialised(opened(folders[0], num_devices=2))
session.start(folders[0])
result = course(session, 160, folders[0])
""".replace("from tests", "from tests.workloads import sessions\nfrom tests", 1)


def test_two_devices_train_as_one(data_dir: Path, tmp_path: Path) -> None:
    """The gradients are those of the mean over all pieces of the global batch."""
    ranks = sessions.on_two_processes(TWO, tmp_path, data_dir)

    single = sessions.course(started(data_dir), 160, data_dir)
    assert ranks[0]["counts"] == single["counts"]
    assert ranks[0]["course"]["loss"] == pytest.approx(single["course"]["loss"], abs=1e-4)
    assert ranks[0]["course"]["weights"] == pytest.approx(single["course"]["weights"], abs=2e-3)


class Fixed(nn.Module):
    """Logits of the next piece by the last one, drawn once; the source does not matter but for its first piece."""

    def __init__(self, num_pieces: int, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        self.logits = 2 * torch.randn(num_pieces, num_pieces, num_pieces, generator=random)
        self.sources = torch.zeros(0)

    def begin(self, sources: Tensor) -> Fixed:
        self.sources = sources[:, 0]
        return self

    def step(self, state: Fixed, pieces: Tensor) -> Tensor:
        found: Tensor = self.logits[self.sources, pieces]
        return found

    def keep(self, rows: Tensor) -> None:
        self.sources = self.sources[rows]


def best(network: Fixed, source: int, limit: int) -> list[int]:
    """By looking at every translation of up to `limit` pieces."""
    log_probabilities = network.logits[source].log_softmax(-1)
    others = [piece for piece in range(len(network.logits)) if piece != END]

    def score(pieces: tuple[int, ...]) -> float:
        path = (START, *pieces)
        total = sum(log_probabilities[a, b].item() for a, b in itertools.pairwise(path))
        return total / float(((5 + len(pieces)) / 6) ** 0.6)

    ended = ((*middle, END) for size in range(limit) for middle in itertools.product(others, repeat=size))
    return list(max(ended, key=score))


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_translation(seed: int) -> None:
    """Of four sentences at once with limits of their own, as by looking at all translations."""
    network, limits = Fixed(5, seed), torch.tensor([4, 5, 2, 5])

    found = beam.translate(network, torch.tensor([[0], [1], [3], [4]]), limits, beam=300)

    for row, source, limit in zip(found.tolist(), (0, 1, 3, 4), limits.tolist(), strict=True):
        expected = best(network, source, limit)
        assert row[: len(expected)] == expected
        assert set(row[len(expected) :]) <= {END}


def test_a_beam_of_one_is_greedy_until_the_limit() -> None:
    """Where END never comes, the most probable hypothesis is taken at the limit."""
    network = Fixed(5, 0)
    network.logits[:, :, END] = -torch.inf
    sources, limits = torch.tensor([[0], [1]]), torch.tensor([20, 3])

    found = beam.translate(network, sources, limits, beam=1).tolist()

    for row, source, limit in zip(found, (0, 1), (20, 3), strict=True):
        last, expected = START, []
        for _ in range(limit):
            last = int(network.logits[source, last].argmax())
            expected.append(last)
        assert row == [*expected, *[END] * (20 - limit)]


def test_full_says_that_it_is_provisional() -> None:
    """With the source of its points; the card has the numbers and says how case counts."""
    card = (sessions.ROOT / "workloads" / NAME / "README.md").read_text()

    assert RULES.provisional
    assert RULES.data_digest is None
    assert all(point.source is not None and "MLPerf" in point.source for point in RULES.reference_convergence)
    for text in ("209,911,808", "25.0", "4,590,101", "case:lc", "newstest2014"):
        assert text in card


MODULE = '''"""A network that a processor trains in no time."""

from workloads.translation import model


def build_model(suite, num_pieces, max_length, recipe):
    return model.build_model("mini", num_pieces, max_length, recipe)
'''


def test_the_referee_runs_an_epoch_on_two_devices(tmp_path: Path) -> None:
    """From archives and the command line to a result that the checks accept; the network is a part of a submission."""
    rules = full_suites.small_rules(RULES, SMALL, (208, copies.NUM_TEST))

    full_suites.assert_one_epoch(
        tmp_path, rules, copies.write_archives(tmp_path / "source"), MODULE, "--execution", "accumulation_steps=2"
    )
