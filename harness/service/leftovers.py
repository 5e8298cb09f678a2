"""What processes that were killed have left in the service's folder: removed when nothing can need it any more."""

from __future__ import annotations

import shutil

from harness.service.instance import Instance
from harness.service.people import HOUR_MS


def remove(instance: Instance) -> None:
    """Remove what has been neither a file nor an upload nor a laid out result for as long as an upload may take.

    Left by a request that was killed before a file had its place, between an upload's row and its file, or by a check.
    """
    before_s = (instance.now_ms() - instance.settings.limits.upload_days * 24 * HOUR_MS) / 1000
    for folder in (instance.blobs.incoming, instance.uploads):
        for path in folder.iterdir():
            if path.lstat().st_mtime < before_s:
                path.unlink(missing_ok=True)
    for path in (instance.folder / "work").glob("*"):
        if path.lstat().st_mtime < before_s:
            shutil.rmtree(path, ignore_errors=True)
