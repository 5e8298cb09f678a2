"""What a run is refused for before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import UsageError
from harness.ruleset.model import ReferenceConvergence
from harness.run import workloads
from harness.run.benchmark import refuse_unreferenced
from tests.fabricate import benchmark_rules
from tests.rules_folder import write_ruleset


def test_batch_size_that_the_reference_does_not_cover_is_refused() -> None:
    """The smallest and the largest of the reference are permitted, except where only one run was made."""
    points = (ReferenceConvergence(100, (1000, 1100)), ReferenceConvergence(50, (900, 950)))
    rules = benchmark_rules(reference_convergence=(*points, ReferenceConvergence(200, (1500,))))

    for batch_size in (50, 75, 100):
        refuse_unreferenced(rules, batch_size)
    for batch_size in (49, 101, 200):
        with pytest.raises(UsageError, match=f"batch size {batch_size} is outside the reference's, 50 to 100"):
            refuse_unreferenced(rules, batch_size)


def test_rules_without_a_reference_permit_every_batch_size() -> None:
    """A suite whose reference runs are still to be made; points of one run each are a reference that says nothing."""
    refuse_unreferenced(benchmark_rules(reference_convergence=()), 1)

    alone = benchmark_rules(reference_convergence=(ReferenceConvergence(100, (1000,)),))
    with pytest.raises(UsageError, match="there are no reference convergence points, where the closed division has no"):
        refuse_unreferenced(alone, 100)


def test_checkpoints_are_refused_where_nothing_could_go_on_from_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before there is a folder, data or a process."""
    rules = write_ruleset(tmp_path / "rules")

    status = main(["run", "toy", "--ruleset", str(rules), "--checkpoint-every", "2.5", "--no-mlflow"])

    assert status == 2
    message = "--checkpoint-every 2.5: the rules of toy_mini do not permit that an interrupted run goes on"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--module", "fast.py"],
            "the closed division trains the workload unchanged; a module needs --division open, or",
        ),
        (
            ["--equivalent", "fast.py"],
            "the rules of toy_mini compare no steps (equivalence_steps), so that it takes no",
        ),
        (
            ["--division", "open", "--equivalent", "fast.py"],
            "in the open division a module need not be equivalent; use",
        ),
    ],
)
def test_module_that_the_division_or_the_rules_do_not_take_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    """Before it is read: there is no such file."""
    rules = write_ruleset(tmp_path / "rules")
    monkeypatch.setattr(workloads, "workload", lambda name: None)

    assert main(["run", "toy", "--ruleset", str(rules), "--no-mlflow", *arguments]) == 2

    assert message in capsys.readouterr().err


def test_minutes_are_a_number_of_at_least_zero(capsys: pytest.CaptureFixture[str]) -> None:
    """0 is a checkpoint between any two blocks."""
    assert main(["run", "toy", "--checkpoint-every", "-1"]) == 2
    assert "--checkpoint-every" in capsys.readouterr().err
