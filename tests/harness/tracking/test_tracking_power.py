"""Power in the MLflow mirror: watts while the logs grow, totals, files, and a lost folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.board.leaderboard import rate
from harness.commands import sync
from harness.cost.price_book import PriceBooks
from harness.errors import ExitStatus
from harness.log.events import Event
from harness.log.tail import Tail
from harness.submission.result import read_result
from harness.tracking import follower as tracking_follower
from harness.tracking.follower import Follower
from harness.tracking.power_record import PowerFollower, PowerRecord
from harness.tracking.record import MlflowRun, Point
from harness.tracking.store import Store
from tests import fabricate
from tests.harness.board.test_index import BILL, SKU, prices
from tests.harness.tracking.test_tracking import content, migrated, only_run, uri

mlflow = pytest.importorskip("mlflow")
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),
]
__all__ = ["migrated", "uri"]  # fixtures
RULES = fabricate.ruleset({}, prices=PriceBooks((prices(),)))


@pytest.fixture(autouse=True)
def toy_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruleset with `toy_mini` and a price book goes by the name v1."""
    monkeypatch.setattr(tracking_follower, "ruleset_called", lambda name: RULES if name == "v1" else None)


def metered(folder: Path, kind: str = "node", **options: object) -> Path:
    return fabricate.write_result(folder, num_runs=1, power=kind, **options)  # type: ignore[arg-type]


def watts(run: dict[str, object], name: str = "power/watts") -> list[tuple[float, int, int]]:
    points: list[tuple[str, float, int, int]] = run["points"]  # type: ignore[assignment]
    return sorted((point[1:] for point in points if point[0] == name), key=lambda point: point[2])


def test_watts_and_totals_arrive(uri: str, tmp_path: Path) -> None:
    """One point per second at the wall time of the referee's clock, the totals of a judge, and all files."""
    result = metered(tmp_path / "result")
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


def test_a_second_pass_adds_nothing(uri: str, tmp_path: Path) -> None:
    """Neither points nor files are sent again."""
    result = metered(tmp_path / "result")
    sync.run([result], uri)
    before = content(uri)
    sync.run([result], uri)

    assert content(uri) == before


def test_power_logs_that_grow_make_the_same_run(uri: str, tmp_path: Path) -> None:
    """Run log and power log grow in pieces; watts arrive before the end, and none twice."""
    whole = metered(tmp_path / "whole")
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
    expected = MlflowRun(tracking_follower.rules_of)
    for event in Tail(whole / log).events():
        expected.take(event)
    PowerFollower(whole / log).finish(expected)
    points = sorted(
        (point.value, point.time_ms, point.step) for point in expected.points if point.name == "power/watts"
    )
    assert sorted(watts(run)) == points
    assert len(points) == 10


def test_a_power_folder_that_is_lost_costs_nothing(uri: str, tmp_path: Path) -> None:
    """The run arrives without watts and energy; earlier points stay."""
    result = metered(tmp_path / "result")
    shutil.rmtree(result / "power")

    assert sync.run([result], uri) is ExitStatus.OK
    run = only_run(uri)
    assert run["status"] == "FINISHED"
    assert not {"power/watts", "result/energy_j", "result/coverage"} & set(run["metrics"])


def test_several_nodes_have_a_curve_each_and_one_sum(uri: str, tmp_path: Path) -> None:
    """Clocks that are seconds apart are aligned; the sum is over the same seconds."""
    sync.run([metered(tmp_path / "result", num_nodes=2)], uri)

    run = only_run(uri)
    parts = [watts(run, f"power/watts_node_{number}") for number in (0, 1)]
    together = watts(run)
    assert [step for _, _, step in parts[0]] == [step for _, _, step in parts[1]] == [step for *_, step in together]
    for one, other, total in zip(*parts, together, strict=True):
        assert total[0] == pytest.approx(one[0] + other[0], abs=0.002)


def test_a_node_that_falls_silent_ends_the_sum(tmp_path: Path) -> None:
    """From then on, the watts of one node do not pass for those of all."""
    result = metered(tmp_path / "result", num_nodes=2)
    lost = result / "power" / "result_0" / "node_1.txt"
    lines = lost.read_text().splitlines(keepends=True)
    lost.write_text("".join(lines[: len(lines) // 2]))
    record = MlflowRun(tracking_follower.rules_of)
    for event in Tail(result / "result_0.txt").events():
        record.take(event)
    PowerFollower(result / "result_0.txt").finish(record)

    steps = {
        name: [point.step for point in record.points if point.name == name]
        for name in ("power/watts", "power/watts_node_0")
    }
    assert len(steps["power/watts_node_0"]) == 10
    assert 4 <= len(steps["power/watts"]) <= 6


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


def _record() -> MlflowRun:
    record = MlflowRun(tracking_follower.rules_of)
    metadata = {"elapsed_ns": 0}
    record.take(Event(1_000_000, "POINT_IN_TIME", "tta_clock", {"mono_ns": 5_000_000_000}, metadata, 1))
    record.take(Event(1_000_000, "INTERVAL_START", "init_start", None, metadata, 2))
    return record


def _reading(at_s: float, watts: object) -> Event:
    return Event(1_000_000 + round(1000 * at_s), "POINT_IN_TIME", "power_reading", watts, {}, 3)


def test_a_gap_is_no_point() -> None:
    """Twenty seconds without a reading have no points; neither has garbage."""
    record, power = _record(), PowerRecord()
    for at_s in (0.0, 1.0, 2.0, 22.0, 23.0):
        power.take("node_0", _reading(at_s, 100.0), record)
    power.take("node_0", _reading(2.5, "many"), record)
    power.take("node_0", _reading(2.6, -3.0), record)
    power.add_seconds(record, is_last=True)

    assert record.points == [
        Point("power/watts", 100.0, 1_000_500, 0),
        Point("power/watts", 100.0, 1_001_500, 1),
        Point("power/watts", 100.0, 1_022_500, 22),
    ]


def test_a_very_long_run_stays_within_the_limit_of_points() -> None:
    """A day with one reading per second: every second at first, then every tenth, then every hundredth."""
    record, power = _record(), PowerRecord()
    for second in range(86_400):
        power.take("node_0", _reading(float(second), 100.0), record)
        if second % 1000 == 0:
            power.add_seconds(record, is_last=False)
    power.add_seconds(record, is_last=True)

    assert len(record.points) == 5_000 + 4_500 + 364


def test_nothing_is_told_before_the_run_is_initialised() -> None:
    """Before that, another node may not have started its log, and the watts of one would pass for those of all."""
    record, power = _record(), PowerRecord()
    record.is_initialised = False
    for second in range(10):
        power.take("node_0", _reading(float(second), 100.0), record)
    power.add_seconds(record, is_last=False)
    assert record.points == []
    record.is_initialised = True
    power.add_seconds(record, is_last=False)

    assert len(record.points) == 9
