"""Forged submissions of `tta`: what is changed in a valid submission, and which check must find it.

Naive: files are edited as text; chain and manifest are left as they were.
Careful: the forger writes the log again with a valid chain, makes count, ledger and throughput agree, and writes the
manifest again. What nothing in a submission can show is at the end, with the reason: it is why results are reproduced.
An attack whose edit is also a case of a check (tests/rules/fixtures) names that case, and is proved there.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.base.files import sha256_of
from harness.log.events import TOKEN, digest_of
from tests.fabricate import MODULE, PREDICTIONS_DIGEST, Step, find, module_record
from tests.rules.box import Box, Found, agree, compress, configure, drop, hyperparameters, put, recount, shift
from tests.rules.fixtures import cst, dat, hyp, log, pkg, pwr, qua, run, sys, tim

CLAIM, MANIFEST = "submission.yaml", "MANIFEST.sha256"
CHANGED = Found("PKG003", "result_0.txt", MANIFEST)
FAMILIES = (cst, dat, hyp, log, pkg, pwr, qua, run, sys, tim)
CASES = {case.label: case for family in FAMILIES for case in family.CASES}
Damage = Callable[[Box], None]


@dataclass(frozen=True)
class Forgery:
    """A way to forge a submission. `expected` must be among the findings; if it is empty, there are none, and `why`."""

    name: str
    manner: str
    damage: Damage
    expected: tuple[Found, ...]
    box: dict[str, Any] = field(default_factory=dict)
    why: str = ""


FORGERIES: list[Forgery] = []


def forged(manner: str, name: str, *expected: Found, why: str = "", **box: Any) -> Callable[[Damage], Damage]:
    def add(damage: Damage) -> Damage:
        FORGERIES.append(Forgery(name, manner, damage, expected, box, why))
        return damage

    return add


def naive(name: str, *expected: Found, **box: Any) -> Callable[[Damage], Damage]:
    return forged("naive", name, *expected, **box)


def careful(name: str, *expected: Found, **box: Any) -> Callable[[Damage], Damage]:
    return forged("careful", name, *expected, **box)


def unseen(name: str, why: str, **box: Any) -> Callable[[Damage], Damage]:
    return forged("unseen", name, why=why, **box)


def known(name: str, label: str, manner: str = "careful") -> None:
    """An attack that is a case of a check."""
    case = CASES[label]
    FORGERIES.append(Forgery(name, manner, case.damage, case.expected, case.box))


def place_of(box: Box, key: str, nth: int = 0, index: int = 0) -> int:
    """The place of the nth event of `key` in a run."""
    return [place for place, step in enumerate(box.runs[index]) if step.key == key][nth]


def edited(box: Box, key: str, old: str, new: str, nth: int = 0, index: int = 0) -> None:
    """Replaces text on the line of an event, and nothing else."""
    box.is_written = True
    lines = box.lines(index)
    place = place_of(box, key, nth, index)
    assert old in lines[place]
    lines[place] = lines[place].replace(old, new)
    box.put_lines(lines, index)


# Lines of a log.


@naive("a line is edited", Found("LOG006", ("block_start", 1)), CHANGED)
def _(box: Box) -> None:
    edited(box, "eval_accuracy", '"value": 0.5', '"value": 0.51')


@naive("a line is dropped", Found("LOG007", 12), Found("LOG006", 12), Found("LOG011"), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    lines = box.lines()
    box.put_lines([*lines[:11], *lines[12:]])


@naive("a line is inserted", Found("LOG008", ("block_start", 1)), Found("QUA011", ("block_start", 1)), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    lines, place = box.lines(), place_of(box, "block_start", 1)
    line = {
        "namespace": "",
        "time_ms": 1763683204900,
        "event_type": "POINT_IN_TIME",
        "key": "eval_accuracy",
        "value": 0.95,
        "metadata": {"samples_count": 1000, "num_examples": 500, "predictions": PREDICTIONS_DIGEST},
    }
    box.put_lines([*lines[:place], TOKEN + json.dumps(line), *lines[place:]])


@careful("a quality is inserted", Found("QUA011", ("eval_accuracy", 1)))
def _(box: Box) -> None:
    put(
        box.runs[0],
        Step(0, "eval_accuracy", 0.95, {"samples_count": 1000, "num_examples": 500, "predictions": PREDICTIONS_DIGEST}),
        "eval_accuracy",
        0,
    )
    recount(box.runs[0])


@naive("two lines are swapped", Found("LOG007", ("block_start", 1)), Found("LOG006", ("block_start", 1)), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    lines, place = box.lines(), place_of(box, "block_start", 1)
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    box.put_lines(lines)


@careful("two evaluations are swapped, with their times", Found("LOG016", ("eval_start", 2)))
def _(box: Box) -> None:
    steps = box.runs[0]
    first, second, third = (slice(place, place + 3) for place in [place_of(box, "eval_start", nth) for nth in range(3)])
    steps[first], steps[second] = steps[second], steps[first]
    steps[third], steps[second] = steps[second], steps[third]


@naive("the log is cut off in a line", Found("LOG005", "run_stop"), Found("LOG001", ("eval_accuracy", 2)), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    text = box.log().read_text()
    box.log().write_text(text[: text.index('"run_stop"')])


@careful("the log is cut off between two lines", Found("LOG001", ("eval_accuracy", 1)), Found("QUA001"))
def _(box: Box) -> None:
    steps = box.runs[0]
    del steps[steps.index(find(steps, "eval_accuracy", 1)) + 1 :]


# Times.


@naive("run_stop is moved to half the time", Found("LOG016", "run_stop"), Found("LOG006", "tta_predictions"), CHANGED)
def _(box: Box) -> None:
    edited(box, "run_stop", '"elapsed_ns": 9900000000', '"elapsed_ns": 6050000000')


@careful(
    "run_stop is moved before the last evaluation", Found("LOG013", ("eval_accuracy", 2)), Found("QUA003", "run_stop")
)
def _(box: Box) -> None:
    steps = box.runs[0]
    stop = find(steps, "run_stop")
    steps.remove(stop)
    put(steps, stop, "eval_stop", 2)


@careful("run_stop comes before run_start", Found("TIM007", "run_stop"), Found("LOG016", "run_stop"))
def _(box: Box) -> None:
    find(box.runs[0], "run_stop").at_s = 1.0


@naive("a second run_start", Found("LOG008", "run_stop"), Found("LOG012", "run_stop"), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    lines, place = box.lines(), place_of(box, "run_stop")
    line = {
        "namespace": "",
        "time_ms": 1763683209900,
        "event_type": "INTERVAL_START",
        "key": "run_start",
        "value": None,
        "metadata": {"samples_count": 3000},
    }
    box.put_lines([*lines[:place], TOKEN + json.dumps(line), *lines[place:]])


known("a second run_start", "LOG012-a_second_run_start_makes_the_run_shorter")


@naive("wall time is shifted by a day", Found("LOG006", 2), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    box.put_lines([line.replace('"time_ms": 17636', '"time_ms": 17637') for line in box.lines()])


@naive("wall time is shifted on one line", Found("LOG017", "run_stop"), CHANGED)
def _(box: Box) -> None:
    edited(box, "run_stop", '"time_ms": 17636', '"time_ms": 17637')


@careful("wall time is shifted into another run", Found("RUN009", 1, "result_1.txt"))
def _(box: Box) -> None:
    box.wall_starts_ms[1] = box.wall_starts_ms[0] + 5000


@careful("all times are divided by ten", Found("TIM003", "tta_ledger"), Found("TIM010", ("tracked_stats", 0)))
def _(box: Box) -> None:
    for step in box.runs[0]:
        step.at_s /= 10


known(
    "all times of a run are divided by ten, and all that depends on them",
    "TIM009-one_of_three_runs_is_ten_times_as_fast",
)
known("the ledger is made to look better", "TIM003-the_ledger_has_less_training")
known("initialisation is longer than allowed", "TIM001-initialisation_takes_a_millisecond_more")


@careful("work is done between initialisation and clock", Found("TIM008", "run_start"))
def _(box: Box) -> None:
    for step in box.runs[0][place_of(box, "run_start") :]:
        step.at_s += 18_000
    box.wall_starts_ms[0] -= 100_000_000


@careful("the run goes on until it succeeds", Found("TIM005", "run_stop"), Found("TIM011", ("block_start", 2)))
def _(box: Box) -> None:
    steps = box.runs[0]
    for step in steps[steps.index(find(steps, "block_stop", 1)) :]:
        step.at_s += 640
    agree(steps, box.place)
    box.wall_starts_ms[0] -= 10_000_000


# Qualities and samples.


@naive(
    "an accuracy is raised to the target",
    Found("LOG006", ("block_start", 2)),
    Found("QUA004", ("block_start", 2)),
    CHANGED,
)
def _(box: Box) -> None:
    edited(box, "eval_accuracy", '"value": 0.8', '"value": 0.9', nth=1)


@careful("an accuracy is raised to the target", Found("QUA004", ("block_start", 2)))
def _(box: Box) -> None:
    find(box.runs[0], "eval_accuracy", 1).value = 0.91


@careful("all runs are cut short by raised accuracies", Found("CNV003", file="toy_mini"))
def _(box: Box) -> None:
    for steps in box.runs:
        cut_short(steps, box)


def cut_short(steps: list[Step], box: Box) -> None:
    """The second evaluation reaches the target, and the third block never was."""
    find(steps, "eval_accuracy", 1).value += 0.12
    stop = find(steps, "run_stop")
    begin = find(steps, "block_start", 2)
    saved_s = stop.at_s - begin.at_s
    del steps[steps.index(begin) : steps.index(stop)]
    for step in steps[steps.index(stop) :]:
        step.at_s -= saved_s
    stop.metadata["samples_count"] = 2000
    agree(steps, box.place)


@careful("an evaluation and its quality are deleted", Found("QUA005", ("eval_start", 1)))
def _(box: Box) -> None:
    for key in ("eval_start", "eval_stop", "eval_accuracy"):
        drop(box.runs[0], key, 1)
    agree(box.runs[0], box.place)


@careful("all evaluations but the last are deleted", Found("QUA005", "eval_start"))
def _(box: Box) -> None:
    for key in ("eval_start", "eval_stop", "eval_accuracy"):
        for _nth in range(2):
            drop(box.runs[0], key, 0)
    agree(box.runs[0], box.place)


known("a quality is deleted", "QUA011-a_quality_was_taken_out")
known("a run goes on to a better quality", "QUA004-a_run_goes_on_after_it_reached_its_target")
known("a miss is called a success", "QUA003-of_the_qualities_is_the_last_a_miss")


@naive("aborted becomes success", Found("LOG006", "tta_predictions"), Found("QUA003", "run_stop"), CHANGED)
def _(box: Box) -> None:
    find(box.runs[0], "eval_accuracy", 2).value = 0.89
    find(box.runs[0], "run_stop").metadata.update(status="aborted", reason="budget")
    box.write()
    edited(box, "run_stop", '"aborted"', '"success"')


@careful("samples are counted as half", Found("QUA005", "eval_start"))
def _(box: Box) -> None:
    for step in box.runs[0]:
        if "samples_count" in step.metadata:
            step.metadata["samples_count"] //= 2
    agree(box.runs[0], box.place)


@careful("samples are counted down", Found("QUA009", ("block_stop", 1)))
def _(box: Box) -> None:
    find(box.runs[0], "block_stop", 1).metadata["samples_count"] = 500


known("an evaluation uses only a hundred examples", "QUA006-the_number_of_examples_is_one_less_in_the_last")


@naive("a quality is NaN", Found("LOG003", ("eval_accuracy", 1)), CHANGED)
def _(box: Box) -> None:
    edited(box, "eval_accuracy", '"value": 0.8', '"value": NaN', nth=1)


known("a quality is a text", "QUA007-of_the_qualities_is_the_second_in_a_text")
known("an accuracy is above one", "QUA008-of_the_qualities_is_the_last_in_per_cent")


# Hyperparameters, seeds, rules and data.


@naive(
    "the batch size is changed in the header",
    Found("LOG006", "opt_name"),
    Found("HYP005", "global_batch_size"),
    CHANGED,
)
def _(box: Box) -> None:
    edited(box, "global_batch_size", '"value": 100', '"value": 200')


known("the batch size of a run is changed everywhere", "HYP008-another_batch_size_has_a_run")


@careful("the batch size is one that is not permitted", Found("HYP001", "global_batch_size"))
def _(box: Box) -> None:
    for steps in box.runs:
        hyperparameters(steps, global_batch_size=1000)


known("a closed hyperparameter is changed", "HYP001-a_fixed_value_is_another")
known("the worker ran with a larger learning rate", "HYP004-the_worker_ran_with_another_learning_rate")
known("a run has the seed of another", "RUN003-two_runs_have_one_seed")
known("the precision is lowered", "HYP007-the_precision_is_not_permitted")
known("a run was made under looser terms", "LOG018-a_run_was_made_under_other_terms")


@naive("other data are used", Found("LOG006", "cache_clear"), Found("DAT001", "tta_data"), CHANGED)
def _(box: Box) -> None:
    edited(box, "tta_data", "d" * 64, "e" * 64)


known("other data are used", "DAT001-other_data_are_used_than_those_of_the_rules")


@careful("the test set is smaller", Found("DAT003", "eval_samples"), Found("QUA006", "eval_accuracy"))
def _(box: Box) -> None:
    for steps in box.runs:
        find(steps, "eval_samples").value = 100
        for nth in range(3):
            find(steps, "eval_accuracy", nth).metadata["num_examples"] = 100


known("the data were opened before the clock", "TIM002-a_file_was_opened_early")


# A module of the open division.


def opened(box: Box) -> None:
    """Makes the box a valid result of the open division, run with a module that lies in its place."""
    for steps in box.runs:
        configure(steps, division="open", module=module_record(MODULE))
    box.module_path.parent.mkdir(parents=True)
    box.module_path.write_text(MODULE)
    box.claim(division="open")


known("a closed result is made with a module", "HYP010-a_closed_result_was_run_with_a_module")


@careful("a result of the open division is called closed", Found("PKG008", 4, CLAIM))
def _(box: Box) -> None:
    opened(box)
    box.claim(division="closed")


known("the module is tidied after the runs", "PKG015-the_module_is_changed")
known("the module is not shown", "PKG014-the_module_is_gone")
known("the module is a link to what can change", "PKG014-the_module_is_a_link")
known("one run is made with a faster module", "RUN013-a_run_has_another_version_of_the_module")


@careful("one run is made with a faster module of its own", Found("RUN013", "tta_config", "result_2.txt"))
def _(box: Box) -> None:
    opened(box)
    configure(box.runs[2], module=module_record("faster", "faster.py"))
    box.module_path.with_name("faster.py").write_text("faster")


@careful("the worker ran with another module than was declared", Found("HYP004", "tta_resolved"))
def _(box: Box) -> None:
    opened(box)
    step = find(box.runs[0], "tta_resolved")
    step.value = {**step.value, "module": module_record("other")}
    step.metadata["digest"] = digest_of(step.value)


known("the module's name leads to another file", "LOG021-the_module_is_elsewhere")
known("the module is an empty record", "LOG021-the_module_is_an_empty_record")


@naive("the module is renamed in a log", Found("LOG006", "seed"), Found("HYP006", "tta_config"), CHANGED)
def _(box: Box) -> None:
    opened(box)
    box.write()
    edited(box, "tta_config", '"name": "fast.py"', '"name": "slow.py"')


# Submitter, system and division.


@careful("the system is relabelled in a log", Found("SYS004", "tta_system"), Found("SYS005", "submission_platform"))
def _(box: Box) -> None:
    find(box.runs[0], "tta_system").value["name"] = "box9"
    find(box.runs[0], "submission_platform").value = "box9"


@naive("the system is relabelled in the description", Found("SYS004", "tta_system"), Found("PKG010", 7, CLAIM))
def _(box: Box) -> None:
    box.is_written = True
    box.system_path.write_text(box.system_path.read_text().replace("Example 9000", "Example 1000"))


@careful("the description is improved, and the claim with it", Found("SYS004", "tta_system"))
def _(box: Box) -> None:
    box.system_path.write_text(box.system_path.read_text().replace("Example 9000", "Example 1000"))
    box.claim(system_sha256=sha256_of(box.system_path))


@naive(
    "the system is relabelled in the claim",
    Found("PKG003", CLAIM, MANIFEST),
    Found("PKG008", 2, CLAIM),
    Found("PKG009", file="toy_mini"),
)
def _(box: Box) -> None:
    box.is_written = True
    path = box.folder / CLAIM
    path.write_text(path.read_text().replace('"box1"', '"box9"'))


@careful("the claim names another submitter", Found("PKG008", 1, CLAIM), Found("PKG009", file="toy_mini"))
def _(box: Box) -> None:
    box.claim(submitter="globex")


@naive(
    "the division is relabelled in a log",
    Found("LOG006", "submission_org"),
    Found("HYP005", "submission_division"),
    CHANGED,
)
def _(box: Box) -> None:
    edited(box, "submission_division", '"closed"', '"open"')


@careful(
    "the division is relabelled in a log",
    Found("RUN006", "submission_division", "result_2.txt"),
    Found("PKG008", 4, CLAIM),
)
def _(box: Box) -> None:
    configure(box.runs[2], division="open")


known("the division is relabelled in the claim", "PKG008-the_claim_is_of_the_other_division")
known("the division is misspelt to be checked less", "HYP009-a_misspelt_division_is_held_to_the_closed_rules")


# Runs and files.


@naive("two runs are swapped", Found("RUN008", 1), Found("RUN008", 1, "result_1.txt"), CHANGED)
def _(box: Box) -> None:
    box.is_written = True
    one, other = box.log(0).read_bytes(), box.log(1).read_bytes()
    box.log(0).write_bytes(other)
    box.log(1).write_bytes(one)


known("two runs are swapped", "RUN008-two_runs_are_swapped")


@naive("a run is copied over another", Found("RUN004", 1, "result_2.txt"), Found("PKG003", "result_2.txt", MANIFEST))
def _(box: Box) -> None:
    box.is_written = True
    box.log(2).write_bytes(box.log(0).read_bytes())


@careful("a run is copied over another", Found("RUN004", 1, "result_2.txt"), Found("RUN003", "seed", "result_2.txt"))
def _(box: Box) -> None:
    box.runs[2] = copy.deepcopy(box.runs[0])


known("a run is copied with another seed and run_id", "RUN005-a_run_is_a_copy_with_another_seed")
known("a run is copied with another seed, run_id and speed", "RUN012-a_copy_has_other_times")
known("a run is taken from another result", "RUN006-a_run_is_of_another_result")
known("a reference run is submitted", "RUN011-a_run_was_made_to_go_on")


@naive(
    "a run is removed",
    Found("PKG002", "result_2.txt", MANIFEST),
    Found("RUN007", file="toy_mini"),
    Found("RUN001", file="toy_mini"),
)
def _(box: Box) -> None:
    box.is_written = True
    box.log(2).unlink()


@careful("a run is removed, and the others are renumbered", Found("RUN001", file="toy_mini"))
def _(box: Box) -> None:
    box.is_written = True
    find(box.runs[4], "tta_format").value["index"] = 2
    box.runs[2] = box.runs.pop(4)
    box.wall_starts_ms[2] = box.wall_starts_ms.pop(4)
    box.log(4).unlink()
    box.write()


def copied(box: Box) -> None:
    box.runs[2] = copy.deepcopy(box.runs[0])
    find(box.runs[2], "tta_format").value.update(run_id="f" * 32, index=2)
    configure(box.runs[2], seed=102)


@naive("a run is added", Found("PKG004", file="result_5.txt"), Found("RUN002", file="toy_mini"))
def _(box: Box) -> None:
    box.is_written = True
    box.log(5).write_bytes(box.log(0).read_bytes())


@careful("a run is added", Found("RUN002", file="toy_mini"))
def _(box: Box) -> None:
    copied(box)
    extra = copy.deepcopy(box.runs[3])
    find(extra, "tta_format").value.update(run_id="e" * 32, index=5)
    configure(extra, seed=105)
    box.runs.append(extra)
    box.wall_starts_ms.append(box.wall_starts_ms[-1] + 60_000)


@naive("a log becomes a link", Found("PKG005", file="result_4.txt"), Found("RUN001", file="toy_mini"))
def _(box: Box) -> None:
    box.is_written = True
    kept = box.place / "elsewhere.txt"
    box.log(4).rename(kept)
    box.log(4).symlink_to(kept)


@naive("a file is added", Found("PKG004", file="rcp-bypass"))
def _(box: Box) -> None:
    box.is_written = True
    (box.folder / "rcp-bypass").write_text("")


known("the manifest is removed", "PKG001-there_is_no_manifest", "naive")


@naive("the manifest points outside", Found("PKG006", "../box2/result_0.txt", MANIFEST))
def _(box: Box) -> None:
    box.is_written = True
    path = box.folder / MANIFEST
    path.write_text(path.read_text() + "0" * 64 + "  ../box2/result_0.txt\n")


# Energy. `pwr.restate` is what a careful forger does: `tta_energy` agrees with the power logs as they are.


known("the energy is halved", "PWR003-the_joules_are_halved")
known("an energy is made up", "PWR001-an_energy_is_claimed_as_measured_by_a_meter")


@naive(
    "a power log is scaled",
    Found("PKG003", "power/result_0/node_0.txt", MANIFEST),
    Found("PWR003", "tta_energy"),
    options=pwr.NODE,
)
def _(box: Box) -> None:
    box.is_written = True
    pwr.edit(pwr.power_log(box), pwr.scaled(0.5))


@careful("a power log is scaled, and nothing else", Found("PWR003", "tta_energy"), options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.scaled(0.5))


@careful("a power log ends before the run does", Found("PWR004", None, "node_0.txt"), options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.without(box, 9.0, 20.0))
    pwr.restate(box)


@careful("a power log is cut off in a line", Found("PWR014", 70, "node_0.txt"), options=pwr.NODE)
def _(box: Box) -> None:
    path = pwr.power_log(box)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:69]) + "\n" + lines[69][:40])
    pwr.restate(box)


known("a stretch of high power is cut out of a power log", "PWR005-the_meter_paused_for_two_seconds")
known("the log of a frugal node is copied for another", "PWR009-a_log_is_copied_for_a_second_node")
known("a node is left out of the power logs", "PWR008-the_log_of_a_node_is_missing")


@careful("the readings of a node are moved by ten minutes", Found("PWR004", None, "node_0.txt"), options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), moved(600.0))
    pwr.restate(box)


known("a counter is reset in the middle of a run", "PWR012-a_counter_was_reset")
known("the log claims a better meter class", "PWR003-an_energy_is_of_a_better_class")


@careful("a poor meter is made class A, its accuracy left out", Found("PWR010", None, "node_0.txt"), options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.spec_changed(meter_class="A", accuracy_pct=None))
    pwr.restate(box)


@careful(
    "the power logs of two runs are swapped",
    Found("PWR016", 1, "node_0.txt"),
    Found("PWR003", "tta_energy"),
    options=pwr.NODE,
)
def _(box: Box) -> None:
    first, second = (pwr.power_log(box, index).read_bytes() for index in (0, 1))
    pwr.power_log(box, 0).write_bytes(second)
    pwr.power_log(box, 1).write_bytes(first)


known("the energy of the costly run is left out", "PWR020-one_run_was_not_metered")


def moved(seconds: float) -> Callable[[list[pwr.Record]], list[pwr.Record]]:
    """Moves every reading in time, on both clocks."""

    def change(records: list[pwr.Record]) -> list[pwr.Record]:
        for record in records:
            record["time_ms"] += round(seconds * 1000)
            if "mono_ns" in record["metadata"]:
                record["metadata"]["mono_ns"] += round(seconds * 1e9)
        return records

    return change


# Consistent, and odd.


known("a batch size is written so that convergence is not compared", "LOG021-a_batch_size_that_equals_one_and_is_none")
known("two nodes are described as one, and the ranks name no host", "LOG021-two_nodes_that_name_no_host_are_one")
known("no process is listed, so that none contradicts the number of nodes", "SYS006-the_world_is_empty")
known(
    "an accelerator is called a kind of processor", "SYS007-on_a_machine_without_accelerators_trained_like_a_processor"
)
known("one run is made with a faster library", "RUN015-one_run_was_made_with_another_library")
known(
    "all runs are made with a newer framework than is described",
    "SYS010-the_framework_is_a_part_of_the_described_version",
)
known("the statistics of a block that waited for data are dropped", "TIM013-a_block_has_no_statistics")
known("the best five of fifty runs are renumbered", "RUN014-seeds_are_the_best_five_of_fifty")
known("the seeds are two spellings of one", "RUN014-seeds_are_two_that_no_run_takes")
known("a run is copied with another seed, run_id and speed, and two values changed", "RUN012-curves_share_four_of_six")
known(
    "a run is copied with another seed, run_id and speed, and the last digits of its values changed",
    "RUN012-curves_have_other_last_digits",
)
known("an easier suite is trained under the benchmark's name", "HYP005-another_suite_was_trained")
known(
    "runs are stretched apart, so that no leader is significantly faster",
    "RUN016-stretched_more_than_four_times",
)
known("the result was submitted before it was run", "PKG016-the_claim_is_of_the_day_before")
known("a cheaper price book of long ago is named", "CST005-a_book_is_of_long_ago_and_cheaper")
known("research is called available", "PKG017-stated_research_as_available")
known("the notes reverse the text of a page", "PKG012-the_claim_is_with_letters_turned_around")
known("one accelerator of two is metered", "PWR022-of_the_devices_were_metered_one_of_two_accelerators")
known(
    "the run is moved over the idle time before it by the clock in its log",
    "PWR023-the_run_is_moved_over_the_idle_time",
)
known("the run is moved over the idle time before it by a clock offset", "PWR023-the_nodes_clock_is_said_to_be_behind")
known("power logs are made for runs that were not metered", "PWR024-runs_that_were_not_metered_have_readings")


@careful("hours of work are done before initialisation", Found("TIM012", "init_start"))
def _(box: Box) -> None:
    for index in range(5):
        shift(box, "init_start", 10_800.0, index)
        box.wall_starts_ms[index] += 20_000_000 * index


@careful(
    "the batch is too large for any reference to compare with",
    Found("CNV002", None, "toy_mini"),
    options={"batch_size": 200},
)
def _(box: Box) -> None:
    for steps in box.runs:
        cut_short(steps, box)


# What a submission cannot show of itself.

CONSISTENT = "every number agrees with all others: a second run finds it, or a witness of the events as they happen"


@unseen("a quality that decides nothing is changed", CONSISTENT)
def _(box: Box) -> None:
    find(box.runs[0], "eval_accuracy", 1).value = 0.7


@unseen("one run of five is cut short by a raised accuracy", CONSISTENT)
def _(box: Box) -> None:
    cut_short(box.runs[0], box)


@unseen("all runs are made ten times as fast, everything in agreement", CONSISTENT)
def _(box: Box) -> None:
    for index in range(5):
        compress(box, index, 10.0)


@unseen("the whole result is moved to the day before", CONSISTENT)
def _(box: Box) -> None:
    box.wall_starts_ms = [start_ms - 86_400_000 for start_ms in box.wall_starts_ms]


@unseen("the module and its record in the logs are replaced by a harmless one", CONSISTENT)
def _(box: Box) -> None:
    opened(box)
    for steps in box.runs:
        configure(steps, module=module_record("def build_model(): ..."))
    box.module_path.write_text("def build_model(): ...")


@unseen("the log names permitted hyperparameters, but the worker used others", CONSISTENT)
def _(box: Box) -> None:
    for steps in box.runs:
        hyperparameters(steps, opt_base_learning_rate=0.5)


@unseen("another machine is described from the start", CONSISTENT)
def _(box: Box) -> None:
    box.describe(host_processor_model_name="Example 1000")


@unseen("a run of another result is taken with its result_id changed", CONSISTENT)
def _(box: Box) -> None:
    """A run that was made outside of this result, in between, with another seed."""
    find(box.runs[2], "tta_format").value["run_id"] = "9" * 32
    configure(box.runs[2], seed=987_654)


@unseen("two runs with drawn seeds are swapped, with their numbers", CONSISTENT)
def _(box: Box) -> None:
    """It changes no number of the result."""
    for index in range(5):
        configure(box.runs[index], seed=987_654 * (index + 1))
    box.runs[0], box.runs[1] = box.runs[1], box.runs[0]
    for index in (0, 1):
        find(box.runs[index], "tta_format").value["index"] = index


METERED_ALONE = "who owns the node writes its power log: a second meter at it finds it, or what such machines draw"


@unseen("the readings of a power log are scaled, and the energy with them", METERED_ALONE, options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.scaled(0.5))
    pwr.restate(box)


@unseen("a counter counts half of what it counted", METERED_ALONE, options=pwr.COUNTERS)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.scaled(0.5))
    pwr.restate(box)


@unseen("a node's own sensor is declared an analyser", METERED_ALONE, options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.spec_changed(meter_class="A"))
    pwr.restate(box)


@unseen("a meter is declared more accurate than it is", METERED_ALONE, options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), pwr.spec_changed(accuracy_pct=0.1))
    pwr.restate(box)


@unseen("an accelerator is left out of the meters, and out of the description", METERED_ALONE, options=pwr.COUNTERS)
def _(box: Box) -> None:
    """The scope says what was metered, and the description how many there are."""
    for index in range(5):
        path = pwr.power_log(box, index)
        pwr.edit(path, lambda records: [item for item in records if "GPU-0" not in json.dumps(item)])
        pwr.restate(box, index)


@unseen("the readings of a node are moved by half a second", METERED_ALONE, options=pwr.NODE)
def _(box: Box) -> None:
    pwr.edit(pwr.power_log(box), moved(0.5))
    pwr.restate(box)


@unseen("the power log of another run is given this one's name and time", METERED_ALONE, options=pwr.NODE)
def _(box: Box) -> None:
    """A little of it, too: the very same readings twice would be seen only within one run."""
    own = find(box.runs[0], "tta_format").value["run_id"]
    shutil.copyfile(pwr.power_log(box, 1), pwr.power_log(box, 0))
    pwr.edit(pwr.power_log(box), pwr.header_changed(run_id=own))
    pwr.edit(pwr.power_log(box), moved(-60.0))
    pwr.restate(box)


@unseen("a modelled energy is declared as measured", METERED_ALONE, options={"power": "model"})
def _(box: Box) -> None:
    for index in range(5):
        changes = {"meter_class": "B", "accuracy_pct": 1.0, "scope": "ac"}
        pwr.edit(pwr.power_log(box, index), pwr.spec_changed(**changes))
        pwr.restate(box, index)
