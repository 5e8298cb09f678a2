"""The checks for a machine with an accelerator: every step is bounded, reported, and no reason to stop."""

from __future__ import annotations

import importlib.util
import json
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from harness.base.processes import children
from harness.commands import run
from harness.commands._arguments import Parser
from harness.ruleset import catalog, load
from harness.run import workloads

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
LOG = ROOT / "submissions/reference/results/two-core-cloud-vm/image_classification_mini/result_0.txt"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("gpu_checks", ROOT / "scripts" / "gpu_checks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_checks", module)
    spec.loader.exec_module(module)
    return module


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_whatever_becomes_of_a_step_the_next_is_done(checks: Any, tmp_path: Path) -> None:
    """One that fails, one that cannot be started, three that lack something, and one that passes."""
    steps = [
        checks.Step("fails", python("print('why'); exit(3)"), 60),
        checks.Step("is not there", [str(tmp_path / "nothing")], 60),
        checks.Step("has no data", python(""), 60, source=tmp_path / "missing.tar"),
        checks.Step("was given no data", python(""), 60, source=""),
        checks.Step("has no package", python(""), 60, needs=("json", "no_such_package")),
        checks.Step("has no device", python(""), 60, needs_cuda=True),
        checks.Step("passes", python("print('one'); print('well | good')"), 60),
    ]

    found = checks.do_all(steps, tmp_path, {"accelerator": "none"}, no_cuda="torch finds no CUDA device")

    assert found[0].verdict == "failed: exit status 3"
    assert found[1].verdict.startswith("failed: ")
    assert [step.verdict for step in found[2:6]] == [
        f"skipped: {tmp_path / 'missing.tar'} is not there",
        "skipped: --data was not given",
        "skipped: no_such_package: not installed",
        "skipped: torch finds no CUDA device",
    ]
    assert found[6].verdict == "passed"
    page = json.loads((tmp_path / "gpu_checks.json").read_text())
    assert [step["name"] for step in page["steps"]] == [step.name for step in steps]
    text = (tmp_path / "gpu_checks.md").read_text()
    assert "| fails | failed: exit status 3 |" in text
    assert "| passes | passed |" in text
    assert "| well / good |" in text
    assert "- accelerator: none" in text


def test_step_is_ended_at_its_limit_with_all_that_it_started(checks: Any, tmp_path: Path) -> None:
    """What it wrote is kept; its child, too, is gone, even in a session of its own."""
    code = (
        "import subprocess, time; subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        "print('begun', flush=True); time.sleep(60)"
    )
    before = children()

    found = checks.do(checks.Step("long", python(code), 60), 1.5, tmp_path)

    assert found.verdict.startswith("unfinished: ")
    assert found.tail.startswith("begun")
    assert (tmp_path / "long.txt").read_text().startswith("begun")
    assert children() <= before


def test_no_step_begins_after_the_budget_and_another_call_goes_on(checks: Any, tmp_path: Path) -> None:
    """A step that is cut by the call's end, or not begun, is done by the next call; what was done is not done again."""
    times = iter([0.0, 0.0, 1493.0, 1500.0])
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    steps = [
        checks.Step("a", python(count), 60),
        checks.Step("b", python("import time; time.sleep(3)"), 60),
        checks.Step("c", python(""), 60),
    ]

    found = checks.do_all(steps, tmp_path, {}, clock=lambda: next(times))
    again = checks.do_all(steps, tmp_path, {})

    assert [step.verdict for step in found] == [
        "passed",
        "not done: only 2 s of the call were left",
        "not done: no time left",
    ]
    assert [step.verdict for step in again] == ["passed"] * 3
    assert (tmp_path / "count").read_text() == "x"
    assert len(json.loads((tmp_path / "gpu_checks.json").read_text())["steps"]) == 3


def test_interrupt_ends_the_step_and_leaves_the_page(checks: Any, tmp_path: Path) -> None:
    """As when the machine's time is over: the steps before are on the page, and this one is not done."""
    kill = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(60)"
    steps = [checks.Step(name, python(code), 60) for name, code in (("a", ""), ("b", kill), ("c", ""))]
    begin = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        checks.do_all(steps, tmp_path, {})

    page = json.loads((tmp_path / "gpu_checks.json").read_text())
    verdicts = [step["verdict"] for step in page["steps"]]
    assert verdicts == ["passed", "not done: interrupted", "not done: not reached"]
    assert time.monotonic() - begin < 30


def test_archive_is_unpacked_whole_or_not_at_all(checks: Any, tmp_path: Path) -> None:
    """A damaged one fails the step; a good one is there for the next call."""
    (tmp_path / "image.txt").write_text("an image")
    good, damaged = tmp_path / "good.tar", tmp_path / "damaged.tar"
    with tarfile.open(good, "w") as archive:
        archive.add(tmp_path / "image.txt", "image.txt")
    damaged.write_bytes(b"no archive")
    folder = tmp_path / "sources" / "images"
    read = python(f"print(open({str(folder / 'image.txt')!r}).read())")

    found = [
        checks.do(checks.Step("a step", read, 60, source=archive, unpacked=folder), 60, tmp_path)
        for archive in (damaged, good)
    ]

    assert [step.verdict for step in found] == ["failed: exit status 1", "passed"]
    assert found[1].line == "an image"
    assert not folder.with_suffix(".part").exists()


@pytest.mark.parametrize("is_small", [False, True])
def test_limits_of_the_steps_are_within_the_budget(checks: Any, tmp_path: Path, is_small: bool) -> None:
    """25 minutes for all; every workload has a run, and no two steps have one folder."""
    steps = checks.steps_of(tmp_path, tmp_path, is_small)

    assert sum(step.limit_s for step in steps) + checks.CLOSING_S <= checks.BUDGET_S
    assert len({step.name for step in steps}) == len(steps)
    assert {"image_classification", *checks.OTHERS} <= {step.name for step in steps}
    assert all(("cuda_graphs=true" in step.command) <= (not is_small) for step in steps)
    if not is_small:
        assert {"precision tf32", "precision fp16", "compiled"} <= {step.name for step in steps}


def test_run_is_described_by_its_log(checks: Any) -> None:
    """Status, time, the curve, and samples a second of training."""
    facts = checks.of_log(LOG)

    assert facts["status"] == "success"
    assert facts["qualities"][-1] >= 0.92
    assert facts["reason"] == "target"
    assert 0 < facts["train_s"] < facts["run_s"]
    assert facts["samples_per_s"] == pytest.approx(facts["samples"] / facts["train_s"], rel=1e-3)


def test_log_of_a_run_that_was_killed_at_once_is_no_obstacle(checks: Any, tmp_path: Path) -> None:
    """It has no line yet."""
    (tmp_path / "result_0.txt").touch()
    step = checks.Step("a run", python(""), 60, out=tmp_path)

    found = checks.do(step, 60, tmp_path)

    assert found.facts[0]["status"].startswith("cannot be read: ")
    assert "cannot be read" in checks.as_markdown([found], {})


@pytest.mark.parametrize("is_small", [False, True])
def test_runs_are_ones_that_tta_makes(checks: Any, tmp_path: Path, is_small: bool) -> None:
    """Options of `tta run`, precisions of the rules, execution options of the suite: no step fails before it begins."""
    parser = Parser(prog="tta run")
    run.add_arguments(parser)
    ruleset = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")

    for step in checks.steps_of(tmp_path, tmp_path, is_small):
        if step.out is None:
            continue
        assert step.command[1:4] == ["-m", "harness.cli", "run"]
        given = parser.parse_args(step.command[4:])
        rules = ruleset.benchmark(given.workload, given.suite)
        assert given.precision is None or given.precision in rules.precisions
        offered = workloads.workload(given.workload).execution[given.suite]
        assert {option.partition("=")[0] for option in given.execution} <= set(offered)
