"""The MLflow store: what arrives there, once, and what must not."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.board.leaderboard import rate
from harness.commands import sync
from harness.cost.price_book import PriceBooks
from harness.errors import ExitStatus, MissingDependencyError, OutputError
from harness.log.tail import Tail
from harness.submission import result as results
from harness.submission.result import read_result
from harness.tracking import follower as tracking_follower
from harness.tracking import store as tracking_store
from harness.tracking.follower import Follower
from harness.tracking.power_record import PowerFollower
from harness.tracking.record import COLORS, MlflowRun
from harness.tracking.store import Store
from tests import fabricate
from tests.harness.board.test_index import BILL, SKU, prices

mlflow = pytest.importorskip("mlflow")
WARNINGS = [
    # SQLAlchemy's pool keeps connections until the process ends; MLflow offers no way to close them.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    # MLflow 3.17 under SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),
]
pytestmark = WARNINGS
EXPERIMENT = "tta-toy_mini-closed"
RULES = fabricate.ruleset({}, prices=PriceBooks((prices(),)))


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
    """A ruleset with `toy_mini` and a price book goes by the name v1."""
    monkeypatch.setattr(tracking_follower, "ruleset_called", lambda name: RULES if name == "v1" else None)


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
        if "tta.target_of" in run.data.tags:
            continue  # a line in the charts
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


def target_lines(uri: str, experiment: str = EXPERIMENT) -> dict[str, tuple[str, list[tuple[int, float]], list[float]]]:
    """The runs that are lines of targets, by name: their colour, the line by samples, and the seconds."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    lines = {}
    for run in client.search_runs([found.experiment_id], "tags.`tta.target_of` != ''"):
        assert run.info.run_name not in lines, "the same target twice"
        values, seconds = (
            client.get_metric_history(run.info.run_id, name) for name in ("eval/top1_accuracy", "eval/elapsed_s")
        )
        lines[run.info.run_name] = (
            run.data.tags["mlflow.runColor"],
            [(point.step, point.value) for point in values],
            [point.value for point in seconds],
        )
    return lines


def record_of(path: Path) -> MlflowRun:
    record = MlflowRun(tracking_follower.rules_of)
    for event in Tail(path).events():
        record.take(event)
    return record


def write_one(folder: Path, steps: list[fabricate.Step]) -> Path:
    folder.mkdir(exist_ok=True)
    return fabricate.write_log(folder / "result_0.txt", steps)


def watts(run: dict[str, Any], name: str = "power/watts") -> list[tuple[float, int, int]]:
    return sorted((point[1:] for point in run["points"] if point[0] == name), key=lambda point: point[2])


def test_a_run_arrives_whole(uri: str, result: Path) -> None:
    """Everything in a log is in the store; unmeasured energy and an unknown price are absent, not 0."""
    assert sync.run([result], uri) is ExitStatus.OK

    run = content(uri)["0" * 32]
    start = fabricate.WALL_START_MS
    assert run["name"] == "run0-seed100-acme-box1-00000000"
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
    absent = {"result/energy_j", "result/coverage", "result/cost_list", "result/cost_billed", "power/watts"}
    assert not absent & set(run["metrics"])


@pytest.mark.parametrize("power", [None, "node"])
def test_a_second_pass_changes_nothing(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], power: str | None
) -> None:
    """It sends no value or file again, even from another place: a run is identified by its id."""
    result = fabricate.write_result(tmp_path / "result", num_runs=2, power=power)
    sync.run([result], uri)
    before = content(uri)
    result.rename(tmp_path / "elsewhere")
    capsys.readouterr()

    assert sync.run([tmp_path / "elsewhere"], uri) is ExitStatus.OK
    assert content(uri) == before
    assert capsys.readouterr().out.count("nothing was missing") == 2


def test_a_result_that_cannot_be_read_does_not_hide_others(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, the other is mirrored, and the status says that something is missing."""
    for name in ("a", "b"):
        fabricate.write_result(tmp_path / "tree" / name, num_runs=1)
    for number in range(10):
        (tmp_path / "tree" / "a" / str(number)).touch()
    monkeypatch.setattr(results, "MAX_FILES", 5)

    status = sync.run([tmp_path / "tree"], uri)

    out, err = capsys.readouterr()
    assert (status, "1 of 1 runs are in" in out) == (ExitStatus.FINDINGS, True)
    assert err.startswith(f"tta: {tmp_path / 'tree' / 'a'}: more than 5 files; no result has as many: not mirrored")


@pytest.mark.parametrize("num_lines", [13, 25, 35, 45])
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


def test_a_log_without_run_stop_is_a_killed_run_until_it_has_one(uri: str, tmp_path: Path) -> None:
    """A crash never looks like a success, and the status of an unfinished run is corrected later."""
    steps = fabricate.events()
    log = write_one(tmp_path, steps[: steps.index(fabricate.find(steps, "run_stop"))])
    sync.run([log], uri)
    killed = only_run(uri)
    assert (killed["status"], killed["tags"]["tta.state"]) == ("KILLED", "started")
    write_one(tmp_path, steps)
    sync.run([log], uri)

    run = only_run(uri)
    assert (run["status"], run["tags"]["tta.state"], run["id"]) == ("FINISHED", "success", killed["id"])


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


def test_a_log_that_cannot_be_used_hides_no_other(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of another program, an unreadable one and a link create no run; a linked system description is not sent."""
    result = fabricate.write_result(tmp_path / "result", num_runs=4)
    steps = [step for step in fabricate.events() if not step.key.startswith("tta_")]
    fabricate.write_log(result / "result_0.txt", steps)
    (result / "result_1.txt").write_bytes(b"\xff\x00:::MLLOG {\n" * 10)
    for name in ("result_2.txt", "system.json"):
        (result / name).rename(tmp_path / name)
        (result / name).symlink_to(tmp_path / name)

    assert sync.run([result], uri) is ExitStatus.FINDINGS
    run = only_run(uri)
    assert run["tags"]["tta.index"] == "3"
    assert run["artifacts"] == ["tta/result_3.txt"]
    assert "does not identify its run" in capsys.readouterr().out


ENDLESS = "\x1b[2J\x00\ud800\u202e" + "x" * 100_000


def _hostile_texts(steps: list[fabricate.Step]) -> None:
    for name in ("submission_org", "submission_platform", "seed"):
        fabricate.find(steps, name).value = ENDLESS
    fabricate.find(steps, "submission_benchmark").value = "../x' OR '1'='1"
    fabricate.find(steps, "submission_division").value = "closed/\x1b[31m"
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
    experiment = record_of(log).experiment
    run = only_run(uri, experiment)
    sync.run([log], uri)

    assert only_run(uri, experiment) == run
    qualities = ("eval/top1_accuracy", "eval/quality")
    assert (0.95, 3000) in {(point[1], point[3]) for point in run["points"] if point[0] in qualities}
    assert all(math.isfinite(point[1]) and 0 <= point[3] < 2**53 for point in run["points"])
    assert not [point for point in run["points"] if point[0] == "throughput/samples_per_s"]
    names = [run["name"], *run["params"], *run["metrics"], *run["tags"]]
    assert max(map(len, names)) <= 250
    assert "".join(names).isprintable()
    texts = [*run["params"].values(), *run["tags"].values()]
    assert max(map(len, texts)) <= 8000
    assert "".join(texts).replace("\n", "").isprintable()


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


def test_experiment_says_what_it_is(uri: str, result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has a description, target and saved view, and its address is printed; a person may edit the description."""
    sync.run([result], uri)

    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert "The board is authoritative" in experiment.tags["mlflow.note.content"]
    assert "top1_accuracy ≥ 0.9" in experiment.tags["mlflow.note.content"]
    assert experiment.tags["tta.target"] == "0.9"
    view = json.loads(experiment.tags["mlflow.sharedViewState.tta"])
    charts = json.loads(view["state"])["compareRunCharts"]
    assert charts[0]["selectedMetricKeys"] == ["eval/top1_accuracy"]
    assert len(experiment.tags["mlflow.sharedViewState.tta"]) < 20_000
    assert f"/#/experiments/{experiment.experiment_id}/runs?viewStateShareKey=tta" in capsys.readouterr().out
    assert experiment.artifact_location.endswith("/store/mlartifacts/tta-toy_mini-closed")

    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    sync.run([result], uri)
    assert client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"] == "mine"


def test_watts_and_totals_arrive(uri: str, tmp_path: Path) -> None:
    """One point per second at the wall time of the referee's clock, the totals of a judge, and all files."""
    result = fabricate.write_result(tmp_path / "result", num_runs=1, power="node")
    assert sync.run([result], uri) is ExitStatus.OK

    run = only_run(uri)
    curve = watts(run)
    assert [step for _, _, step in curve] == list(range(1, 11))  # from a second before run_start to one after run_stop
    assert curve[0][1] == fabricate.WALL_START_MS + 1_500
    assert all(abs(value - 300) < 6 for value, _, _ in curve)
    energy = rate(read_result(result), RULES, ()).score.runs[0].energy
    assert energy is not None
    assert run["metrics"]["result/energy_j"] == energy.joules
    assert run["metrics"]["result/energy_u95_j"] == energy.uncertainty_j
    assert run["metrics"]["result/power_mean_w"] == energy.mean_w
    assert (run["metrics"]["result/coverage"], run["metrics"]["result/est_share"]) == (1.0, 0.0)
    assert (run["tags"]["tta.energy.class"], run["tags"]["tta.energy.scope"]) == ("B", "node (ac)")
    client = mlflow.MlflowClient(tracking_uri=uri)
    assert [item.path for item in client.list_artifacts(run["id"], "tta/power")] == [
        "tta/power/idle",
        "tta/power/node_0.txt",
    ]
    assert [item.path for item in client.list_artifacts(run["id"], "tta/power/idle")] == ["tta/power/idle/node_0.txt"]


def test_power_logs_that_grow_make_the_same_run(uri: str, tmp_path: Path) -> None:
    """Run log and power log grow in pieces; watts arrive before the end, and none twice."""
    whole = fabricate.write_result(tmp_path / "whole", num_runs=1, power="node")
    log, power = Path("result_0.txt"), Path("power/result_0/node_0.txt")
    folder = tmp_path / "growing"
    (folder / power.parent).mkdir(parents=True)
    lines = {path: (whole / path).read_text().splitlines(keepends=True) for path in (log, power)}
    follower = Follower(lambda: [folder / log], None, lambda: Store(uri))
    for share in (0.4, 0.7, 0.9):
        for path, text in lines.items():
            kept = "".join(text[: int(share * len(text))])
            (folder / path).write_text(kept + text[int(share * len(text))][:40])  # a line that is half written
        follower.read()
        follower.send(is_last=False)
    assert 3 < len(watts(only_run(uri))) < 10
    for path, text in lines.items():
        (folder / path).write_text("".join(text))
    follower.read()
    follower.send(is_last=True)

    run = only_run(uri)
    shutil.rmtree(folder)
    expected = record_of(whole / log)
    PowerFollower(whole / log).finish(expected)
    points = [(point.value, point.time_ms, point.step) for point in expected.points if point.name == "power/watts"]
    assert watts(run) == points
    assert len(points) == 10


def test_the_price_and_the_bill(uri: str, tmp_path: Path) -> None:
    """Cost at list price with the book's digest; the bill of the whole result as declared."""
    system = {**fabricate.SYSTEM, "tta_price_sku": SKU}
    result = fabricate.write_result(tmp_path / "result", num_runs=1, system=system)
    (result / "billing.yaml").write_text(BILL)
    sync.run([result], uri)

    run = only_run(uri)
    assert run["metrics"]["result/cost_list"] == 0.077  # 7.7 s at a cent a second
    assert run["metrics"]["result/cost_billed"] == 60.01
    assert run["tags"]["tta.price_book"] == "p" * 64


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


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("sqlite:////no/such/folder/mlflow.db", "MLflow at"),
        ("file:///tmp/mlruns", "MLflow at"),
        ("nonsense://x", "MLflow at"),
        ("sqlite:///{}/diary", "not a database"),
    ],
)
def test_a_store_that_cannot_be_is_one_sentence(result: Path, tmp_path: Path, uri: str, why: str) -> None:
    """A wrong URI is a usage error, not a bug in `tta`; a file of another kind is not overwritten."""
    (tmp_path / "diary").write_text("dear diary, " * 1000)

    with pytest.raises(OutputError, match=why):
        sync.run([result], uri.format(tmp_path))

    assert (tmp_path / "diary").read_text() == "dear diary, " * 1000


def test_mlflow_is_not_installed(result: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "mlflow", None)

    with pytest.raises(MissingDependencyError, match="pip install"):
        sync.run([result], uri)


def test_the_store_keeps_a_write_ahead_journal(uri: str) -> None:
    """Readers of the store and the mirror do not block each other."""
    Store(uri)
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"))

    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sqlite:////a/b.db", Path("/a/b.db")),
        ("sqlite:///b.db", Path.cwd() / "b.db"),
        ("sqlite+pysqlite:////a/b.db?timeout=5", Path("/a/b.db")),
        ("sqlite://", None),
        ("sqlite:///", None),
        ("postgresql:////a/b.db", None),
        ("xsqlite:////a/b.db", None),
        ("/a/b.db", None),
    ],
)
def test_the_file_of_a_uri(uri: str, path: Path | None) -> None:
    """A store in memory or of another database has none."""
    assert tracking_store.sqlite_path(uri) == path


def test_a_lock_is_had_as_soon_as_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that finds it locked retries until it is released, and then holds it."""
    store = tmp_path / "mlflow.db"
    other = contextlib.ExitStack()
    other.enter_context(tracking_store.locked(store))
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            other.close()

    monkeypatch.setattr("harness.tracking.store.time.sleep", nap)

    with tracking_store.locked(store, patience_s=3600.0):
        assert len(naps) == 3
        with pytest.raises(TimeoutError, match=r"held .*mlflow\.db\.lock for 0 s"), tracking_store.locked(store, 0.0):
            pass


def test_the_target_is_one_line_of_its_own_colour(uri: str, result: Path) -> None:
    """From 0 to the end of the longest curve, in samples and in seconds; a second pass draws nothing twice."""
    for _ in range(2):
        assert sync.run([result], uri) is ExitStatus.OK

    ((name, (color, line, seconds)),) = target_lines(uri).items()
    curves = [run["points"] for run in content(uri).values()]
    assert name == "target: top1_accuracy ≥ 0.9"
    assert color not in COLORS
    assert [value for _, value in line] == [0.9] * len(line)
    assert line[0][0] == seconds[0] == 0
    assert max(step for step, _ in line) >= max(point[3] for curve in curves for point in curve if "eval/" in point[0])
    assert seconds == sorted(seconds)
    assert seconds[-1] == max(point[1] for curve in curves for point in curve if point[0] == "eval/elapsed_s")
