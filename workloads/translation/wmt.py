"""WMT17 English-German for the full suite: its layouts, its subword model, and its preparation as shards.

The prepared folder has `train/` (source, target) in the order of the corpora, `train_lengths.npy` (number of pieces of
each), `test/` (index, source), longest first, `tokenizer.json`, the references `test.de`, and `metadata.json`. Sources
and targets are numbers of pieces, followed by END; targets are preceded by START.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.errors import DataError, printable
from workloads.translation.subwords import END, SPECIAL, START

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

LANGUAGES = ("en", "de")
# Stems of the official files, each with the archive on statmt.org that has it; MLPerf trains on these three.
CORPORA = {
    "europarl-v7.de-en": "training-parallel-europarl-v7.tgz",
    "commoncrawl.de-en": "training-parallel-commoncrawl.tgz",
    "news-commentary-v12.de-en": "training-parallel-nc-v12.tgz",
}
TEST_STEMS = ("newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"), ("newstest2014.en", "newstest2014.de")
TEST_ARCHIVES = ("dev.tgz", "test-full.tgz")
FOLDERS = ("", "training", "dev", "test-full")
NUM_PIECES = 32_768
MAX_PIECES = 128  # of a sentence with END; pairs with a longer one are left out
LINES_PER_SHARD = 100_000
LINES_AT_ONCE = 10_000
BLEU_SIGNATURE = "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp"  # sacrebleu's, without its version
_DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError)
_SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>")


class Text(NamedTuple):
    """A text in the source: the file, or the member of an archive whose path ends with `member`."""

    path: str
    member: str | None = None

    @property
    def place(self) -> str:
        return self.path if self.member is None else f"{self.path}: {self.member}"

    def lines(self) -> Iterator[str]:
        """Yield the sentences; of an SGML file its segments.

        Raises:
            DataError: it is missing, damaged, or not UTF-8.
        """
        try:
            with self._open() as stream:
                is_sgm = (self.member or self.path.removesuffix(".gz")).endswith(".sgm")
                for line in stream:
                    text = line.decode("utf-8")
                    if is_sgm:
                        yield from (html.unescape(segment).strip() for segment in _SEGMENT.findall(text))
                    else:
                        yield text.strip()
        except _DAMAGE as error:
            raise DataError(f"{self.place} is damaged: {printable(error)}") from None

    @contextmanager
    def _open(self) -> Iterator[Iterable[bytes]]:
        if self.member is None:
            with gzip.open(self.path) if self.path.endswith(".gz") else Path(self.path).open("rb") as stream:
                yield stream
            return
        with tarfile.open(self.path, "r|gz") as archive:  # members are read; nothing is unpacked
            for item in archive:
                if item.isfile() and Path(item.name).name == self.member:
                    content = archive.extractfile(item)
                    assert content is not None, "a regular file has a stream"
                    yield content
                    return
        raise DataError(f"{self.path}: contains no file {self.member}")


class Part(NamedTuple):
    """One shard's lines, from `first` up to but not including `last`, as plain data."""

    english: Text
    german: Text
    first: int
    last: int
    tokenizer: str  # path
    tokenizer_digest: str


def prepare(data_dir: Path, source: Path | None, num_pieces: int = NUM_PIECES) -> None:
    """Fill `data_dir` with shards, tokenizer, references and metadata; a second attempt goes on where the first ended.

    Raises:
        DataError: there is no source, or a file is missing or damaged.
    """
    import datasets

    from workloads.streaming.shards import UNFINISHED_NAME, Shards

    if source is None:
        raise DataError(
            f"translation_full needs WMT17's corpora: download {', '.join(CORPORA.values())} from "
            f"www.statmt.org (wmt13 and wmt17) and {TEST_ARCHIVES[0]} (wmt17), and give their folder as the source"
        )
    corpora = [
        tuple(_find(source, f"{stem}.{language}", archive) for language in LANGUAGES)
        for stem, archive in CORPORA.items()
    ]
    tests = find_test(source)
    pieces = datasets.Sequence(datasets.Value("uint16"))
    with Shards(data_dir) as shards:
        tokenizer, sizes = _learned(data_dir.parent / UNFINISHED_NAME, corpora, num_pieces)
        (data_dir / "tokenizer.json").write_bytes(tokenizer.read_bytes())
        digest = _sha256(tokenizer.read_bytes())
        parts = [
            Part(english, german, first, min(first + LINES_PER_SHARD, size), str(tokenizer), digest)
            for (english, german), size in zip(corpora, sizes, strict=True)
            for first in range(0, size, LINES_PER_SHARD)
        ]
        num_train = shards.write("train", datasets.Features({"source": pieces, "target": pieces}), parts, read_training)
        lengths = _lengths(shards.read("train"))
        np.save(data_dir / "train_lengths.npy", lengths)
        english, german = (list(text.lines()) for text in tests)
        if len(english) != len(german) or not english or not all(english):
            raise DataError(f"{tests[0].place}: {len(english)} sentences; {tests[1].place}: {len(german)}")
        (data_dir / "test.de").write_text("".join(f"{line}\n" for line in german), "utf-8", newline="\n")
        features = datasets.Features({"index": datasets.Value("int32"), "source": pieces})
        part = Part(*tests, 0, len(english), str(tokenizer), digest)
        num_test = shards.write("test", features, [part], read_test)
        longest = max(len(row) for row in shards.read("test")[:]["source"].to_pylist())
        found = {
            "suite": "full",
            "source": "WMT17 en-de: " + ", ".join(CORPORA),
            "bleu_signature": BLEU_SIGNATURE,
            "num_pieces": _read_tokenizer(tokenizer).get_vocab_size(),
            "max_length": int(lengths.max()),
            "max_test_length": longest,
            "num_train": num_train,
            "num_test": num_test,
        }
        (data_dir / "metadata.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def baselines(data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """BLEU of the English sentences as their own translations."""
    from harness.workload import texts_to_bytes
    from workloads.streaming.shards import read
    from workloads.translation.evaluation import FullBleu

    tokenizer, rows = read_tokenizer(data_dir), read(data_dir / "test")[:]
    texts = [tokenizer.decode(ids[:-1]).strip() for ids in rows["source"].to_pylist()]
    in_order = [text for _, text in sorted(zip(rows["index"].to_pylist(), texts, strict=True))]
    return {"copy_source": FullBleu(labels_dir).quality(lambda _: {"translations": texts_to_bytes(in_order)}).value}


def find_test(source: Path) -> tuple[Text, Text]:
    """The source and the reference of newstest2014.

    Raises:
        DataError: they are not there.
    """
    for names in TEST_STEMS:
        for archive in TEST_ARCHIVES:
            found = [_found(source, name, archive) for name in names]
            if found[0] is not None and found[1] is not None:
                return found[0], found[1]
    packed = " or ".join(TEST_ARCHIVES)
    raise DataError(
        f"{source}: has no {' and '.join(TEST_STEMS[0])}, unpacked or in {packed}, and no newstest2014.en, .de"
    )


def _find(source: Path, name: str, archive: str) -> Text:
    found = _found(source, name, archive)
    if found is None:
        raise DataError(f"{source}: has neither {name}, nor {name}.gz, nor {archive}; {', '.join(CORPORA)} are needed")
    return found


def _found(source: Path, name: str, archive: str) -> Text | None:
    """A text, unpacked, compressed, or in an archive; in `source` or a folder of the names in the archives."""
    for folder in FOLDERS:
        for path in (source / folder / name, source / folder / f"{name}.gz"):
            if path.is_file():
                return Text(str(path))
    packed = source / archive
    return Text(str(packed), name) if packed.is_file() and name.endswith((".sgm", "-en.en", "-en.de")) else None


# ---- the subword model


def _learned(folder: Path, corpora: Sequence[tuple[Text, ...]], num_pieces: int) -> tuple[Path, list[int]]:
    """The file of the subword model, learned from the corpora unless it is in `folder`; and their numbers of lines."""
    texts = [text for pair in corpora for text in pair]
    sizes = [(text, Path(text.path).stat().st_size) for text in texts]
    words = f"{sizes!r} {num_pieces} {metadata.version('tokenizers')} {_sha256(Path(__file__).read_bytes())}"
    path = folder / f"tokenizer-{_sha256(words.encode())[:16]}.json"
    counts = path.with_suffix(".lines")
    if not counts.is_file():  # it is written last
        numbers: list[int] = []
        temporary = path.with_suffix(".new")
        learn(_counted(texts, numbers), num_pieces).save(str(temporary))
        for (english, german), first, second in zip(corpora, numbers[::2], numbers[1::2], strict=True):
            if first != second:
                raise DataError(f"{english.place}: {first:,} lines, but {german.place}: {second:,}")
        temporary.rename(path)
        counts.write_text(json.dumps(numbers[::2]))
    found: list[int] = json.loads(counts.read_text())
    return path, found


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _counted(texts: Sequence[Text], numbers: list[int]) -> Iterator[str]:
    """All lines of all texts; appends the number of lines of each."""
    for text in texts:
        number = 0
        for line in text.lines():
            number += 1
            yield line
        numbers.append(number)


def learn(lines: Iterator[str], num_pieces: int) -> Tokenizer:
    """Byte-pair encoding over the bytes of words, by the library tokenizers: no text is unknown to it.

    Counts are integers and ties are broken by the numbers of the pieces, so that the same text gives the same model
    with any number of threads.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=num_pieces,
        special_tokens=list(SPECIAL),  # PAD, START and END get the numbers that they have in subwords.py
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def _read_tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True  # a "</s>" in a text from the web is text, and not END
    return tokenizer


def read_tokenizer(data_dir: Path) -> Tokenizer:
    """The subword model of the prepared data.

    Raises:
        DataError: it is missing.
    """
    path = data_dir / "tokenizer.json"
    if not path.is_file():
        raise DataError(f"{path} is missing; prepare the data first")
    return _read_tokenizer(path)


# ---- shards


def read_training(part: Part) -> Iterator[pa.Table]:
    """Yield the pairs of a part, without those that have an empty or too long side."""
    import pyarrow as pa

    tokenizer = _read_tokenizer(Path(part.tokenizer))
    kind = pa.list_(pa.uint16())
    pairs = islice(zip(part.english.lines(), part.german.lines(), strict=True), part.first, part.last)
    while chunk := list(islice(pairs, LINES_AT_ONCE)):
        whole = [pair for pair in chunk if all(pair)]
        sides = [[found.ids for found in tokenizer.encode_batch([pair[i] for pair in whole])] for i in range(2)]
        rows = [
            ([*english, END], [START, *german, END])
            for english, german in zip(*sides, strict=True)
            if max(len(english), len(german)) < MAX_PIECES
        ]
        yield pa.table({name: pa.array([row[i] for row in rows], kind) for i, name in enumerate(("source", "target"))})


def read_test(part: Part) -> Iterator[dict[str, Any]]:
    """Yield the test sentences, longest first."""
    tokenizer = _read_tokenizer(Path(part.tokenizer))
    rows = [[*found.ids, END] for found in tokenizer.encode_batch(list(part.english.lines()))]
    for index in sorted(range(len(rows)), key=lambda index: (-len(rows[index]), index)):
        yield {"index": index, "source": rows[index]}


def _lengths(rows: Any) -> Any:
    """Pieces of each source, with END, and of each target, without START: uint8 (N, 2)."""
    import pyarrow.compute

    table = rows[:]
    lengths = [pyarrow.compute.list_value_length(table[name]).to_numpy() for name in ("source", "target")]
    return np.stack([lengths[0], lengths[1] - 1], 1).astype(np.uint8)


def read_lengths(data_dir: Path) -> Any:
    """The lengths of the training pairs, (N, 2): source and target.

    Raises:
        DataError: the file is missing or damaged.
    """
    path = data_dir / "train_lengths.npy"
    try:
        lengths = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is missing or damaged: {printable(error)}; prepare the data again") from None
    if lengths.dtype != np.uint8 or lengths.ndim != 2 or lengths.shape[1] != 2:
        raise DataError(f"{path}: expected (N, 2) uint8, found {lengths.dtype} of shape {lengths.shape}")
    return lengths
