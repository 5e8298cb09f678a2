"""Where MLPerf has a result and its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.submission import layout


@pytest.mark.parametrize(
    ("folder", "is_place", "system"),
    [
        ("/r/acme/results/box/bert", True, "/r/acme/systems/box.json"),
        ("/results/box/bert", True, "/systems/box.json"),
        *(
            (folder, False, None)
            for folder in ("/", "/results", "/results/bert", "/r/results/bert", "/r/acme/box/bert")
        ),
        *((folder, False, None) for folder in ("/r/results/a/b/c", "/r/acme/results/box/bert/run")),
    ],
)
def test_a_result_is_two_folders_below_results(folder: str, is_place: bool, system: str | None) -> None:
    """There, systems/<system>.json belongs to results/<system>/<benchmark>; elsewhere there is none."""
    assert layout.is_result_place(Path(folder)) is is_place
    assert layout.system_file(Path(folder)) == (None if system is None else Path(system))


def test_logs_are_in_the_order_of_their_numbers() -> None:
    """The order is natural; other files, and files in folders, are not logs: MLPerf's programs do not search those."""
    names = ["result_10.txt", "result_2.txt", "result_b1.txt", "result_a2.txt", "result_a10.txt", "result_2a.txt"]
    others = ["result_.txt", "result_1.log", "xresult_1.txt", "result_4/log.txt", "result_\n.txt"]

    assert layout.log_names([*others, *names, "power/result_0/node_0.txt"]) == [
        *("result_2.txt", "result_2a.txt", "result_10.txt", "result_a2.txt", "result_a10.txt", "result_b1.txt")
    ]


@pytest.mark.parametrize(
    ("beside", "with_results", "is_one"),
    [
        ("systems", "", True),
        ("benchmarks", "", True),
        ("src", "", False),
        ("src", "results", True),
        ("src", "results/box", False),
    ],
)
def test_a_submitter_has_systems_or_benchmarks_or_other_results(
    tmp_path: Path, beside: str, with_results: str, is_one: bool
) -> None:
    """Next to results/, or in it; a program's own folder called results has none of these."""
    (tmp_path / beside).mkdir()

    assert layout.is_submitted(tmp_path / "results/box/bert", {tmp_path / with_results}) is is_one
