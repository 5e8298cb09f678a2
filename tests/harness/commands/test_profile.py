"""`tta profile`: a benchmark as it is, on one device and on two; what it writes, and what it refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from harness import cli
from harness.tracking.store import Store
from tests import fabricate

pytest.importorskip("torch")
NAME = "image_classification"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared data of one workload, made once for all tests (and for all processes of xdist)."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "mini_data"
    assert cli.main(["data", "prepare", NAME, "--data", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_profile_of_a_benchmark(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document, the text and the page agree; phases add up to the step; memory is that of the parameters."""
    folder = tmp_path / "profile"
    command = ["profile", NAME, "--data", str(cache), "--steps", "12", "--out", str(folder), "--quiet"]

    assert cli.main([*command, "--format", "json"]) == 0

    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert found == json.loads((folder / "profile.json").read_text())
    measured, derived = found["measured"], found["derived"]
    parameters = measured["network"]["fingerprint"]["num_parameters"]
    steps = measured["steps"]
    assert (found["benchmark"], found["num_devices"], steps["seconds"]["num"]) == (f"{NAME}_mini", 1, 12)
    assert sum(one["median"] for one in steps["phases"].values()) == pytest.approx(steps["seconds"]["median"], rel=0.2)
    assert all(one["median"] > 0 for one in steps["phases"].values())
    assert measured["network"]["memory"]["parameters"] == measured["network"]["memory"]["gradients"] == 4 * parameters
    assert derived["training_flops_per_step"] == 3 * measured["network"]["forward_flops"]
    assert derived["samples_per_s"] == pytest.approx(found["batch_size"] / derived["step_s"])
    assert measured["network"]["counted_on"] == ["meta"]
    assert {int(size) for size in found["memory_at"]} == {found["batch_size"] // 2, *_doubled(found["batch_size"])}
    assert found["largest_batch"]["batch_size"] > found["batch_size"]
    assert measured["evaluation"]["inference"]["median"] <= measured["evaluation"]["seconds"]["median"]
    assert measured["evaluation"]["num_examples"] == 5040
    text, page = (folder / "profile.txt").read_text(), (folder / "profile.html").read_text()
    assert f"{parameters:,}" in text
    assert f"{parameters:,}" in page
    assert page.count("<svg") > 4
    assert re.findall(r'(?:src|href)="(?!#)', page) == []  # nothing is fetched
    assert cli.main(command) == 2
    assert capsys.readouterr().err == f"tta: {folder / 'profile.json'}: exists already; choose another --out\n"


@pytest.mark.slow
def test_profile_reads_a_meter_while_it_trains(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model, by the watts that a description declares: more than idle, at most those of full load."""
    declared = {**fabricate.SYSTEM, "tta_idle_power_w": "60", "tta_max_power_w": "150"}
    (tmp_path / "system.json").write_text(json.dumps(declared))
    command = ["profile", NAME, "--data", str(cache), "--steps", "3", "--no-memory", "--format", "json"]

    assert cli.main([*command, "--meter", "estimate", "--system", str(tmp_path / "system.json")]) == 0

    printed = capsys.readouterr()
    found = json.loads(printed.out)
    power = found["power"]
    assert "power: estimate:node" in printed.err
    assert 60 < power["mean_w"] <= 150
    assert (power["class"], power["scope"], power["source"]) == ("E", "node (model)", "estimated")
    assert "sustained" not in found["measured"]


def _doubled(size: int) -> tuple[int, int]:
    return size, 2 * size


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
def test_two_devices_exchange_their_gradients_and_a_store_has_it(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes a step = bytes of the gradients, and MLflow has the profile once."""
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = ["profile", NAME, "--data", str(cache), "--devices", "2", "--batch", "64", "--steps", "3"]

    assert cli.main([*command, "--no-memory", "--mlflow", uri, "--format", "json", "--out", str(tmp_path / "p")]) == 0

    found = json.loads(capsys.readouterr().out)
    measured = found["measured"]
    assert measured["steps"]["exchanged_bytes"] == 4 * measured["network"]["fingerprint"]["num_parameters"]
    assert 0 < measured["steps"]["exchange"]["median"] < measured["steps"]["seconds"]["median"]
    assert (found["batch_size"], len(measured["world"])) == (64, 2)
    assert "3 steps say little of their spread" in found["warnings"]
    (run,) = Store(uri)._client.search_runs(["1"])
    assert run.data.metrics["samples_per_s"] == found["derived"]["samples_per_s"]
    assert run.data.params["fingerprint.network"] == measured["network"]["fingerprint"]["network"]
    assert run.data.tags["tta.measurement"]
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["imag_classification"], "unknown workload 'imag_classification'; did you mean 'image_classification'?"),
        ([NAME, "--suite", "medium"], "unknown suite"),
        ([NAME, "--precision", "fp64"], "precision 'fp64' is not permitted; permitted: fp32, tf32, bf16, fp16"),
        ([NAME, "--devices", "3"], "global_batch_size 128 cannot be divided equally among them"),
        ([NAME, "--batch", "0"], "'0' is not a whole number of at least 1"),
        ([NAME, "--stepps", "3"], "unknown argument '--stepps'"),
    ],
)
def test_what_cannot_be_profiled(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, before anything is measured."""
    assert cli.main(["profile", *arguments]) == 2

    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


@pytest.mark.slow
def test_batch_that_the_workload_refuses(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the workload's own words."""
    assert cli.main(["profile", NAME, "--data", str(cache), "--batch", "1000000", "--quiet"]) == 2

    assert "global_batch_size 1000000 is larger than the training set" in capsys.readouterr().err
