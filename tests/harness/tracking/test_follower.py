"""The follower of logs and a store that fails on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import OutputError
from harness.tracking.follower import Follower, logs_in
from harness.tracking.record import MlflowRun
from harness.tracking.store import Added, StoredRun
from tests import fabricate


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return fabricate.write_result(tmp_path / "result", num_runs=2)


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

    def draw_target(self, record: MlflowRun) -> None:
        pass

    def tag(self, stored: StoredRun, name: str, value: str) -> None:
        pass


def test_a_store_that_goes_away_and_comes_back(result: Path) -> None:
    """What could not be sent is sent later, once; the store's content is queried again after a failure."""
    fake, log = FakeStore(), result / "result_0.txt"
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
    whole = FakeStore()
    uninterrupted = Follower(lambda: [log], None, lambda: whole)  # type: ignore[arg-type,return-value]
    uninterrupted.read()
    uninterrupted.send(is_last=False)
    assert fake.points == whole.points


def test_a_run_that_is_refused_does_not_hold_up_the_others(result: Path) -> None:
    """After three refusals by a store that is up, the run is given up, with the reason."""
    fake = FakeStore()
    fake.refuses = {"result_0.txt"}
    follower = Follower(lambda: logs_in(result), None, lambda: fake)  # type: ignore[arg-type,return-value]
    follower.read()
    for _ in range(3):
        with pytest.raises(OutputError, match="refused"):
            follower.send(is_last=True)

    assert follower.is_finished
    assert not follower.is_complete
    assert [report.why_not for report in follower.reports] == [None, "MLflow at fake: refused"]


def test_what_the_machine_did_belongs_to_the_run_that_was_going_on(result: Path) -> None:
    """Not to one whose worker had not started, and not to one that is over."""
    over, running, starting = (result / f"result_{index}.txt" for index in range(3))
    for index, (path, num_lines) in enumerate({over: None, running: -5, starting: 14}.items()):
        steps = fabricate.events(index, mono_ns=5_000_000_000_000)
        lines = fabricate.text_of(steps).splitlines(keepends=True)
        path.write_text("".join(lines[:num_lines]))
    fake = FakeStore()
    follower = Follower(lambda: [over, running, starting], None, lambda: fake)  # type: ignore[arg-type,return-value]
    follower.read()
    follower.measure({"cpu_utilization_percentage": 42.0}, 2_000_000_000_000)
    follower.send(is_last=True)

    system = {name: [p for p in points if p.name.startswith("system/")] for name, points in fake.points.items()}
    assert {name: [(p.name, p.value) for p in points] for name, points in system.items() if points} == {
        "result_1.txt": [("system/cpu_utilization_percentage", 42.0)]
    }
    assert system["result_1.txt"][0].step > 0


def test_a_resumed_run_is_continued_where_the_first_mirror_ended(tmp_path: Path) -> None:
    """One run, whose points are all there once: the second process reads the log from its beginning."""
    steps = fabricate.events()
    fabricate.interrupt(steps)
    path = fabricate.write_log(tmp_path / "result_0.txt", steps)
    text = path.read_text()
    fake = FakeStore()

    for end in (text.index('"key": "tta_resume"'), len(text)):
        path.write_text(text[: text.rindex("\n", 0, end) + 1])
        follower = Follower(lambda: [path], None, lambda: fake)  # type: ignore[arg-type,return-value]
        follower.read()
        follower.send(is_last=True)

    whole = FakeStore()
    follower = Follower(lambda: [path], None, lambda: whole)  # type: ignore[arg-type,return-value]
    follower.read()
    follower.send(is_last=True)
    assert list(fake.points) == ["result_0.txt"]
    assert sorted(map(str, fake.points["result_0.txt"])) == sorted(map(str, whole.points["result_0.txt"]))
    assert "interruption/away_s" in {point.name for point in fake.points["result_0.txt"]}
