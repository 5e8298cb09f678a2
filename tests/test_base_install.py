"""The base installation, from a wheel in a new environment, judges and shows results without a training library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.submission.claim import digest_lines
from harness.submission.provenance import code_files

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `tta` command of a new environment with the wheel of this checkout."""
    place = tmp_path_factory.mktemp("base")
    # Of a copy: building leaves files in the checkout, and two processes that build there destroy each other's.
    for package in ("harness", "rules", "workloads"):
        shutil.copytree(ROOT / package, place / "code" / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / "code")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", place / "wheels", place / "code")
    run(sys.executable, "-m", "venv", place / "venv")
    run(place / "venv/bin/python", "-m", "pip", "install", "--quiet", next((place / "wheels").glob("*.whl")))
    return place / "venv/bin/tta"


def run(*command: object, cwd: Path | None = None, status: int = 0) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_no_training_library_is_installed(tta: Path) -> None:
    """The wheel does not require one."""
    listed = run(tta.parent / "python", "-m", "pip", "list", "--format", "freeze").lower()

    for name in ("torch", "mlflow", "accelerate", "transformers", "scikit-learn"):
        assert f"\n{name}==" not in f"\n{listed}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", ROOT / "submissions"],
        ["score", ROOT / "submissions/reference/results"],
        ["explain", "--all"],
        ["doctor"],
        ["submit", "--help"],
        ["board", "build", ROOT / "submissions/reference/results", "--out", "site"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_verbs_that_judge_and_show_work(tta: Path, tmp_path: Path, arguments: list[object]) -> None:
    """Rules, checks, templates and styles are in the wheel, and no training library is needed."""
    output = run(tta, *arguments, cwd=tmp_path)

    assert "Traceback" not in output


def test_code_of_the_wheel_is_that_of_the_checkout(tta: Path, tmp_path: Path) -> None:
    """Every file of the code is packed, and nothing else, so that both have the digest of one release."""
    program = "from harness.run.identity import identify; print(identify().lists[0], end='')"

    listed = run(tta.parent / "python", "-P", "-c", program, cwd=tmp_path)

    assert listed == digest_lines(code_files(ROOT))


@pytest.mark.parametrize("verb", [["run", "image_classification"], ["sync", ROOT / "submissions/reference/results"]])
def test_verbs_that_train_name_what_is_missing(tta: Path, tmp_path: Path, verb: list[object]) -> None:
    """One sentence that names the library and the extra, exit status 2."""
    output = run(tta, *verb, cwd=tmp_path, status=2)

    assert "tta-harness[train]" in output
    assert "Traceback" not in output
