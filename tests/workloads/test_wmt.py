"""WMT17 in the layouts of statmt.org: what is prepared from them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.errors import DataError
from tests.workloads import sessions
from tests.workloads import wmt as copies

pytest.importorskip("tokenizers")
pytest.importorskip("datasets")

from workloads.streaming import shards
from workloads.translation import WORKLOAD, wmt
from workloads.translation.data import read_text
from workloads.translation.subwords import END, START

LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "plain": copies.write_plain,
    "compressed": copies.write_compressed,
    "archives": copies.write_archives,
}


def prepared(place: Path, layout: str) -> Path:
    (place / "made").mkdir()
    wmt.prepare(place / "made", LAYOUTS[layout](place / "source"))
    return place / "made"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("wmt"), "plain")


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("layout", ["compressed", "archives"])
def test_every_layout_gives_the_same_bytes(layout: str, data_dir: Path, tmp_path: Path) -> None:
    """Text and SGML, unpacked, compressed and in the archives that one downloads."""
    assert digests(prepared(tmp_path, layout)) == digests(data_dir)


def test_prepared_pairs_are_those_of_the_corpora(data_dir: Path) -> None:
    """In their order, decoded to the letter; without the pair that has no English and the one with too much German."""
    tokenizer = wmt.read_tokenizer(data_dir)
    rows = shards.read(data_dir / "train")[:]
    files = {name: content.decode().removesuffix("\n").split("\n") for name, content in copies.corpora().items()}
    lines = {
        language: [line.strip() for stem in copies.NUM_PAIRS for line in files[f"{stem}.{language}"]]
        for language in wmt.LANGUAGES
    }
    kept = [number for number in range(210) if number not in (copies.EMPTY, copies.LONG)]

    sources, targets = rows["source"].to_pylist(), rows["target"].to_pylist()

    assert [tokenizer.decode(ids[:-1]).strip() for ids in sources] == [lines["en"][number] for number in kept]
    assert [tokenizer.decode(ids[1:-1]).strip() for ids in targets] == [lines["de"][number] for number in kept]
    assert {ids.count(END) for ids in (*sources, *targets)} == {1}  # "</s>" in a text is text
    assert {(ids[0], ids[-1]) for ids in targets} == {(START, END)}
    lengths = np.load(data_dir / "train_lengths.npy")
    assert lengths.tolist() == [[len(en), len(de) - 1] for en, de in zip(sources, targets, strict=True)]


def test_the_test_set_is_longest_first_and_its_references_are_apart(data_dir: Path) -> None:
    """With the place of each; the harness moves `test.de` to where only the evaluator sees it."""
    rows = shards.read(data_dir / "test")[:]
    lengths = [len(ids) for ids in rows["source"].to_pylist()]

    assert lengths == sorted(lengths, reverse=True)
    assert sorted(rows["index"].to_pylist()) == list(range(copies.NUM_TEST))
    assert read_text(data_dir, "test", "de") == copies.references()
    assert "test.de" in WORKLOAD.labels
    assert json.loads((data_dir / "metadata.json").read_text()) == {
        "suite": "full",
        "source": "WMT17 en-de: europarl-v7.de-en, commoncrawl.de-en, news-commentary-v12.de-en",
        "bleu_signature": "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp",
        "num_pieces": wmt.read_tokenizer(data_dir).get_vocab_size(),
        "max_length": int(np.load(data_dir / "train_lengths.npy").max()),
        "max_test_length": max(lengths),
        "num_train": 208,
        "num_test": 13,
    }


LEARN = """
import sys
from workloads.translation import wmt
lines = open(sys.argv[1], encoding="utf-8").read().split("\\n")
sys.stdout.write(wmt.learn(iter(lines), 300).to_str())
"""


def test_the_subword_model_does_not_depend_on_the_threads(tmp_path: Path) -> None:
    """Among pairs that are equally frequent, too: in processes with one and with four threads."""
    text = tmp_path / "text"
    text.write_text("\n".join(" ".join(f"{a}{b}{a}" for a in "abcdefgh") for b in "pqrstuvwäöü"), encoding="utf-8")
    command = [sys.executable, "-c", LEARN, str(text)]

    found = {
        subprocess.run(
            command,
            cwd=sessions.ROOT,
            env={**os.environ, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "4", "4")
    }

    assert len(found) == 1


def test_a_second_attempt_takes_what_the_first_has_learned(tmp_path: Path) -> None:
    """The subword model of the whole text takes longest; another text is learned again."""
    source, calls = copies.write_plain(tmp_path / "source"), tmp_path / "folder"
    calls.mkdir()
    corpora = [
        tuple(wmt.Text(str(source / f"{stem}.{language}")) for language in wmt.LANGUAGES) for stem in wmt.CORPORA
    ]

    path, numbers = wmt._learned(calls, corpora, 300)
    before = path.stat().st_mtime_ns
    again, _ = wmt._learned(calls, corpora, 300)
    other, _ = wmt._learned(calls, corpora[1:], 300)

    assert numbers == [120, 50, 40]
    assert (again, again.stat().st_mtime_ns) == (path, before)
    assert other != path


def damaged(source: Path, change: str) -> Path:
    """A copy with one thing wrong."""
    copies.write_archives(source) if "archive" in change else copies.write_plain(source)
    english = source / "commoncrawl.de-en.en"
    archive = source / wmt.CORPORA["commoncrawl.de-en"]
    match change:
        case "missing":
            english.unlink()
        case "not text":
            english.write_bytes(b"\xff\xfe\n")
        case "a line too few":
            english.write_bytes(english.read_bytes().split(b"\n", 1)[1])
        case "cut gz":
            english.with_suffix(".en.gz").write_bytes(gzip.compress(english.read_bytes())[:-20])
            english.unlink()
        case "cut archive":
            archive.write_bytes(archive.read_bytes()[:-100])
        case "archive of something else":
            archive.write_bytes((source / "dev.tgz").read_bytes())
        case "no test":
            (source / "newstest2014.de").unlink()
        case "a reference too few":
            path = source / "newstest2014.de"
            path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    return source


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "missing",
            r"has neither commoncrawl\.de-en\.en, nor commoncrawl\.de-en\.en\.gz, nor training-parallel-common",
        ),
        ("not text", r"commoncrawl\.de-en\.en is damaged: .*utf-8"),
        ("a line too few", r"commoncrawl\.de-en\.en: 49 lines, but .*commoncrawl\.de-en\.de: 50"),
        ("cut gz", r"commoncrawl\.de-en\.en\.gz is damaged"),
        ("cut archive", r"commoncrawl\.tgz: commoncrawl\.de-en\.\w\w is damaged"),
        ("archive of something else", r"commoncrawl\.tgz: contains no file commoncrawl\.de-en\.en"),
        ("no test", "has no newstest2014-deen-src.en.sgm and newstest2014-deen-ref.de.sgm"),
        ("a reference too few", r"newstest2014\.en: 13 sentences; .*newstest2014\.de: 12"),
    ],
)
def test_what_is_wrong_is_one_sentence(change: str, message: str, tmp_path: Path) -> None:
    """It names the file."""
    (tmp_path / "made").mkdir()
    with pytest.raises(DataError, match=message) as caught:
        wmt.prepare(tmp_path / "made", damaged(tmp_path / "source", change))

    assert "\n" not in str(caught.value)


def test_without_a_source_the_files_are_named(tmp_path: Path) -> None:
    """They are downloaded by hand: three gigabytes from a slow server."""
    with pytest.raises(DataError, match=r"training-parallel-europarl-v7\.tgz, .* from www\.statmt\.org"):
        wmt.prepare(tmp_path, None)


def test_prepared_files_that_are_missing_or_of_something_else_are_named(tmp_path: Path) -> None:
    """One sentence each."""
    with pytest.raises(DataError, match=r"tokenizer\.json is missing"):
        wmt.read_tokenizer(tmp_path)
    with pytest.raises(DataError, match=r"train_lengths\.npy is missing or damaged"):
        wmt.read_lengths(tmp_path)
    np.save(tmp_path / "train_lengths.npy", np.zeros((3, 2)))
    with pytest.raises(DataError, match=r"expected \(N, 2\) uint8, found float64 of shape \(3, 2\)"):
        wmt.read_lengths(tmp_path)


def test_the_baseline_is_the_source_itself(data_dir: Path) -> None:
    """Of English and German words only names, numbers and "& so on" are the same."""
    found = WORKLOAD.baselines("full", data_dir, data_dir)

    assert found.keys() == {"copy_source"}
    assert 10 < found["copy_source"] < 60
