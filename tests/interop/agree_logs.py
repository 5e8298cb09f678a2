"""Do MLCommons' compliance checker and `tta check` agree on every log of a folder?

    python -m tests.interop.agree_logs FOLDER --round 5.1.0 [--json agreement.json] [--every 20]

Needs `pip install mlperf-logging`. Both run in this process, log by log; their rule files are read once, which changes
nothing but the time. Their checker executes what its rule files contain and follows names that a log gives it: run it
on other people's logs only where that does no harm.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from harness.checker import engine, registry
from harness.errors import LogError
from harness.findings import Finding, Rule, Severity
from harness.log import run_log
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission.result import Result

VERDICT = re.compile(r"MLP00[0-9]|MLP010")  # the checks that mirror their verdict; only `tta` has the others
ACCEPT, REFUSE, CRASH = "accept", "refuse", "crash"


@dataclasses.dataclass(frozen=True)
class Opinion:
    """One program's verdict on a log. codes: of the findings that make it invalid; empty for MLCommons'."""

    verdict: str
    reasons: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def logs_below(folder: Path) -> Iterator[Path]:
    """Every result log of a round: result_*.txt, not those of power meters."""
    for path in sorted(folder.rglob("result_*.txt")):
        if "power" not in path.relative_to(folder).parts and path.is_file():
            yield path


class Theirs:
    """MLCommons' checker."""

    def __init__(self, version: str) -> None:
        from mlperf_logging.compliance_checker import mlp_compliance

        self.module: Any = mlp_compliance
        self.version = version
        kept: dict[str, Any] = {}

        def load_once(stream: Any, Loader: Any) -> Any:  # noqa: N803  (their name)
            if stream.name not in kept:
                kept[stream.name] = yaml.load(stream, Loader)
            return kept[stream.name]

        self.module.yaml = SimpleNamespace(load=load_once, BaseLoader=yaml.BaseLoader)
        self.cpu_s = 0.0

    def opinion(self, path: Path) -> Opinion:
        self.module.enqueued_configs.clear()  # a crash leaves them for the next log
        checker = self.module.make_checker("training", self.version, quiet=True, werror=False)
        started = time.process_time()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                is_valid = self.module.main(str(path), f"training_{self.version}/common.yaml", checker)[0]
        except Exception as error:  # noqa: BLE001  (whatever it dies of is what is counted)
            return Opinion(CRASH, (f"{type(error).__name__}: {error}",))
        finally:
            self.cpu_s += time.process_time() - started
        messages = [*checker.overwritable.values(), *checker.not_overwritable]
        reasons = tuple(" ".join(str(message).split())[:200] for message in messages)
        return Opinion(ACCEPT if is_valid else REFUSE, reasons)


class Tta:
    """`tta check` under the rules of the round."""

    def __init__(self, version: str) -> None:
        name = f"mlperf_training/{version}"
        self.ruleset: RuleSet = load.load_ruleset(catalog.ruleset_folder(name), name)
        self.checks: list[Rule] = [rule for rule in registry.checks().values() if rule.scope == "log"]
        in_force = {rule.code for rule in self.checks} & set(self.ruleset.codes)
        self.ruleset = dataclasses.replace(
            self.ruleset, codes={code: severity for code, severity in self.ruleset.codes.items() if code in in_force}
        )
        self.cpu_s = 0.0

    def findings(self, path: Path) -> list[Finding]:
        log = run_log.read(path)
        return engine.judge(Result(path=path, kind="log", runs=(log,)), self.ruleset, self.checks, date.today())

    def opinion(self, path: Path) -> tuple[Opinion, list[Finding]]:
        started = time.process_time()
        try:
            found = self.findings(path)
        except LogError as error:
            return Opinion(REFUSE, (str(error),), ("LOG015",)), []
        finally:
            self.cpu_s += time.process_time() - started
        errors = [finding for finding in found if finding.severity is Severity.ERROR]
        deciding = [finding for finding in errors if VERDICT.fullmatch(finding.code)]
        codes = tuple(dict.fromkeys(finding.code for finding in errors))
        reasons = tuple(f"{finding.code} {finding.message}"[:200] for finding in errors)
        return Opinion(REFUSE if deciding else ACCEPT, reasons, codes), found


def compare(folder: Path, version: str, every: int) -> dict[str, Any]:
    """The agreement on every `every`th log below `folder`, as JSON."""
    theirs, ours = Theirs(version), Tta(version)
    pairs: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    differences, only_ours, refused = [], [], []
    num_bytes = 0
    for number, path in enumerate(logs_below(folder)):
        if number % every:
            continue
        their, (our, found) = theirs.opinion(path), ours.opinion(path)
        num_bytes += path.stat().st_size
        pairs[f"{their.verdict}/{our.verdict}"] += 1
        name = path.relative_to(folder).as_posix()
        beside.update({finding.code for finding in found if not VERDICT.fullmatch(finding.code)})
        record: dict[str, Any] = {"log": name, "theirs": their.verdict, "ours": our.verdict}
        record |= {"their_reasons": list(their.reasons[:5]), "our_reasons": list(our.reasons[:5])}
        if (their.verdict == ACCEPT) != (our.verdict == ACCEPT):
            differences.append(record)
        elif their.verdict != ACCEPT:
            refused.append(record)
        extra = [code for code in our.codes if not VERDICT.fullmatch(code)]
        if their.verdict == ACCEPT and extra:
            only_ours.append({"log": name, "codes": extra, "our_reasons": list(our.reasons[:5])})
    num_logs = sum(pairs.values())
    return {
        "round": version,
        "logs": num_logs,
        "bytes": num_bytes,
        "verdicts": dict(sorted(pairs.items())),
        "agree": num_logs - len(differences),
        "differences": differences,
        "refused_by_both": refused,
        "accepted_by_theirs_with_errors_of_ours": only_ours,
        "logs_with_findings_of_ours": dict(sorted(beside.items())),
        "cpu_s": {"theirs": round(theirs.cpu_s, 1), "ours": round(ours.cpu_s, 1)},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--round", required=True, help="5.1.0, 4.0.0, ...")
    parser.add_argument("--json", type=Path, help="where to write everything that was found")
    parser.add_argument("--every", type=int, default=1, help="look at every n-th log only")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    agreement = compare(arguments.folder, arguments.round, arguments.every)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(agreement, indent=1) + "\n")
    print(f"round {agreement['round']}: {agreement['logs']:,} logs, {agreement['agree']:,} agree")
    for verdicts, count in agreement["verdicts"].items():
        print(f"  theirs/tta {verdicts}: {count:,}")
    for record in agreement["differences"]:
        print(f"  differ: {record['log']}: theirs {record['theirs']} {record['their_reasons'][:1]}")
        print(f"          tta {record['ours']} {record['our_reasons'][:1]}")
    print(f"  errors of tta alone on logs they accept: {len(agreement['accepted_by_theirs_with_errors_of_ours'])}")
    print(f"  findings of tta alone, in logs: {agreement['logs_with_findings_of_ours']}")
    print(f"  CPU seconds: theirs {agreement['cpu_s']['theirs']}, tta {agreement['cpu_s']['ours']}")
    return 0 if not agreement["differences"] else 1


if __name__ == "__main__":
    sys.exit(main())
