"""Writes runs to an MLflow store, adding only what is missing there.

Nothing is ever read back for ranking: the owner of a run in MLflow may change it afterwards.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.base.files import sha256_of
from harness.errors import LogError, MissingDependencyError, OutputError, printable
from harness.tracking.experiment_view import experiment_tags, is_newer, page
from harness.tracking.measurement import EXPERIMENT, Measurement
from harness.tracking.record import MlflowRun, Point

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PATIENCE_S = 60.0  # the first start of a store migrates for 4 to 12 s, longer on a busy machine
_POLL_S = 0.05
# MLflow's defaults (7 attempts of 120 s, with doubling waits) block one call to a dead server for 246 s.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_BATCH_POINTS = 1000  # MLflow's limit for one request
_DIGEST_CHARS = 32  # MLflow takes at most 36; the full SHA-256 goes into a tag of the input
_MAY_BE_CHANGED = ("mlflow.runColor",)  # by a reader of the run
_SECONDS = "eval/elapsed_s"
_TARGET_OF = "tta.target_of"  # the ruleset, on the run that is the line of its target
_MEASUREMENT = "tta.measurement"  # the digest of a measurement's document, on a run that is none of a benchmark
_TARGET_COLOR = "#111111"
_SENT_AT_THE_END = ("tta.state", "tta.reason")


@dataclass(slots=True)
class StoredRun:
    """What the store is known to have of one run. num_points: how many of the record's points that is."""

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
    """What one call added to the store."""

    params: int = 0
    metrics: int = 0
    artifacts: int = 0


@dataclass(slots=True)
class _TargetLine:
    """The run that is the line of a target, and how far the line goes."""

    mlflow_id: str
    step: int = -1
    seconds: float = 0.0


class Store:
    """An MLflow store that responds.

    Raises (here and in every method):
        OutputError: the store cannot be reached or refused the request; the message names the store.
        MissingDependencyError: mlflow is not installed.
    """

    def __init__(self, uri: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.name = printable(_without_passwords(uri.partition("?")[0]))
        self._experiments: dict[str, str] = {}
        self._targets: dict[tuple[str, str], _TargetLine] = {}
        self._sqlite = sqlite_path(uri)
        client, self._errors = _import()
        with self._readable_errors(), self._exclusive():
            if self._sqlite is not None:
                set_write_ahead(self._sqlite)
            self._client: MlflowClient = client(tracking_uri=uri)
            self._client.search_experiments(max_results=1)

    @property
    def is_file(self) -> bool:
        """Whether the store is a file, which no server shows until one is started."""
        return self._sqlite is not None

    def pages(self) -> Iterator[str]:
        """Yield the address of each experiment that was written to."""
        for experiment_id in self._experiments.values():
            yield page(self.name, experiment_id)

    def ping(self) -> None:
        """Send the smallest request; raise if the store does not answer."""
        with self._readable_errors():
            self._client.search_experiments(max_results=1)

    def open_run(self, record: MlflowRun, log: Path) -> StoredRun:
        """Find the run of `record` by its `tta.run_id`, or create it.

        Raises:
            LogError: the store has this run, finished, from a log with other content than `log`.
        """
        assert record.is_placed, "the log does not identify its run yet"
        with self._readable_errors(), self._exclusive():
            experiment_id = self._experiment(record)
            found = self._client.search_runs(
                [experiment_id], f"tags.`tta.run_id` = '{record.run_id}'", max_results=1, order_by=["start_time ASC"]
            )
            if found:
                return self._held(found[0], record, log)
            run = self._client.create_run(
                experiment_id,
                start_time=record.start_ms,
                tags={"tta.run_id": record.run_id, "tta.state": "started"},
                run_name=record.name,
            )
            return StoredRun(run.info.run_id, is_new=True, tags=dict(run.data.tags))

    def add(self, record: MlflowRun, stored: StoredRun, files: Mapping[str, Path] | None = None) -> Added:
        """Add what the store does not have yet, and update `stored` accordingly.

        Args:
            record: the run.
            stored: from `open_run`; if this call raises, it is out of date and the run must be opened again.
            files: artifacts by the name of the tag with their SHA-256. Given once the log has no more lines:
                the run is then closed with its status.
        """
        with self._readable_errors():
            added = self._add_batch(record, stored, is_final=files is not None)
            if record.data is not None and not stored.has_data:
                self._add_data(record, stored)
            if files is None:
                return added
            num_artifacts = self._add_artifacts(record, stored, files)
            if (stored.status, stored.end_ms) != (record.status, record.end_ms):
                self._client.set_terminated(stored.mlflow_id, record.status, record.end_ms)
                stored.status, stored.end_ms = record.status, record.end_ms
        return Added(added.params, added.metrics, num_artifacts)

    def add_measurement(self, measurement: Measurement) -> bool:
        """Add a measurement as a finished run of its own; return False if the store has it already."""
        from mlflow.entities import Metric, Param, RunTag

        with self._readable_errors(), self._exclusive():
            found = self._client.get_experiment_by_name(EXPERIMENT)
            experiment_id = (
                self._client.create_experiment(EXPERIMENT, self._artifacts(EXPERIMENT))
                if found is None
                else found.experiment_id
            )
            self._experiments[EXPERIMENT] = str(experiment_id)
            same = f"tags.`{_MEASUREMENT}` = '{measurement.digest}'"
            if self._client.search_runs([experiment_id], same, max_results=1):
                return False
            at = measurement.start_ms
            run = self._client.create_run(experiment_id, start_time=at, run_name=measurement.name)
            self._client.log_batch(
                run.info.run_id,
                metrics=[Metric(name, value, at, 0) for name, value in measurement.metrics.items()],
                params=[Param(name, value) for name, value in measurement.params.items()],
            )
            for path in measurement.files:
                self._client.log_artifact(run.info.run_id, str(path), "tta")
            # Last, so that one that broke off is added again.
            self._client.log_batch(run.info.run_id, tags=[RunTag(_MEASUREMENT, measurement.digest)])
            self._client.set_terminated(run.info.run_id)
        return True

    def _add_batch(self, record: MlflowRun, stored: StoredRun, is_final: bool) -> Added:
        from mlflow.entities import Metric, Param, RunTag

        params = {name: value for name, value in record.params.items() if name not in stored.params}
        tags = {
            name: value
            for name, value in record.tags.items()
            if (name not in stored.tags if name in _MAY_BE_CHANGED else stored.tags.get(name) != value)
            and (is_final or name not in _SENT_AT_THE_END)
        }
        num_points = len(record.points)
        points = [point for point in record.points[stored.num_points :] if point not in stored.points]
        if params or tags or points:
            for start in range(0, max(1, len(points)), _BATCH_POINTS):
                self._client.log_batch(
                    stored.mlflow_id,
                    metrics=[
                        Metric(point.name, point.value, point.time_ms, point.step)
                        for point in points[start : start + _BATCH_POINTS]
                    ],
                    params=[Param(name, value) for name, value in params.items()] if start == 0 else [],
                    tags=[RunTag(name, value) for name, value in tags.items()] if start == 0 else [],
                )
        stored.params |= set(params)
        stored.tags |= tags
        stored.num_points = num_points
        return Added(len(params), len(points))

    def _add_data(self, record: MlflowRun, stored: StoredRun) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = record.data
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
        self._client.log_inputs(stored.mlflow_id, datasets=inputs)
        stored.has_data = True

    def _add_artifacts(self, record: MlflowRun, stored: StoredRun, files: Mapping[str, Path]) -> int:
        """Upload the files that the store does not have with the same digest. A digest is stored after its upload.

        `tta.power/idle/node_0_sha256` is in `tta/power/idle`, `tta.log_sha256` in `tta`.
        """
        num_added = 0
        for tag, path in files.items():
            digest = sha256_of(path)
            if stored.tags.get(tag) != digest:
                self._client.log_artifact(stored.mlflow_id, str(path), tag.replace(".", "/", 1).rpartition("/")[0])
                self._client.set_tag(stored.mlflow_id, tag, digest)
                stored.tags[tag] = digest
                num_added += 1
        if record.overflow and stored.tags.get("tta.num_overflow_params") != str(len(record.overflow)):
            self._client.log_dict(stored.mlflow_id, record.overflow, "tta/params.json")
            self._client.set_tag(stored.mlflow_id, "tta.num_overflow_params", str(len(record.overflow)))
            num_added += 1
        return num_added

    def tag(self, stored: StoredRun, name: str, value: str) -> None:
        """Set one tag, unless it has that value already."""
        if stored.tags.get(name) != value:
            with self._readable_errors():
                self._client.set_tag(stored.mlflow_id, name, value)
            stored.tags[name] = value

    def draw_target(self, record: MlflowRun) -> None:
        """Draw the target of the record's experiment as far as its curve goes: as a run, since a run has one colour."""
        name = record.target_line
        ends = {point.name: point for point in record.points if point.name in (f"eval/{record.metric}", _SECONDS)}
        if name is None or len(ends) < 2:
            return
        with self._readable_errors(), self._exclusive():
            line = self._target_line(record, name)
            end, seconds = ends[f"eval/{record.metric}"], ends[_SECONDS].value
            if line.step < 0:
                self._extend(line, record, 0, 0.0, end.time_ms)
            if end.step > line.step or seconds > line.seconds:
                step = max(end.step, line.step + 1)
                self._extend(line, record, step, max(seconds, line.seconds), end.time_ms)

    def _target_line(self, record: MlflowRun, name: str) -> _TargetLine:
        experiment_id = self._experiment(record)
        key = experiment_id, record.ruleset
        if key not in self._targets:
            chosen = f"tags.`{_TARGET_OF}` = '{record.ruleset}'"
            found = self._client.search_runs([experiment_id], chosen, max_results=1)
            if found:
                line = self._targets[key] = _TargetLine(found[0].info.run_id)
                for point in self._client.get_metric_history(line.mlflow_id, _SECONDS):
                    line.step, line.seconds = max(line.step, point.step), max(line.seconds, point.value)
            else:
                tags = {_TARGET_OF: record.ruleset, "tta.result": "target", "mlflow.runColor": _TARGET_COLOR}
                run = self._client.create_run(experiment_id, tags=tags, run_name=name)
                self._client.set_terminated(run.info.run_id)
                self._targets[key] = _TargetLine(run.info.run_id)
        return self._targets[key]

    def _extend(self, line: _TargetLine, record: MlflowRun, step: int, seconds: float, time_ms: int) -> None:
        from mlflow.entities import Metric

        assert record.target is not None
        values = {f"eval/{record.metric}": record.target, _SECONDS: seconds}
        metrics = [Metric(name, value, time_ms, step) for name, value in values.items()]
        self._client.log_batch(line.mlflow_id, metrics=metrics)
        line.step, line.seconds = step, seconds

    def _held(self, run: Run, record: MlflowRun, log: Path) -> StoredRun:
        tags = dict(run.data.tags)
        digest = tags.get("tta.log_sha256")
        if digest is not None and tags.get("tta.state") != "started" and digest != sha256_of(log):
            raise LogError(
                f"{log}: MLflow has the run {record.run_id} from a log with other content (SHA-256 {digest[:16]}…); "
                "one of the two was changed; nothing was added"
            )
        points = {
            Point(name, metric.value, metric.timestamp, metric.step)
            for name in run.data.metrics
            for metric in self._client.get_metric_history(run.info.run_id, name)
        }
        return StoredRun(
            mlflow_id=run.info.run_id,
            is_new=False,
            params=set(run.data.params),
            tags=tags,
            points=points,
            status=run.info.status,
            end_ms=run.info.end_time,
            has_data=bool(run.inputs and run.inputs.dataset_inputs),
        )

    def _experiment(self, record: MlflowRun) -> str:
        """Return the id of the record's experiment; create it, or update its tags to newer rules, if necessary."""
        name = record.experiment
        if name in self._experiments:
            return self._experiments[name]
        tags = experiment_tags(record)
        found = self._client.get_experiment_by_name(name)
        if found is None:
            self._client.create_experiment(name, self._artifacts(name), tags)
            found = self._client.get_experiment_by_name(name)
        assert found is not None
        if found.lifecycle_stage != "active":
            raise OutputError(
                f"MLflow at {self.name}: the experiment {name!r} was deleted; restore it with "
                f"`mlflow experiments restore -x {found.experiment_id}`"
            )
        for key, value in tags.items():
            if found.tags.get(key) != value and (key not in found.tags or is_newer(record, found.tags)):
                self._client.set_experiment_tag(found.experiment_id, key, value)
        self._experiments[name] = str(found.experiment_id)
        return self._experiments[name]

    def _artifacts(self, experiment: str) -> str | None:
        """Return a folder next to an SQLite store; a server has its own place."""
        return None if self._sqlite is None else (self._sqlite.parent / "mlartifacts" / experiment).as_uri()

    def _exclusive(self) -> AbstractContextManager[None]:
        """Lock an SQLite store: migrations must run alone, and a run must not be created twice."""
        return nullcontext() if self._sqlite is None else locked(self._sqlite)

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Raise the errors of MLflow and of the network as one line of `OutputError`."""
        try:
            yield
        except self._errors as error:
            reason = " ".join(printable(_without_passwords(str(error)), 400).split()) or type(error).__name__
            raise OutputError(f"MLflow at {self.name}: {reason}") from None


def _import() -> tuple[type[MlflowClient], tuple[type[Exception], ...]]:
    """Return MLflow's client class, and the errors of a store that is unavailable or refuses a request."""
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
        logging.getLogger(name).setLevel(level)  # errors are raised; these would repeat them
    return MlflowClient, (MlflowException, RequestException, SQLAlchemyError, CommandError, sqlite3.Error, OSError)


def _without_passwords(text: str) -> str:
    """Return the text with the part of each address before its @ removed."""
    return re.sub(r"(?<=://)[^/\s]*@", "…@", text)


def sqlite_path(uri: str) -> Path | None:
    """Return the file that an SQLAlchemy URI names; None for a store that is not an SQLite file."""
    match = re.fullmatch(r"sqlite(?:\+pysqlite)?:///([^?]+)(?:\?.*)?", uri)
    return Path(match.group(1)).absolute() if match else None


@contextmanager
def locked(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the lock file next to `path`.

    Raises:
        TimeoutError: another process has held it for `patience_s` seconds.
        OSError: the lock file cannot be created.
    """
    with open(f"{path}.lock", "a") as stream:
        give_up = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"another process has held {path}.lock for {patience_s:g} s") from None
                time.sleep(_POLL_S)
        yield


def set_write_ahead(path: Path) -> None:
    """Switch the file to write-ahead logging, so that readers and the writer do not block each other; permanent.

    Raises:
        sqlite3.Error: the folder does not exist, or the file is not a database.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
