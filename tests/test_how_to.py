"""What a how-to guide shows works: its module of the open division is run as printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.base import typed_yaml
from harness.base.files import sha256_of
from harness.base.processes import SOURCE_ROOT
from harness.cli import main
from harness.log import run_log
from harness.ruleset import catalog
from harness.run import workloads
from harness.submission import module as open_module

PAGE = (Path(__file__).parents[1] / "docs/how-to/bring-your-own-module.md").read_text()


def example() -> tuple[str, list[str]]:
    """The module and the arguments of the command below it."""
    [text] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [command] = re.findall(r"```bash\ntta (.*?)\n```", PAGE, re.DOTALL)
    return text, shlex.split(command)


def easy_rules(folder: Path) -> Path:
    """The rules of v1 for one workload, with a target that a few seconds of training reach."""
    folder.mkdir()
    source = catalog.ruleset_folder("v1")
    for name in ("ruleset.yaml", "prices.yaml"):
        (folder / name).write_text((source / name).read_text())
    content = typed_yaml.load_yaml(source / "image_classification.yaml")
    del content["suites"]["standard"]
    content["suites"]["mini"].update(
        target=0.2,
        eval_every_samples=5120,
        num_runs=1,
        open_runs=1,
        drop=0,
        reference_convergence=[],
        untrained_limit=0.15,
        confirm_evaluations=0,
    )
    (folder / "image_classification.yaml").write_text(yaml.safe_dump(content))
    return folder


def test_module_of_the_guide_is_one(tmp_path: Path) -> None:
    """Its text defines two parts."""
    text, arguments = example()
    path = tmp_path / arguments[arguments.index("--module") + 1]
    path.write_text(text)

    module, _ = open_module.read_module(path, "image_classification", workloads.workload("image_classification").parts)

    assert module.parts == ("build_optimizer", "learning_rate")


def test_reimplementation_of_the_guide_is_one_that_is_measured() -> None:
    """It is a module of the closed division, and a test says that it is equivalent."""
    guide = (SOURCE_ROOT / "docs/how-to/bring-a-reimplementation.md").read_text()
    measured = SOURCE_ROOT / "tests/equivalents/image_classification/one_kernel.py"
    parts = workloads.workload("image_classification").parts

    module, text = open_module.read_module(
        measured, "image_classification", open_module.permitted_parts("closed", parts)
    )

    assert module.parts == ("build_optimizer",)
    assert f"```python\n{text.decode()}```" in guide


@pytest.mark.slow
def test_module_of_the_guide_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real run gives a valid result, apart from a system description that is not filled in."""
    text, arguments = example()
    monkeypatch.chdir(tmp_path)
    (tmp_path / arguments[arguments.index("--module") + 1]).write_text(text)
    rules = str(easy_rules(tmp_path / "easy"))

    # In a process of its own: what other tests have loaded into this one would be in the log.
    command = [sys.executable, "-m", "harness.cli", *arguments, "--ruleset", rules, "--no-mlflow", "--quiet"]
    environment = {**os.environ, "TTA_DATA": str(tmp_path / "data"), "PYTHONPATH": str(SOURCE_ROOT)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

    log = run_log.read(tmp_path / "mine" / "result_0.txt")
    module = log.field("tta_resolved", "module")
    assert module["parts"] == ["build_optimizer", "learning_rate"]
    assert sha256_of(tmp_path / "mine" / "code" / "adamw.py") == module["sha256"]
    capsys.readouterr()
    main(["check", "mine", "--ruleset", rules, "--format", "json"])
    [judged] = json.loads(capsys.readouterr().out)["results"]
    assert {finding["code"] for finding in judged["findings"]} <= {"SYS003", "SYS008", "IDN002", "IDN007"}, judged[
        "findings"
    ]
