"""docs/reports/tampering.md says which result each column is of."""

from __future__ import annotations

from pathlib import Path

from tests.rules import tamper


def test_two_results_of_one_submitter_and_benchmark_have_two_titles(tmp_path: Path) -> None:
    """Submitter, system and benchmark, wherever the round lies."""
    first, second = (tmp_path / "round" / "Krai" / "results" / system / "llama2_70b_lora" for system in ("n1", "n2"))

    assert tamper.named(first) == "Krai, n1, llama2_70b_lora"
    assert tamper.named(second) == "Krai, n2, llama2_70b_lora"
