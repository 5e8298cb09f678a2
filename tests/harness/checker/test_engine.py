"""The engine under the checks: which checks it asks, about what, in which order, and what it makes of a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.checker.engine import is_valid, judge, judge_together
from harness.errors import RulesError
from harness.findings import Fault, Finding, LogPlace, Rule, Severity
from harness.log import run_log
from harness.ruleset.model import RuleSet, Waiver
from harness.submission.result import Result, read_result
from tests import fabricate, mlperflog
from tests.rules.box import TODAY
from tests.rules.roundbox import RoundBox


@dataclass
class Probe:
    """Makes checks, and remembers what they are asked about."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def rule(self, code: str, *faults: Fault, scope: str = "result") -> Rule:
        def check(*arguments: Any) -> Iterator[Fault]:
            self.calls.append((code, *arguments))
            yield from faults

        return Rule(code, f"{code.lower()}_fault", scope, check, "Something is wrong.")


PLACE = "t/acme/results/box1/toy_mini"


def fault(path: str = f"{PLACE}/result_0.txt", line: int | None = 1, message: str = "it is wrong") -> Fault:
    return Fault(path, line, message, {"seen": 2})


def law(*codes: str, **more: Any) -> RuleSet:
    return fabricate.ruleset(dict.fromkeys(codes, "error"), **more)


def result_of(*paths: Path) -> Result:
    return Result(Path(PLACE), "result", tuple(run_log.read(path) for path in paths))


def own_log(folder: Path, name: str, benchmark: object) -> Path:
    """A log of `tta` that names `benchmark`."""
    steps = fabricate.events()
    fabricate.find(steps, "submission_benchmark").value = benchmark
    return fabricate.write_log(folder / name, steps)


def test_a_check_in_force_that_does_not_exist_is_an_error_of_the_rules() -> None:
    """No other check is asked, because the unknown one would let everything pass."""
    probe = Probe()

    with pytest.raises(RulesError, match=r"^ruleset v1: codes: unknown check 'LOG0O2'; did you mean 'LOG002'\?"):
        judge(result_of(), law("LOG002", "LOG0O2"), [probe.rule("LOG002", fault())], TODAY)

    assert probe.calls == []


def test_the_ruleset_decides_which_checks_are_in_force_and_their_severity() -> None:
    """A check that is not in force is not asked; the rest of a finding comes from the check and the fault."""
    probe = Probe()
    rules = [probe.rule(code, fault()) for code in ("AAA001", "AAA002", "AAA003")]
    found = judge(result_of(), fabricate.ruleset({"AAA003": "note", "AAA001": "warning"}), iter(rules), TODAY)

    assert [call[0] for call in probe.calls] == ["AAA001", "AAA003"]
    assert found == [
        Finding("AAA001", "aaa001_fault", Severity.WARNING, f"{PLACE}/result_0.txt", 1, "it is wrong", {"seen": 2}),
        Finding("AAA003", "aaa003_fault", Severity.NOTE, f"{PLACE}/result_0.txt", 1, "it is wrong", {"seen": 2}),
    ]


def test_findings_are_sorted_by_severity_place_and_code() -> None:
    """Whatever the order of the checks; a finding without a line comes before the first line."""
    probe = Probe()
    rules = [
        probe.rule("AAA004", fault("A", 1)),
        probe.rule("AAA003", fault("a", 1)),
        probe.rule("AAA002", fault("b", 2), fault("b", 10), fault("a", 3), fault("b", None)),
        probe.rule("AAA001", fault("b", 2), fault("b", 1)),
    ]
    codes = {"AAA004": "note", "AAA003": "warning", "AAA002": "error", "AAA001": "error"}
    found = judge(result_of(), fabricate.ruleset(codes), rules, TODAY)

    assert [(item.path, item.line, item.code) for item in found] == [
        ("a", 3, "AAA002"),
        ("b", None, "AAA002"),
        ("b", 1, "AAA001"),
        ("b", 2, "AAA001"),
        ("b", 2, "AAA002"),
        ("b", 10, "AAA002"),
        ("a", 1, "AAA003"),
        ("A", 1, "AAA004"),
    ]


def test_a_check_sees_what_its_scope_says(tmp_path: Path) -> None:
    """Each log with the rules of the benchmark it names, the result once, with those of the first log; else None."""
    probe = Probe()
    names = ("elsewhere_mini", "toy_mini", ["toy_mini"], None)
    result = result_of(*(own_log(tmp_path, f"result_{i}.txt", name) for i, name in enumerate(names)))
    known = replace(result, runs=result.runs[1:2])
    rules = law("AAA001", "AAA002")
    toy = rules.benchmarks["toy_mini"]
    checks = [probe.rule("AAA001", scope="log"), probe.rule("AAA002")]

    for item in (result, known):
        assert judge(item, rules, checks, TODAY) == []

    assert probe.calls == [
        *(("AAA001", log, toy if i == 1 else None, rules) for i, log in enumerate(result.runs)),
        ("AAA002", result, None, rules),
        ("AAA001", known.runs[0], toy, rules),
        ("AAA002", known, toy, rules),
    ]


@pytest.mark.parametrize(("has_foreign_check", "shown"), [(True, ["LOG002"]), (False, ["LOG001", "LOG003"])])
def test_a_log_of_another_program_is_shown_to_the_check_for_such_logs_alone(
    tmp_path: Path, has_foreign_check: bool, shown: list[str]
) -> None:
    """If that is in force; else to every check, so that it is not ignored. Checks of results always see it."""
    probe = Probe()
    foreign = mlperflog.write(tmp_path / "result_0.txt", mlperflog.retinanet())
    result = result_of(foreign, own_log(tmp_path, "result_1.txt", "toy_mini"))
    codes = ["LOG001", *(["LOG002"] if has_foreign_check else []), "LOG003"]
    checks = [*(probe.rule(code, scope="log") for code in codes), probe.rule("PKG001")]

    judge(result, law(*codes, "PKG001"), checks, TODAY)

    assert [call[0] for call in probe.calls if call[1] is result.runs[0]] == shown
    assert [call[0] for call in probe.calls if call[1] is result.runs[1]] == codes
    assert [call[0] for call in probe.calls if call[1] is result] == ["PKG001"]


def test_a_judgement_comes_last_and_sees_what_all_others_found() -> None:
    """With the day; the second of two judgements sees what the first found."""
    probe = Probe()
    rules = law("AAA001", "AAA002", "BBB001", "BBB002")
    checks = [
        probe.rule("AAA001", fault("a"), scope="judgement"),
        probe.rule("BBB002", fault("d"), scope="log"),
        probe.rule("AAA002", fault("b"), scope="judgement"),
        probe.rule("BBB001", fault("c")),
    ]
    result = result_of()
    found = judge(result, rules, checks, TODAY)

    assert [call[0] for call in probe.calls] == ["BBB001", "AAA001", "AAA002"]
    (_, *first), (_, *second) = probe.calls[1:]
    assert first == [result, (found[2],), rules, TODAY]
    assert second == [result, (found[2], found[0]), rules, TODAY]
    assert [item.code for item in found] == ["AAA001", "AAA002", "BBB001"]


def waiver(path: str = "acme", until: str = TODAY.isoformat(), code: str = "AAA001", why: str = "a case") -> Waiver:
    return Waiver(code, path, "J. Doe", why, until)


@pytest.mark.parametrize(
    ("waivers", "waived"),
    [
        ([], None),
        ([waiver()], f"a case (J. Doe, until {TODAY})"),
        ([waiver(until="2025-11-30")], None),
        ([waiver("*/results/box?/toy_*/result_?.txt", "2099-12-31")], "a case (J. Doe, until 2099-12-31)"),
        ([waiver("t/acme")], None),
        ([waiver("ac")], None),
        ([waiver("ACME")], None),
        ([waiver(code="AAA002")], None),
        ([waiver("globex"), waiver(why="one"), waiver(why="two")], f"one (J. Doe, until {TODAY})"),
    ],
)
def test_a_waiver_excuses_a_code_at_a_place_until_its_last_day(waivers: list[Waiver], waived: str | None) -> None:
    """That day included; the first that fits is named. The finding stays, and no longer makes the result invalid."""
    rules = law("AAA001", waivers=tuple(waivers))
    (found,) = judge(result_of(), rules, [Probe().rule("AAA001", fault())], TODAY)

    assert found.waived == waived
    assert is_valid([found]) is (waived is not None)


def test_a_result_is_valid_until_one_finding_counts() -> None:
    """Warnings, notes and waived findings do not count, however many; no findings are valid."""
    error = Finding("AAA001", "wrong", Severity.ERROR, "a", 1, "it is wrong")
    harmless = [replace(error, severity=Severity.WARNING), replace(error, waived="a case")]

    assert is_valid([])
    assert is_valid(harmless)
    assert not is_valid([*harmless, error, *harmless])


def test_a_run_of_a_round_that_may_fail_is_a_warning(tmp_path: Path) -> None:
    """If it did not converge and is among the runs that the mean leaves out; a waiver comes before that."""
    box = RoundBox(tmp_path)
    mlperflog.find(box.logs[1], "run_stop").metadata["status"] = "aborted"
    mlperflog.find(box.logs[1], "eval_accuracy", 4).value = 0.33
    result = box.result()
    failed, good = str(box.log(1)), str(box.log(0))
    probe = Probe()
    codes = ("MLP003", "MLP004", "MLP007", "MLP009")
    checks = [probe.rule(code, fault(failed), fault(good)) for code in codes]
    there = str(box.log(1).relative_to(tmp_path))
    waivers = (waiver(there, code="MLP009"), waiver(there, code="MLP003"))
    rules = replace(box.ruleset, codes=dict.fromkeys(codes, "error"), waivers=waivers)
    severities = {(item.code, item.path): (item.severity, item.message) for item in judge(result, rules, checks, TODAY)}
    error = (Severity.ERROR, "it is wrong")
    excused = (Severity.WARNING, "it is wrong (a run that may fail)")

    assert severities == {(code, path): error for code in codes for path in (good, failed)} | {
        ("MLP007", failed): excused
    }
    without = judge(result, replace(rules, waivers=()), checks, TODAY)
    assert {(item.code, item.path) for item in without if item.severity is Severity.WARNING} == {
        ("MLP003", failed),
        ("MLP007", failed),
    }
    alone = judge(read_result(box.log(1)), replace(rules, waivers=()), checks, TODAY)
    assert {item.severity for item in alone} == {Severity.ERROR}  # there is no mean that could leave it out
    noted = judge(result, replace(rules, codes={"MLP007": "note"}, waivers=()), checks, TODAY)
    assert {(item.severity, item.message) for item in noted} == {(Severity.NOTE, "it is wrong")}


def test_a_status_and_a_curve_of_a_run_that_may_fail_are_excused(tmp_path: Path) -> None:
    """A word that is no status, or a quality that never changes: such a run fails, and one may."""
    box = RoundBox(tmp_path)
    mlperflog.find(box.logs[1], "run_stop").metadata["status"] = "abort"
    for nth in range(5):
        mlperflog.find(box.logs[1], "eval_accuracy", nth).value = 0.001
    found = judge(box.result(), box.ruleset, registry.checks().values(), TODAY)
    severities = {item.code: item.severity for item in found if item.path == str(box.log(1))}

    assert severities == dict.fromkeys(("MLP007", "MLP023", "MLP028"), Severity.WARNING)


def test_a_round_sets_the_severity_of_a_check_for_a_benchmark(tmp_path: Path) -> None:
    """Of that benchmark only; other checks have the severity of the round."""
    box = RoundBox(tmp_path)
    result, probe = box.result(), Probe()
    checks = [probe.rule(code, fault(str(box.log(0)))) for code in ("MLP003", "MLP004")]
    rules = replace(box.ruleset, codes=dict.fromkeys(("MLP003", "MLP004"), "error"))
    assert rules.round is not None
    one = replace(rules.round.benchmarks["retinanet"], codes={"MLP004": "note"})

    def severities(name: str) -> dict[str, Severity]:
        assert rules.round is not None
        round_ = replace(rules.round, benchmarks={**rules.round.benchmarks, name: one})
        return {item.code: item.severity for item in judge(result, replace(rules, round=round_), checks, TODAY)}

    assert severities("retinanet") == {"MLP003": Severity.ERROR, "MLP004": Severity.NOTE}
    assert severities("flux1") == {"MLP003": Severity.ERROR, "MLP004": Severity.ERROR}


def test_a_log_of_two_results_has_the_severity_of_the_benchmark_of_each() -> None:
    """Of what all results together show, too: a log that was named alone and with its folder is of two results."""
    round_ = mlperflog.round_of()
    bench = {**round_.benchmarks, "flux1": replace(round_.benchmarks["flux1"], codes={"AAA001": "note"})}
    rules = law("AAA001", round=replace(round_, benchmarks=bench))
    logs = [LogPlace("a", "a/x", "0", "retinanet"), LogPlace("b", "a/x", "0", "flux1"), LogPlace("c", "c/x", "0")]
    check = Probe().rule("AAA001", fault("a/x"), fault("c/x"), scope="tree")

    found = judge_together(logs, rules, [check], TODAY)

    assert {result: [(one.path, one.severity) for one in items] for result, items in found.items()} == {
        "a": [("a/x", Severity.ERROR)],
        "b": [("a/x", Severity.NOTE)],
        "c": [("c/x", Severity.ERROR)],
    }


def test_a_finding_names_its_place() -> None:
    """The line after a colon, if there is one."""
    found = Finding("AAA001", "wrong", Severity.ERROR, "t/a.txt", 7, "it is wrong")

    assert (found.place, replace(found, line=None).place) == ("t/a.txt:7", "t/a.txt")
