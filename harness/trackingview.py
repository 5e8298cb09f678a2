"""How an experiment presents itself on MLflow's pages: its description and what it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.picture import RunPicture

_NOTE = """\
**{benchmark}, {division} division** · rules {ruleset} · target: {target}

A mirror of run logs, for looking at curves. **The board is authoritative:** verdicts, scores and ranks are computed \
from the logs and never from MLflow, where the owner of a run may change it.

- One run per repeat. The repeats of one result share the tag `tta.submission_id`: *Group by* it.
- The step is samples trained on; time stamps are the referee's clock. `eval/target` is the quality to reach.
- What is missing here is added by `tta sync DIR`.
"""


def experiment_tags(picture: RunPicture) -> dict[str, str]:
    """The tags of the picture's experiment."""
    target = "see the rules"
    if picture.rules is not None and picture.target is not None:
        sign = "≥" if picture.rules.metric.direction == "max" else "≤"
        target = f"{picture.metric} {sign} {picture.target:g}"
    tags = {
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": _NOTE.format(
            benchmark=picture.tags["tta.benchmark"],
            division=picture.tags["tta.division"],
            ruleset=picture.ruleset or "unknown",
            target=target,
        ),
        "tta.benchmark": picture.tags["tta.benchmark"],
        "tta.division": picture.tags["tta.division"],
        "tta.rules_version": picture.ruleset,
        "tta.target": picture.tags.get("tta.target"),
    }
    return {name: value for name, value in tags.items() if value}


def is_newer(picture: RunPicture, tags: Mapping[str, str]) -> bool:
    """Whether the picture's rules are of a later version than those that the experiment's `tags` name."""
    return _version(picture.ruleset) > _version(tags.get("tta.rules_version", ""))


def _version(name: str) -> list[tuple[int, str]]:
    """`v10` after `v9`."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", name)]
