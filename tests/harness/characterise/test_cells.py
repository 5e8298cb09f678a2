"""What follows from the cells of a sweep, where the right answers are known."""

from __future__ import annotations

import pytest

from harness.characterise.cells import (
    REAL,
    SYNTHETIC,
    Cell,
    Row,
    as_record,
    fits,
    grid,
    input_shares,
    intercepts,
    of_record,
    scalings,
)
from harness.characterise.sweep import Sweep
from harness.characterise.sweep_report import document, records, report


def row(seconds: float, batch: int = 64, data: str = REAL, devices: int = 1, precision: str = "fp32") -> Row:
    return Row(Cell(devices, precision, batch, data), "ok", "", (seconds,) * 3, (0.0,) * 3, 1 << 20)


def oom(batch: int, evidence: str) -> Row:
    return Row(Cell(1, "fp32", batch, REAL), "oom", evidence)


def test_grid_has_every_combination_once_and_those_of_a_process_together() -> None:
    found = grid([128, 64, 64], ["fp32", "bf16"], [REAL, SYNTHETIC], [2, 1])

    assert len(found) == len(set(found)) == 16
    assert [(cell.num_devices, cell.precision) for cell in found[::4]] == [
        (1, "bf16"),
        (1, "fp32"),
        (2, "bf16"),
        (2, "fp32"),
    ]


def test_share_that_is_bound_by_input() -> None:
    """A loader that waits 0.3 s in a step of 1 s; a cell without its partner says nothing."""
    (found,) = input_shares([row(1.0), row(0.7, data=SYNTHETIC), row(1.0, batch=128)])

    assert found.fraction == pytest.approx(0.3)
    assert found.cell.batch_size == 64


def test_known_intercept() -> None:
    """A step of 5 ms and 2 ms a sample; synthetic data have a line of their own, one batch size has none."""
    rows = [row(0.005 + 0.002 * batch, batch) for batch in (8, 16, 32)]

    (found,) = intercepts([*rows, row(1.0, data=SYNTHETIC)])

    assert (found.line.intercept, found.line.slope) == pytest.approx((0.005, 0.002))
    assert found.cell.data == REAL


def test_strong_and_weak_scaling() -> None:
    """Two devices with the same global batch in 0.6 of the time; with twice the batch in 1.25 times the time."""
    rows = [row(1.0), row(0.6, devices=2), row(1.25, batch=128, devices=2)]

    strong, weak = scalings(rows)

    assert (strong.kind, strong.speedup, strong.efficiency) == (
        "strong",
        pytest.approx(1 / 0.6),
        pytest.approx(1 / 1.2),
    )
    assert (weak.kind, weak.speedup, weak.efficiency) == ("weak", pytest.approx(1.6), pytest.approx(0.8))
    assert weak.cell.batch_size == 128


def test_largest_batch_with_its_evidence() -> None:
    """The smallest batch that did not fit says why."""
    (found,) = fits([row(1.0), row(2.0, batch=128), oom(512, "of 512"), oom(256, "tried to allocate 8 GiB")])

    assert (found.largest, found.fails_at, found.evidence) == (128, 256, "tried to allocate 8 GiB")


def test_rows_survive_their_file() -> None:
    for one in (row(0.25), oom(256, "tried to allocate 8 GiB")):
        assert of_record(as_record(one)) == one


@pytest.mark.parametrize(
    "changed",
    [
        {"batch_size": 0},
        {"num_devices": True},
        {"status": "fine"},
        {"data": None},
        {"seconds": []},
        {"seconds": [0.0, 1.0]},
        {"seconds": [-1.0]},
        {"waited": ["1"]},
    ],
)
def test_line_that_is_no_row(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be|is missing|needs|a time"):
        of_record({**as_record(row(1.0)), **changed})


def test_report_document_and_record_have_every_cell() -> None:
    """Out of memory is a row with its evidence, and of what can be told all is shown."""
    rows = (row(1.0), row(0.7, data=SYNTHETIC), row(2.0, batch=128), row(0.6, devices=2), oom(256, "8 GiB"))
    sweep = Sweep("toy_mini", 3, 0.0, {"system_name": "box"}, rows)

    shown, found = report(sweep), document(sweep)

    cells, inputs, line, scaling, largest = shown.sections
    assert [len(section.rows) for section in (cells, inputs, line, scaling, largest)] == [5, 1, 1, 1, 2]
    assert cells.rows[4][-1] == "oom: 8 GiB"
    assert inputs.rows[0][-1] == "30.0 %"
    assert line.rows[0][3] == "two batches: none"
    assert [cell["status"] for cell in found["cells"]] == ["ok"] * 4 + ["oom"]
    assert found["input_bound"][0]["fraction"] == pytest.approx(0.3)
    assert records(sweep).metrics["input_bound_fraction.1x.fp32.64.real"] == pytest.approx(0.3)
    assert len(records(sweep).metrics) == 9
