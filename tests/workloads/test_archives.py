"""Downloads, and archives that unpack to far more than they hold: refused in one sentence, in bounded memory."""

from __future__ import annotations

import gzip
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.base.files import sha256_of
from harness.errors import DataError
from workloads.detection import voc
from workloads.image_classification import cifar10
from workloads.recommendation import movielens
from workloads.translation import multi30k

ZEROS = gzip.compress(bytes(10_000_000))  # 10 kB; any number of these concatenated is one gzip file
LIMIT_BYTES = 300_000_000  # of memory


DOWNLOADS = [voc.download, cifar10.download, movielens.download, multi30k.download]
every_download = pytest.mark.parametrize("download", DOWNLOADS, ids=lambda function: function.__module__.split(".")[-1])


@every_download
def test_file_that_is_not_the_official_one_is_refused(tmp_path: Path, download: Callable[..., object]) -> None:
    """The digest is checked before anything is read, and the file is not kept."""
    served = tmp_path / "train.en.gz"
    served.write_bytes(b"another file")
    url = (tmp_path if download is multi30k.download else served).as_uri()

    with pytest.raises(DataError, match="it was not kept"):
        download(tmp_path / "downloads", url)
    assert list((tmp_path / "downloads").iterdir()) == []


def peak_of(read: Callable[[], object], message: str) -> int:
    """The most memory that Python held while `read` refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=message):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def gzipped_tar(path: Path, name: str, kind: bytes = tarfile.REGTYPE, num_zeros: int = 100) -> Path:
    """A header and the zeros that it announces, in whole blocks of 512: a gigabyte is a megabyte on disk."""
    info = tarfile.TarInfo(name)
    info.size, info.type = 10_000_000 * num_zeros, kind
    path.write_bytes(gzip.compress(info.tobuf()) + ZEROS * num_zeros)
    return path


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_the_tar_of_multi30k_is_bounded(tmp_path: Path, kind: bytes) -> None:
    """Whether the header declares the gigabyte a file, attributes or a name, which tarfile reads whole."""
    gzipped_tar(tmp_path / "training.tar.gz", "train.en", kind)

    peak = peak_of(lambda: multi30k.read(tmp_path), r"training\.tar\.gz: more than 100,000,000 bytes when unpacked")

    assert peak < LIMIT_BYTES


def test_the_bound_of_the_tar_is_above_the_real_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the allowed number of bytes is read; one more is refused."""
    path = tmp_path / "training.tar.gz"
    path.write_bytes(gzip.compress(bytes(10_240)))

    monkeypatch.setattr(multi30k, "MAX_ARCHIVE_BYTES", 10_240)
    with pytest.raises(DataError, match=r"contains no file train\.en"):
        multi30k.read(tmp_path)
    monkeypatch.setattr(multi30k, "MAX_ARCHIVE_BYTES", 10_239)
    with pytest.raises(DataError, match="more than 10,239 bytes when unpacked"):
        multi30k.read(tmp_path)


def test_the_packed_texts_of_multi30k_are_bounded(tmp_path: Path) -> None:
    """A text of a gigabyte is not one of Multi30k's."""
    (tmp_path / "train.en.gz").write_bytes(ZEROS * 100)

    assert peak_of(lambda: multi30k.read(tmp_path), r"train\.en\.gz: more than 20,000,000 bytes") < LIMIT_BYTES


def zeros_in_zip(path: Path, name: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as stream:
        for _ in range(60):
            stream.write(bytes(1_000_000))
    return path


def test_the_zip_of_movielens_is_bounded(tmp_path: Path) -> None:
    """60 MB of zeros in 60 kB, even with the expected digest."""
    served = zeros_in_zip(tmp_path / "served.zip", "ml-1m/users.dat")
    with zipfile.ZipFile(served, "a") as archive:
        for name in ("movies.dat", "ratings.dat"):
            archive.writestr(f"ml-1m/{name}", "1::1::5::978300760\n")

    peak = peak_of(
        lambda: movielens.download(tmp_path / "a", served.as_uri(), sha256_of(served)), "more than 50,000,000 bytes"
    )

    assert peak < LIMIT_BYTES


def test_the_zip_of_bccd_is_bounded(tmp_path: Path) -> None:
    """A list of 60 MB is refused at 64 KiB."""
    served = zeros_in_zip(tmp_path / "served.zip", f"{voc.IN_ARCHIVE}/ImageSets/Main/train.txt")

    peak = peak_of(lambda: voc.download(tmp_path / "a", served.as_uri(), sha256_of(served)), "more than 65,536 bytes")

    assert peak < 10_000_000


def test_the_tar_of_cifar10_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is read than a batch can hold, and nothing is unpickled, since its digest differs."""
    pytest.importorskip("torchvision.datasets")  # has the digests; imported first, so that its memory does not count
    monkeypatch.setattr(cifar10, "MAX_BYTES", 2_000_000)
    served = gzipped_tar(tmp_path / "served.tar.gz", "cifar-10-batches-py/data_batch_1", num_zeros=16)

    peak = peak_of(lambda: cifar10.download(tmp_path / "a", served.as_uri(), sha256_of(served)), "MD5 is")

    assert peak < 20_000_000
