"""The checkpoints of one run: written by the ranks, completed by the referee, used by a later `tta run --resume`.

    checkpoints/run_<index>/unfinished/rank_<r>/…       while the ranks write; what a crash leaves of it is nothing
    checkpoints/run_<index>/checkpoint_<number>/…       complete: renamed, with a manifest that has every file's digest

The log has the digest of the manifest, so that it and the files cannot be exchanged for others. A checkpoint counts
only with its line in the log; the one before it is deleted when the next one begins, once the log is on the disk.
Ranks need nothing in common but a file system.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base import strict_json
from harness.base.files import sha256_of, small_file, sync_folder
from harness.errors import OutputError, SubmissionError, printable
from harness.submission.layout import CHECKPOINTS

MANIFEST = "manifest.json"
_UNFINISHED = "unfinished"
_MAX_MANIFEST_BYTES = 64 << 20  # 10,000 ranks with some files each


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where one run has its checkpoints. every_s: seconds from the end of one to the next; None: no more of them."""

    folder: Path
    every_s: float | None

    @classmethod
    def of_run(cls, result: Path, index: int, every_s: float | None) -> Checkpoints:
        """Return those of run number `index` of a result."""
        return cls(result / CHECKPOINTS / f"run_{index}", every_s)

    def place(self, number: int) -> Path:
        """Return the folder of a complete checkpoint."""
        return self.folder / f"checkpoint_{number}"

    def clear(self) -> None:
        """Make the empty folder of a run that begins.

        Raises:
            OutputError: it cannot be made.
        """
        try:
            if self.folder.exists():
                shutil.rmtree(self.folder)
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be made empty: {error.strerror}") from None

    def begin(self, last: int | None) -> Path:
        """Delete all folders but the checkpoint `last`, and return the folder that the ranks write to, which is absent.

        Raises:
            OSError: something cannot be deleted.
        """
        for path in self.folder.iterdir():
            if path.is_dir() and (last is None or path != self.place(last)):
                shutil.rmtree(path)
        return self.folder / _UNFINISHED

    def complete(self, number: int, manifest: Mapping[str, Any]) -> str:
        """Make what the ranks wrote the checkpoint `number`; return the digest of its manifest.

        Raises:
            OSError: the disk is full, or the folder is gone.
        """
        text = json.dumps(manifest, indent=1, sort_keys=True).encode()
        unfinished = self.folder / _UNFINISHED
        with (unfinished / MANIFEST).open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(unfinished)
        unfinished.rename(self.place(number))
        sync_folder(self.folder)
        return hashlib.sha256(text).hexdigest()

    def manifest(self, number: int, digest: str) -> dict[str, Any]:
        """Return the manifest of a complete checkpoint, every file of which is as it was written.

        Raises:
            OutputError: a file is missing or was changed.
        """
        place = self.place(number)
        try:
            text = small_file(place / MANIFEST, _MAX_MANIFEST_BYTES)
            if hashlib.sha256(text).hexdigest() != digest:
                raise self._damaged(place / MANIFEST)
            manifest: dict[str, Any] = strict_json.loads(text)
            for name, facts in manifest["files"].items():
                if sha256_of(place / name) != facts["sha256"]:
                    raise self._damaged(place / name)
        except (OSError, SubmissionError) as error:
            raise OutputError(f"{printable(error)}; {self._choice}") from None
        return manifest

    def _damaged(self, path: Path) -> OutputError:
        return OutputError(f"{path}: is not what the log of the run says; {self._choice}")

    @property
    def _choice(self) -> str:
        return f"delete {self.folder} to begin the run again"

    def discard(self) -> None:
        """Delete all checkpoints of the run, which is over."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # the folder of another run is still there
            self.folder.parent.rmdir()


def failed_words(reasons: Sequence[str]) -> str:
    """`a checkpoint could not be written: No space left on device`; reasons: that of each that failed, at least one."""
    if len(reasons) == 1:
        return f"a checkpoint could not be written: {reasons[0]}"
    return f"{len(reasons)} checkpoints could not be written, the last: {reasons[-1]}"
