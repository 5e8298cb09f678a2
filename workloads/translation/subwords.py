"""Byte-pair encoding (Sennrich et al. 2016) over both languages, learned from the training split alone.

Counts are integers and ties are broken by sorting, so that the same text gives the same vocabulary everywhere.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

SPACE = "\u2581"  # marks the space before a word, so that joining the pieces restores the text
PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
# A word is a run of letters, one or two digits, or one other character; the space before it is its first character.
WORD = re.compile(rf"{SPACE}?(?:[^\W\d_]+|\d{{1,2}}|[^\w{SPACE}]|_)|{SPACE}")


def words_of(text: str) -> list[str]:
    """Split the text into words, each with the space before it; joined, they are the text with single spaces."""
    return WORD.findall(SPACE + SPACE.join(text.split()))


def learn(texts: Iterable[str], num_pieces: int) -> list[str]:
    """Learn a vocabulary of at most `num_pieces`: special pieces, all characters of the texts, then merges in order."""
    counts = Counter(word for text in texts for word in words_of(text))
    words = sorted(counts)
    pieces = [list(word) for word in words]
    vocabulary = [*SPECIAL, *sorted({sign for word in words for sign in word})]
    pairs: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for i, split in enumerate(pieces):
        for pair in pairwise(split):
            pairs[pair] += counts[words[i]]
            where[pair].add(i)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    known = set(vocabulary)
    while heap and len(vocabulary) < num_pieces:
        count, best = heapq.heappop(heap)
        if -count != pairs[best]:
            continue  # an outdated entry, replaced by a later count
        if -count < 2:
            break
        merged = "".join(best)
        if merged not in known:
            known.add(merged)
            vocabulary.append(merged)
        touched: set[tuple[str, str]] = set()
        for i in sorted(where[best]):
            split, count = pieces[i], counts[words[i]]
            for pair in pairwise(split):
                pairs[pair] -= count
                touched.add(pair)
            pieces[i] = split = _merged(split, best)
            for pair in pairwise(split):
                pairs[pair] += count
                where[pair].add(i)
                touched.add(pair)
        for pair in touched:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
    return vocabulary


def _merged(split: Sequence[str], best: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for piece in split:
        if out and (out[-1], piece) == best:
            out[-1] += piece
        else:
            out.append(piece)
    return out


class Subwords:
    """Converts text to piece numbers and back. A merge's rank is its position in the vocabulary."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = list(vocabulary)
        self.ids = {piece: i for i, piece in enumerate(self.vocabulary)}
        self.cuts: dict[str, list[str]] = {}  # cache, by word

    def encode(self, text: str) -> list[int]:
        """Piece numbers without START and END; a character missing from the vocabulary is UNKNOWN."""
        return [self.ids.get(piece, UNKNOWN) for piece in self.cut(text)]

    def cut(self, text: str) -> list[str]:
        """The text as a list of pieces; joined, they are its words."""
        words = words_of(text)
        for word in words:
            if word not in self.cuts:
                self.cuts[word] = self._cut_word(word)
        return [piece for word in words for piece in self.cuts[word]]

    def _cut_word(self, word: str) -> list[str]:
        split = list(word)
        while len(split) > 1:
            pairs = pairwise(split)
            rank, best = min((self.ids.get(a + b, len(self.ids)), (a, b)) for a, b in pairs)
            if rank == len(self.ids):
                break
            split = _merged(split, best)
        return split

    def decode(self, ids: Iterable[int]) -> str:
        """The text up to END, without special pieces."""
        out = []
        for i in ids:
            if i == END:
                break
            if i >= len(SPECIAL):
                out.append(self.vocabulary[i])
        return "".join(out).replace(SPACE, " ").strip()
