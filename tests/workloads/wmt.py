"""A small copy of WMT17's corpora in the layouts of statmt.org: 3 corpora of 210 pairs, 13 test sentences."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np

from workloads.translation import wmt

NUM_PAIRS = {"europarl-v7.de-en": 120, "commoncrawl.de-en": 50, "news-commentary-v12.de-en": 40}
NUM_TEST = 13
EMPTY, LONG = 7, 11  # lines of the first corpus without English, and with too much German
WORDS = {
    "en": [
        "the",
        "house",
        "is",
        "green",
        "and",
        "old",
        "but",
        "nobody's",
        "dog",
        "sleeps",
        "under",
        "a",
        "tree",
        "near",
        "our",
        "river",
    ],
    "de": [
        "das",
        "Haus",
        "ist",
        "grün",
        "und",
        "alt",
        "aber",
        "niemandes",
        "Hund",
        "schläft",
        "unter",
        "einem",
        "Baum",
        "nah",
        "unserem",
        "Fluß",
    ],
}
Files = dict[str, bytes]


def sentences(language: str, num: int, seed: int) -> list[str]:
    """Pairs have the same words in the same order."""
    random = np.random.RandomState(seed)
    lines = []
    for _ in range(num):
        chosen = random.randint(0, len(WORDS[language]), random.randint(1, 12))
        lines.append(" ".join(WORDS[language][i] for i in chosen) + " & so </s> on.")
    return lines


def corpora() -> Files:
    """Lines end as on statmt.org, one with a carriage return; U+0085 and U+2028 end no line."""
    files = {}
    for seed, (stem, num) in enumerate(NUM_PAIRS.items()):
        for language in wmt.LANGUAGES:
            lines = sentences(language, num, seed)
            lines[3] += "\r"
            lines[5] += " a\u0085b\u2028c"
            if seed == 0 and language == "en":
                lines[EMPTY] = " "
            if seed == 0 and language == "de":
                lines[LONG] = "sehr " * 300
            files[f"{stem}.{language}"] = "".join(f"{line}\n" for line in lines).encode()
    return files


def references() -> list[str]:
    return sentences("de", NUM_TEST, 9)


def tests(is_sgm: bool) -> Files:
    """SGML as statmt.org has it, or plain text."""
    files = {}
    for names, language in zip(zip(*wmt.TEST_STEMS, strict=True), wmt.LANGUAGES, strict=True):
        lines = sentences(language, NUM_TEST, 9)
        if is_sgm:
            segments = "".join(f'<seg id="{n}">{_escaped(line)}</seg>\n' for n, line in enumerate(lines, 1))
            head = (
                f'<srcset setid="newstest2014" srclang="any">\n<doc sysid="ref" docid="x" origlang="{language}">\n<p>\n'
            )
            files[names[0]] = f"{head}{segments}</p>\n</doc>\n</srcset>\n".encode()
        else:
            files[names[1]] = "".join(f"{line}\n" for line in lines).encode()
    return files


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;")


def write_plain(source: Path) -> Path:
    for name, content in (corpora() | tests(is_sgm=False)).items():
        _write(source / name, content)
    return source


def write_compressed(source: Path) -> Path:
    """In the folders of the archives, as they come out of them, and packed again."""
    for name, content in corpora().items():
        _write(source / "training" / f"{name}.gz", gzip.compress(content))
    for name, content in tests(is_sgm=True).items():
        _write(source / "dev" / name, content)
    return source


def write_archives(source: Path) -> Path:
    """The files that one downloads."""
    files = corpora()
    for stem, archive in wmt.CORPORA.items():
        members = {f"training/{name}": content for name, content in files.items() if name.startswith(stem)}
        _write(source / archive, _tgz({"training/other.de-en.en": b"x\n", **members}))
    _write(source / "dev.tgz", _tgz({f"dev/{name}": content for name, content in tests(is_sgm=True).items()}))
    return source


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _tgz(files: Files) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
