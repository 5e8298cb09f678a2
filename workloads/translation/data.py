"""The data of translation: generated phrases (mini), or Multi30k converted to the same form (standard).

Whatever the source, the data folder afterwards holds the same files: for train, validation and test
`<split>_sources.npy` and `<split>_targets.npy` (int16, one sentence per row, followed by END and PAD, targets preceded
by START), the sentences as text in `<split>.en` and `<split>.de`, and `metadata.json` with the vocabulary.

Dimension letters: N sentences, L pieces of the longest.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.translation.mini import Pair, make_mini
from workloads.translation.multi30k import download, read
from workloads.translation.subwords import END, START, Subwords, learn

Pieces = npt.NDArray[np.int16]

SUITES = ("mini", "standard")
NUM_PIECES = {"mini": 800, "standard": 8000}
BLEU_SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"  # sacrebleu's, without its version


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with the suite's arrays, texts and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: an unknown suite, or a source for the suite that makes its own data.
        DataError: the source is missing, damaged, or in none of the card's layouts; there is no network; or the
            installed libraries word the mini suite's phrases differently.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name("suite of translation", suite, SUITES))
    if suite == "mini":
        if source is not None:
            raise UsageError("translation_mini makes its own data; leave the source out")
        write(data_dir, suite, make_mini(), "CLDR and num2words, in frames of our own")
    elif source is not None:
        write(data_dir, suite, read(source), "Multi30k task 1, raw")
    else:
        write(data_dir, suite, download(data_dir.parent / "downloads"), "Multi30k task 1, raw")


def write(data_dir: Path, suite: str, splits: Mapping[str, Sequence[Pair]], source: str) -> None:
    """Learn the vocabulary from the training pairs alone, and save arrays, texts and metadata."""
    subwords = Subwords(learn((text for pair in splits["train"] for text in pair), NUM_PIECES[suite]))
    metadata: dict[str, object] = {
        "suite": suite,
        "source": source,
        "vocabulary": subwords.vocabulary,
        "bleu_signature": BLEU_SIGNATURE,
    }
    longest = 0
    for split, pairs in splits.items():
        for language, texts in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            (data_dir / f"{split}.{language}").write_text("".join(f"{t}\n" for t in texts), "utf-8", newline="\n")
        sources = [[*subwords.encode(english), END] for english, _ in pairs]
        targets = [[START, *subwords.encode(german), END] for _, german in pairs]
        np.save(data_dir / f"{split}_sources.npy", _padded(sources))
        np.save(data_dir / f"{split}_targets.npy", _padded(targets))
        metadata[f"num_{split}"] = len(pairs)
        longest = max(longest, *(len(row) for row in (*sources, *targets)))
        if split == "train":
            # The most pieces by which a translation exceeds its source: decoding gives up there.
            excess = max(len(t) - len(s) for s, t in zip(sources, targets, strict=True))
            metadata["max_excess"] = max(1, excess)
    metadata["max_length"] = longest
    text = json.dumps(metadata, indent=1, sort_keys=True, ensure_ascii=False)
    (data_dir / "metadata.json").write_text(text + "\n", "utf-8", newline="\n")


def _padded(rows: Sequence[Sequence[int]]) -> Pieces:
    """(N, L); PAD is 0."""
    out_NL = np.zeros((len(rows), max(map(len, rows))), np.int16)
    for i, row in enumerate(rows):
        out_NL[i, : len(row)] = row
    return out_NL


def read_split(data_dir: Path, split: str) -> tuple[Pieces, Pieces]:
    """Read one prepared split: sources_NL and targets_NL, which differ in L.

    Raises:
        DataError: a file is missing, damaged, or does not match the other; the message names it.
    """
    sources, targets = (read_pieces(data_dir, split, kind) for kind in ("sources", "targets"))
    if len(sources) != len(targets):
        raise DataError(f"{data_dir}: {len(sources)} {split} sources but {len(targets)} targets")
    return sources, targets


def read_pieces(data_dir: Path, split: str, kind: str) -> Pieces:
    """Read the `sources` or `targets` of one prepared split, (N, L).

    Raises:
        DataError: the file is missing or damaged; the message names it.
    """
    path = data_dir / f"{split}_{kind}.npy"
    try:
        array: Pieces = np.load(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if array.dtype != np.int16 or array.ndim != 2 or array.size == 0:
        raise DataError(f"{path}: expected 2-d int16, found {array.dtype} of shape {array.shape}")
    ends = (array == END).sum(1)
    if array.min() < 0 or ends.min() != 1 or ends.max() != 1:
        raise DataError(f"{path} is damaged: a row is not a sentence with exactly one END")
    return array


def read_text(data_dir: Path, split: str, language: str) -> list[str]:
    """Read the sentences of one split in `en` or `de`, one per line.

    Raises:
        DataError: the file is missing or not text; the message names it.
    """
    path = data_dir / f"{split}.{language}"
    try:
        return path.read_text("utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
