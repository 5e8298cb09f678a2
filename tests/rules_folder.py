"""A ruleset on disk for the fabricated benchmark `toy_mini`, as `--ruleset FOLDER` takes it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml

from harness.ruleset import catalog
from harness.ruleset.model import BenchmarkRules, Constraint
from harness.submission.claim import digest_lines
from harness.submission.provenance import RELEASES_FOLDER
from tests.fabricate import CODE, benchmark_rules


def write_ruleset(folder: Path, rules: BenchmarkRules | None = None) -> Path:
    """The ruleset v1 (its codes and timing) with `rules` as its only benchmark; next to it the fabricated release."""
    rules = rules or benchmark_rules()
    folder.mkdir(parents=True, exist_ok=True)
    source = catalog.ruleset_folder("v1")
    (folder.parent / RELEASES_FOLDER).mkdir(exist_ok=True)
    (folder.parent / RELEASES_FOLDER / "0.1.0.txt").write_text(digest_lines(CODE))
    for name in ("ruleset.yaml", "prices.yaml"):
        (folder / name).write_text((source / name).read_text())
    plain: dict[str, Any] = dataclasses.asdict(rules)
    suite, metric = plain.pop("suite"), plain.pop("metric")
    del plain["workload"]
    plain["hyperparameters"] = {name: _shorthand(item) for name, item in rules.hyperparameters.items()}
    content = {"workload": rules.workload, "metric": metric, "suites": {suite: _lists(plain)}}
    (folder / f"{rules.workload}.yaml").write_text(yaml.safe_dump(content))
    return folder


def _shorthand(constraint: Constraint) -> dict[str, Any]:
    if constraint.fixed:
        return {"fixed": constraint.default}
    if constraint.one_of:
        return {"one_of": list(constraint.one_of), "default": constraint.default}
    if constraint.range is not None:
        return {"range": list(constraint.range), "default": constraint.default}
    return {"free": True, "default": constraint.default}


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value
