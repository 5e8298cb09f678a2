"""Speech recognition: its data, loader, metric and front end, and one training run as the referee drives it."""

from __future__ import annotations

import functools
import math
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.workload import texts_to_bytes
from tests.shared_files import shared, unpack
from tests.workloads import sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.speech_recognition import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("espeakng_loader")
pytest.importorskip("torchaudio")

import torch

from workloads.speech_recognition import baselines, data, espeak, fsdd, mini
from workloads.speech_recognition.dataset import HOP, LEVELS, SILENCE, Utterances, encoded
from workloads.speech_recognition.evaluation import word_errors
from workloads.speech_recognition.model import LOST_SPECTRA, NUM_BANDS, LogMel, decoded

config = functools.partial(sessions.config, WORKLOAD.name)
started = functools.partial(sessions.started, WORKLOAD.name)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_dir(tmp_path_factory.mktemp("toy"))


def toy_dir(folder: Path, num_train: int = 70) -> Path:
    """Square waves, one pitch per word; the first two words of utterance i are i // 10 and i % 10."""
    random = np.random.RandomState(0)
    vocabulary = tuple("abcdefghij")

    def utterances(count: int) -> Utterances:
        audio, words = [], []
        for i in range(count):
            tokens = [i // 10, i % 10, *random.randint(0, 10, random.randint(0, 4))]
            waves = [np.arange(1600) * (w + 2) * 80 // 4000 % 2 * 8000 - 4000 for w in tokens]
            samples = np.concatenate(waves) + random.randint(-300, 300, 1600 * len(tokens))
            audio.append(encoded(samples[: len(samples) - random.randint(0, 400)]))
            words.append([vocabulary[w] for w in tokens])
        return Utterances(audio, words)

    folder.mkdir(exist_ok=True)
    data.write(folder, "mini", {"train": utterances(num_train), "test": utterances(23)}, vocabulary, "toy")
    return folder


def indices(batch: tuple[torch.Tensor, ...]) -> list[int]:
    """The toy utterances that a batch consists of."""
    return (10 * (batch[2][:, 0] - 1) + batch[2][:, 1] - 1).tolist()


def test_mini_voices_and_texts_are_disjoint(mini_dir: Path) -> None:
    """No voice or text of one split occurs in another, neither in the requests nor in the data."""
    scripts = {
        name: mini.script(name, np.random.RandomState(mini.SEED + stream))
        for stream, name in enumerate(mini.NUM_UTTERANCES)
    }
    voices = {name: {request[1].split("+")[1] for request in script} for name, script in scripts.items()}
    written = {name: {tuple(row) for row in data.read_split(mini_dir, name).words.tolist()} for name in scripts}

    for one, other in (("train", "test"), ("train", "validation"), ("validation", "test")):
        assert not voices[one] & voices[other]
        assert not {r[0] for r in scripts[one]} & {r[0] for r in scripts[other]}
        assert not written[one] & written[other]
    assert {name: len(some) for name, some in voices.items()} == {"train": 60, "validation": 8, "test": 12}


def test_no_voice_of_a_split_is_half_a_voice_of_another() -> None:
    """Variants that share at least half of their settings are in the same split."""
    import espeakng_loader

    folder = Path(espeakng_loader.get_data_path()) / "voices" / "!v"

    def settings(voice: str) -> set[str]:
        text = (folder / voice).read_text(encoding="utf-8", errors="replace")
        lines = {" ".join(line.split("//")[0].split("#")[0].split()) for line in text.splitlines()}
        return {s for s in lines if s and s.split()[0] not in ("name", "language", "gender", "maintainer", "status")}

    for name, voices in mini.VOICES.items():
        others = [v for other, some in mini.VOICES.items() if other != name for v in some]
        for voice in voices:
            mine = settings(voice)
            assert all(len(mine & settings(v)) < 0.5 * len(mine | settings(v)) for v in others), voice


def test_speech_in_a_fresh_process_is_the_same() -> None:
    """The synthesiser keeps state, so each call is its own process: the same bytes, but only in the same order."""
    requests = [
        ("one two", "en-us+f1", 175, 50, 50),
        ("nine", "en+Alicia", 200, 40, 60),
        ("one two", "en-us+f1", 175, 50, 50),
    ]

    first, second = list(espeak.spoken(requests)), list(espeak.spoken(requests))

    assert first == second
    assert first[0] != first[2]


def test_unknown_voice_is_one_sentence() -> None:
    """The last line of the process's standard error is the message."""
    with pytest.raises(espeak.SpeechError, match="no voice 'xx-nowhere'"):
        list(espeak.spoken([("one", "xx-nowhere", 175, 50, 50)]))


@pytest.mark.slow
def test_every_voice_exists_and_no_two_are_the_same() -> None:
    """eSpeak NG silently speaks an unknown variant in the plain voice; all of these variants are known."""
    voices = [voice for some in mini.VOICES.values() for voice in some]
    spoken = {
        b"".join(espeak.spoken([("one two seven", f"en-us{v}", 175, 50, 50)])) for v in ("", *(f"+{v}" for v in voices))
    }

    assert len(spoken) == len(voices) + 1


def test_other_speech_or_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the library spoke differently, the data would silently change."""
    monkeypatch.setattr(mini, "NUM_UTTERANCES", {"train": 3})
    with pytest.raises(DataError, match="another data set"):
        mini.render()
    script = tmp_path / "espeak.py"
    script.write_text(Path(espeak.__file__).read_text().replace('"1.52.0"', '"1.99"'))
    monkeypatch.setattr(espeak, "__file__", str(script))

    with pytest.raises(DataError, match=r"eSpeak NG is version 1\.52\.0, expected 1\.99"):
        WORKLOAD.prepare_data("mini", tmp_path, None)


def test_missing_synthesiser_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package there is a one-sentence error, not a traceback."""
    script = tmp_path / "espeak.py"
    script.write_text(Path(espeak.__file__).read_text().replace("import espeakng_loader", "import espeakng_absent"))
    monkeypatch.setattr(espeak, "__file__", str(script))

    with pytest.raises(DataError, match="install the package espeakng-loader"):
        WORKLOAD.prepare_data("mini", tmp_path, None)


def test_levels_are_those_of_mu_law() -> None:
    """G.711: 255 different levels, symmetric, the largest 32,124; a level is its own nearest."""
    assert len(LEVELS) == 255
    assert LEVELS[SILENCE] == 0
    assert LEVELS.max() == 32124
    assert (-LEVELS[::-1] == LEVELS).all()
    assert (LEVELS[encoded(LEVELS.astype(np.int64))[:255]] == LEVELS).all()
    assert encoded(np.array([-40000, 3, 4, 40000])).tolist() == [0, 127, 128, 254] + [SILENCE] * 76


def test_downsampling_keeps_a_tone_and_drops_what_8_khz_cannot_hold() -> None:
    """1,000 Hz is unchanged; 6,000 Hz, which would alias to 2,000, is removed."""
    seconds = np.arange(22050) / 22050

    low, high = (
        mini.downsampled(np.rint(8000 * np.sin(2 * np.pi * f * seconds)).astype(np.int16)) for f in (1000, 6000)
    )

    expected = 8000 * np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000)
    assert len(low) == 8000
    assert np.abs(low - expected)[100:-100].max() < 100
    assert np.abs(high)[100:-100].max() < 40


def test_word_errors_of_hand_made_cases() -> None:
    """Correct, substituted, missing, inserted, all wrong, nothing recognised."""
    references = np.array([[1, 2, 3, 0], [1, 2, 3, 0], [1, 2, 3, 0], [1, 2, 0, 0], [1, 0, 0, 0], [4, 4, 4, 4]])
    found = np.array([[1, 2, 3, 0, 0], [1, 9, 3, 0, 0], [1, 3, 0, 0, 0], [7, 1, 2, 8, 0], [5, 6, 7, 0, 0], [0] * 5])

    assert word_errors(found, references).tolist() == [0, 1, 1, 2, 3, 4]


@pytest.mark.slow
def test_word_errors_agree_with_torchmetrics() -> None:
    """On random sentences, errors divided by reference words are torchmetrics' word error rate."""
    torchmetrics = pytest.importorskip("torchmetrics")
    random = torch.Generator().manual_seed(0)
    rows = [
        [
            torch.randint(1, 5, (int(torch.randint(low, 8, (1,), generator=random)),), generator=random)
            for _ in range(300)
        ]
        for low in (0, 1)
    ]
    answers, references = (torch.nn.utils.rnn.pad_sequence(some, batch_first=True) for some in rows)

    errors = int(word_errors(answers.numpy(), references.numpy()).sum())

    texts = [[" ".join(map(str, row.tolist())) for row in some] for some in rows]
    expected = torchmetrics.functional.text.word_error_rate(*texts).item()
    assert errors / int((references > 0).sum()) == pytest.approx(expected, abs=1e-6)
    lists = [[row.tolist() for row in some] for some in rows]
    assert baselines.word_error_rate(*lists) == pytest.approx(expected, abs=1e-6)
    assert 0.3 < expected < 3


def test_greedy_decoding_merges_and_drops() -> None:
    """Repetitions are one word unless a blank is between them; frames beyond the utterance are ignored."""
    best = torch.tensor([[0, 3, 3, 0, 3, 2], [1, 1, 2, 2, 2, 2], [0, 0, 0, 4, 4, 4]])
    logits = torch.nn.functional.one_hot(best, 5).float().transpose(0, 1)

    heard = decoded(logits, torch.tensor([6, 2, 3]))

    assert [[w for w in row if w] for row in heard.tolist()] == [[3, 3, 2], [1], []]


def test_quality_is_errors_by_words_over_all_test_utterances(toy: Path) -> None:
    """23 utterances in batches of several lengths: the same as decoding one at a time, and neither 0 nor 1."""
    session = started(toy)
    session.train_block(70 * 16)

    quality = sessions.quality(session, toy)

    split, errors = data.read_split(toy, "test"), 0
    session.network.eval()
    first = 0
    for hops, reference in zip(split.hops.tolist(), split.words, strict=True):
        length = -(-hops // 16) * 16
        features = torch.zeros(1, length, NUM_BANDS)
        features[0, :hops] = session.test_features_TM[first : first + hops]
        first += hops
        with torch.inference_mode():
            best = session.network(features, torch.tensor([hops - 3])).argmax(2)[: math.ceil((hops - 3) / 8), 0]
        answer = [int(w) for w in torch.unique_consecutive(best) if w]
        errors += baselines._distance(answer, [int(w) for w in reference if w])
    assert quality.num_examples == 23
    assert quality.value == errors / int((split.words > 0).sum())
    assert 0 < quality.value < 1


@pytest.mark.parametrize(
    ("predictions", "expected"),
    [
        ({}, "expected 23 transcripts as bytes"),
        ({"transcripts": texts_to_bytes(["a b"] * 22)}, "expected 23 transcripts as bytes.*; found 22"),
        ({"transcripts": texts_to_bytes(["a k"] * 23)}, "expected words of the vocabulary, found 'k'"),
        ({"transcripts": texts_to_bytes(["a " * 101] * 23)}, "expected transcripts of at most 100 words"),
    ],
    ids=["missing", "one too few", "an unknown word", "longer than the speech"],
)
def test_predictions_that_are_not_words_of_each_utterance_are_refused(
    toy: Path, predictions: Any, expected: str
) -> None:
    """What the training process sends is foreign input."""
    with pytest.raises(ValueError, match=expected):
        WORKLOAD.evaluator("mini", toy, toy).quality(lambda _: predictions)


def test_transcripts_of_other_data_are_refused(tmp_path: Path) -> None:
    """One transcript too few, and a token that the vocabulary does not have."""
    words = np.load(toy_dir(tmp_path) / "test_words.npy")
    for wrong in (words[1:], np.where(words == 5, 11, words).astype(np.uint8)):
        np.save(tmp_path / "test_words.npy", wrong)
        with pytest.raises(DataError, match=r"test_words\.npy: 2[23] transcripts .*; metadata\.json says 23 and 10"):
            WORKLOAD.evaluator("mini", tmp_path, tmp_path)


def test_session_needs_no_transcripts_of_the_test(tmp_path: Path) -> None:
    """It hears the words without them."""
    (toy_dir(tmp_path) / "test_words.npy").unlink()

    assert set(started(tmp_path).predict({})) == {"transcripts"}


def test_spectra_of_an_utterance_do_not_know_their_neighbours(toy: Path) -> None:
    """Alone or between others, the spectra are the same, with mean 0 and three rows of zeros at the end."""
    split = data.read_split(toy, "test")
    together = LogMel()(torch.from_numpy(split.audio), split.hops.tolist())
    first, hops = int(split.hops[:4].sum()), int(split.hops[4])

    alone = LogMel()(torch.from_numpy(split.audio[first * HOP : (first + hops) * HOP]), [hops])

    assert len(together) == split.hops.sum() + 1
    assert torch.allclose(together[first : first + hops], alone[:-1], atol=1e-5)
    assert (alone[hops - LOST_SPECTRA :] == 0).all()
    assert alone.mean(0).abs().max() < 1e-5


def test_a_tone_is_in_its_band() -> None:
    """1,000 Hz is loudest in the band around it, 3,000 Hz in a higher one."""
    tones = [np.rint(8000 * np.sin(2 * np.pi * f * np.arange(8000) / 8000)).astype(np.int64) for f in (1000, 3000)]
    quiet = np.zeros(8000, np.int64)
    audio = [torch.from_numpy(encoded(np.concatenate([tone, quiet]))) for tone in tones]

    low, high = (int(LogMel()(codes, [200])[50].argmax()) for codes in audio)

    assert 12 <= low <= 20 < high


@pytest.mark.parametrize(
    ("changed", "message"), [({"global_batch_size": 1}, "at least 2"), ({"data_bucket_batches": 0}, "at least 1")]
)
def test_wrong_values_are_one_sentence(toy: Path, changed: dict[str, Any], message: str) -> None:
    """Batch statistics need two utterances, and a bucket one batch."""
    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(config(toy, **changed))


def test_loss_follows_the_golden_curve(toy: Path) -> None:
    """Fifty steps from seed 3, over which the loss falls by a fifth."""
    curve = losses(started(toy), 50)

    sessions.assert_golden_curve(WORKLOAD.name, curve, {"rel": 1e-3}, rel=0.05)
    assert curve[-1] < 0.8 * curve[0]


def test_block_counts_whole_batches_over_the_end_of_an_epoch(toy: Path) -> None:
    """70 utterances in batches of 16: four an epoch, and what was used is what is counted."""
    session = started(toy)

    assert session.train_block(100).num_samples == 112
    assert session.cursor == 3  # of the second epoch


def test_an_epoch_shows_every_utterance_once_and_shuffles(toy: Path) -> None:
    """Sorting by length within pools neither repeats nor loses one, and the order changes."""
    session = started(toy, global_batch_size=10, data_bucket_batches=3)

    first, second = ([i for _ in range(7) for i in indices(session._next_batch())] for _ in range(2))

    assert sorted(first) == sorted(second) == list(range(70))
    assert first != second


def test_buckets_pad_less(mini_dir: Path) -> None:
    """The card's figures for padding: about 11 % with buckets, a third without."""
    hops = data.read_split(mini_dir, "train").hops
    random = np.random.RandomState(0)

    def waste(pool: int) -> float:
        order = random.permutation(6000)
        batches = np.concatenate([np.sort(hops[part]) for part in np.split(order, range(pool, 6000, pool))]).reshape(
            -1, 16
        )
        return float(1 - hops.sum() / (16 * (-(-batches.max(1) // 16) * 16).sum()))

    assert 0.08 < waste(128) < 0.13
    assert 0.28 < waste(16) < 0.36


def test_features_belong_to_their_words_and_shift(toy: Path) -> None:
    """A batch's rows are the utterance's spectra, shifted by its draw and padded with zeros."""
    session = started(toy)
    shifts = session.shifts_BN[0]

    features, spectra, words, spoken = session._next_batch()

    for row, index in enumerate(10 * (words[:, 0] - 1) + words[:, 1] - 1):
        first, hops = int(session.first_N[index]), int(session.hops_N[index])
        bands = (torch.arange(NUM_BANDS) + shifts[row]).clamp(0, NUM_BANDS - 1)
        assert torch.equal(features[row, :hops], session.features_TM[first : first + hops][:, bands])
        assert (features[row, hops:] == 0).all()
        assert (spectra[row], spoken[row]) == (hops - LOST_SPECTRA, (words[row] > 0).sum())
    assert features.shape[1] % 16 == 0


def test_too_many_words_for_the_frames_cost_nothing(tmp_path: Path) -> None:
    """An impossible alignment has an infinite loss, which counts as 0 and leaves the weights finite."""
    codes = encoded(np.random.RandomState(0).randint(-4000, 4000, 8 * HOP).astype(np.int64))
    short = Utterances([codes] * 4, [["a"] * 5] * 4)
    data.write(tmp_path, "mini", {"train": short, "test": short}, ("a",), "short")
    session = started(tmp_path, global_batch_size=2)

    assert losses(session, 3) == [0.0, 0.0, 0.0]
    assert all(torch.isfinite(p).all() for p in session.network.parameters())


def test_start_refuses_fewer_utterances_than_announced(tmp_path: Path) -> None:
    """Less than a batch is left of the metadata's number."""
    session = sessions.initialised(WORKLOAD.open(config(toy_dir(tmp_path))))
    toy_dir(tmp_path, num_train=12)

    with pytest.raises(UsageError, match="training set of 12"):
        session.start(tmp_path)


@pytest.mark.parametrize(("kind", "place", "value"), [("audio", 7, 255), ("words", (3, 0), 0)], ids=["level", "gap"])
def test_impossible_value_is_refused(tmp_path: Path, kind: str, place: Any, value: int) -> None:
    """A level that does not exist, and a transcript that begins with a gap."""
    path = toy_dir(tmp_path) / f"train_{kind}.npy"
    array = np.load(path)
    array[place] = value
    np.save(path, array)

    with pytest.raises(DataError, match=rf"train_{kind}\.npy"):
        data.read_split(tmp_path, "train")


def test_baselines_of_the_toy(toy: Path) -> None:
    """Silence scores exactly 1; the others are error rates."""
    scores = baselines.baselines("mini", toy, toy)

    assert scores["nothing_said"] == 1.0
    assert all(0 <= value < 2 for value in scores.values())
    assert len(scores) == 6


def test_warping_finds_the_stretched() -> None:
    """The same utterance spoken more slowly is nearer than another one."""
    random = np.random.RandomState(0)
    one, other = (random.randn(12, 4).astype(np.float32) for _ in range(2))

    near, far = baselines._warped(one, [np.repeat(one, 2, 0), other])

    assert near == pytest.approx(0, abs=1e-3)
    assert far > 0.5


def write_wav(path: Path, samples: np.ndarray, channels: int = 1, hertz: int = 8000) -> None:
    with wave.open(str(path), "wb") as stream:
        stream.setnchannels(channels)
        stream.setsampwidth(2)
        stream.setframerate(hertz)
        stream.writeframes(samples.astype("<i2").tobytes())


def fsdd_dir(folder: Path) -> Path:
    """Two recordings of each digit by each speaker, of noise."""
    (folder / "recordings").mkdir(parents=True)
    random = np.random.RandomState(0)
    for speaker in (s for some in fsdd.SPEAKERS.values() for s in some):
        for digit in range(10):
            for index in range(2):
                samples = random.randint(-3000, 3000, random.randint(800, 1500))
                write_wav(folder / "recordings" / f"{digit}_{speaker}_{index}.wav", samples)
    return folder


def test_fsdd_becomes_strings_of_one_speaker(tmp_path: Path) -> None:
    """From the folder or its parent; three to six digits; the same bytes twice."""
    recordings, _ = fsdd.read(fsdd_dir(tmp_path), per_digit=2)
    again, _ = fsdd.read(tmp_path / "recordings", per_digit=2)
    sizes = {"train": 8, "validation": 3, "test": 5}

    first, second = fsdd.strings(recordings, sizes), fsdd.strings(again, sizes)

    assert {name: len(some.words) for name, some in first.items()} == sizes
    assert {len(words) for some in first.values() for words in some.words} <= {3, 4, 5, 6}
    for name, some in first.items():
        assert all(np.array_equal(a, b) for a, b in zip(some.audio, second[name].audio, strict=True))


def test_fsdd_speakers_are_disjoint_and_reach_their_split_only(tmp_path: Path) -> None:
    """Without the test speaker's recordings, only the test split cannot be made."""
    recordings, _ = fsdd.read(fsdd_dir(tmp_path), per_digit=2)
    names = [name for some in fsdd.SPEAKERS.values() for name in some]
    assert len(names) == len(set(names)) == 6
    without = {key: takes for key, takes in recordings.items() if key[0] != "yweweler"}

    fsdd.strings(without, {"train": 8, "validation": 3, "test": 0})
    with pytest.raises(KeyError, match="yweweler"):
        fsdd.strings(without, {"train": 0, "validation": 0, "test": 1})


NOISE = np.random.RandomState(0).randint(-3000, 3000, 1000)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is damaged"),
        (lambda path: path.write_text("<html>not here</html>"), "is damaged"),
        (lambda path: path.write_bytes(b""), "is damaged"),
        (lambda path: write_wav(path, NOISE[:50]), "is damaged"),
        (lambda path: write_wav(path, NOISE * 0), "only silence"),
        (lambda path: write_wav(path, NOISE, channels=2), "2 channels, 16 bits, 8000 Hz; expected 1, 16 and 8000"),
        (lambda path: write_wav(path, NOISE, hertz=16000), "16000 Hz"),
        (lambda path: write_wav(path, np.tile(NOISE, 60)), "expected at most"),
    ],
    ids=["missing", "cut", "text", "empty", "short", "silent", "stereo", "rate", "large"],
)
def test_damaged_recording_is_named(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    """Whatever is wrong with a recording, the message names it."""
    path = fsdd_dir(tmp_path) / "recordings" / "7_theo_1.wav"
    damage(path)

    with pytest.raises(DataError, match=message) as caught:
        fsdd.read(tmp_path, per_digit=2)
    assert "7_theo_1.wav" in str(caught.value)


def test_fsdd_unknown_layout_and_no_source(tmp_path: Path) -> None:
    """The messages say what was expected, and what to download."""
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="no layout of FSDD recognised"):
        WORKLOAD.prepare_data("standard", tmp_path / "out", tmp_path)
    with pytest.raises(DataError, match=r"fetch https://github\.com/Jakobovski"):
        WORKLOAD.prepare_data("standard", tmp_path / "out", None)


@pytest.mark.slow
def test_real_fsdd_has_the_golden_digests(tmp_path: Path) -> None:
    """Three thousand recordings become the arrays with the golden digests."""
    unpack(shared("data/fsdd_wav.tar"), tmp_path / "source")
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", tmp_path / "source")

    found = sessions.digests(tmp_path / "out")
    assert found == sessions.golden(WORKLOAD.name, "standard_sha256", found)


SCRIPT = """
from tests.workloads.test_speech_recognition import indices, started
(toy,) = folders
session = started(toy, num_devices=2)
batches = [indices(session._next_batch()) for _ in range(6)]
session = started(toy, num_devices=2)
result = course(session, 40 * 16, toy)
result |= dict(batches=batches, share=sum(len(chosen) for _, _, chosen in session.test_batches))
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, toy: Path) -> None:
    """Shards never overlap, the count is exact, the quality is that of one process with the same weights."""
    ranks = on_two_processes(SCRIPT, tmp_path, toy)

    alone = started(toy)
    for step in range(6):
        both = ranks[0]["batches"][step] + ranks[1]["batches"][step]
        assert sorted(both) == sorted(indices(alone._next_batch()))
        assert len(set(both)) == 16
    assert ranks[0]["counts"] == [640, 23]
    assert sorted(rank["share"] for rank in ranks) == [11, 12]
    single = started(toy)
    assert ranks[0]["course"]["loss"] == pytest.approx(single.train_block(40 * 16).mean_loss, rel=0.1)
    single.network.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert ranks[0]["course"]["value"] == sessions.quality(single, toy).value
