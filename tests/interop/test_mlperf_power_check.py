"""The checker on the published logs of MLPerf Training v4.0 with power: every defect they have is named."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from harness.commands import check
from tests.rules.box import TODAY
from tests.shared_files import shared, unpack

pytestmark = pytest.mark.slow


def test_published_submission_with_power_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By folder and code, how many runs have the finding; by folder, the defects of the files."""
    unpack(shared("mlperf_results/training_v4.0_power.tar.xz"), tmp_path)

    check.run([tmp_path], "v1", "json", TODAY)

    runs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    kinds: dict[str, set[str]] = defaultdict(set)
    for result in json.loads(capsys.readouterr().out)["results"]:
        place = "/".join(Path(result["path"]).parts[-2:])
        found = [finding for finding in result["findings"] if finding["code"].startswith("PWR")]
        for finding in found:
            runs[place][finding["code"]].add(Path(finding["path"]).relative_to(result["path"]).parts[1])
        kinds[place].update(finding["evidence"]["kind"] for finding in found if finding["code"] == "PWR014")
    slow = {"PWR005", "PWR014", "PWR015", "PWR021"}  # gaps, marks, 2 s between readings, no accuracy and no clock
    assert {place: {code: len(names) for code, names in found.items()} for place, found in runs.items()} == {
        "1xSMC-H100-SXM-80GB/bert": dict.fromkeys(slow, 10),
        "1xSMC-H100-SXM-80GB/dlrm_dcnv2": dict.fromkeys(slow, 10),
        "1xSMC-H100-SXM-80GB/resnet": dict.fromkeys(slow | {"PWR019"}, 5),  # there is a picture among its power logs
        # Two nodes with one log, a quarter of the energy a constant for the switches, times that go back.
        "8xSMC-H100-SXM-80GB/resnet": {**dict.fromkeys(slow | {"PWR009", "PWR011"}, 5), "PWR013": 2},
    }
    marks = {"metadata_empty", "null_as_text", "stop_equals_start"}
    assert kinds == {
        "1xSMC-H100-SXM-80GB/bert": marks,
        "1xSMC-H100-SXM-80GB/dlrm_dcnv2": marks,
        "1xSMC-H100-SXM-80GB/resnet": {"metadata_empty", "numbered_from_one"},
        "8xSMC-H100-SXM-80GB/resnet": marks | {"stamp_far"},
    }
