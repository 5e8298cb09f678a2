"""Waivers: of the rulebook alone, for one case, with who, why and until when; each is accounted for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.checker import engine
from harness.errors import RulesError
from harness.findings import Finding, Severity
from harness.ruleset import catalog, load
from harness.ruleset.model import Waiver
from tests import fabricate
from tests.rules.box import TODAY
from tests.rules.roundbox import RoundBox

EARLIER = """
kind: mlperf
published: "2020-07-29"
codes: {MLP001: error, RUL001: warning}
max_init_s: {closed: 1200, open: 1200}
divisions: {closed: {}, open: {}}
keys:
  run_start: {count: once}
waivers: [{code: MLP001, path: "acme", who: J. Doe, why: a case, until: 2026-12-31}]
"""
LATER = "kind: mlperf\nextends: '1.0'\npublished: '2021-07-29'\n"


PLACE = "acme/results/box1/toy_mini"


def finding(path: str = f"t/{PLACE}/result_0.txt", code: str = "LOG001") -> Finding:
    return Finding(code, "fault", Severity.ERROR, path, 1, "it is wrong")


def test_each_waiver_is_accounted_for() -> None:
    """What it fits is counted, by code and by path; an expired one counts and excuses nothing; none fits: zero."""
    waivers = (
        Waiver("LOG001", "acme", "J. Doe", "why", TODAY.isoformat()),
        Waiver("LOG001", "*/results", "J. Doe", "why", "2025-11-30"),
        Waiver("LOG002", "*", "J. Doe", "why", "2026-01-01"),
    )
    law = fabricate.ruleset({"LOG001": "error"}, waivers=waivers)

    judged = [
        (f"t/{PLACE}", [finding()]),
        (other := f"t/{PLACE.replace('acme', 'globex')}", [finding(f"{other}/result_0.txt")]),
    ]
    uses = engine.waiver_uses(law, judged, TODAY)

    assert [(use.num_findings, use.is_expired) for use in uses] == [(1, False), (2, True), (0, False)]


def test_a_waiver_excuses_a_result_of_a_round(tmp_path: Path) -> None:
    """The finding stays, with who, why and until when, and does not count; the one that excuses nothing is found."""
    box = RoundBox(tmp_path)
    box.system_path.parent.mkdir(parents=True)
    box.write()
    box.system_path.unlink()
    assert "SYS001" in {item.code for item in box.judge()}
    useless = Waiver("MLP001", "Toymaker/results/toybox/retinanet", "J. Doe", "nothing of the kind", "2099-12-31")
    waiver = Waiver("SYS001", "Toymaker/systems/toybox.json", "J. Doe", "the file is lost", "2099-12-31")
    box.ruleset = dataclasses.replace(box.ruleset, waivers=(waiver, useless))

    findings = {item.code: item for item in box.judge()}

    assert findings["SYS001"].waived == "the file is lost (J. Doe, until 2099-12-31)"
    assert not findings["SYS001"].counts
    assert "excuses nothing: there is no MLP001 there" in findings["RUL001"].message


def test_a_round_has_waivers_of_its_own(tmp_path: Path) -> None:
    """A later round takes the rules over, and not the exceptions from them."""
    for name, text in (("1.0", EARLIER), ("2.0", LATER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ruleset.yaml").write_text(text)

    earlier, later = (load.load_ruleset(tmp_path / name, name) for name in ("1.0", "2.0"))

    assert [waiver.who for waiver in earlier.waivers] == ["J. Doe"]
    assert (later.waivers, later.codes) == ((), earlier.codes)


def test_a_faulty_waiver_of_a_round_is_refused(tmp_path: Path) -> None:
    """As in any ruleset."""
    (tmp_path / "ruleset.yaml").write_text(EARLIER.replace("code: MLP001", "code: MLP999"))

    with pytest.raises(RulesError, match="unknown check in force 'MLP999'"):
        load.load_ruleset(tmp_path, "1.0")


def test_the_rulesets_that_come_with_the_harness_waive_nothing() -> None:
    """Whoever organises a contest adds them to a ruleset of theirs."""
    found = [load.load_ruleset(folder, name).waivers for name, folder in catalog.ruleset_folders()]

    assert set(found) == {()}
