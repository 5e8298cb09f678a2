"""Byte-pair encoding (Sennrich et al. 2016) over both languages, learned from the training split alone.

Integers and sorted ties throughout, so that the same text gives the same vocabulary everywhere.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

SPACE = "\u2581"  # stands for the space before a word, so that joining the pieces gives the text back
PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
# A word is letters, or one or two digits, or one other sign; the space before it is its first sign.
WORD = re.compile(rf"{SPACE}?(?:[^\W\d_]+|\d{{1,2}}|[^\w{SPACE}]|_)|{SPACE}")


def words_of(text: str) -> list[str]:
    """The text in words, each with the space before it; joined they are the text, its runs of spaces made one."""
    return WORD.findall(SPACE + SPACE.join(text.split()))


def learn(texts: Iterable[str], num_pieces: int) -> list[str]:
    """A vocabulary of at most `num_pieces`: the special pieces, every sign of the texts, then merges in their order."""
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
            continue  # an entry that a later count has replaced
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
    """Text to piece numbers and back. A merge's rank is its place in the vocabulary."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = list(vocabulary)
        self.ids = {piece: i for i, piece in enumerate(self.vocabulary)}
        self.cuts: dict[str, list[str]] = {}  # of words seen before

    def encode(self, text: str) -> list[int]:
        """Without START and END; a sign that the vocabulary lacks is UNKNOWN."""
        return [self.ids.get(piece, UNKNOWN) for piece in self.cut(text)]

    def cut(self, text: str) -> list[str]:
        """The text in pieces, as text; joined they are its words."""
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
        """The text up to END; special pieces are left out."""
        out = []
        for i in ids:
            if i == END:
                break
            if i >= len(SPECIAL):
                out.append(self.vocabulary[i])
        return "".join(out).replace(SPACE, " ").strip()
