"""Brings pictures of runs into an MLflow store, and only what is missing there. The only file that imports mlflow.

Nothing is ever read back for ranking: whoever owns a run in MLflow may change it afterwards.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import LogError, MissingDependencyError, OutputError, printable
from harness.submission.result import sha256_of
from harness.tracking import sqlitefile
from harness.tracking.experiment_view import experiment_tags, is_newer, page
from harness.tracking.picturevalues import Point
from harness.tracking.record import RunPicture

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# MLflow's own defaults (7 tries, 120 s each, waits that double) block one call to a dead server for 246 s.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_BATCH_POINTS = 1000  # MLflow's limit for one request
_DIGEST_CHARS = 32  # MLflow takes 36 at most; the whole SHA-256 goes into a tag of the input
_MAY_BE_CHANGED = ("mlflow.runColor",)  # by whoever looks at the run
_SENT_AT_THE_END = ("tta.state", "tta.reason")


@dataclass(slots=True)
class Held:
    """What the store holds of one run, as far as we know. num_points: how many of the picture's points it has."""

    mlflow_id: str
    is_new: bool
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    points: set[Point] = field(default_factory=set)
    num_points: int = 0
    status: str = "RUNNING"
    end_ms: int | None = None
    has_data: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """How much one call brought into the store."""

    params: int = 0
    metrics: int = 0
    artifacts: int = 0


class Store:
    """An MLflow store that answers.

    Raises (here and in every method):
        OutputError: the store cannot be reached, or refuses; one sentence that names it.
        MissingDependencyError: mlflow is not installed.
    """

    def __init__(self, uri: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.name = printable(_without_passwords(uri.partition("?")[0]))
        self._experiments: dict[str, str] = {}
        self._sqlite = sqlitefile.path_in(uri)
        client, self._errors = _import()
        with self._sentences(), self._alone():
            if self._sqlite is not None:
                sqlitefile.set_write_ahead(self._sqlite)
            self._client: MlflowClient = client(tracking_uri=uri)
            self._client.search_experiments(max_results=1)

    @property
    def is_file(self) -> bool:
        """Whether nobody serves the store until somebody starts a server."""
        return self._sqlite is not None

    def pages(self) -> Iterator[str]:
        """Where people look at the experiments that were touched."""
        for experiment_id in self._experiments.values():
            yield page(self.name, experiment_id)

    def ask(self) -> None:
        """Asks the store for next to nothing: raises if there is no answer."""
        with self._sentences():
            self._client.search_experiments(max_results=1)

    def bring(self, picture: RunPicture, log: Path) -> Held:
        """The run of `picture`, found by its `tta.run_id` or made.

        Raises:
            LogError: the store has this run, finished, from a log with other bytes than `log` has.
        """
        assert picture.is_placed, "the log has not yet said which run it is"
        with self._sentences(), self._alone():
            experiment_id = self._experiment(picture)
            found = self._client.search_runs(
                [experiment_id], f"tags.`tta.run_id` = '{picture.run_id}'", max_results=1, order_by=["start_time ASC"]
            )
            if found:
                return self._held(found[0], picture, log)
            run = self._client.create_run(
                experiment_id,
                start_time=picture.start_ms,
                tags={"tta.run_id": picture.run_id, "tta.state": "started"},
                run_name=picture.name,
            )
            return Held(run.info.run_id, is_new=True, tags=dict(run.data.tags))

    def add(self, picture: RunPicture, held: Held, files: Mapping[str, Path] | None = None) -> Added:
        """Adds what the store does not hold yet, and notes in `held` what it holds now.

        Args:
            picture: the run.
            held: from `bring`; if this raises, it is out of date and the run must be brought anew.
            files: artifacts by the name of the tag with their SHA-256. Given once no more lines will come:
                the run is then closed with its status.
        """
        with self._sentences():
            added = self._add_batch(picture, held, is_final=files is not None)
            if picture.data is not None and not held.has_data:
                self._add_data(picture, held)
            if files is None:
                return added
            num_artifacts = self._add_artifacts(picture, held, files)
            if (held.status, held.end_ms) != (picture.status, picture.end_ms):
                self._client.set_terminated(held.mlflow_id, picture.status, picture.end_ms)
                held.status, held.end_ms = picture.status, picture.end_ms
        return Added(added.params, added.metrics, num_artifacts)

    def _add_batch(self, picture: RunPicture, held: Held, is_final: bool) -> Added:
        from mlflow.entities import Metric, Param, RunTag

        params = {name: value for name, value in picture.params.items() if name not in held.params}
        tags = {
            name: value
            for name, value in picture.tags.items()
            if (name not in held.tags if name in _MAY_BE_CHANGED else held.tags.get(name) != value)
            and (is_final or name not in _SENT_AT_THE_END)
        }
        num_points = len(picture.points)
        points = [point for point in picture.points[held.num_points :] if point not in held.points]
        if params or tags or points:
            for start in range(0, max(1, len(points)), _BATCH_POINTS):
                self._client.log_batch(
                    held.mlflow_id,
                    metrics=[
                        Metric(point.name, point.value, point.time_ms, point.step)
                        for point in points[start : start + _BATCH_POINTS]
                    ],
                    params=[Param(name, value) for name, value in params.items()] if start == 0 else [],
                    tags=[RunTag(name, value) for name, value in tags.items()] if start == 0 else [],
                )
        held.params |= set(params)
        held.tags |= tags
        held.num_points = num_points
        return Added(len(params), len(points))

    def _add_data(self, picture: RunPicture, held: Held) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = picture.data
        assert data is not None
        size = {"num_files": str(data.num_files), "num_bytes": str(data.num_bytes)}
        tags = {"mlflow.data.context": "training", "tta.data_sha256": data.digest, **size}
        dataset = Dataset(
            name=data.name[:500],
            digest=data.digest[:_DIGEST_CHARS],
            source_type="code",
            source=json.dumps({"tags": {"tta.benchmark": data.name}}),
            profile=json.dumps(size),
        )
        inputs = [DatasetInput(dataset, [InputTag(name, value) for name, value in tags.items()])]
        self._client.log_inputs(held.mlflow_id, datasets=inputs)
        held.has_data = True

    def _add_artifacts(self, picture: RunPicture, held: Held, files: Mapping[str, Path]) -> int:
        """Uploads what is not there with the same digest; the digest is noted only after the upload.

        `tta.power/idle/node_0_sha256` lies in `tta/power/idle`, `tta.log_sha256` in `tta`.
        """
        num_added = 0
        for tag, path in files.items():
            digest = sha256_of(path)
            if held.tags.get(tag) != digest:
                self._client.log_artifact(held.mlflow_id, str(path), tag.replace(".", "/", 1).rpartition("/")[0])
                self._client.set_tag(held.mlflow_id, tag, digest)
                held.tags[tag] = digest
                num_added += 1
        if picture.overflow and held.tags.get("tta.num_overflow_params") != str(len(picture.overflow)):
            self._client.log_dict(held.mlflow_id, picture.overflow, "tta/params.json")
            self._client.set_tag(held.mlflow_id, "tta.num_overflow_params", str(len(picture.overflow)))
            num_added += 1
        return num_added

    def tag(self, held: Held, name: str, value: str) -> None:
        """Sets one tag, unless it says so already."""
        if held.tags.get(name) != value:
            with self._sentences():
                self._client.set_tag(held.mlflow_id, name, value)
            held.tags[name] = value

    def _held(self, run: Run, picture: RunPicture, log: Path) -> Held:
        tags = dict(run.data.tags)
        digest = tags.get("tta.log_sha256")
        if digest is not None and tags.get("tta.state") != "started" and digest != sha256_of(log):
            raise LogError(
                f"{log}: MLflow has the run {picture.run_id} from a log with other bytes (SHA-256 {digest[:16]}…); "
                "one of the two was changed, and nothing was added"
            )
        points = {
            Point(name, metric.value, metric.timestamp, metric.step)
            for name in run.data.metrics
            for metric in self._client.get_metric_history(run.info.run_id, name)
        }
        return Held(
            mlflow_id=run.info.run_id,
            is_new=False,
            params=set(run.data.params),
            tags=tags,
            points=points,
            status=run.info.status,
            end_ms=run.info.end_time,
            has_data=bool(run.inputs and run.inputs.dataset_inputs),
        )

    def _experiment(self, picture: RunPicture) -> str:
        """The id of the picture's experiment, made or brought up to newer rules where that is needed."""
        name = picture.experiment
        if name in self._experiments:
            return self._experiments[name]
        tags = experiment_tags(picture)
        found = self._client.get_experiment_by_name(name)
        if found is None:
            self._client.create_experiment(name, self._artifacts(name), tags)
            found = self._client.get_experiment_by_name(name)
        assert found is not None
        if found.lifecycle_stage != "active":
            raise OutputError(
                f"MLflow at {self.name}: the experiment {name!r} was deleted; bring it back with "
                f"`mlflow experiments restore -x {found.experiment_id}`"
            )
        for key, value in tags.items():
            if found.tags.get(key) != value and (key not in found.tags or is_newer(picture, found.tags)):
                self._client.set_experiment_tag(found.experiment_id, key, value)
        self._experiments[name] = str(found.experiment_id)
        return self._experiments[name]

    def _artifacts(self, experiment: str) -> str | None:
        """Beside an SQLite store of our own; a server knows a better place."""
        return None if self._sqlite is None else (self._sqlite.parent / "mlartifacts" / experiment).as_uri()

    def _alone(self) -> AbstractContextManager[None]:
        """An SQLite store for ourselves: migrations bear no company, and a run must not be made twice."""
        return nullcontext() if self._sqlite is None else sqlitefile.locked(self._sqlite)

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            reason = " ".join(printable(_without_passwords(str(error)), 400).split()) or type(error).__name__
            raise OutputError(f"MLflow at {self.name}: {reason}") from None


def _import() -> tuple[type[MlflowClient], tuple[type[Exception], ...]]:
    """MLflow's client, and every error by which a store says that it is not there or will not."""
    try:
        from alembic.util import CommandError
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the MLflow mirror needs {error.name!r}, which is not installed: pip install 'tta-harness[train]'"
        ) from None
    for name, level in (("mlflow", logging.ERROR), ("alembic", logging.ERROR), ("urllib3", logging.CRITICAL)):
        logging.getLogger(name).setLevel(level)  # what goes wrong is raised; these would say it several times more
    return MlflowClient, (MlflowException, RequestException, SQLAlchemyError, CommandError, sqlite3.Error, OSError)


def _without_passwords(text: str) -> str:
    """The text with what stands before the @ of an address taken out."""
    return re.sub(r"(?<=://)[^/\s]*@", "…@", text)
