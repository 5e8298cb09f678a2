"""The receipts of a witness next to a result: what is read of them, the classes, and what they say of forgeries."""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import engine
from harness.errors import InputError
from harness.log import keys, run_log
from harness.scoring.score import score
from harness.submission import receipts
from harness.submission.layout import CAMPAIGN_NAME
from harness.submission.receipts import (
    drawn,
    evaluations,
    leaves,
    num_campaigns,
    num_unfinished,
    parse_campaign,
    parse_receipts,
    witness_class,
)
from harness.submission.result import Result, read_result
from harness.transparency.witnessed import parse_witnessed
from rules.checks.wit import wit005_tickets_missing
from tests import fabricate
from tests.fabricate import Step, find
from tests.rules.box import Box, agree, put, reference
from tests.witnessing import FakeWitness, give_tickets


def witnessed(box: Box, **options: Any) -> Result:
    """The box's result, with tickets and receipts."""
    give_tickets(box.runs)
    box.write()
    FakeWitness(box.folder, **options).write()
    box.reseal()
    return read_result(box.folder)


def seen(result: Result) -> tuple[str, int]:
    """Class and number of receipts."""
    return witness_class(result), len(leaves(result))


def test_classes_follow_from_what_is_there(tmp_path: Path) -> None:
    """Streamed; registered; and neither, where other starts are not known."""
    box = Box(tmp_path)
    found = [seen(read_result(box.folder)), seen(witnessed(box))]
    (box.folder / "receipts_3.jsonl").unlink()
    found.append(seen(read_result(box.folder)))
    (box.folder / CAMPAIGN_NAME).write_text("{}")
    found.append(seen(read_result(box.folder)))
    (box.folder / CAMPAIGN_NAME).unlink()
    found.append(seen(read_result(box.folder)))

    assert found == [("W0", 0), ("W2", 41), ("W1", 33), ("W0", 32), ("W0", 32)]


@pytest.mark.parametrize(("said", "known"), [(3, 3), (1, 1), (0, None), (True, None), ("3", None), (..., None)])
def test_the_end_of_a_campaign_says_how_many_were_tried(tmp_path: Path, said: Any, known: int | None) -> None:
    """If it says so; of a result whose other starts are not known, nothing is said."""
    box = Box(tmp_path)
    result = witnessed(box, campaign={} if said is ... else {"tried": said})
    assert num_campaigns(result) == known
    (box.folder / CAMPAIGN_NAME).unlink()
    assert num_campaigns(read_result(box.folder)) is None


def test_a_run_without_start_or_end_was_not_streamed(tmp_path: Path) -> None:
    """Whatever was received of it."""
    box = Box(tmp_path)
    give_tickets(box.runs)
    witness = FakeWitness(box.folder)
    box.write()
    witness.write()
    lines = box.lines(0)
    box.put_lines([line for line in lines if '"run_stop"' not in line])

    assert witness_class(read_result(box.folder)) == "W1"


def test_tickets_without_a_run_are_runs_that_missed(tmp_path: Path) -> None:
    """Those that were voided are not; and a run that missed is counted once."""
    box = Box(tmp_path)

    assert num_unfinished(witnessed(box, lost=["lost", "void", "expired"])) == 2
    (box.folder / CAMPAIGN_NAME).write_text("{}")
    assert num_unfinished(read_result(box.folder)) == 0


@pytest.mark.parametrize(("first", "said"), [(0, []), (5, ["result_5.txt"])])
def test_the_first_runs_of_a_reproduction_are_those_of_the_first_tickets(
    tmp_path: Path, first: int, said: list[str]
) -> None:
    """Five of its six runs are scored, and which, no name of a file decides."""
    box = Box(tmp_path, num_runs=6)
    for steps in box.runs:
        put(steps, Step(0.0, keys.TTA_REPRODUCES, {"digest": "5d" * 32}), keys.TTA_RULES)
    give_tickets([*box.runs[first:], *box.runs[:first]])
    box.write()

    assert [Path(item.path).name for item in box.judge() if item.code == "WIT005"] == said


def test_the_convergence_of_a_result_counts_unfinished_runs(tmp_path: Path) -> None:
    """As runs that missed: ending those that learn slowly does not make the others the average."""
    rules = fabricate.benchmark_rules(**reference(1000))
    result = read_result(fabricate.write_submission(tmp_path))
    timing = fabricate.ruleset({}).timing
    own = [score(result.runs, rules, timing, "closed", num_unfinished=number).convergence for number in (0, 1)]

    assert own[0] is not None
    assert own[1] is not None
    assert (own[1].own_samples or 0) >= (own[0].own_samples or math.inf)
    assert own[1].dof != own[0].dof


def test_a_score_counts_unfinished_runs(tmp_path: Path) -> None:
    """In the open division, as the slowest; more than may miss leave no score."""
    rules = fabricate.benchmark_rules()
    result = read_result(fabricate.write_submission(tmp_path, division="open"))
    timing = fabricate.ruleset({}).timing
    plain = score(result.runs, rules, timing, "open")
    counted = score(result.runs, rules, timing, "open", num_unfinished=1)
    too_many = score(result.runs, rules, timing, "open", num_unfinished=2)

    times = sorted(run.seconds or math.inf for run in plain.runs)
    assert plain.seconds == pytest.approx(sum(times[1:4]) / 3)
    assert counted.seconds == pytest.approx(sum(times[1:5]) / 4)
    assert len(counted.dropped) == 1
    assert too_many.seconds is None
    assert too_many.why_not is not None
    assert "2 runs had a ticket and no end" in too_many.why_not


def edit(data: bytes, line: int, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The receipts with one event changed."""
    lines = data.splitlines()
    record = json.loads(lines[line])
    event = json.loads(record["opening"]["event"])
    change(event)
    record["opening"]["event"] = json.dumps(event)
    lines[line] = json.dumps(record).encode()
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: b"", "has no receipt"),
        (lambda data: b"no\n" + data, ":1: not JSON"),
        (lambda data: b"{}\n", ":1: not a receipt of a witness"),
        (lambda data: b"".join(data.splitlines(True)[1:]), ":1: the first receipt must be that of the ticket"),
        (lambda data: data + data.splitlines(True)[-1], ":9: does not follow"),
        (lambda data: data + data.splitlines(True)[0], ":9: does not follow"),
        (lambda data: edit(data, 1, lambda event: event.update(subject="ab" * 16)), ":2: does not follow"),
        (lambda data: edit(data, 1, lambda event: event.update(at_ms=None)), ":2: the receipt has no time"),
        (lambda data: edit(data, 1, lambda event: event["body"].update(head="x")), ":2: not the receipt of a head"),
        (lambda data: edit(data, 1, lambda event: event["body"].pop("seq")), ":2: not the receipt of a head"),
        (lambda data: edit(data, 2, lambda event: event["body"].update(number=1)), ":3: head 1 comes after head 1"),
    ],
)
def test_receipts_that_cannot_be_read_are_named(tmp_path: Path, damage: Callable[[bytes], bytes], said: str) -> None:
    """By file and line."""
    witnessed(box := Box(tmp_path))
    data = (box.folder / "receipts_0.jsonl").read_bytes()

    assert len(parse_receipts(data, "file").heads) == 6
    with pytest.raises(InputError, match=f"file.*{said}"):
        parse_receipts(damage(data), "file")


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "ab"}, {"secret": None}, {"tickets": None}, {"tickets": [7]}, {"tickets": [{"number": 1}]},
        {"benchmark": 1},
    ],
    ids=str,
)  # fmt: skip
def test_the_end_of_a_campaign_must_be_whole(tmp_path: Path, change: dict[str, Any]) -> None:
    """Every field that a check reads."""
    witnessed(box := Box(tmp_path))
    data = (box.folder / CAMPAIGN_NAME).read_bytes()

    assert len(parse_campaign(data, "file").tickets) == 5
    with pytest.raises(InputError, match="file: not the receipt of the end of a campaign"):
        parse_campaign(edit(data, 0, lambda event: event["body"].update(change)), "file")


def test_a_receipt_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Signed text and record."""
    witnessed(box := Box(tmp_path))
    record = json.loads((box.folder / CAMPAIGN_NAME).read_text())
    found = parse_witnessed(record, "file")

    assert found.record() == record
    assert json.loads(found.text) == {
        "leaf": found.opening.leaf.hex(), "log": found.origin, "log_index": found.opening.seq,
    }  # fmt: skip
    with pytest.raises(InputError, match="not a receipt of a witness"):
        parse_witnessed({**record, "more": 1}, "file")


def faster(steps: list[Step]) -> None:
    for step in steps:
        step.at_s /= 10
        if step.key == "tracked_stats":
            step.value["data_wait_s"] /= 10


def a_fifth_shorter(steps: list[Step]) -> None:
    for step in steps:
        step.at_s *= 0.8


def better(steps: list[Step]) -> None:
    for step in steps:
        if step.key == "eval_accuracy":
            step.value = min(1.0, step.value + 0.005)


def other_losses(steps: list[Step]) -> None:
    find(steps, "tracked_stats").value["train_loss"] *= 0.9


def later_initialisation(steps: list[Step]) -> None:
    find(steps, "init_start").at_s += 0.1


def other_machine(steps: list[Step]) -> None:
    find(steps, "tta_world").value[0]["host"] = "elsewhere"


FORGERIES = (faster, a_fifth_shorter, better, other_losses, later_initialisation, other_machine)


@pytest.mark.parametrize(
    "forge",
    [*FORGERIES, "day before", "swapped", "of another result"],
    ids=lambda item: getattr(item, "__name__", item),
)
def test_what_was_forged_after_the_runs_is_found(tmp_path: Path, forge: Callable[[list[Step]], None] | str) -> None:
    """A careful forger makes logs, ledgers, chains and manifest agree; the receipts he cannot make again."""
    box = Box(tmp_path)
    witnessed(box)
    kept = {path: path.read_bytes() for path in [*box.folder.glob("receipts_*"), box.folder / CAMPAIGN_NAME]}
    if forge == "day before":
        box.wall_starts_ms = [start - 86_400_000 for start in box.wall_starts_ms]
    elif forge == "swapped":
        box.runs[0], box.runs[1] = box.runs[1], box.runs[0]
    elif forge == "of another result":
        other = Box(tmp_path / "other")
        give_tickets(other.runs)
        find(other.runs[0], "tta_initial").value["quality"] = 0.11
        box.runs[0] = copy.deepcopy(other.runs[0])
    else:
        assert callable(forge)
        for steps in box.runs:
            forge(steps)
            agree(steps, box.place)
    box.write()
    for path, data in kept.items():
        path.write_bytes(data)
    box.reseal()

    findings = box.judge()
    assert {item.code for item in findings} & {"WIT002", "WIT003", "WIT004"}
    assert not engine.is_valid(findings)


def test_the_best_of_many_runs_is_found(tmp_path: Path) -> None:
    """Ten tickets were drawn, and the best five runs are submitted, in a campaign that says so."""
    box = Box(tmp_path)
    witnessed(box, lost=["finished"] * 5)

    assert [item.code for item in box.judge()] == ["WIT005"] * 5


def test_a_log_without_tickets_has_no_receipts(tmp_path: Path) -> None:
    """Receipts next to it are of nobody."""
    box = Box(tmp_path)
    witnessed(box)
    stray = tmp_path / "stray"
    shutil.copytree(box.folder, stray)
    for index in range(5):
        lines = [line for line in (stray / f"result_{index}.txt").read_text().splitlines() if "tta_ticket" not in line]
        (stray / f"result_{index}.txt").write_text("\n".join(lines) + "\n")

    assert witness_class(read_result(stray)) == "W0"
    assert list(receipts.witnessed_runs(read_result(stray))) == []


def test_what_is_drawn_follows_from_the_secret_and_the_logs(tmp_path: Path) -> None:
    """One of the finished runs, one of its evaluations after training began; every one of them can be it."""
    box = Box(tmp_path)
    result = witnessed(box)
    found = drawn(result)
    assert found == drawn(result)
    assert found is not None
    every = evaluations(found.log)
    assert found.evaluations == tuple(every[: found.number])
    assert found.samples > 0
    place, seen = box.folder / CAMPAIGN_NAME, set()
    record = json.loads(place.read_text())
    end = json.loads(record["opening"]["event"])
    for number in range(200):
        end["body"]["secret"] = f"{number:064x}"
        place.write_text(json.dumps({**record, "opening": {**record["opening"], "event": json.dumps(end)}}))
        other = drawn(result)
        assert other is not None
        assert other.seed == other.log.value("seed")
        seen.add((other.log.path.name, other.number))

    assert len(seen) == len(result.runs) * len(every)


def test_only_evaluations_of_trained_networks_with_predictions_are_drawn(tmp_path: Path) -> None:
    """Not the one before training, and not one whose predictions the log does not name."""
    steps = fabricate.events()
    every = evaluations(run_log.read(fabricate.write_log(tmp_path / "log.txt", steps)))
    find(steps, keys.EVAL_ACCURACY, 1).metadata["samples_count"] = 0
    find(steps, keys.EVAL_ACCURACY, 2).metadata.pop("predictions")

    left = evaluations(run_log.read(fabricate.write_log(tmp_path / "log.txt", steps)))

    assert len(left) == len(every) - 2
    assert all(samples > 0 for samples, _, _ in left)


def test_nothing_is_drawn_of_what_is_not_finished(tmp_path: Path) -> None:
    """And nothing without the end of the campaign."""
    box = Box(tmp_path)
    result = witnessed(box)
    place = box.folder / CAMPAIGN_NAME
    record = json.loads(place.read_text())
    end = json.loads(record["opening"]["event"])
    for item in end["body"]["tickets"]:
        item["state"] = "missed"
    place.write_text(json.dumps({**record, "opening": {**record["opening"], "event": json.dumps(end)}}))
    assert drawn(result) is None
    place.unlink()
    assert drawn(read_result(box.folder)) is None


def test_nothing_is_asked_of_the_order_of_runs_without_rules(tmp_path: Path) -> None:
    """Those of a benchmark that the ruleset does not have: how many are scored is not known."""
    result = witnessed(Box(tmp_path))

    assert list(wit005_tickets_missing.check(result, None, None)) == []  # type: ignore[arg-type]
