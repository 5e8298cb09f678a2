"""A sweep with processes that are scripted: what becomes of each cell, and how a sweep goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.characterise.asking import Ask, OutOfMemory
from harness.characterise.cells import REAL, SYNTHETIC, grid
from harness.characterise.power import Drawn
from harness.characterise.report import as_text
from harness.characterise.sweep import FILE, Sweep, read, sweep
from harness.characterise.sweep_report import report
from harness.errors import Interrupted, UsageError, WorkerError
from harness.run import data_cache, workloads
from harness.run.benchmark import Request
from harness.scoring.estimate import Power
from tests.workloads.sessions import RULESET

pytest.importorskip("torch")
NAME = "reinforcement_learning"  # whose data are made at once
BATCHES = (1024, 2048, 4096)


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> Request:
    cache = tmp_path_factory.mktemp("data")
    data_cache.prepare(workloads.workload(NAME), "mini", cache)
    return Request(workload=NAME, data=cache)


class Processes:
    """Answers windows with 1 ms a sample, or what a batch size is scripted to raise."""

    def __init__(self, raises: Mapping[int, Exception] | None = None) -> None:
        self.raises = dict(raises or {})
        self.asked: list[tuple[int, int, tuple[str, ...]]] = []
        self.num_started = 0

    def __call__(self, num_devices: int) -> AbstractContextManager[Ask]:
        @contextmanager
        def started() -> Iterator[Ask]:
            self.num_started += 1
            yield self._ask

        return started()

    def _ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        config, kinds = command["config"], tuple(command["kinds"])
        batch = int(config["hyperparameters"]["global_batch_size"])
        self.asked.append((config["num_devices"], batch, kinds))
        if batch in self.raises:
            raise self.raises[batch]
        windows = {kind: {"seconds": [batch / 1e3] * command["num_steps"], "waited": [0.0]} for kind in kinds}
        return {"windows": windows, "peak_memory": {"host_resident": 5, "accelerator_allocated": None}}


class Watts:
    """A wattmeter that is read once for each session: 100 W the first time, 200 W the second. asked: of what."""

    def __init__(self) -> None:
        self.asked_of: list[tuple[str, ...]] = []

    def asked(self, ask: Ask, command: Mapping[str, Any]) -> tuple[dict[str, Any], Drawn]:
        self.asked_of.append(tuple(command["kinds"]))
        return ask(command), Drawn(Power(100.0 * len(self.asked_of), 5.0, "B", "node (ac)"))


def swept(request: Request, folder: Path, processes: Callable[..., Any], **changed: Any) -> Sweep:
    cells = grid(changed.get("batches", BATCHES), ["fp32"], [REAL, SYNTHETIC], changed.get("devices", [1]))
    return sweep(request, cells, changed.get("steps", 3), folder, RULESET, lambda line: None, processes)


def test_every_cell_is_measured_once(request_of: Request, tmp_path: Path) -> None:
    """Both kinds of data in one session; a second call has nothing to do."""
    processes = Processes()

    found, again = (swept(request_of, tmp_path, processes) for _ in range(2))

    assert processes.asked == [(1, batch, (REAL, SYNTHETIC)) for batch in BATCHES]
    assert processes.num_started == 1
    assert [row.samples_per_s for row in found.rows] == pytest.approx([1000.0] * 6)
    assert again == found == read(tmp_path / FILE)


def test_cells_with_real_data_have_the_power_of_their_session(request_of: Request, tmp_path: Path) -> None:
    """It is kept with them, shown, and not measured where there are none."""
    watts = Watts()
    cells = [*grid(BATCHES[:2], ["fp32"], [REAL, SYNTHETIC], [1]), *grid(BATCHES[2:], ["fp32"], [SYNTHETIC], [1])]

    found = sweep(
        request_of,
        cells,
        3,
        tmp_path,
        RULESET,
        lambda line: None,
        Processes(),
        lambda *_: nullcontext(watts),  # type: ignore[arg-type]
    )

    powers = {row.cell: row.power.power for row in found.rows}
    assert watts.asked_of == [(REAL, SYNTHETIC)] * 2
    assert [power and power.mean_w for cell, power in powers.items() if cell.data == REAL] == [100.0, 200.0]
    assert {power for cell, power in powers.items() if cell.data == SYNTHETIC} == {None}
    assert read(tmp_path / FILE) == found
    text = as_text(report(found))
    assert " 200 W " in text
    assert "power: measured, class B, of node (ac), while training" in text
    assert "power: not available: no --meter was asked for" in as_text(
        report(swept(request_of, tmp_path / "none", Processes(), batches=BATCHES[:1]))
    )


def test_out_of_memory_is_a_row_and_not_the_end(request_of: Request, tmp_path: Path) -> None:
    """With its evidence; the next cell has processes of its own, and another call does not try it again."""
    processes = Processes({2048: OutOfMemory("tried to allocate 8 GiB")})

    found = swept(request_of, tmp_path, processes)

    assert [(row.cell.batch_size, row.status) for row in found.rows if row.cell.data == REAL] == [
        (1024, "ok"),
        (2048, "oom"),
        (4096, "ok"),
    ]
    assert {row.evidence for row in found.rows if row.status == "oom"} == {"tried to allocate 8 GiB"}
    assert processes.num_started == 2
    swept(request_of, tmp_path, processes)
    assert len(processes.asked) == 3


def test_failure_is_tried_again_and_a_refusal_is_not(request_of: Request, tmp_path: Path) -> None:
    """A cell that the workload refuses, or that cannot be shared by the devices, is a row, too."""
    first = Processes({1024: WorkerError("killed"), 2048: UsageError("not a multiple of num_envs")})
    found = swept(request_of, tmp_path, first, devices=[1, 3])

    statuses = {(row.cell.num_devices, row.cell.batch_size): row.status for row in found.rows}
    assert statuses == {
        (1, 1024): "failed",
        (1, 2048): "refused",
        (1, 4096): "ok",
        **dict.fromkeys([(3, batch) for batch in BATCHES], "refused"),
    }
    second = Processes()
    assert swept(request_of, tmp_path, second, devices=[1, 3]).rows[0].status == "ok"
    assert second.asked == [(1, 1024, (REAL, SYNTHETIC))]


def test_interrupted_sweep_goes_on(request_of: Request, tmp_path: Path) -> None:
    """Also where the last line was cut off: that cell is measured again."""
    with pytest.raises(Interrupted):
        swept(request_of, tmp_path, Processes({4096: Interrupted("interrupted by a signal")}))
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    found = swept(request_of, tmp_path, processes := Processes())

    assert processes.asked == [(1, 2048, (SYNTHETIC,)), (1, 4096, (REAL, SYNTHETIC))]
    assert len(found.rows) == 6
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no line"),
        ("{}\n", r":1: is not the first line of a sweep"),
        ("nonsense\n", ":1: "),
    ],
)
def test_file_that_is_no_sweep(request_of: Request, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(UsageError, match=said):
        swept(request_of, tmp_path, Processes())


def test_damaged_row_is_named_by_its_line(request_of: Request, tmp_path: Path) -> None:
    swept(request_of, tmp_path, Processes())
    lines = (tmp_path / FILE).read_text().splitlines()
    lines[2] = lines[2].replace('"ok"', '"fine"')
    (tmp_path / FILE).write_text("\n".join(lines) + "\n")

    with pytest.raises(UsageError, match=r"cells\.jsonl:3: .*status"):
        read(tmp_path / FILE)


def test_sweep_of_something_else_is_not_continued(request_of: Request, tmp_path: Path) -> None:
    swept(request_of, tmp_path, Processes())

    with pytest.raises(UsageError, match="is a sweep with a number of steps of 3, not 4; choose another --out"):
        swept(request_of, tmp_path, Processes(), steps=4)
