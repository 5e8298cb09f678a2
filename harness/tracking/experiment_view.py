"""How an experiment presents itself on MLflow's pages: its description and what it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.log.events import canonical_json
from harness.tracking.record import PHASES, RunPicture

VIEW = "tta"
_RESULTS = ("time_to_target_s", "samples_to_target", "quality", "energy_j", "cost_list", "reached")
_NOTE = """\
**{benchmark}, {division} division** · rules {ruleset} · target: {target}

A mirror of run logs, for looking at curves. **The board is authoritative:** verdicts, scores and ranks are computed \
from the logs and never from MLflow, where the owner of a run may change it.

- *Views*, *Time to accuracy*, then the symbol of a chart: quality against time with the target, one colour a result.
- One run per repeat. The repeats of one result share the tags `tta.result` and `tta.submission_id`: *Group by* one.
- The step is samples trained on; time stamps are the referee's clock. `eval/target` is the quality to reach.
- `power/watts`: all nodes together, a mean a second; there the step is seconds of the referee's clock. Whether an \
energy may rank, and among whom, the board says.
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
        f"mlflow.sharedViewState.{VIEW}": _view(picture.metric, picture.start_ms or 0),
    }
    return {name: value for name, value in tags.items() if value}


def page(uri: str, experiment_id: str) -> str:
    """The address of an experiment's charts, in the saved view, at the store's server or at one on this machine."""
    server = uri.rstrip("/") if uri.startswith(("http://", "https://")) else "http://127.0.0.1:5000"
    # Without workflowType the page opens in MLflow's mode for language models, which shows no runs.
    return (
        f"{server}/#/experiments/{experiment_id}/runs"
        f"?viewStateShareKey={VIEW}&workflowType=machine_learning&compareRunsMode=CHART"
    )


def is_newer(picture: RunPicture, tags: Mapping[str, str]) -> bool:
    """Whether the picture knows better than an experiment's `tags`: later rules, or the first target."""
    has_first_target = picture.target is not None and "tta.target" not in tags
    return has_first_target or _version(picture.ruleset) > _version(tags.get("tta.rules_version", ""))


def _version(name: str) -> list[tuple[int, str]]:
    """`v10` after `v9`."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def _view(metric: str, made_ms: int) -> str:
    """A saved view of MLflow's runs page, in the form in which its pages keep one in an experiment's tag.

    Written plainly; MLflow packs the ones it writes, and reads both (3.17).
    """
    curve = [f"eval/{metric}", "eval/target"]
    sections = {
        "eval": [
            {**_line(curve, "metric"), "selectedXAxisMetricKey": "eval/elapsed_s"},
            _line(curve),
            # MLflow would add a chart for each of these two alone.
            {**_line(["eval/target"]), "deleted": True},
            {**_line(["eval/elapsed_s"]), "deleted": True},
        ],
        "result": [_bar(f"result/{name}") for name in _RESULTS],
        "train": [_line(["train/loss"]), _line(["train/data_wait_s"])],
        "throughput": [_line(["throughput/samples_per_s"])],
        "power": [
            _line(["power/watts"]),
            *(_bar(f"result/{name}") for name in ("power_mean_w", "energy_u95_j", "coverage", "est_share")),
        ],
        "ledger": [_bar(f"ledger/{name}") for name in PHASES],
    }
    state = {
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": "tta.result"}],
        },
        "useGroupedValuesInCharts": False,
        "hideEmptyCharts": True,
        "selectedColumns": [
            *(f"metrics.`result/{name}`" for name in _RESULTS),
            *(f"tags.`tta.{name}`" for name in ("state", "reason", "verdict", "energy.class", "price_book")),
        ],
        "isAccordionReordered": True,
        "compareRunSections": [{"uuid": name, "name": name, "display": True, "isReordered": True} for name in sections],
        "compareRunCharts": [
            {"uuid": f"{name}-{number}", "metricSectionId": name, **chart}
            for name, charts in sections.items()
            for number, chart in enumerate(charts)
        ],
    }
    view = {"name": "Time to accuracy", "createdAt": made_ms, "updatedAt": made_ms, "state": canonical_json(state)}
    return canonical_json(view)


def _line(metrics: list[str], axis: str = "step") -> dict[str, object]:
    return {
        "type": "LINE",
        "metricKey": metrics[0],
        "selectedMetricKeys": metrics,
        "xAxisKey": axis,
        "useGlobalXaxisKey": False,
        "lineSmoothness": 0,
    }


def _bar(metric: str) -> dict[str, object]:
    return {"type": "BAR", "metricKey": metric}
