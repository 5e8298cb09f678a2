"""What solutions that train no network reach on the test set. A target must be well below all of them.

Dimension letters: N utterances, W words, T spectra, M bands.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.speech_recognition.data import read_split
from workloads.speech_recognition.dataset import Split

Floats = npt.NDArray[np.float32]
Tokens = list[int]

NUM_CANDIDATES = 300  # sentences tried as the constant answer
NUM_SHAPE = 24  # spectra to which a whole utterance is resampled
NUM_WARPED = 40  # nearest by shape, then compared by dynamic time warping
THINNING = 4  # spectra averaged before warping
NUM_SEGMENT = 10  # spectra to which a supposed word is resampled
FEWEST_APART = 8  # spectra, at least, between two boundaries


def baselines(suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """Word error rate by name.

    nothing_said: the empty answer. constant: among some training sentences, the one that is least wrong overall.
    nearest_utterance: the words of the training utterance that is nearest when both are stretched to the same length;
    _warped: among the 40 nearest, the one nearest under dynamic time warping.
    segments_*: the utterance is cut at its quietest places, into as many words as a linear fit of its length predicts
    (in training, into the true number), and each piece is classified by its neighbours or by logistic regression.

    Raises:
        DataError: the data are missing or damaged.
    """
    train, train_words = _spectra(read_split(data_dir, "train"))
    test, test_words = _spectra(read_split(data_dir, "test", labels_dir))

    def score(answers: list[Tokens]) -> float:
        return word_error_rate(answers, test_words)

    scores = {"nothing_said": score([[] for _ in test]), "constant": score([_constant(train_words)] * len(test))}
    near = _nearest(
        np.stack([_stretched(x, NUM_SHAPE) for x in train]), np.stack([_stretched(x, NUM_SHAPE) for x in test])
    )
    scores["nearest_utterance"] = score([train_words[row[0]] for row in near])
    warped = [
        row[np.argmin(_warped(_thinned(x), [_thinned(train[i]) for i in row]))]
        for x, row in zip(test, near, strict=True)
    ]
    scores["nearest_utterance_warped"] = score([train_words[i] for i in warped])
    return scores | {
        f"segments_{name}": score(answers) for name, answers in _segments(train, train_words, test).items()
    }


def word_error_rate(answers: list[Tokens], references: list[Tokens]) -> float:
    """Sum of the edit distances between answers and references, divided by the number of reference words."""
    return sum(map(_distance, answers, references)) / sum(map(len, references))


def _distance(answer: Tokens, reference: Tokens) -> int:
    row = list(range(len(reference) + 1))
    for i, word in enumerate(answer, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(reference, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def _spectra(held: Split) -> tuple[list[Floats], list[Tokens]]:
    """Spectra (T, M) and words of each utterance."""
    import torch

    from workloads.speech_recognition.model import LOST_SPECTRA, LogMel

    features_TM = LogMel()(torch.from_numpy(held.audio), held.hops.tolist()).numpy()
    ends = np.cumsum(held.hops)
    spectra = [features_TM[end - hops : end - LOST_SPECTRA] for end, hops in zip(ends, held.hops, strict=True)]
    return spectra, [[int(word) for word in row if word] for row in held.words]


def _constant(sentences: list[Tokens]) -> Tokens:
    candidates, references = sentences[:NUM_CANDIDATES], sentences[NUM_CANDIDATES : 3 * NUM_CANDIDATES] or sentences
    # Beginnings too: a short answer risks fewer wrong words.
    starts = [words[:n] for words in candidates for n in range(1, len(words) + 1)]
    return min(starts, key=lambda words: word_error_rate([words] * len(references), references))


def _stretched(spectra_TM: Floats, size: int) -> Floats:
    """The utterance resampled to `size` spectra by linear interpolation: (size * M), of norm 1."""
    place = np.linspace(0, len(spectra_TM) - 1, size)
    below = place.astype(np.int64)
    above = np.minimum(below + 1, len(spectra_TM) - 1)
    part = (place - below)[:, None].astype(np.float32)
    flat = (spectra_TM[below] * (1 - part) + spectra_TM[above] * part).reshape(-1)
    stretched: Floats = flat / (np.linalg.norm(flat) + 1e-6)
    return stretched


def _nearest(train: Floats, test: Floats) -> list[list[int]]:
    """For each row of `test`, the indices of the nearest rows of `train`, nearest first."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=min(NUM_WARPED, len(train)), algorithm="brute").fit(train).kneighbors(test)[1]
    return [[int(i) for i in row] for row in found]


def _thinned(spectra_TM: Floats) -> Floats:
    whole = len(spectra_TM) // THINNING * THINNING
    thinned: Floats = spectra_TM[:whole].reshape(-1, THINNING, spectra_TM.shape[1]).mean(1)
    return thinned


def _warped(one_TM: Floats, others: list[Floats]) -> Floats:
    """Dynamic-time-warping distance of one utterance to each of several, divided by the sum of their lengths."""
    longest = max(map(len, others))
    padded = np.stack([np.pad(x, ((0, longest - len(x)), (0, 0))) for x in others])
    squares = (one_TM**2).sum(1)[None, :, None] + (padded**2).sum(2)[:, None, :]
    cost_NTT = np.sqrt(np.maximum(squares - 2 * np.einsum("tm,num->ntu", one_TM, padded, optimize=True), 0))
    total = np.full((len(others), len(one_TM) + 1, longest + 1), np.inf, np.float32)
    total[:, 0, 0] = 0
    for i in range(1, len(one_TM) + 1):
        for j in range(1, longest + 1):
            best = np.minimum(np.minimum(total[:, i - 1, j], total[:, i, j - 1]), total[:, i - 1, j - 1])
            total[:, i, j] = cost_NTT[:, i - 1, j - 1] + best
    lengths = np.array([len(x) for x in others])
    distances: Floats = total[np.arange(len(others)), -1, lengths] / (len(one_TM) + lengths)
    return distances


def _segments(train: list[Floats], words: list[Tokens], test: list[Floats]) -> dict[str, list[Tokens]]:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    slope, offset = np.polyfit([len(_speech(x)) for x in train], [len(w) for w in words], 1)
    counts = [max(1, round(slope * len(_speech(x)) + offset)) for x in test]
    fitted = np.concatenate([_cut(x, len(w)) for x, w in zip(train, words, strict=True)])
    labels = np.concatenate([np.array(w) for w in words])
    pieces = [_cut(x, count) for x, count in zip(test, counts, strict=True)]
    borders = np.cumsum(counts)[:-1]
    models = {
        "neighbours": KNeighborsClassifier(5, algorithm="brute"),
        "logistic": LogisticRegression(C=10.0, max_iter=60),
    }
    answers = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, model in models.items():
            predicted = model.fit(fitted, labels).predict(np.concatenate(pieces))
            answers[name] = [[int(word) for word in part] for part in np.split(predicted, borders)]
    return answers


def _loudness(spectra_TM: Floats) -> Floats:
    smooth: Floats = np.convolve(spectra_TM.mean(1), np.hanning(9)[1:-1] / 4, "same").astype(np.float32)
    return smooth


def _speech(spectra_TM: Floats) -> Floats:
    """The utterance from its first to its last spectrum above 30 % of the way from quiet to loud."""
    loud = _loudness(spectra_TM)
    quiet, full = np.quantile(loud, (0.05, 0.9))
    audible = np.flatnonzero(loud > quiet + 0.3 * (full - quiet))
    return spectra_TM[audible[0] : audible[-1] + 1]


def _cut(spectra_TM: Floats, count: int) -> Floats:
    """Pieces (count, NUM_SEGMENT * M): the speech, cut at the quietest places that are far enough apart."""
    speech = _speech(spectra_TM)
    loud = _loudness(speech)
    cuts = [0, len(speech)]
    for place in np.argsort(loud):
        if len(cuts) == count + 1:
            break
        if all(abs(int(place) - cut) >= min(FEWEST_APART, len(speech) // (2 * count)) for cut in cuts):
            cuts.append(int(place))
    cuts = sorted(cuts) if len(cuts) == count + 1 else np.linspace(0, len(speech), count + 1).astype(int).tolist()
    return np.stack([_stretched(speech[a : max(b, a + 1)], NUM_SEGMENT) for a, b in itertools.pairwise(cuts)])
