"""The MLflow mirror: what arrives in a store, once, and what must not."""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.commands import sync
from harness.errors import ExitStatus, LogError, MissingDependencyError, OutputError
from harness.log.tail import Tail
from harness.tracking import follower as tracking_follower
from harness.tracking import store
from harness.tracking.experiment_view import experiment_tags, is_newer
from harness.tracking.follower import Follower, logs_in
from harness.tracking.record import MAX_PARAMS, MlflowRun
from harness.tracking.store import Added, Store, StoredRun
from tests import fabricate

mlflow = pytest.importorskip("mlflow")
pytestmark = [
    # SQLAlchemy's pool keeps connections until the process ends; MLflow offers no way to close them.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    # MLflow 3.17 under SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),
]
EXPERIMENT = "tta-toy_mini-closed"


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store; MLflow takes 4 to 12 s to create one."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    Store(f"sqlite:///{path}")
    return path


@pytest.fixture
def uri(migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of an empty store for one test."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "store"
    folder.mkdir()
    source, copy = sqlite3.connect(migrated), sqlite3.connect(folder / "mlflow.db")
    source.backup(copy)
    source.close()
    copy.close()
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def toy_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruleset with `toy_mini` in it goes by the name v1."""
    ruleset = fabricate.ruleset({})
    monkeypatch.setattr(tracking_follower, "ruleset_called", lambda name: ruleset if name == "v1" else None)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return fabricate.write_result(tmp_path / "result", num_runs=2)


def content(uri: str, experiment: str = EXPERIMENT) -> dict[str, dict[str, Any]]:
    """Return everything that the store has of an experiment's runs, by `tta.run_id`."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return {}
    stored = {}
    for run in client.search_runs([found.experiment_id]):
        points = [
            (name, point.value, point.timestamp, point.step)
            for name in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, name)
        ]
        assert run.data.tags["tta.run_id"] not in stored, "the same run twice"
        stored[run.data.tags["tta.run_id"]] = {
            "name": run.info.run_name,
            "status": run.info.status,
            "times": (run.info.start_time, run.info.end_time),
            "params": dict(run.data.params),
            "tags": {name: value for name, value in run.data.tags.items() if name.startswith("tta.")},
            "points": sorted(points),
            "metrics": dict(run.data.metrics),
            "inputs": [
                (item.dataset.name, item.dataset.digest, {tag.key: tag.value for tag in item.tags})
                for item in run.inputs.dataset_inputs
            ],
            "artifacts": sorted(item.path for item in client.list_artifacts(run.info.run_id, "tta")),
            "id": run.info.run_id,
        }
    return stored


def only_run(uri: str, experiment: str = EXPERIMENT) -> dict[str, Any]:
    (run,) = content(uri, experiment).values()
    return run


def record_of(path: Path) -> MlflowRun:
    record = MlflowRun(tracking_follower.rules_of)
    for event in Tail(path).events():
        record.take(event)
    return record


def write_one(folder: Path, steps: list[fabricate.Step]) -> Path:
    folder.mkdir(exist_ok=True)
    return fabricate.write_log(folder / "result_0.txt", steps)


def test_a_run_arrives_whole(uri: str, result: Path) -> None:
    """Name, status, the referee's time, parameters, curves, totals, data set and files of a log are in the store."""
    assert sync.run([result], uri) is ExitStatus.OK

    run = content(uri)["0" * 32]
    start = fabricate.WALL_START_MS
    assert run["name"] == "acme-box1-s100-00000000"
    assert run["status"] == "FINISHED"
    assert run["times"] == (start, start + 9_900)
    assert run["params"]["hyperparameters.global_batch_size"] == "100"
    assert run["params"]["seed"] == "100"
    assert run["params"]["world_size"] == "1"
    assert run["params"]["system.name"] == "box1"
    assert [point[1:] for point in run["points"] if point[0] == "eval/top1_accuracy"] == [
        (0.5, start + 4_900, 1000),
        (0.8, start + 7_400, 2000),
        (0.95, start + 9_900, 3000),
    ]
    assert [point[1] for point in run["points"] if point[0] == "eval/elapsed_s"] == [2.7, 5.2, 7.7]
    assert {point[1] for point in run["points"] if point[0] == "eval/target"} == {0.9}
    assert run["metrics"]["throughput/samples_per_s"] == 500
    assert run["metrics"]["train/data_wait_s"] == 0.1
    assert run["metrics"]["result/time_to_target_s"] == 7.7
    assert run["metrics"]["result/samples_to_target"] == 3000
    assert run["metrics"]["result/quality"] == 0.95
    assert run["metrics"]["result/reached"] == 1
    assert run["metrics"]["ledger/eval_s"] == 1.5
    assert run["tags"]["tta.state"] == "success"
    assert run["tags"]["tta.submission_id"] == "ab" * 16
    assert run["tags"]["tta.result"] == "acme box1 abababab"
    ((name, digest, tags),) = run["inputs"]
    assert (name, digest, tags["tta.data_sha256"]) == ("toy_mini", "d" * 32, "d" * 64)
    assert tags["mlflow.data.context"] == "training"
    assert run["artifacts"] == ["tta/result_0.txt", "tta/system.json"]


def test_what_was_not_measured_is_absent(uri: str, result: Path) -> None:
    """Unmeasured energy and an unknown price are absent, not 0."""
    sync.run([result], uri)

    absent = {"result/energy_j", "result/coverage", "result/cost_list", "result/cost_billed", "power/watts"}
    assert not absent & set(content(uri)["0" * 32]["metrics"])


def test_the_energy_of_a_log_without_power_logs(uri: str, tmp_path: Path) -> None:
    """A log older than power logs has the total that it states, and no curve."""
    steps = fabricate.events()
    fabricate.find(steps, "tta_energy").value.update(energy_j=1234.5, source="measured")
    sync.run([write_one(tmp_path, steps)], uri)

    run = only_run(uri)
    assert run["metrics"]["result/energy_j"] == 1234.5
    assert "power/watts" not in run["metrics"]


def test_a_second_pass_changes_nothing(uri: str, result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second pass sends nothing: same runs, values and files."""
    sync.run([result], uri)
    before = content(uri)
    capsys.readouterr()
    assert sync.run([result], uri) is ExitStatus.OK

    assert content(uri) == before
    assert capsys.readouterr().out.count("nothing was missing") == 2


def test_a_copy_in_another_place_is_the_same_run(uri: str, result: Path, tmp_path: Path) -> None:
    """A run is identified by its id, not by the path of its log."""
    sync.run([result], uri)
    before = content(uri)
    result.rename(tmp_path / "elsewhere")
    sync.run([tmp_path / "elsewhere"], uri)

    assert content(uri) == before


@pytest.mark.parametrize("num_lines", [10, 25, 35, 45])
def test_a_pass_that_was_broken_off_is_completed(uri: str, tmp_path: Path, num_lines: int) -> None:
    """Half a log first and all of it later give the same run as all of it at once."""
    lines = fabricate.text_of(fabricate.events()).splitlines(keepends=True)
    log = tmp_path / "result_0.txt"
    log.write_text("".join(lines[:num_lines]))
    follower = Follower(lambda: [log], None, lambda: Store(uri))
    follower.read()
    follower.send(is_last=False)
    assert only_run(uri)["status"] == "RUNNING"
    log.write_text("".join(lines))
    sync.run([log], uri)

    run, record = only_run(uri), record_of(log)
    assert run["status"] == "FINISHED"
    assert run["points"] == sorted((point.name, point.value, point.time_ms, point.step) for point in record.points)
    assert run["params"] == record.params


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("success", "target", "FINISHED"),
        ("aborted", "full_curve", "FINISHED"),
        ("aborted", "oom", "FAILED"),
        ("aborted", "interrupted", "KILLED"),
    ],
)
def test_status_of_a_run_that_ended(tmp_path: Path, status: str, reason: str, expected: str) -> None:
    """MLflow's status follows the log; a completed reference run is not a failure."""
    record = record_of(write_one(tmp_path, fabricate.events(status=status, reason=reason)))

    assert (record.status, record.tags["tta.state"], record.tags["tta.reason"]) == (expected, status, reason)
    assert ("result/time_to_target_s" in {point.name for point in record.points}) == (status == "success")


def test_a_log_without_run_stop_is_a_killed_run_until_it_has_one(uri: str, tmp_path: Path) -> None:
    """A crash never looks like a success, and the status of an unfinished run is corrected later."""
    steps = fabricate.events()
    log = write_one(tmp_path, steps[:-5])
    sync.run([log], uri)
    killed = only_run(uri)
    assert (killed["status"], killed["tags"]["tta.state"]) == ("KILLED", "started")
    write_one(tmp_path, steps)
    sync.run([log], uri)

    run = only_run(uri)
    assert (run["status"], run["tags"]["tta.state"], run["id"]) == ("FINISHED", "success", killed["id"])


def test_a_last_line_that_is_cut_off_is_not_read(uri: str, tmp_path: Path) -> None:
    """Complete lines arrive; a partial line waits for its rest."""
    log = tmp_path / "result_0.txt"
    log.write_text(fabricate.text_of(fabricate.events())[:-40])

    assert sync.run([log], uri) is ExitStatus.OK
    assert only_run(uri)["status"] == "FINISHED"
    assert not record_of(log).is_closed


def test_a_log_that_was_changed_afterwards_is_refused(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two different logs of one run id: nothing is added."""
    steps = fabricate.events()
    log = write_one(tmp_path, steps)
    sync.run([log], uri)
    before = content(uri)
    fabricate.find(steps, "eval_accuracy", 2).value = 0.99
    write_one(tmp_path, steps)

    assert sync.run([log], uri) is ExitStatus.FINDINGS
    assert content(uri) == before
    assert "from a log with other content" in capsys.readouterr().out


def test_a_log_of_another_program_is_passed_over(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that does not identify its run creates none."""
    log = write_one(tmp_path, [step for step in fabricate.events() if not step.key.startswith("tta_")])

    assert sync.run([log], uri) is ExitStatus.FINDINGS
    assert content(uri) == {}
    assert "does not identify its run" in capsys.readouterr().out


def test_one_bad_log_hides_nothing_of_the_others(uri: str, result: Path) -> None:
    """An unreadable file among the logs does not affect the others."""
    (result / "result_0.txt").write_bytes(b"\xff\x00:::MLLOG {\n" * 10)

    assert sync.run([result], uri) is ExitStatus.FINDINGS
    assert [run["tags"]["tta.index"] for run in content(uri).values()] == ["1"]


def test_values_that_no_store_can_hold_stay_out(uri: str, tmp_path: Path) -> None:
    """Numbers beyond a float, booleans and strings are not metrics; the rest of the log arrives."""
    steps = fabricate.events()
    for nth, value in enumerate((10**400, True)):
        fabricate.find(steps, "eval_accuracy", nth).value = value
    fabricate.find(steps, "tracked_stats", 0).value["train_loss"] = "low"
    log = write_one(tmp_path, steps)
    log.write_text(log.read_text().replace('"throughput": 500.0', '"throughput": 1e999', 1))
    sync.run([log], uri)

    run = only_run(uri)
    assert [point[1] for point in run["points"] if point[0] == "eval/top1_accuracy"] == [0.95]
    assert len([point for point in run["points"] if point[0] == "train/loss"]) == 2
    assert all(abs(point[1]) < 1e9 for point in run["points"])


def test_hostile_names_and_texts(uri: str, tmp_path: Path) -> None:
    """Slashes, quotes, control characters and lone surrogates are replaced, and names stay distinct."""
    steps = fabricate.events()
    fabricate.find(steps, "submission_benchmark").value = "../x' OR '1'='1"
    fabricate.find(steps, "submission_division").value = "closed/\x1b[31m"
    fabricate.find(steps, "submission_org").value = "\ud800acme\x00"
    config = fabricate.find(steps, "tta_config").value
    config["hyperparameters"].update({"a(b": 1, "a)b": 2, "..": 3, "x" * 400: 4})
    fabricate.find(steps, "tta_ledger").value["../../etc_s"] = 1.0
    sync.run([write_one(tmp_path, steps)], uri)

    run = only_run(uri, "tta-.._x_OR_1_1-closed_x1b_31m")
    assert run["name"].startswith("\\ud800acme\\x00-box1-s100-")
    assert {"1", "2", "3", "4"} <= {run["params"][name] for name in run["params"] if name not in ("seed", "index")}
    assert not any("etc" in name for name in run["metrics"])


ENDLESS = "\x1b[2J\x00\ud800\u202e" + "x" * 100_000


def _hostile_texts(steps: list[fabricate.Step]) -> None:
    for name in ("submission_org", "submission_platform", "seed"):
        fabricate.find(steps, name).value = ENDLESS
    fabricate.find(steps, "tta_config").value.update({ENDLESS: ENDLESS, "": "", "a": {"": {"\n": "\n" * 7000}}})
    fabricate.find(steps, "tta_rules").value.update(digest=ENDLESS)
    fabricate.find(steps, "tta_ledger").value.update({ENDLESS + "_s": 1.0})
    fabricate.find(steps, "tracked_stats", 0).value.update({ENDLESS: 1.0, "train_loss": ENDLESS})
    fabricate.find(steps, "run_stop").metadata.update(status="success", reason=ENDLESS)


def _hostile_numbers(steps: list[fabricate.Step]) -> None:
    for nth, (value, samples) in enumerate([(1.7e308, 10**30), (-0.0, -5)]):
        fabricate.find(steps, "eval_accuracy", nth).value = value
        fabricate.find(steps, "eval_accuracy", nth).metadata["samples_count"] = samples
    fabricate.find(steps, "seed").value = 10**300
    fabricate.find(steps, "tta_ledger").value.update(x_s=1e308, y_s=-1e308, z_s=5e-324)
    fabricate.find(steps, "tracked_stats", 0).value.update(train_loss=1e308, throughput=10**400)


@pytest.mark.parametrize("change", [_hostile_texts, _hostile_numbers])
@pytest.mark.parametrize("token", ["NaN", "-Infinity", "1e999"])
def test_what_arrives_is_finite_short_and_clean(
    uri: str, tmp_path: Path, change: Callable[[list[fabricate.Step]], None], token: str
) -> None:
    """Whatever a log contains, the run has its last evaluation, and a second pass adds nothing."""
    steps = fabricate.events()
    change(steps)
    log = write_one(tmp_path, steps)
    text = log.read_text()
    assert '"throughput": 500.0' in text
    log.write_text(text.replace('"throughput": 500.0', f'"throughput": {token}'))

    assert sync.run([log], uri) is ExitStatus.OK
    run = only_run(uri)
    sync.run([log], uri)

    assert only_run(uri) == run
    assert (0.95, 3000) in {(point[1], point[3]) for point in run["points"] if point[0] == "eval/top1_accuracy"}
    assert all(math.isfinite(point[1]) and 0 <= point[3] < 2**53 for point in run["points"])
    assert not [point for point in run["points"] if point[0] == "throughput/samples_per_s"]
    names = [run["name"], *run["params"], *run["metrics"], *run["tags"]]
    assert max(map(len, names)) <= 250
    assert "".join(names).isprintable()
    texts = [*run["params"].values(), *run["tags"].values()]
    assert max(map(len, texts)) <= 8000
    assert "".join(texts).replace("\n", "").isprintable()


@pytest.mark.parametrize("run_id", ["' OR 1=1", "a" * 65, "", 7, None, "../../../x"])
def test_a_run_id_that_is_no_plain_word_is_none(tmp_path: Path, run_id: object) -> None:
    """A value in a search must not be able to terminate its string."""
    steps = fabricate.events()
    fabricate.find(steps, "tta_format").value["run_id"] = run_id

    assert not record_of(write_one(tmp_path, steps)).is_placed


def test_a_parameter_too_long_for_mlflow_is_kept_whole(uri: str, tmp_path: Path) -> None:
    """MLflow would truncate it silently: the parameter names the artifact, which has all of it."""
    steps = fabricate.events()
    fabricate.find(steps, "tta_config").value["note"] = "n" * 7000
    log = write_one(tmp_path, steps)
    sync.run([log], uri)
    sync.run([log], uri)

    run = only_run(uri)
    assert run["params"]["note"] == "(7,000 characters; in full in tta/params.json)"
    path = mlflow.MlflowClient(tracking_uri=uri).download_artifacts(run["id"], "tta/params.json", str(tmp_path))
    assert json.loads(Path(path).read_text()) == {"note": "n" * 7000}


def test_very_many_parameters_go_into_the_artifact(tmp_path: Path) -> None:
    """Parameters beyond 99 are not dropped."""
    steps = fabricate.events()
    fabricate.find(steps, "tta_config").value["hyperparameters"].update({f"p{i}": i for i in range(300)})
    record = record_of(write_one(tmp_path, steps))

    assert len(record.params) == MAX_PARAMS
    assert {f"hyperparameters.p{i}" for i in range(300)} <= set(record.params) | set(record.overflow)


def test_links_are_not_followed(uri: str, tmp_path: Path, result: Path) -> None:
    """Neither a log nor a system description is read through a link."""
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (result / "system.json").unlink()
    (result / "system.json").symlink_to(secret)
    (result / "result_1.txt").rename(tmp_path / "log.txt")
    (result / "result_1.txt").symlink_to(tmp_path / "log.txt")

    assert sync.run([result], uri) is ExitStatus.FINDINGS
    assert only_run(uri)["artifacts"] == ["tta/result_0.txt"]


def test_experiment_says_what_it_is(uri: str, result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Description, target and the saved view are on the experiment, and its address is printed at the end."""
    sync.run([result], uri)

    experiment = mlflow.MlflowClient(tracking_uri=uri).get_experiment_by_name(EXPERIMENT)
    assert "The board is authoritative" in experiment.tags["mlflow.note.content"]
    assert "top1_accuracy ≥ 0.9" in experiment.tags["mlflow.note.content"]
    assert experiment.tags["tta.target"] == "0.9"
    view = json.loads(experiment.tags["mlflow.sharedViewState.tta"])
    charts = json.loads(view["state"])["compareRunCharts"]
    assert charts[0]["selectedMetricKeys"] == ["eval/top1_accuracy", "eval/target"]
    assert len(experiment.tags["mlflow.sharedViewState.tta"]) < 20_000
    assert f"/#/experiments/{experiment.experiment_id}/runs?viewStateShareKey=tta" in capsys.readouterr().out
    assert experiment.artifact_location.endswith("/store/mlartifacts/tta-toy_mini-closed")


def test_a_description_that_a_person_wrote_stays(uri: str, result: Path) -> None:
    """Only rules of a later version replace an experiment's description."""
    sync.run([result], uri)
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment_id = client.get_experiment_by_name(EXPERIMENT).experiment_id
    client.set_experiment_tag(experiment_id, "mlflow.note.content", "mine")
    sync.run([result], uri)

    assert client.get_experiment(experiment_id).tags["mlflow.note.content"] == "mine"


@pytest.mark.parametrize(("there", "newer"), [("v9", True), ("v10", False), ("v11", False), ("", True)])
def test_rules_of_a_later_version(result: Path, there: str, newer: bool) -> None:
    """v10 is later than v9, and the first run with a target counts as newer."""
    record = record_of(result / "result_0.txt")
    record.ruleset = "v10"

    assert is_newer(record, {"tta.rules_version": there, "tta.target": "0.9"}) is newer
    assert is_newer(record, {"tta.rules_version": there})


def test_without_rules_there_is_a_curve_but_no_target(tmp_path: Path) -> None:
    """An unknown ruleset, or one with other terms, gives no target."""
    unknown, other = fabricate.events(), fabricate.events()
    fabricate.find(unknown, "tta_rules").value["ruleset"] = "../../secret"
    fabricate.find(other, "tta_rules").value["terms_digest"] = "0" * 64
    records = [record_of(write_one(tmp_path, steps)) for steps in (unknown, other)]

    assert [{point.name for point in record.points if point.name.startswith("eval/")} for record in records] == [
        {"eval/quality", "eval/elapsed_s"},
        {"eval/top1_accuracy", "eval/elapsed_s"},
    ]
    assert "see the rules" in experiment_tags(records[0])["mlflow.note.content"]


def test_what_the_worker_resolved_otherwise_is_shown(tmp_path: Path) -> None:
    """Only values that differ from the configuration get a parameter."""
    steps = fabricate.events()
    resolved = {**fabricate.find(steps, "tta_config").value, "precision": "bf16"}
    fabricate.find(steps, "tta_resolved").value = resolved
    record = record_of(write_one(tmp_path, steps))

    assert record.params["precision"] == "fp32"
    assert {name for name in record.params if name.startswith("resolved.")} == {"resolved.precision"}


def test_a_dead_server_is_one_sentence_in_bounded_time(result: Path) -> None:
    """By default MLflow waits four minutes for a server that is down."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        uri = f"http://me:secret@127.0.0.1:{closed.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(OutputError) as raised:
            sync.run([result], uri)

    assert time.monotonic() - begin < 30
    assert "\n" not in str(raised.value)
    assert "MLflow at http://…@127.0.0.1" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("uri", ["sqlite:////no/such/folder/mlflow.db", "file:///tmp/mlruns", "nonsense://x"])
def test_a_store_that_cannot_be_is_one_sentence(result: Path, uri: str) -> None:
    """A wrong URI is a usage error, not a bug in tta."""
    with pytest.raises(OutputError, match="MLflow at"):
        sync.run([result], uri)


def test_a_file_that_is_no_database(result: Path, tmp_path: Path) -> None:
    """A file of another kind is not overwritten."""
    path = tmp_path / "mlflow.db"
    path.write_text("a diary, " * 1000)

    with pytest.raises(OutputError, match="not a database"):
        sync.run([result], f"sqlite:///{path}")
    assert path.read_text().startswith("a diary")


def test_mlflow_is_not_installed(result: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)

    with pytest.raises(MissingDependencyError, match="pip install"):
        sync.run([result], uri)


def test_the_store_keeps_a_write_ahead_journal(uri: str) -> None:
    """Readers of the store and the mirror do not block each other."""
    Store(uri)
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"))

    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_lock_that_another_holds(tmp_path: Path) -> None:
    """The mirror waits for the lock, with a limit."""
    with (
        store.locked(tmp_path / "mlflow.db"),
        pytest.raises(TimeoutError, match="held"),
        store.locked(tmp_path / "mlflow.db", patience_s=0.0),
    ):
        pass


class FakeStore:
    """A store that fails on demand and records what it receives."""

    def __init__(self) -> None:
        self.is_dead = False
        self.refuses: set[str] = set()
        self.num_brought = 0
        self.points: dict[str, list[Any]] = {}

    def ping(self) -> None:
        if self.is_dead:
            raise OutputError("MLflow at fake: dead")

    def open_run(self, record: MlflowRun, log: Path) -> StoredRun:
        self.ping()
        self.num_brought += 1
        return StoredRun(log.name, is_new=True, points=set(self.points.get(log.name, [])))

    def add(self, record: MlflowRun, stored: StoredRun, files: Any = None) -> Added:
        self.ping()
        if stored.mlflow_id in self.refuses:
            raise OutputError("MLflow at fake: refused")
        new = [point for point in record.points[stored.num_points :] if point not in stored.points]
        self.points.setdefault(stored.mlflow_id, []).extend(new)
        stored.num_points = len(record.points)
        stored.params = set(record.params)
        return Added(metrics=len(new))

    def tag(self, stored: StoredRun, name: str, value: str) -> None:
        pass


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def test_a_store_that_goes_away_and_comes_back(fake: FakeStore, result: Path) -> None:
    """What could not be sent is sent later, once; the store's content is queried again after a failure."""
    log = result / "result_0.txt"
    lines = log.read_text().splitlines(keepends=True)
    follower = Follower(lambda: [log], None, lambda: fake)  # type: ignore[arg-type,return-value]
    log.write_text("".join(lines[:35]))
    follower.read()
    follower.send(is_last=False)
    fake.is_dead = True
    log.write_text("".join(lines))
    follower.read()
    with pytest.raises(OutputError):
        follower.send(is_last=False)
    fake.is_dead = False
    follower.send(is_last=False)

    assert follower.is_complete
    assert fake.num_brought == 2
    assert fake.points[log.name] == record_of(log).points


def test_a_run_that_is_refused_does_not_hold_up_the_others(fake: FakeStore, result: Path) -> None:
    """After three refusals by a store that is up, the run is given up, with the reason."""
    fake.refuses = {"result_0.txt"}
    follower = Follower(lambda: logs_in(result), None, lambda: fake)  # type: ignore[arg-type,return-value]
    follower.read()
    for _ in range(3):
        with pytest.raises(OutputError, match="refused"):
            follower.send(is_last=True)

    assert follower.is_finished
    assert not follower.is_complete
    assert [report.why_not for report in follower.reports] == [None, "MLflow at fake: refused"]


def test_tail_reads_each_line_once(tmp_path: Path) -> None:
    """However a log grows, its events come once and in order; lines of other programs are skipped."""
    data = ("other\n" + fabricate.text_of(fabricate.events())).encode()
    path = tmp_path / "result_0.txt"
    tail, seen = Tail(path), []
    assert list(tail.events()) == []
    with path.open("ab", buffering=0) as stream:
        for start in range(0, len(data), 997):
            stream.write(data[start : start + 997])
            seen += [(event.key, event.lineno) for event in tail.events()]

    assert seen == [(step.key, number) for number, step in enumerate(fabricate.events(), 2)]


def test_tail_passes_over_a_line_without_end(tmp_path: Path) -> None:
    """A line that is too long is dropped, however it arrives, and the next one is read."""
    path = tmp_path / "result_0.txt"
    tail = Tail(path)
    path.write_bytes(b":::MLLOG " + b"x" * (3 << 20))
    assert list(tail.events()) == []
    with path.open("ab") as stream:
        stream.write(b"x" * (2 << 20) + b"\n" + fabricate.text_of(fabricate.events()[:1]).encode())

    assert [event.key for event in tail.events()] == ["tta_format"]


def test_tail_of_a_file_that_became_shorter(tmp_path: Path) -> None:
    """A log that shrinks is no longer followed."""
    path = write_one(tmp_path, fabricate.events())
    tail = Tail(path)
    list(tail.events())
    os.truncate(path, 10)

    with pytest.raises(LogError, match="shorter"):
        list(tail.events())
