"""Speech recognition at full size, in small: LibriSpeech's layouts, loader, network, and runs as they are driven."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, MissingDependencyError, UsageError
from harness.run import worker
from harness.run.replay import digest_of_weights
from harness.workload import texts_from_bytes, texts_to_bytes
from tests.workloads import full_suites, librispeech_folder, sessions
from tests.workloads.librispeech_folder import NUM_UTTERANCES, Decoder, flac
from tests.workloads.sessions import losses, on_two_processes
from workloads.speech_recognition import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("torchaudio")
pytest.importorskip("datasets")

import torch

from workloads.speech_recognition import baselines, full_data, librispeech
from workloads.speech_recognition.full_audio import HOP, NUM_BANDS, bucketed, masks
from workloads.speech_recognition.full_evaluation import FullWordErrorRate
from workloads.speech_recognition.full_model import FrontEnd, build_model
from workloads.speech_recognition.model import build_optimizer
from workloads.speech_recognition.recipe import FullRecipe
from workloads.streaming.order import share

TINY = {
    "model_layers": 2, "model_width": 16, "global_batch_size": 4, "data_bucket_batches": 2, "dropout": 0.0,
    "opt_learning_rate_warmup_steps": 2, "opt_learning_rate_training_steps": 1000, "opt_base_learning_rate": 0.01,
}  # fmt: skip
NUM_TRAIN, NUM_TEST = 13, 5

started = functools.partial(full_suites.started, WORKLOAD.name, TINY)
config = functools.partial(full_suites.config, WORKLOAD.name, TINY)


@pytest.fixture(scope="module", autouse=True)
def _decoder() -> Iterator[None]:
    """Where there is no decoder, one that reads the files that the tests write."""
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("soundfile") is None:
            patch.setitem(sys.modules, "soundfile", Decoder)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return librispeech_folder.write(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The small folder, prepared, with the labels in the same folder."""
    return prepared(tmp_path_factory.mktemp("toy"), source)


def prepared(folder: Path, source: Path, **arguments: Any) -> Path:
    data_dir = folder / "data"
    data_dir.mkdir()
    full_data.prepare(data_dir, source, **{"num_utterances": NUM_UTTERANCES, **arguments})
    return data_dir


def recipe(**changed: Any) -> FullRecipe:
    return FullRecipe.parse({**sessions.rules_of(WORKLOAD.name, "full").defaults(), **changed})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_both_layouts_give_the_same_bytes(source: Path, toy: Path, tmp_path: Path) -> None:
    """The folders, and the archives, which are checked by digest; a parent folder or the folder itself."""
    copy = tmp_path / "archives"
    shutil.copytree(source, copy)
    digests = librispeech_folder.pack(copy)
    for name in ("packed", "itself"):
        (tmp_path / name).mkdir()

    packed = prepared(tmp_path / "packed", copy, sha256=digests)
    itself = prepared(tmp_path / "itself", source / "LibriSpeech")

    assert contents(packed) == contents(itself) == contents(toy)


def test_prepared_data_are_the_recordings(source: Path, toy: Path) -> None:
    """Every sample and text, in the order of the parts; test utterances by length; their texts are the labels."""
    rows = full_data.librispeech.recordings(source, source, NUM_UTTERANCES)["train"]
    train, test = (full_suites.table(toy / split) for split in ("train", "test"))

    assert [row["text"] for row in train] == [recording.text for recording in rows]
    assert [row["audio"] for row in train] == [librispeech.samples(recording.path) for recording in rows]
    assert [row["num_samples"] for row in test] == sorted(len(row["audio"]) // 2 for row in test)
    assert set(test[0]) == {"audio", "num_samples"}
    texts = texts_from_bytes(np.load(toy / "test_words.npy"), NUM_TEST, "texts")
    said = {path.name.split(" ")[0]: path for path in (source / "LibriSpeech").glob("dev-*/*/*/*.flac")}
    by_audio = {librispeech.samples(path): name.removesuffix(".flac") for name, path in said.items()}
    lines = "".join(path.read_text() for path in (source / "LibriSpeech").glob("dev-*/*/*/*.txt"))
    assert all(f"{by_audio[row['audio']]} {text}\n" in lines for row, text in zip(test, texts, strict=True))
    metadata = json.loads((toy / "metadata.json").read_text())
    assert (metadata["num_train"], metadata["num_test"]) == (NUM_TRAIN, NUM_TEST)
    assert metadata["max_samples"] == max(row["num_samples"] for row in [*train, *test])


def test_killed_preparation_goes_on(source: Path, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure in the second split leaves the first one's shards, which are not made again; the bytes are the same."""
    made: list[bool] = []
    rows = full_data.rows

    def failing(part: Any) -> Any:
        made.append(part[1])
        if made == [True, False]:
            raise KeyboardInterrupt
        return rows(part)

    monkeypatch.setattr(full_data, "rows", failing)
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, source)
    shutil.rmtree(tmp_path / "data")

    again = prepared(tmp_path, source)

    assert made == [True, False, False]
    assert contents(again) == contents(toy)


def test_archive_that_is_another_or_damaged_is_refused(source: Path, tmp_path: Path) -> None:
    """By digest before it is unpacked; a part that is missing is named, and so is a member that is missing."""
    copy = tmp_path / "archives"
    shutil.copytree(source, copy)
    digests = librispeech_folder.pack(copy)
    archive = copy / "dev-clean.tar.gz"
    with pytest.raises(DataError, match=r"dev-clean\.tar\.gz: SHA-256 is .*, expected 0;"):
        librispeech.recordings(copy, tmp_path / "a", NUM_UTTERANCES, {**digests, "dev-clean": "0"})
    content = archive.read_bytes()
    for wrong, message in ((content[:-100], "damaged"), ((copy / "dev-other.tar.gz").read_bytes(), "contains no")):
        archive.write_bytes(wrong)
        digest = librispeech.hashlib.sha256(wrong).hexdigest()
        with pytest.raises(DataError, match=message):
            librispeech.recordings(copy, tmp_path / "a", NUM_UTTERANCES, {**digests, "dev-clean": digest})
    archive.unlink()
    with pytest.raises(DataError, match=r"neither LibriSpeech/dev-clean nor dev-clean\.tar\.gz is there"):
        librispeech.recordings(copy, tmp_path / "a", NUM_UTTERANCES, digests)


def test_utterances_that_are_missing_or_without_a_text_are_refused(source: Path, tmp_path: Path) -> None:
    """The number of each part is known; a line that is none, or of another chapter, is named."""
    with pytest.raises(DataError, match=r"train-clean-100: 6 utterances with a text, expected 28,539"):
        librispeech.recordings(source, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    (chapter,) = (copy / "LibriSpeech" / "dev-other").glob("*/*/*.trans.txt")
    for line in ("nonsense", "1-1-0000 HELLO", f"{chapter.name[:6]}-0000 hello"):
        chapter.write_text(f"{line}\n")
        with pytest.raises(DataError, match=r"trans\.txt: line 1 is"):
            librispeech.recordings(copy, tmp_path, NUM_UTTERANCES)


def test_flac_is_the_recording_or_refused(tmp_path: Path) -> None:
    """Its header and its MD5 are checked, whatever decodes it; without an MD5 the number of samples is."""
    samples = np.random.RandomState(0).randint(-9000, 9000, 10_000).astype(np.int16)
    path = tmp_path / "1-1-0000.flac"

    def read(content: bytes) -> bytes:
        path.write_bytes(content)
        return librispeech.samples(path)

    good = flac(samples)
    assert read(good) == read(flac(samples, has_md5=False)) == samples.astype("<i2").tobytes()
    other = bytearray(good)
    other[30] ^= 1
    for content, message in (
        (b"RIFF" + good[4:], "is not FLAC"),
        (good[:40], "is not FLAC"),
        (flac(samples, rate=8000), "1 channels, 16 bits, 8000 Hz"),
        (flac(samples[:1000]), "1,000 samples, expected 1,600 to"),
        (bytes(other), "its samples are not those that were encoded"),
        (good[:-3000], "is damaged"),
        (good[:42] + b"nonsense" * 100, "is damaged"),
    ):
        with pytest.raises(DataError, match=message):
            read(content)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        librispeech.samples(path)


def test_without_a_decoder_it_says_what_to_install(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To prepare only: nothing else imports it."""
    monkeypatch.setitem(sys.modules, "soundfile", None)

    with pytest.raises(MissingDependencyError, match=r"pip install 'tta-harness\[audio\]'"):
        prepared(tmp_path, source)


def test_without_a_source_it_says_what_to_fetch(tmp_path: Path) -> None:
    """Nothing is downloaded."""
    with pytest.raises(DataError, match=r"train-clean-100.*openslr\.org/12"):
        WORKLOAD.prepare_data("full", tmp_path, None)


def test_order_is_the_epoch_sorted_by_length() -> None:
    """A permutation of each epoch, of seed and epoch alone; batches have a third of the padding; ranks share each."""
    lengths = np.random.RandomState(0).randint(100, 3000, 403)
    order = bucketed(lengths, 8, 10, seed=2**40 + 5)
    epochs = [np.stack(order(epoch)) for epoch in range(2)]

    assert all(len(np.unique(epoch)) == 400 for epoch in epochs)
    assert not (epochs[0] == epochs[1]).all()
    assert (np.stack(bucketed(lengths, 8, 10, seed=2**40 + 5)(1)) == epochs[1]).all()
    assert not (np.stack(bucketed(lengths, 8, 10, seed=6)(1)) == epochs[1]).all()
    plain = np.random.RandomState(1).permutation(403)[:400].reshape(50, 8)
    padding = [(lengths[batches].max(1, keepdims=True) - lengths[batches]).sum() for batches in (epochs[0], plain)]
    assert padding[0] < padding[1] / 3
    assert np.diff([lengths[batch].mean() for batch in epochs[0]]).min() < 0, "the batches are shuffled"
    for num_ranks in (1, 2, 3):
        parts = [np.concatenate([share(batch, rank, num_ranks) for batch in epochs[0]]) for rank in range(num_ranks)]
        assert sorted(np.concatenate(parts)) == sorted(epochs[0].flat)


def test_masks_are_drawn_from_the_seed_of_an_example() -> None:
    """Within bands and utterance, of every width up to the widest; another seed draws others."""
    drawn = [masks(seed, 400, recipe()) for seed in range(2000)]

    assert masks(7, 400, recipe()) == drawn[7] != drawn[8]
    bands, times = ([mask for some in drawn for mask in some[part]] for part in (slice(2), slice(2, None)))
    assert len(times) == 20_000
    for some, size, widest in ((bands, 80, 27), (times, 400, 20)):
        assert {width for _, width in some} == set(range(widest + 1))
        assert min(first for first, _ in some) == 0
        assert max(first + width for first, width in some) == size


def test_spectra_are_a_tone_where_it_is() -> None:
    """1,000 Hz is in the band of that pitch; bands have mean 0 and deviation 1; padding and masks are 0."""
    seconds = torch.arange(128 * HOP) / 16_000
    loudness = torch.rand(128, generator=torch.manual_seed(0)).repeat_interleave(HOP)
    audio = (8000 * loudness * torch.sin(2 * torch.pi * 1000 * seconds)).to(torch.int16)[None]
    nothing = torch.zeros(1, 0, 2, dtype=torch.int64)
    bank = FrontEnd().bank

    features = FrontEnd()(audio, torch.tensor([100]), nothing, 0)[0]
    hidden = FrontEnd()(audio, torch.tensor([100]), torch.tensor([[[5, 10], [20, 3]]]), 1)[0]

    assert (features[100:] == 0).all()
    assert features[:100].mean(0).abs().max() < 1e-5
    assert features[:100].std(0, unbiased=False).sub(1).abs().max() < 1e-2
    assert bank[:, :].argmax(0)[bank[32].argmax()] in (31, 32, 33), "bin 32 of 512 at 16 kHz is 1,000 Hz"
    assert (hidden[:, 5:15] == 0).all()
    assert (hidden[20:23] == 0).all()
    kept = torch.ones_like(hidden, dtype=torch.bool)
    kept[:, 5:15] = kept[20:23] = False
    assert (hidden[kept] == features[kept]).all()


def test_network_has_the_published_size() -> None:
    """16 blocks of width 256: 24.4 million parameters in torchaudio's Conformer; FLOPs as counted by hand."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    with FakeTensorMode(), FlopCounterMode(display=False) as counter:
        network: Any = build_model("full", NUM_BANDS, 29, recipe())
        network(torch.zeros(1, 1200, NUM_BANDS), torch.tensor([1200]))

    frames, width = 300, 256
    block = 2 * (2 * width * 4 * width) + (2 * width * width + 31 * width + width * width)  # feed-forward, convolution
    attention = 4 * width * width + 2 * frames * width
    by_hand = 2 * frames * (16 * (block + attention) + 4 * NUM_BANDS * width + 29 * width)
    assert sum(p.numel() for p in network.conformer.parameters()) == 24_367_104
    assert sum(p.numel() for p in network.parameters()) == 24_456_733
    assert counter.get_total_flops() == by_hand


def test_output_is_torchaudios_and_does_not_depend_on_padding() -> None:
    """Without padding it is what torchaudio's `forward` computes; with more of it, whatever it holds, the same."""
    torch.manual_seed(0)
    network: Any = build_model("full", NUM_BANDS, 29, recipe(**TINY)).eval()
    features, lengths = torch.randn(3, 64, NUM_BANDS), torch.tensor([64, 64, 64])
    stacked = network.reduce(features.unflatten(1, (-1, 4)).flatten(2))

    expected = network.head(network.conformer(stacked, torch.tensor([16, 16, 16]))[0]).transpose(0, 1)
    assert torch.allclose(network(features, lengths), expected, atol=1e-5)
    short = torch.tensor([64, 36, 40])
    found = network(features, short)
    padded = torch.cat([features, torch.randn(3, 64, NUM_BANDS)], 1)
    padded[1, 36:] = 1000.0
    again = network(padded, short)
    for n, frames in enumerate((16, 9, 10)):
        assert torch.allclose(found[:frames, n], again[:frames, n], atol=1e-5)


@pytest.mark.slow
def test_memory_at_real_size_fits_an_accelerator() -> None:
    """A step of 32 utterances of 16 seconds, as one of eight devices has it, without allocating any of it."""
    found = full_suites.bytes_of_a_step(
        lambda: build_model("full", NUM_BANDS, 29, recipe()),
        lambda network: build_optimizer(network, recipe()),
        lambda network: network(torch.zeros(32, 1664, NUM_BANDS), torch.full((32,), 1600)).square().mean(),
    )

    assert 5e9 < found < 60e9, f"{found / 1e9:.1f} GB"


def test_golden_losses(toy: Path) -> None:
    """Five steps at tiny width, as they have always been; also with two parts a step, which differ in padding alone."""
    curve = losses(started(toy), 5)
    in_parts = losses(started(toy, execution={"accumulation_steps": 2}), 5)

    sessions.assert_golden_curve(f"{WORKLOAD.name}_full", curve, {"rel": 1e-3}, rel=1e-2)
    assert in_parts == pytest.approx(curve, rel=1e-3)


def test_one_batch_can_be_learnt(toy: Path) -> None:
    """The loss of four utterances falls to a twentieth in 150 steps."""
    session = started(toy, data_num_band_masks=0, data_num_time_masks=0, opt_learning_rate_training_steps=100_000)
    batch = list(session.training.next_batch())

    curve = [session.execution.step(session._loss, batch, 0.01).item() for _ in range(150)]

    assert curve[-1] < curve[0] / 20


def test_evaluation_is_exact(toy: Path) -> None:
    """Five utterances in batches of 32: each once, its words those of the network on that utterance alone."""
    session = started(toy)
    session.train_block(40)
    found = session.predict({})
    texts = texts_from_bytes(found["transcripts"], NUM_TEST, "transcripts")
    alone = []
    for row in full_suites.table(toy / "test"):
        samples = np.frombuffer(row["audio"], "<i2")
        audio = torch.from_numpy(np.pad(samples, (0, 16 * HOP - len(samples) % (16 * HOP)))[None].astype(np.int16))
        alone += session._transcripts(audio, [len(samples) // HOP])
    spoken = texts_from_bytes(np.load(toy / "test_words.npy"), NUM_TEST, "texts")
    words = {word: n for n, word in enumerate(sorted({word for text in [*texts, *spoken] for word in text.split()}), 1)}
    as_tokens = [[[words[word] for word in text.split()] for text in some] for some in (texts, spoken)]

    quality = sessions.quality(session, toy)

    assert texts == alone
    assert quality.value == pytest.approx(baselines.word_error_rate(*as_tokens))
    assert quality.num_examples == NUM_TEST


def test_evaluator_counts_words_and_refuses_what_are_no_transcripts(toy: Path, tmp_path: Path) -> None:
    """Nothing heard is 1.0, the texts themselves 0.0, an inserted word counts; missing or foreign files are named."""
    evaluator = FullWordErrorRate(toy, toy)
    texts = texts_from_bytes(np.load(toy / "test_words.npy"), NUM_TEST, "texts")
    total = sum(len(text.split()) for text in texts)

    def rate(heard: list[str]) -> float:
        return evaluator.quality(lambda _: {"transcripts": texts_to_bytes(heard)}).value

    assert rate([""] * NUM_TEST) == WORKLOAD.baselines("full", toy, toy)["nothing_said"] == 1.0
    assert rate(texts) == 0.0
    assert rate([texts[0] + " X", *texts[1:]]) == pytest.approx(1 / total)
    for wrong, message in (([""] * 4, "expected 5 transcripts"), (["A " * 999, *texts[1:]], "at most")):
        with pytest.raises(ValueError, match=message):
            rate(wrong)
    with pytest.raises(DataError, match=r"metadata\.json cannot be read"):
        FullWordErrorRate(tmp_path, toy)
    with pytest.raises(DataError, match=r"test_words\.npy is missing"):
        FullWordErrorRate(toy, tmp_path)
    np.save(tmp_path / "test_words.npy", texts_to_bytes(texts[1:]))
    with pytest.raises(DataError, match=r"test_words\.npy is damaged: expected 5 texts"):
        FullWordErrorRate(toy, tmp_path)


def test_run_that_goes_on_from_a_checkpoint_equals_one_without_interruption(toy: Path, tmp_path: Path) -> None:
    """Bit by bit, across the end of an epoch, with dropout and worker processes."""

    def course(session: Any) -> list[Any]:
        return [*losses(session, 4), digest_of_weights(session), bytes(session.predict({})["transcripts"])]

    session = started(toy, dropout=0.1, execution={"loader_workers": 1})
    losses(session, 2)
    worker.save(session, tmp_path)
    expected = course(session)
    other = started(toy, dropout=0.1, execution={"loader_workers": 1})
    losses(other, 1)

    worker.load(other, tmp_path)

    assert course(other) == expected


TWO_RANKS = """
from tests.workloads import full_suites
from tests.workloads.test_speech_recognition_full import TINY
session = full_suites.started("speech_recognition", TINY, folders[0], num_devices=2)
result = course(session, 24, folders[0])
"""


@pytest.mark.slow
def test_two_devices_train_and_evaluate_as_one(toy: Path, tmp_path: Path) -> None:
    """Loss, weights and word error rate of two processes are those of one."""
    single = sessions.course(started(toy), 24, toy)

    ranks = on_two_processes(TWO_RANKS, tmp_path, toy)

    assert ranks[0]["course"]["loss"] == pytest.approx(single["course"]["loss"], rel=1e-4)
    assert ranks[0]["course"]["value"] == pytest.approx(single["course"]["value"], abs=0.1)
    assert ranks[0]["course"]["weights"] == pytest.approx(single["course"]["weights"], abs=0.2)
    assert ranks[0]["counts"] == single["counts"]


def test_data_that_are_not_as_announced_are_refused(toy: Path) -> None:
    """A key that is missing, another number of utterances, a batch larger than the set."""
    metadata = json.loads((toy / "metadata.json").read_text())
    for key in ("vocabulary", "max_samples", "num_train", "num_test"):
        with pytest.raises(DataError, match=f"lacks '{key}'"):
            WORKLOAD.open(config(toy, metadata={k: v for k, v in metadata.items() if k != key}))
    with pytest.raises(DataError, match=r"num_test is 5; metadata\.json says 6"):
        started(toy, metadata={**metadata, "num_test": 6})
    with pytest.raises(UsageError, match="larger than the training set of 13"):
        WORKLOAD.open(config(toy, global_batch_size=16))
    with pytest.raises(UsageError, match="cannot be shared by 3 devices"):
        WORKLOAD.open(config(toy, num_devices=3))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_layers": 0}, "model_layers must be at least 1"),
        ({"model_width": 18}, "model_width a multiple of 4"),
        ({"data_mask_bands": 81}, "data_mask_bands must be at most 80"),
        ({"data_mask_time_fraction": 1.5}, "data_mask_time_fraction at most 1"),
        ({"opt_name": "sgd"}, "opt_name is 'sgd', expected adamw"),
    ],
)
def test_wrong_hyperparameters_are_one_sentence(changed: dict[str, Any], message: str) -> None:
    """Those of this suite, and those that it shares."""
    with pytest.raises(UsageError, match=message):
        recipe(**changed)


@pytest.mark.slow
def test_an_epoch_through_tta_run(source: Path, tmp_path: Path) -> None:
    """Two processes, a referee, an evaluator and a ruleset of the tests; the log has the run and its epochs."""
    cache = tmp_path / "cache"
    full_suites.prepare(WORKLOAD, cache, lambda data_dir: full_data.prepare(data_dir, source, NUM_UTTERANCES))
    rules = sessions.rules_of(WORKLOAD.name, "full")
    small = full_suites.small_rules(rules, TINY, (NUM_TRAIN, NUM_TEST))

    quality = full_suites.run_an_epoch(tmp_path, small, cache)

    assert small.eval_every_samples == 12
    assert 0 < quality <= 10


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_one_batch_can_be_learnt_on_an_accelerator(toy: Path, precision: str) -> None:
    """As on a CPU."""
    quiet = {"data_num_band_masks": 0, "data_num_time_masks": 0, "opt_learning_rate_training_steps": 100_000}
    with sessions.in_precision(precision):
        session = started(toy, precision=precision, **quiet)
        batch = list(session.training.next_batch())

        curve = [session.execution.step(session._loss, batch, 0.01).item() for _ in range(150)]

    assert curve[-1] < curve[0] / 10
