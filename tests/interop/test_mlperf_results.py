"""MLCommons' package checker, RCP checker and summariser next to `tta`: where they agree, and how they differ."""

from __future__ import annotations

import logging
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.mlperf.rcp import judge
from tests.interop import agree_results as agree
from tests.mlperflog import find
from tests.rules.box import TODAY
from tests.rules.fixtures import mlr
from tests.rules.roundbox import RoundBox, round_rules
from tests.shared_files import shared

rcp_checker = pytest.importorskip("mlperf_logging.rcp_checker.rcp_checker")


@pytest.fixture(autouse=True)
def their_logging() -> Iterator[None]:
    """Their programs log to the root logger, which the script takes over."""
    handlers = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = handlers


def opinions(box: RoundBox, scratch: Path) -> tuple[Any, Any]:
    """The opinions of `tta` and of theirs on the result in `box`."""
    result = box.result()
    is_closed = result.runs[0].value("submission_division") == "closed"
    ours = agree.Tta(box.ruleset).opinion(result, TODAY)
    theirs = agree.Theirs("5.1.0").opinion(*agree.lay_out(box.folder, scratch), is_closed, False)
    return ours, theirs


def seed_twice(box: RoundBox) -> None:
    find(box.logs[3], "seed").value = find(box.logs[0], "seed").value


def two_misses(box: RoundBox) -> None:
    mlr.miss(box, 0)
    mlr.miss(box, 3)


def normalised(box: RoundBox) -> None:
    """Four epochs at batch size 320, where the reference has 37/9."""
    for log in box.logs:
        find(log, "global_batch_size").value = 320
        find(log, "eval_accuracy", 3).value = 0.345
        log[:] = [entry for entry in log if entry.metadata.get("epoch_num") != 5]


@pytest.mark.parametrize(
    ("damage", "options", "package"),
    [
        (lambda box: None, {}, "accept"),
        (lambda box: None, {"num_runs": 4}, "refuse"),
        (lambda box: None, {"num_runs": 6}, "refuse"),
        (lambda box: mlr.miss(box, 0), {}, "accept"),
        (two_misses, {}, "refuse"),
        (mlr.hasten, {}, "refuse"),
        (normalised, {}, "accept"),
        (lambda box: mlr.with_batch_size(box, 1_000_000), {}, "refuse"),
        (seed_twice, {}, "refuse"),
        (seed_twice, {"division": "open"}, "accept"),
        (lambda box: box.description.pop("cooling"), {}, "refuse"),
        (lambda box: box.description.update(status="onprem"), {}, "refuse"),
    ],
)
def test_both_agree(
    damage: Callable[[RoundBox], object], options: dict[str, Any], package: str, tmp_path: Path
) -> None:
    """Verdict of the package, convergence, factor and score to twelve digits."""
    box = RoundBox(tmp_path / "tree", **options)
    damage(box)
    ours, theirs = opinions(box, tmp_path / "scratch")

    assert list(agree.differences(ours, theirs)) == []
    assert ours.package == package


def close(box: RoundBox) -> None:
    seed_twice(box)
    box.description["division"] = "close"


def rule_broken(box: RoundBox) -> None:
    find(box.logs[0], "opt_weight_decay").value = 0.1


@pytest.mark.parametrize(("damage", "code"), [(close, "MLR006"), (rule_broken, "MLR003")])
def test_tta_refuses_what_theirs_accepts(damage: Callable[[RoundBox], None], code: str, tmp_path: Path) -> None:
    """ "close" switches their seed and RCP checks off; one log may break any rule."""
    box = RoundBox(tmp_path / "tree")
    damage(box)
    ours, theirs = opinions(box, tmp_path / "scratch")

    assert (ours.package, theirs.package) == ("refuse", "accept")
    assert code in ours.reasons


def without_division(box: RoundBox) -> None:
    del box.description["division"]


def without_description(box: RoundBox) -> None:
    box.write()
    box.system_path.unlink()


@pytest.mark.parametrize(
    ("damage", "error"), [(without_division, "KeyError: 'division'"), (without_description, "FileNotFoundError")]
)
def test_a_missing_description_or_division_ends_their_program(
    damage: Callable[[RoundBox], None], error: str, tmp_path: Path
) -> None:
    """An exception there, a finding here."""
    box = RoundBox(tmp_path / "tree")
    damage(box)
    ours, theirs = opinions(box, tmp_path / "scratch")

    assert (ours.package, theirs.package) == ("refuse", "crash")
    assert any(error in reason for reason in theirs.reasons)


@pytest.mark.parametrize(
    ("size", "convergence_theirs", "convergence_ours"),
    [
        (256, "accept", "accept"),
        (256.0, "accept", "accept"),
        (256.5, "accept", "refuse"),
        (True, "accept", "refuse"),
        ("256", "crash", "refuse"),
        (None, "crash", "refuse"),
    ],
)
def test_a_batch_size_is_a_whole_number(
    size: Any, convergence_theirs: str, convergence_ours: str, tmp_path: Path
) -> None:
    """In whatever form all logs have it; a text crashes their program, and half a sample is interpolated there."""
    box = RoundBox(tmp_path / "tree")
    for log in box.logs:
        find(log, "global_batch_size").value = size
    ours, theirs = opinions(box, tmp_path / "scratch")

    assert (theirs.convergence, ours.convergence) == (convergence_theirs, convergence_ours)
    assert ours.raw_minutes == pytest.approx(theirs.raw_minutes)


def test_a_benchmark_that_is_gone_ends_their_program() -> None:
    """DLRM of round 1.0 is no longer in the program's tables; here the round has it."""
    with pytest.raises(KeyError, match="dlrm"):
        rcp_checker.RCP_Checker("training", "1.0.0", "dlrm", False)

    round_ = round_rules("mlperf_training/1.0.0").round
    assert round_ is not None
    reference = round_.benchmarks["dlrm"].convergence[0]
    slow = [max(reference.points)] * 5
    assert judge(slow, reference.global_batch_size, round_.benchmarks["dlrm"], "1.0.0").status == "pass"


@pytest.mark.parametrize("version", ["1.0.0", "2.1.0", "4.0.0", "5.1.0", "6.0.0", "6.1.0"])
def test_every_reference_is_theirs(version: str, tmp_path: Path) -> None:
    """Mean, minimum acceptable mean and pruned batch sizes of every benchmark that their program still knows."""
    round_ = round_rules(f"mlperf_training/{version}").round
    assert round_ is not None
    num_compared = 0
    for benchmark in round_.benchmarks.values():
        if not benchmark.convergence or benchmark.name not in rcp_checker.submission_runs["training"]:
            continue
        checker = rcp_checker.RCP_Checker("training", version, benchmark.name, False)
        for record in checker.pruned_rcp_data.values():
            amounts = [float(record["RCP Mean"])] * benchmark.num_runs
            verdict = judge(amounts, record["BS"], benchmark, version)
            lowered = 46_080 if benchmark.name == "llama31_405b" and int(version[0]) >= 5 else 0
            assert verdict.basis == "exact"
            assert verdict.reference_mean == pytest.approx(float(record["RCP Mean"]), rel=1e-12)
            assert verdict.acceptable_mean == pytest.approx(float(record["Min Epochs"]) - lowered, abs=2e-4)
            num_compared += 1
    assert num_compared > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "member", ["Krai/results/Cray-XD670-H200-SXM5-141GB_n8_v5.0/llama2_70b_lora", "Cisco/results/hpf_n8/dlrm_dcnv2"]
)
def test_a_published_result(member: str, tmp_path: Path) -> None:
    """Of round 5.1: both accept it, and the score is the same to twelve digits."""
    submitter, _, system, _ = member.split("/")
    with tarfile.open(shared("mlperf_results/training_v5.1.tar.xz")) as archive:
        wanted = (f"{member}/", f"{submitter}/systems/{system}.json")
        for item in archive:
            name = item.name.split("/", 1)[1] if item.name.startswith("training_v5.1/") else item.name
            if item.isfile() and name.removeprefix("./").startswith(wanted):
                place = tmp_path / name
                place.parent.mkdir(parents=True, exist_ok=True)
                stream = archive.extractfile(item)
                assert stream is not None
                with place.open("wb") as target:
                    shutil.copyfileobj(stream, target)
    box = RoundBox(tmp_path)
    box.folder, box.is_written = tmp_path / member, True
    ours, theirs = opinions(box, tmp_path / "scratch")

    assert list(agree.differences(ours, theirs)) == []
    assert ours.minutes is not None
