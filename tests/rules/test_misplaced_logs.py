"""Logs that nobody reads: of another name, packed, or in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.roundbox import RoundBox

NAMED, FOLDED = "a log with this name is not read; it must be", "a log in a subfolder of the result is not read"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("result_10.txt.bak", NAMED),
        ("result_10.txt.gz", NAMED),
        ("old_result_3.txt", NAMED),
        ("a100_1.log", NAMED),
        ("failed/result_0.txt", FOLDED),
        ("failed/2024/result_0.txt.gz", FOLDED),
        ("failed/power/result_0.txt", FOLDED),
        ("power/result_0/node_0.txt", None),
        ("power/result_0.txt", None),
        ("failed/driver.log", None),
        ("compliance_result.out", None),
        ("README.md", None),
    ],
)
def test_a_log_that_is_not_read_is_a_note(name: str, words: str | None, tmp_path: Path) -> None:
    """MLR002 at the file; a folder of failed runs may be honest, so it is no more than a note."""
    box = RoundBox(tmp_path)
    box.write()
    box.put(name, "a run\n")
    found = [item for item in box.judge() if item.code == "MLR002"]

    assert [(Path(item.path), item.severity.value) for item in found] == (
        [(box.folder / name, "note")] if words else []
    )
    assert all(words in item.message for item in found if words)
