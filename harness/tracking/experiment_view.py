"""How an experiment appears on MLflow's pages: its description, tags and saved view."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.log.events import canonical_json
from harness.tracking.record import PHASES, MlflowRun

VIEW = "tta"
_RESULTS = ("time_to_target_s", "samples_to_target", "quality", "energy_j", "cost_list", "reached")
_NOTE = """\
**{benchmark}, {division} division** · rules {ruleset} · {target}

A mirror of run logs, for viewing curves. **The board is authoritative:** verdicts, scores and ranks are computed \
from the logs and never from MLflow, where the owner of a run may change it.

- *Views*, *Time to accuracy*, then the chart icon: quality against time with the target, one colour per result.
- One run per repeat. The repeats of one result share the tags `tta.result` and `tta.submission_id`: *Group by* one.
- The step is samples trained on; timestamps are the referee's clock. The run `target: …` is the quality to reach, as \
a line of its own; it is no result.
- `system/…` is what MLflow measures of the machine beside the run: processors, memory, disk, network, accelerators.
- `power/watts`: the mean of each second, summed over all nodes; its step is seconds of the referee's clock. The board \
says whether an energy is ranked, and among which others.
- `tta sync DIR` adds what is missing here.
"""


def experiment_tags(record: MlflowRun) -> dict[str, str]:
    """Return the tags of the record's experiment."""
    tags = {
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": _NOTE.format(
            benchmark=record.tags["tta.benchmark"],
            division=record.tags["tta.division"],
            ruleset=record.ruleset or "unknown",
            target=(record.target_line or "target: see the rules"),
        ),
        "tta.benchmark": record.tags["tta.benchmark"],
        "tta.division": record.tags["tta.division"],
        "tta.rules_version": record.ruleset,
        "tta.target": record.tags.get("tta.target"),
        f"mlflow.sharedViewState.{VIEW}": _view(record.metric, record.start_ms or 0),
    }
    return {name: value for name, value in tags.items() if value}


def page(uri: str, experiment_id: str) -> str:
    """Return the address of an experiment's charts in the saved view, on the store's server or one on this machine."""
    server = uri.rstrip("/") if uri.startswith(("http://", "https://")) else "http://127.0.0.1:5000"
    # Without workflowType the page opens in the mode for language models, which shows no runs.
    return (
        f"{server}/#/experiments/{experiment_id}/runs"
        f"?viewStateShareKey={VIEW}&workflowType=machine_learning&compareRunsMode=CHART"
    )


def is_newer(record: MlflowRun, tags: Mapping[str, str]) -> bool:
    """Return whether the record should replace an experiment's `tags`: it has later rules, or the first target."""
    has_first_target = record.target is not None and "tta.target" not in tags
    return has_first_target or _version(record.ruleset) > _version(tags.get("tta.rules_version", ""))


def _version(name: str) -> list[tuple[int, str]]:
    """Return a sort key that has `v10` after `v9`."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def _view(metric: str, made_ms: int) -> str:
    """Return a saved view of MLflow's runs page, in the format of an experiment's tag.

    Not compressed; MLflow compresses the views it saves, and reads both (3.17).
    """
    curve = [f"eval/{metric}"]  # the target is a run of its own, with its own colour
    sections = {
        "eval": [
            {**_line(curve, "metric"), "selectedXAxisMetricKey": "eval/elapsed_s"},
            _line(curve),
            # MLflow would add a separate chart for each of these two.
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
