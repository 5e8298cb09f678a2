"""Attacks on what runs: an edited workload or package, a program of the attacker's in the referee. Each is named.

Real runs of the toy workload, by an interpreter whose site-packages has a small optimizer of its own.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness.checker import engine, registry
from harness.findings import Finding
from harness.run.identity import identify
from harness.submission.result import read_result
from tests import fabricate
from tests.harness.run.test_identity import site
from tests.killing import toy_tree

pytestmark = pytest.mark.slow
PROCESSES = ("referee", "worker", "evaluator")
OPTIMIZER = "def step(weight):\n    return weight - 0.1\n"
SEVERITIES = {"IDN002": "warning", "IDN004": "error", "IDN005": "error", "IDN006": "warning"}


class Attacked:
    """A source tree, an installation next to it, and the runs that are made there."""

    def __init__(self, place: Path) -> None:
        self.tree = toy_tree(place / "tree")
        self.workload = self.tree / "workloads" / "toy" / "__init__.py"
        self.workload.write_text(f"import toyoptim\n{self.workload.read_text()}")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
        [self.site] = (place / "venv").glob("lib/python*/site-packages")
        site(self.site, {"toyoptim.py": OPTIMIZER}, "toyoptim-1.0")
        (self.site / "all.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.python = place / "venv" / "bin" / "python"
        self.released = identify(self.tree).code
        self.evil = place / "evil"
        self.evil.mkdir()

    def findings(self, **environment: str) -> list[Finding]:
        """Make a run that spends its budget, and judge it."""
        command = ["run", "toy", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--no-mlflow", "--quiet"]
        done = subprocess.run(
            [self.python, "-m", "harness.cli", *command],
            cwd=self.tree,
            env={"PATH": "/bin:/usr/bin", "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        ruleset = fabricate.ruleset(SEVERITIES, releases={"0.1.0": self.released})
        return engine.judge(
            read_result(self.tree / "out"), ruleset, registry.checks(SEVERITIES).values(), date(2026, 12, 1)
        )

    def loaded(self, process: str) -> Any:
        [log] = read_result(self.tree / "out").runs
        return log.field("tta_loaded", process)


@pytest.fixture
def attacked(tmp_path: Path) -> Attacked:
    return Attacked(tmp_path)


def test_released_code_with_packages_as_installed_has_no_findings(attacked: Attacked) -> None:
    """The measure of the others: everything that referee and worker load is accounted for."""
    assert attacked.findings() == []
    assert attacked.loaded("worker")["num_files"] > attacked.loaded("referee")["num_files"] > 100


def test_edited_workload_is_named(attacked: Attacked) -> None:
    """Its quality was raised after the release."""
    text = attacked.workload.read_text()
    assert text.count("lambda: 0.5") == 1
    attacked.workload.write_text(text.replace("lambda: 0.5", "lambda: 0.6"))

    [finding] = attacked.findings()

    assert finding.code == "IDN002"
    assert finding.message == (
        "unreleased code, outside a checkout: differs from release 0.1.0: changed: workloads/toy/__init__.py"
    )


def test_edited_file_of_a_package_is_named(attacked: Attacked) -> None:
    """An optimizer in site-packages, as it could be torch/optim/sgd.py. Its RECORD has another digest.

    Every process imports the workload, and so this one's optimizer.
    """
    optimizer = attacked.site / "toyoptim.py"
    optimizer.write_text(OPTIMIZER.replace("0.1", "0.9"))

    findings = attacked.findings()

    what = f"had loaded 1 file not as the list of the code or of their package has them: {optimizer}"
    assert [finding.message for finding in findings] == [f"the {process} {what}" for process in PROCESSES]
    assert {finding.code for finding in findings} == {"IDN006"}


def test_program_that_python_starts_in_the_referee_is_named(attacked: Attacked) -> None:
    """A sitecustomize.py on PYTHONPATH; the worker is started without it."""
    (attacked.evil / "sitecustomize.py").write_text("import builtins\n")

    [finding] = attacked.findings(PYTHONPATH=str(attacked.evil))

    assert finding.code == "IDN006"
    assert finding.message == (
        "the referee had loaded 1 file from elsewhere than the code, its packages and Python: "
        f"{attacked.evil / 'sitecustomize.py'}"
    )
    assert attacked.loaded("worker")["num_outside"] == 0


def test_file_that_was_put_into_the_code_is_named(attacked: Attacked) -> None:
    """Next to the workload, and imported by it."""
    (attacked.workload.parent / "cached.py").write_text("WEIGHTS = [0.5]\n")
    attacked.workload.write_text(f"from workloads.toy import cached\n{attacked.workload.read_text()}")

    [finding] = attacked.findings()

    assert finding.message.endswith("changed: workloads/toy/__init__.py; added: workloads/toy/cached.py")


def test_run_with_code_that_was_edited_since_the_first_is_refused(attacked: Attacked) -> None:
    """--resume compares before a run is made."""
    attacked.findings()
    attacked.workload.write_text(attacked.workload.read_text() + "\n")
    command = ["run", "toy", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--no-mlflow", "--quiet"]

    done = subprocess.run(
        [attacked.python, "-m", "harness.cli", *command, "--resume", "--runs", "2"],
        cwd=attacked.tree,
        env={"PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "tta_code.digest is" in done.stderr
    assert not (attacked.tree / "out" / "result_1.txt").exists()
