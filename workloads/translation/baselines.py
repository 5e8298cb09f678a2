"""What solutions that train no network reach on the test set. A target must be well above all of them.

Texts are segmented into words, or into byte-pair pieces of a smaller or larger vocabulary: German writes a number as
one word, so pieces can be combined into numbers that no training sentence contains.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.translation.data import read_text
from workloads.translation.subwords import SPACE, Subwords, learn, words_of

Tokens = list[str]
NUM_EM_STEPS = 8
NUM_CANDIDATES = 60  # nearest by TF-IDF, among which the nearest by edit distance is sought
NUM_ALIGNED = 5000  # pairs from which the dictionary is made; more gain nothing on mini and take seconds everywhere
PIECES = {"mini": (250, 400, 800), "standard": (8000,)}


def baselines(suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """Test BLEU by name: copying, the nearest training sentence, a word-by-word dictionary, a template filled from it.

    Raises:
        DataError: the data are missing or damaged.
    """
    from sacrebleu.metrics.bleu import BLEU

    train = list(zip(*(read_text(data_dir, "train", language) for language in ("en", "de")), strict=True))
    sources, references = read_text(data_dir, "test", "en"), read_text(labels_dir, "test", "de")

    def score(translations: Sequence[str]) -> float:
        return round(float(BLEU().corpus_score(translations, [references]).score), 2)

    candidates = nearest([english for english, _ in train], sources)
    scores = {
        "copy_source": score(sources),
        "nearest_sentence_tfidf": score([train[rows[0]][1] for rows in candidates]),
    }
    cuts: dict[str, Callable[[str], Tokens]] = {"words": words_of}
    for num in PIECES[suite]:
        cuts[f"{num}_pieces"] = Subwords(learn((text for pair in train for text in pair), num)).cut
    for name, cut in cuts.items():
        pairs = [(cut(english), cut(german)) for english, german in train]
        table = Dictionary(pairs[:NUM_ALIGNED])
        cut_sources = [cut(english) for english in sources]
        closest = [_closest(pairs, rows, tokens) for rows, tokens in zip(candidates, cut_sources, strict=True)]
        if name == "words":
            scores["nearest_sentence_edit_distance"] = score([train[row][1] for row in closest])
        scores[f"dictionary_{name}"] = score([_text([table.best[t] for t in tokens]) for tokens in cut_sources])
        scores[f"dictionary_in_nearest_order_{name}"] = score(
            [_text(_filled(table, pairs[row], tokens, False)) for row, tokens in zip(closest, cut_sources, strict=True)]
        )
        scores[f"template_{name}"] = score(
            [_text(_filled(table, pairs[row], tokens, True)) for row, tokens in zip(closest, cut_sources, strict=True)]
        )
    return scores


def nearest(known: Sequence[str], wanted: Sequence[str]) -> list[list[int]]:
    """For each wanted sentence, the known ones nearest by TF-IDF over words and word pairs, best first."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), tokenizer=words_of, token_pattern=None)
    table = vectorizer.fit_transform(known)
    likeness = (vectorizer.transform(wanted) @ table.T).toarray()
    return [np.argsort(-row, kind="stable")[:NUM_CANDIDATES].tolist() for row in likeness]


def _closest(pairs: Sequence[tuple[Tokens, Tokens]], rows: Sequence[int], tokens: Tokens) -> int:
    """The row whose source is the fewest edits away; the first one among equals."""
    return min(rows, key=lambda row: _edits(pairs[row][0], tokens))


def _edits(a: Tokens, b: Tokens) -> int:
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        now = [i]
        for j, y in enumerate(b, 1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (x != y)))
        before = now
    return before[-1]


class Dictionary:
    """IBM model 1 (Brown et al. 1993), both ways; `best` is a token's likeliest translation, or itself if unknown."""

    def __init__(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> None:
        self.forward = _model1(pairs)
        self.backward = _model1([(german, english) for english, german in pairs])
        self.best = _Best()
        likeliest: dict[str, float] = defaultdict(float)
        for (english, german), chance in self.forward.items():
            # Both directions: a frequent token such as a full stop goes with everything, but little goes with it.
            both = chance * self.backward.get((german, english), 0.0)
            if both > likeliest[english]:
                likeliest[english], self.best[english] = both, german

    def align(self, english: Tokens, german: Tokens) -> list[int]:
        """For every German token, the position of its English one; among equals, the one relatively nearest."""
        places = []
        for j, word in enumerate(german):
            chances = [
                (self.forward.get((e, word), 0.0) * self.backward.get((word, e), 0.0) + 1e-12)
                * (1.0 - 0.5 * abs(i / len(english) - j / len(german)))
                for i, e in enumerate(english)
            ]
            places.append(int(np.argmax(chances)))
        return places


class _Best(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return key


def _model1(pairs: Sequence[tuple[Tokens, Tokens]]) -> dict[tuple[str, str], float]:
    """p(second | first) by expectation maximisation, for pairs above 1e-4."""
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    sides = [[[ids.setdefault(t, len(ids)) for t in pair[k]] for pair in pairs] for k, ids in enumerate(names)]
    cells, spots, spot = [], [], 0
    for first, second in zip(*sides, strict=True):
        block = np.array(first)[None, :] * len(names[1]) + np.array(second)[:, None]
        cells.append(block.ravel())
        spots.append(np.repeat(np.arange(spot, spot + len(second)), len(first)))
        spot += len(second)
    kinds, cell = np.unique(np.concatenate(cells), return_inverse=True)
    place = np.concatenate(spots)
    owner = kinds // len(names[1])
    chance: npt.NDArray[np.float64] = np.ones(len(kinds))
    for _ in range(NUM_EM_STEPS):
        weight = chance[cell]
        weight /= np.bincount(place, weight)[place]
        count = np.bincount(cell, weight)
        chance = count / np.bincount(owner, count)[owner]
    words = [list(ids) for ids in names]
    return {
        (words[0][kind // len(names[1])], words[1][kind % len(names[1])]): float(p)
        for kind, p in zip(kinds.tolist(), chance.tolist(), strict=True)
        if p > 1e-4
    }


def _filled(table: Dictionary, near: tuple[Tokens, Tokens], tokens: Tokens, keeps: bool) -> Tokens:
    """The near pair's German, in its order, with the parts that differ in English replaced by the dictionary.

    keeps: German tokens whose English token is unchanged are kept; otherwise they are looked up too.
    """
    english, german = near
    stands_for: dict[int, list[int]] = defaultdict(list)  # position in the near English -> positions in `tokens`
    same: set[int] = set()
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, english, tokens, autojunk=False).get_opcodes():
        if kind == "equal":
            same.update(range(i1, i2))
        for step in range(max(i2 - i1, j2 - j1)):
            if j1 + step < j2:
                # Surplus insertions follow the last token that was replaced, or the one before them.
                stands_for[max(min(i1 + step, i2 - 1), 0)].append(j1 + step)
    places = table.align(english, german)
    out: Tokens = []
    for j, word in enumerate(german):
        i = places[j]
        if keeps and i in same and stands_for[i] and len(stands_for[i]) == 1:
            out.append(word)
        elif j == places.index(i):
            out += [table.best[tokens[k]] for k in stands_for[i]]
    return out


def _text(tokens: Tokens) -> str:
    return "".join(tokens).replace(SPACE, " ").strip()
