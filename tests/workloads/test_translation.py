"""Translation: its data, loaders, pieces and metric, and one training run as the referee drives it."""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import functools
import gzip
import io
import json
import math
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.base.files import sha256_of
from harness.errors import DataError, UsageError
from harness.workload import texts_to_bytes
from tests.shared_files import shared
from tests.workloads import sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.translation import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("sacrebleu")
pytest.importorskip("babel")
pytest.importorskip("num2words")

import sacrebleu
import torch

from workloads.translation import data, mini, multi30k
from workloads.translation.baselines import Dictionary, _edits, _filled
from workloads.translation.subwords import END, PAD, SPECIAL, START, UNKNOWN, Subwords, learn, words_of
from workloads.translation.workload import TrainingSession

config = functools.partial(sessions.config, WORKLOAD.name)
started = functools.partial(sessions.started, WORKLOAD.name)


@pytest.fixture(scope="module")
def trained(mini_dir: Path) -> TrainingSession:
    """A session after 100 steps, which outputs something; tests may evaluate it but not train it."""
    torch.set_num_threads(1)
    session = started(mini_dir, opt_learning_rate_training_steps=100)
    session.train_block(100 * 32)
    return session


def letters(number: int) -> str:
    """0 to 675 as two letters."""
    return chr(97 + number // 26) + chr(97 + number % 26)


def toy_pairs(numbers: range) -> list[tuple[str, str]]:
    """English `ab x.`, German `ba y y.` with zero to two y: lengths differ, and every pair reveals its number."""
    return [(f"{letters(n)} x.", f"{letters(n)[::-1]}{' y' * (n % 3)}.") for n in numbers]


def toy_dir(folder: Path, num_train: int = 250, num_test: int = 37, suite: str = "mini") -> Path:
    folder.mkdir(exist_ok=True)
    splits = {"train": toy_pairs(range(num_train)), "test": toy_pairs(range(num_train, num_train + num_test))}
    data.write(folder, suite, splits, "toy")
    return folder


def numbers(session: TrainingSession, sources_NS: torch.Tensor) -> list[int]:
    """The toy pairs that a batch consists of."""
    found = []
    for row in sources_NS.tolist():
        first = session.subwords.decode(row)[:2]
        found.append((ord(first[0]) - 97) * 26 + ord(first[1]) - 97)
    return found


def test_mini_values_are_disjoint() -> None:
    """No number, day, minute or sum can be drawn in two splits, and none is lost."""
    pools = mini.split_values()

    for kind, num in mini.NUM_VALUES.items():
        parts = [pools[split][kind] for split in mini.SHARES]
        assert sorted(value for part in parts for value in part) == list(
            range(mini.FIRST[kind], mini.FIRST[kind] + num)
        )
        assert len(parts[0]) == round(0.8 * num)


def test_mini_phrases_are_drawn_from_the_values_of_their_split() -> None:
    """The values of a test sentence occur in no training sentence."""
    pools = mini.split_values()
    used: dict[str, set[tuple[str, int]]] = {}
    for split in mini.SHARES:
        phrases = mini.Phrases(np.random.RandomState(0), pools[split])
        for _ in range(10):
            for frame in mini.FRAMES:
                before = len(phrases.used)
                frame(phrases)
                assert len(phrases.used) > before, "a sentence without a value could be in two splits"
        used[split] = set(phrases.used)
        assert all(value in pools[split][kind] for kind, value in used[split])

    assert not used["test"] & used["train"]
    assert not used["validation"] & used["train"]


def test_mini_splits_share_no_sentence_and_no_large_number(mini_dir: Path) -> None:
    """Seen from the outside: no sentence in either language, no German number word from a hundred up."""
    for language in ("en", "de"):
        texts = {split: data.read_text(mini_dir, split, language) for split in mini.SHARES}
        assert {split: len(lines) for split, lines in texts.items()} == mini.NUM_PAIRS
        assert not set(texts["train"]) & {*texts["test"], *texts["validation"]}
        assert not set(texts["validation"]) & set(texts["test"])
    words = {
        split: {
            word
            for line in lines
            for word in line.lower().replace(",", " ").replace(".", " ").split()
            if "hundert" in word and not word.startswith(("neunzehnhundert", "zweitausend"))  # years are parts of days
        }
        for split, lines in texts.items()
    }

    assert len(words["test"]) > 200
    assert not words["test"] & words["train"]


class Fixed:
    """A random stream with fixed draws."""

    def __init__(self, *draws: int) -> None:
        self.draws = iter(draws)

    def randint(self, _high: int) -> int:
        return next(self.draws)


def phrases_of(values: dict[str, list[int]], *draws: int) -> mini.Phrases:
    return mini.Phrases(Fixed(*draws), values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        (
            lambda: phrases_of({"tens": [21]}, 0, 0, 0).amount(),
            ("twenty-one euros", "einundzwanzig Euro"),
        ),
        (
            lambda: phrases_of({"millions": [345_612]}, 3, 0).number(),
            (
                "three hundred and forty-five thousand six hundred and twelve",
                "dreihundertfünfundvierzigtausendsechshundertzwölf",
            ),
        ),
        (lambda: phrases_of({"tens": [31]}, 0, 0, 3).span(False), ("in thirty-one days", "in einunddreißig Tagen")),
        (lambda: phrases_of({"tens": [31]}, 0, 0, 0).span(True), ("thirty-one years ago", "vor einunddreißig Jahren")),
        (lambda: phrases_of({"minute": [15 * 60 + 45]}, 0).time(), ("3:45 PM", "15:45")),
        (
            lambda: phrases_of({"minute": [60 + 5]}, 0).time_words(),
            ("one oh five in the morning", "ein Uhr fünf"),
        ),
        (
            lambda: phrases_of({"minute": [12 * 60]}, 0).time_words(),
            ("twelve o'clock noon", "zwölf Uhr"),
        ),
        (lambda: phrases_of({"cents": [12_345]}, 0, 0).sum(), ("€123.45", "123,45 €")),
        (
            lambda: phrases_of({"thousands": [1_234]}, 2, 0, 0).measure(mini.LENGTHS),
            ("one thousand two hundred and thirty-four kilometers", "eintausendzweihundertvierunddreißig Kilometer"),
        ),
        (
            lambda: mini._on_day(phrases_of({"day": [0]}, 0)),
            ("Monday, the first of January nineteen hundred", "Montag, dem ersten Januar neunzehnhundert"),
        ),
    ],
)  # fmt: skip
def test_phrase_is_worded(phrase: Callable[[], mini.Pair], expected: mini.Pair) -> None:
    """Values whose words a reader can check."""
    assert phrase() == expected


def test_other_wording_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Babel or num2words worded phrases differently, the data would silently change."""
    monkeypatch.setattr(mini, "NUM_PAIRS", {"train": 30, "validation": 5, "test": 5})

    with pytest.raises(DataError, match=r"phrases by babel 2\..* and num2words .* have sha256 .*, which needs babel"):
        WORKLOAD.prepare_data("mini", tmp_path, None)


def test_metadata_have_what_the_model_needs(mini_dir: Path) -> None:
    """What a session knows before the clock starts is right."""
    metadata = json.loads((mini_dir / "metadata.json").read_text("utf-8"))
    sources, targets = data.read_split(mini_dir, "train")

    assert (metadata["num_train"], metadata["num_validation"], metadata["num_test"]) == (20000, 400, 400)
    assert len(metadata["vocabulary"]) == len(set(metadata["vocabulary"])) == 800
    assert metadata["max_excess"] == ((targets != PAD).sum(1) - (sources != PAD).sum(1)).max()
    assert metadata["max_length"] == max(data.read_split(mini_dir, s)[k].shape[1] for s in mini.SHARES for k in (0, 1))


def test_words_keep_the_space_before_them() -> None:
    """Letters together, digits in pairs, every other character alone; joined, they are the text."""
    assert words_of("Um 15:45 kam's.") == ["▁Um", "▁15", ":", "45", "▁kam", "'", "s", "."]
    assert "".join(words_of("a  b_c\t(d)")).replace("▁", " ") == " a b_c (d)"


def test_most_frequent_pair_is_merged_first_and_ties_go_by_the_letters() -> None:
    """`ab` three times, then `cd` and `ef` twice each."""
    vocabulary = learn(["xab yab zab cd", "cd ef", "ef"], 100)

    merges = [piece for piece in vocabulary if len(piece) > 1 and piece not in SPECIAL]
    assert vocabulary[:4] == list(SPECIAL)
    assert merges[0] == "ab"
    assert merges[1:] == ["cd", "ef", "▁cd", "▁ef"]


def test_vocabulary_does_not_depend_on_the_order_of_the_texts() -> None:
    """Counts decide, and ties are broken by the characters."""
    texts = ["ein Haus", "zwei Häuser", "ein Hausboot", "zwei Boote"] * 2

    assert learn(texts, 40) == learn(texts[::-1], 40)


def test_unseen_word_is_spelled_in_pieces_and_unseen_character_is_unknown() -> None:
    """Words of the test set need not be in the vocabulary; their letters are."""
    subwords = Subwords(learn(["vierzig dreißig", "vierzig"], 60))

    assert subwords.decode(subwords.encode("dreivierzig")) == "dreivierzig"
    assert UNKNOWN in subwords.encode("dreißig?")


def test_decoding_ends_at_the_end() -> None:
    """Special pieces and everything after END are dropped."""
    subwords = Subwords(learn(["ja nein"], 60))
    pieces = subwords.encode("ja")

    assert subwords.decode([START, *pieces, END, *pieces]) == "ja"


def test_test_sentences_come_back_from_their_pieces(mini_dir: Path) -> None:
    """Every sentence can be encoded and decoded without loss."""
    subwords = Subwords(json.loads((mini_dir / "metadata.json").read_text("utf-8"))["vocabulary"])

    for split, language in (("test", "en"), ("test", "de"), ("validation", "de")):
        lines = data.read_text(mini_dir, split, language)
        assert [subwords.decode(subwords.encode(line)) for line in lines] == lines


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Fifty steps from seed 3."""
    sessions.assert_golden_curve(WORKLOAD.name, losses(started(mini_dir), 50), {"rel": 1e-3}, rel=0.03)


def test_an_epoch_shows_no_pair_twice_and_drops_the_rest(tmp_path: Path) -> None:
    """250 pairs in batches of 100: two batches an epoch, in another order each time, and 50 pairs dropped."""
    session = started(toy_dir(tmp_path), global_batch_size=100)

    first, second = ([n for _ in range(2) for n in numbers(session, session._next_batch()[0])] for _ in range(2))

    assert len(set(first)) == len(set(second)) == 200
    assert first != second
    assert session.train_block(450).num_samples == 500
    assert session.cursor == 1  # of the fifth epoch


def test_targets_belong_to_their_sources_and_are_counted(tmp_path: Path) -> None:
    """Bucketing moves a source together with its target; every piece except START and PAD is predicted."""
    session = started(toy_dir(tmp_path), global_batch_size=50)

    for _ in range(5):
        sources_NS, targets_NT, scale = session._next_batch()
        expected = [toy_pairs(range(n, n + 1))[0][1] for n in numbers(session, sources_NS)]
        assert [session.subwords.decode(row) for row in targets_NT.tolist()] == expected
        assert scale.item() == pytest.approx(1 / int((targets_NT[:, 1:] != PAD).sum()))
        assert (targets_NT[:, 0] == START).all()
        assert sources_NS.shape[1] % 4 == 0
        assert targets_NT.shape[1] % 4 == 1


def test_sentences_of_a_batch_have_about_one_length(mini_dir: Path) -> None:
    """There is little padding, and there are few shapes."""
    session = started(mini_dir)
    shapes, padding = set(), []

    for _ in range(session.num_train // 32):
        sources_NS, targets_NT, _ = session._next_batch()
        shapes.add((sources_NS.shape[1], targets_NT.shape[1]))
        padding.append(float((targets_NT == PAD).float().mean()))

    assert np.mean(padding) < 0.15
    assert len(shapes) < 60


def test_loss_is_the_mean_over_the_pieces_of_the_batch(tmp_path: Path) -> None:
    """Padding does not count: the loss of a step is torch's cross entropy over the actual pieces."""
    session = started(toy_dir(tmp_path), global_batch_size=50)
    sources_NS, targets_NT, _ = session._next_batch()
    session.cursor = 0
    with torch.no_grad():
        logits_NTV = session.network(sources_NS, targets_NT[:, :-1])
    there_NT = targets_NT[:, 1:] != PAD

    loss = session.train_block(50).mean_loss

    expected = torch.nn.functional.cross_entropy(logits_NTV[there_NT], targets_NT[:, 1:][there_NT], label_smoothing=0.1)
    assert loss == pytest.approx(expected.item(), rel=1e-5)


def test_bleu_of_hand_made_cases(tmp_path: Path) -> None:
    """The last word of five is wrong: 4/5, 3/4, 2/3 and 1/2 of the n-grams are right; their geometric mean."""

    def bleu(hypotheses: list[str], references: list[str]) -> float:
        data.write(tmp_path, "mini", {"train": toy_pairs(range(9)), "test": [("x", r) for r in references]}, "toy")
        said = {"translations": texts_to_bytes(hypotheses)}
        return WORKLOAD.evaluator("mini", tmp_path, tmp_path).quality(lambda _: said).value

    assert bleu(["a b c d e"], ["a b c d f"]) == pytest.approx(100 * 0.2**0.25)
    assert bleu(["a b c d e"], ["a b c d e"]) == pytest.approx(100)
    assert bleu(["", ""], ["a b c d e", "f"]) == 0.0
    # Half as long as the reference: all n-grams are right, the brevity penalty is exp(1 - 2).
    assert bleu(["a b c d"], ["a b c d e f g h"]) == pytest.approx(100 * math.exp(-1))


def test_quality_is_sacrebleu_of_the_translations(trained: TrainingSession, mini_dir: Path) -> None:
    """The whole test set, in its own order, also with a partial last batch; and it is neither 0 nor 100."""
    quality = sessions.quality(trained, mini_dir)

    translations = dict(zip(trained.test_order, trained.translate(), strict=True))
    hypotheses = [translations[i] for i in range(400)]
    references = (mini_dir / "test.de").read_text("utf-8").splitlines()
    assert quality.num_examples == 400
    assert quality.value == sacrebleu.corpus_bleu(hypotheses, [references]).score
    # The signature goes into the log, so that anyone with sacrebleu can repeat the measurement.
    metadata = json.loads((mini_dir / "metadata.json").read_text("utf-8"))
    assert quality.signature == f"{metadata['bleu_signature']}|version:{sacrebleu.__version__}"
    assert 3 < quality.value < 60


@pytest.mark.parametrize(
    ("predictions", "found"),
    [
        ({}, ""),
        ({"translations": np.zeros(36, np.int8)}, ""),
        ({"translations": np.frombuffer(b"\n" * 35 + b"\xff\n", np.uint8)}, ""),
        ({"translations": texts_to_bytes(["ja"] * 36)}, "; found 36"),
        ({"translations": texts_to_bytes(["ja"] * 38)}, "; found 38"),
    ],
    ids=["missing", "not bytes", "not UTF-8", "one too few", "one too many"],
)
def test_predictions_that_are_not_a_text_for_each_sentence_are_refused(
    tmp_path: Path, predictions: Any, found: str
) -> None:
    """What the training process sends is foreign input."""
    folder = toy_dir(tmp_path)

    with pytest.raises(ValueError, match="expected 37 translations as bytes of UTF-8, separated by newlines" + found):
        WORKLOAD.evaluator("mini", folder, folder).quality(lambda _: predictions)


def test_batched_translation_is_that_of_each_sentence_alone(trained: TrainingSession) -> None:
    """Step by step, with cached keys and finished rows dropped, it equals calling the whole network repeatedly."""
    sources_NS, limits_N = trained.test_sources_NS[:300:25], trained.test_lengths_N[:300:25] + trained.max_excess
    batched = trained._translated(sources_NS, limits_N)
    trained.network.eval()

    for row, source_S, limit in zip(batched.tolist(), sources_NS, limits_N.tolist(), strict=True):
        pieces = [START]
        with torch.inference_mode():
            while len(pieces) <= limit and pieces[-1] != END:
                logits_1TV = trained.network(source_S[None, : int((source_S != PAD).sum())], torch.tensor([pieces]))
                pieces.append(int(logits_1TV[0, -1].argmax()))
        assert trained.subwords.decode(row) == trained.subwords.decode(pieces[1:])
    trained.network.train()


def test_translation_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    """A network that never outputs END: as many pieces as the source has, plus the excess seen in training."""
    session = started(toy_dir(tmp_path))
    session.network.step = lambda state, pieces_N: torch.eye(session.num_pieces)[torch.full_like(pieces_N, 7)]
    session.network.begin = lambda sources_NS: type("State", (), {"keep": lambda self, rows: None})()

    said_NT = session._translated(session.test_sources_NS, session.test_lengths_N + session.max_excess)

    assert ((said_NT == 7).sum(1) == session.test_lengths_N + session.max_excess).all()


def test_network_sees_no_future_and_no_padding(trained: TrainingSession) -> None:
    """Neither later target pieces nor PAD after the source change a logit."""
    source, target = trained.test_sources_NS[:1, :8], torch.tensor([[START, 9, 8, 7]])
    trained.network.eval()

    with torch.inference_mode():
        logits = trained.network(source, target)
        other = trained.network(source, torch.tensor([[START, 9, 30, 31]]))
        padded = trained.network(torch.nn.functional.pad(source, (0, 4)), target)

    trained.network.train()
    assert torch.equal(logits[:, :2], other[:, :2])
    assert not torch.equal(logits[:, 2:], other[:, 2:])
    assert torch.allclose(logits, padded, atol=1e-5)


def test_references_that_do_not_match_are_refused(tmp_path: Path) -> None:
    """One German sentence too few, or no file: the evaluator does not open; the session needs none."""
    toy_dir(tmp_path)
    lines = (tmp_path / "test.de").read_text("utf-8").splitlines()[:-1]
    (tmp_path / "test.de").write_text("\n".join(lines) + "\n", "utf-8")

    with pytest.raises(DataError, match=r"test\.de: 36 sentences for 37 sources"):
        WORKLOAD.evaluator("mini", tmp_path, tmp_path)
    for label in WORKLOAD.labels:
        (tmp_path / label).unlink()
    with pytest.raises(DataError, match=r"test\.de is missing"):
        WORKLOAD.evaluator("mini", tmp_path, tmp_path)
    assert set(started(tmp_path).predict({})) == {"translations"}


def test_training_set_smaller_than_a_batch_is_refused_at_the_start(tmp_path: Path) -> None:
    """The metadata announced more than there is."""
    toy_dir(tmp_path)
    session = sessions.initialised(WORKLOAD.open(config(tmp_path, global_batch_size=100)))
    toy_dir(tmp_path, num_train=90)

    with pytest.raises(UsageError, match="100 is larger than the training set of 90"):
        session.start(tmp_path)


@pytest.mark.parametrize(("piece", "other"), [(END, PAD), (START, -1)], ids=["no end", "negative"])
def test_impossible_sentence_is_refused(tmp_path: Path, piece: int, other: int) -> None:
    """A sentence without END, and a piece below zero."""
    path = toy_dir(tmp_path) / "train_targets.npy"
    array = np.load(path)
    array[17, array[17] == piece] = other
    np.save(path, array)

    with pytest.raises(DataError, match=r"train_targets\.npy is damaged"):
        data.read_split(tmp_path, "train")


def test_damaged_text_file_is_named(tmp_path: Path) -> None:
    """Bytes that are not UTF-8."""
    (tmp_path / "test.de").write_bytes(b"\xff\xfe")

    with pytest.raises(DataError, match=r"test\.de is damaged"):
        data.read_text(tmp_path, "test", "de")


def test_edit_distance_counts_words() -> None:
    """One inserted, one substituted."""
    assert _edits(["a", "b", "c"], ["a", "x", "c", "d"]) == 2
    assert _edits([], ["a"]) == 1


def test_dictionary_fills_a_template() -> None:
    """`red car` from `blue house` and words seen elsewhere, in German order."""
    pairs = [
        (["blue", "house", "big"], ["groß", "blau", "haus"]),
        (["red", "house", "big"], ["groß", "rot", "haus"]),
        (["blue", "car", "big"], ["groß", "blau", "auto"]),
        (["red", "house"], ["rot", "haus"]),
        (["blue", "car"], ["blau", "auto"]),
        (["car", "big"], ["groß", "auto"]),
    ]

    table = Dictionary(pairs)

    assert {word: table.best[word] for word in ("red", "blue", "car", "house", "big")} == {
        "red": "rot", "blue": "blau", "car": "auto", "house": "haus", "big": "groß",
    }  # fmt: skip
    assert _filled(table, pairs[0], ["red", "car", "big"], True) == ["groß", "rot", "auto"]
    assert _filled(table, pairs[0], ["red", "car", "big"], False) == ["groß", "rot", "auto"]
    assert table.best["unseen"] == "unseen"


def test_baselines_are_between_nothing_and_all(tmp_path: Path) -> None:
    """Test pairs that are in training are found by look-up; copying the source scores low."""
    splits = {"train": toy_pairs(range(60)), "test": toy_pairs(range(50, 60))}
    data.write(tmp_path, "mini", splits, "toy")

    scores = WORKLOAD.baselines("mini", tmp_path, tmp_path)

    assert scores["nearest_sentence_edit_distance"] == pytest.approx(100)
    assert scores["template_words"] == pytest.approx(100)
    assert scores["copy_source"] < 50
    assert all(0.0 <= score <= 100.0 for score in scores.values())


NUM_LINES = {"train": 12, "validation": 3, "test": 2}


def small_multi30k() -> dict[str, list[tuple[str, str]]]:
    return {
        split: [
            (f"A dog, number {letters(i)}, runs.", f"Ein Hund läuft,\u2028 Nummer {letters(i)}.") for i in range(num)
        ]
        for split, num in NUM_LINES.items()
    }


def texts(split: str, stem: str) -> dict[str, bytes]:
    """File name to content, UTF-8."""
    pairs = small_multi30k()[split]
    return {f"{stem}.{lang}": "".join(f"{p[k]}\n" for p in pairs).encode() for k, lang in enumerate(("en", "de"))}


def gz_dir(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, stem in multi30k.STEMS.items():
        for name, content in texts(split, stem).items():
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    return folder


def plain_dir(folder: Path) -> Path:
    folder.mkdir()
    for split, stem in multi30k.STEMS.items():
        for name, content in texts(split, stem).items():
            (folder / name).write_bytes(content)
    return folder


def tar_dir(folder: Path, prefix: str = "") -> Path:
    folder.mkdir()
    for split, (archive, stem) in multi30k.ARCHIVES.items():
        write_tar(folder / archive, {prefix + name: content + b"\n" for name, content in texts(split, stem).items()})
    return folder


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as members:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            members.addfile(info, io.BytesIO(content))


def test_all_layouts_hold_the_same_sentences(tmp_path: Path) -> None:
    """Compressed, plain, in a clone of the repository, and in the archives of the shared task."""
    expected = small_multi30k()

    assert multi30k.read(gz_dir(tmp_path / "gz"), NUM_LINES) == expected
    gz_dir(tmp_path / "clone" / "data" / "task1" / "raw")
    assert multi30k.read(tmp_path / "clone", NUM_LINES) == expected
    assert multi30k.read(plain_dir(tmp_path / "plain"), NUM_LINES) == expected
    assert multi30k.read(tar_dir(tmp_path / "tar"), NUM_LINES) == expected
    assert multi30k.read(tar_dir(tmp_path / "dotted", "./"), NUM_LINES) == expected


def test_line_ends_of_dos_are_line_ends(tmp_path: Path) -> None:
    """A checkout on Windows."""
    folder = plain_dir(tmp_path / "plain")
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    assert multi30k.read(folder, NUM_LINES) == small_multi30k()


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (lambda whole: whole[:-12], "is damaged"),
        (lambda whole: b"Ein Hund.", "is damaged"),
        (lambda whole: whole[:20] + b"\x00\xff\x00\xff" + whole[24:], "is damaged"),
        (lambda whole: gzip.compress("läuft\n".encode("latin-1") * 3), "is damaged"),
        (lambda whole: gzip.compress(b"Ein Hund.\n \nNoch einer.\n"), ": line 2 is empty"),
        (lambda whole: gzip.compress(b"Ein Hund.\nNoch einer.\n"), ": 2 lines, expected 3"),
        (lambda whole: gzip.compress(bytes(20_000_001)), ": more than 20,000,000 bytes"),
    ],
    ids=["cut", "text", "bits", "latin", "empty line", "fewer", "bomb"],
)
def test_damaged_text_is_named(tmp_path: Path, damaged: Callable[[bytes], bytes], message: str) -> None:
    """Truncated, not gzip, a broken stream, another encoding, a line lost or blank, or far too long; or missing."""
    folder = gz_dir(tmp_path / "gz")
    path = folder / "val.de.gz"
    path.write_bytes(damaged(path.read_bytes()))

    with pytest.raises(DataError, match=rf"val\.de\.gz ?{message}"):
        multi30k.read(folder, NUM_LINES)
    path.unlink()
    with pytest.raises(DataError, match=r"none of val\.de\.gz, val\.de and validation\.tar\.gz"):
        multi30k.read(folder, NUM_LINES)


def write_link(path: Path) -> None:
    with tarfile.open(path, "w:gz") as members:
        info = tarfile.TarInfo("train.en")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        members.addfile(info)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:60]),
        lambda path: path.write_text("no archive"),
        lambda path: write_tar(path, {"other.en": b"x"}),
        write_link,
        lambda path: write_tar(path, {"first": bytes(20_000_001), **texts("train", "train")}),
    ],
    ids=["cut", "text", "member", "link", "size"],
)
def test_damaged_archive_is_named(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """An archive that is truncated, is not one, lacks a text, has a link in its place, or has an oversized member."""
    folder = tar_dir(tmp_path / "tar")
    damage(folder / "training.tar.gz")

    with pytest.raises(DataError, match=r"training\.tar\.gz"):
        multi30k.read(folder, NUM_LINES)


def test_download_takes_the_files_by_their_digests(tmp_path: Path) -> None:
    """The files are fetched, kept and read."""
    source = gz_dir(tmp_path / "gz")
    digests = {path.name: sha256_of(path) for path in source.iterdir()}

    with pytest.raises(DataError, match="12 lines, expected 29000"):
        multi30k.download(tmp_path / "downloads", source.as_uri(), digests)

    assert {path.name for path in (tmp_path / "downloads").iterdir()} == set(digests)


def test_standard_network_learns_and_starts_as_seeded(tmp_path: Path) -> None:
    """A fresh network's loss is that of guessing, and falls within a few steps."""
    session = started(
        toy_dir(tmp_path, suite="standard"),
        suite="standard",
        global_batch_size=8,
        dropout=0.1,
        opt_learning_rate_warmup_steps=4,
        opt_base_learning_rate=1e-3,
    )

    curve = losses(session, 16)

    assert curve[0] == pytest.approx(math.log(session.num_pieces), abs=1.0)
    assert curve[-1] < curve[0] - 0.8
    assert sessions.quality(session, tmp_path).num_examples == 37


@pytest.mark.slow
def test_real_multi30k_has_the_golden_digests(tmp_path: Path) -> None:
    """The official files: their digests, their sizes, and no test sentence in training."""
    source = shared("data/multi30k_en_de")
    assert {name: sha256_of(source / name) for name in multi30k.SHA256} == multi30k.SHA256

    WORKLOAD.prepare_data("standard", tmp_path, source)

    metadata = json.loads((tmp_path / "metadata.json").read_text("utf-8"))
    assert (metadata["num_train"], metadata["num_validation"], metadata["num_test"]) == (29000, 1014, 1000)
    assert len(metadata["vocabulary"]) == 8000
    texts = {
        split: set(zip(*(data.read_text(tmp_path, split, language) for language in ("en", "de")), strict=True))
        for split in ("train", "test")
    }
    assert not texts["train"] & texts["test"]
    found = sessions.digests(tmp_path)
    assert found == sessions.golden(WORKLOAD.name, "standard_sha256", found)


SCRIPT = """
from tests.workloads.test_translation import numbers, started
mini, toy = folders
session = started(toy, num_devices=2, global_batch_size=50)
batches = [numbers(session, session._next_batch()[0]) for _ in range(6)]
session = started(mini, num_devices=2)
result = course(session, 4000, mini) | dict(batches=batches, order=session.test_order)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """Shards never overlap, gradients are those of one process, and the translations of both make one score."""
    toy = toy_dir(tmp_path / "toy")

    ranks = on_two_processes(SCRIPT, tmp_path, mini_dir, toy)

    alone = started(toy, global_batch_size=50)
    for step in range(6):
        both = ranks[0]["batches"][step] + ranks[1]["batches"][step]
        assert sorted(both) == sorted(numbers(alone, alone._next_batch()[0]))
        assert len(set(both)) == 50
    assert sorted(ranks[0]["order"] + ranks[1]["order"]) == list(range(400))
    assert ranks[0]["counts"] == [4000, 400]
    single = started(mini_dir)
    assert ranks[0]["course"]["loss"] == pytest.approx(single.train_block(4000).mean_loss, rel=0.01)
    single.network.load_state_dict(torch.load(tmp_path / "weights.pt"))
    # Batches of other sentences round differently.
    assert ranks[0]["course"]["value"] == pytest.approx(sessions.quality(single, mini_dir).value, abs=0.5)
