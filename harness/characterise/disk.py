"""How fast a folder's disk is read: a file that is written there, taken out of the cache, and read again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.characterise.summaries import summary
from harness.errors import OutputError, printable

FILE_BYTES = 128 << 20
PIECE_BYTES = 4 << 20
NUM_READS = 3


def reading(folder: Path, num_bytes: int = FILE_BYTES) -> dict[str, Any]:
    """Time reading a file of random bytes in the folder.

    The system is asked to drop it from its cache (`posix_fadvise`), which no caches below it hear of: those of a
    virtual disk's host and of the disk itself.

    Raises:
        OutputError: the folder cannot be written.
    """
    seconds = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".tta-preflight-", dir=folder) as file:
            piece = os.urandom(PIECE_BYTES)  # a file system may compress, and a disk may leave out, what is regular
            for _ in range(num_bytes // PIECE_BYTES):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            fd = file.fileno()
            for _ in range(NUM_READS):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.lseek(fd, 0, os.SEEK_SET)
                begun = perf_counter()
                while os.read(fd, PIECE_BYTES):
                    pass
                seconds.append(perf_counter() - begun)
    except OSError as error:
        raise OutputError(f"{printable(folder, 1000)}: the disk cannot be measured there: {error.strerror}") from None
    times = summary(seconds)
    size = num_bytes // PIECE_BYTES * PIECE_BYTES
    rate = size / times.median
    return {"bytes": size, "bytes_per_s": rate, "median_s": times.median, "iqr_s": times.iqr, "num": times.num}
