"""`tta run --all` with real worker processes: one benchmark after the other, even if one fails."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.killing import Running, has_event, toy_tree, until

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts `tta run --all` over three toys: one crashes, one cannot be prepared, one reaches its target."""
    tree = toy_tree(tmp_path)
    rules = (tree / "toy_rules" / "toy.yaml").read_text()
    code = (tree / "workloads" / "toy" / "__init__.py").read_text()
    (tree / "toy_rules" / "toy.yaml").unlink()
    shutil.rmtree(tree / "workloads" / "toy")
    for name, fault, target in (("crash", "train:error", "0.9"), ("nodata", "none", "0.9"), ("well", "none", "0.5")):
        text = rules.replace("workload: toy", f"workload: {name}").replace("default: none", f"default: '{fault}'")
        text += "    baselines: {chance: 0.1, look_up: 0.25}\n"
        (tree / "toy_rules" / f"{name}.yaml").write_text(text.replace("target: 0.9", f"target: {target}"))
        (tree / "workloads" / name).mkdir()
        own = code.replace('name = "toy"', f'name = "{name}"')
        if name == "nodata":
            own = own.replace('(Path(data_dir) / "metadata.json").write_text("{}")', 'raise DataError("no network")')
        (tree / "workloads" / name / "__init__.py").write_text(own)
    started: list[Running] = []

    def begin(*arguments: str) -> Running:
        command = ["run", "--all", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--no-mlflow"]
        started.append(Running([*command, "--seed", "1", *arguments], tree))
        return started[-1]

    yield begin
    for running in started:
        running.end()


def ended(running: Running) -> tuple[int, str, str]:
    shown, errors = running.process.communicate(timeout=120)
    return running.process.returncode, shown, errors


def test_every_benchmark_is_run_and_has_its_row(start: Callable[..., Running], tmp_path: Path) -> None:
    """One crashed, one has no data, one succeeds: three rows at the end, on standard output, and the worst status."""
    status, shown, errors = ended(start("--runs", "2"))

    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert status == 2
    assert rows[0].startswith("benchmark target reached quality")
    assert rows[1] == "crash_mini accuracy >= 0.9 0/2 - - - not measured - 0.25 look_up not measured"
    assert rows[2] == "nodata_mini accuracy >= 0.9 - - - - not measured - 0.25 look_up not measured"
    assert rows[3].startswith("well_mini accuracy >= 0.5 2/2 0.5 100 ")
    assert "tta: nodata_mini: no network" in errors
    assert "Traceback" not in errors
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["crash_mini", "well_mini"]


def test_interrupt_ends_everything_and_resume_continues(start: Callable[..., Running], tmp_path: Path) -> None:
    """Status 130, no rows, no other benchmark; then only what is missing is run, and there are rows for all."""
    running = start("--runs", "1")
    assert until(lambda: has_event(tmp_path / "out" / "crash_mini" / "result_0.txt", "init_start"))
    running.process.send_signal(signal.SIGINT)
    status, shown, _ = ended(running)
    assert (status, shown) == (130, "")
    assert not (tmp_path / "out" / "well_mini").exists()

    status, shown, errors = ended(start("--runs", "1", "--resume"))
    assert (status, "well_mini" in shown) == (2, True), errors
    well = (tmp_path / "out" / "well_mini" / "result_0.txt").read_bytes()

    status, again, errors = ended(start("--runs", "1", "--resume"))
    assert (status, again) == (2, shown)
    assert "no run is missing" in errors
    assert (tmp_path / "out" / "well_mini" / "result_0.txt").read_bytes() == well
