"""`tta variance`: runs are made one source at a time, read with others, and shown as components and a tolerance."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import UsageError, WorkerError
from harness.log import run_log
from harness.log.seeds import NOISE, SOURCES, WEIGHTS, Seeds, seeds_of
from harness.reproduction.variance import Design, Runs, Study, make, read
from harness.reproduction.variance_report import conclusion, document, status, text
from harness.run.benchmark import Request
from harness.run.variation import Variation
from harness.scoring.components import Group
from tests import fabricate
from tests.fabricate import Step, benchmark_rules, find
from tests.killing import Running, toy_tree
from tests.rules.box import put, recount
from tests.rules_folder import write_ruleset

RULES = benchmark_rules(replay_steps=2)
RULESET = fabricate.ruleset({}, RULES)
SLOPES = (0.05, -0.02, 0.03, -0.06, 0.01, 0.04)


def write(
    folder: Path,
    variation: Variation | None,
    num_runs: int = 3,
    change: Callable[[int, list[Step]], object] | None = None,
    drawn_by: tuple[str, ...] = SOURCES,
) -> Path:
    """Runs as `tta variance` leaves them, or `tta run` where nothing varies by itself.

    drawn_by: the sources on which the first steps depend. Samples to target depend on them and, a little, on the number
    of the run.
    """

    def varied(index: int, steps: list[Step]) -> list[Step]:
        if variation is not None:
            seeds = variation.of_run(index)
            put(steps, Step(0.0, "tta_seeds", seeds.record()), "tta_rules")
            recount(steps)
            seed = 0
            for source in drawn_by:
                seed = seed * 31 + seeds[source]
            record = fabricate.replay_record(seed, RULES.replay_steps)
            record["weights"]["0"] = fabricate.weights_digest(seeds[WEIGHTS])
            find(steps, "tta_replay").value = record
        if change is not None:
            change(index, steps)
        return steps

    fabricate.write_result(folder, num_runs, rules=RULES)
    for index, path in enumerate(sorted(folder.glob("result_*.txt"))):
        seed = 0 if variation is None else sum(variation.of_run(index)[source] for source in drawn_by) % len(SLOPES)
        steps = fabricate.events(index, rules=RULES, qualities=(0.5, 0.7 + SLOPES[seed] + 0.001 * index, 0.95))
        fabricate.write_log(path, varied(index, steps))
    return folder


def written(folder: Path, num_runs: int = 3, drawn_by: tuple[str, ...] = SOURCES) -> Path:
    for name, variation, _ in Design(0, 2, num_runs).folders():
        write(folder / name, variation, num_runs, None, drawn_by)
    return folder


def test_folder_of_an_earlier_variance_is_shown_as_components(tmp_path: Path) -> None:
    study = read([written(tmp_path / "v")], RULESET)

    parts = {part["name"]: part for part in document(study)["parts"]}
    assert list(parts) == [*SOURCES, "repeats", "all", "interaction"]
    assert [parts[name]["num_runs"] for name in (*SOURCES, "repeats", "all")] == [6, 6, 6, 6, 3]
    assert parts["repeats"]["dof"] == 4
    assert study.notes == ()
    assert study.inert == ()
    lines = text(study).splitlines()
    assert lines[0] == "toy_mini: samples to top1_accuracy 0.9"
    assert lines[2].split()[:4] == ["what", "varies", "runs", "missed"]
    assert lines[3].startswith("initial weights")
    assert re.fullmatch(
        r"samples to target vary by \d\.\d % \(\d\.\d to \d\.\d\) between seeds, which calls for a tolerance of 10 %"
        r"( \(10 to \d\d % within the interval\))?; the rules have none",
        lines[-1],
    ), lines[-1]
    assert json.loads(json.dumps(document(study), allow_nan=False))["groups"][0]["varied"] == list(SOURCES)


def test_runs_of_a_source_that_changes_nothing_count_as_repeats(tmp_path: Path) -> None:
    """A workload without dropout draws no noise: its first steps are the same whatever that seed is."""
    study = read([written(tmp_path / "v", drawn_by=("weights", "order"))], RULESET)

    parts = {part["name"]: part for part in document(study)["parts"]}
    assert study.inert == (NOISE,)
    assert NOISE not in parts
    assert parts["repeats"]["num_runs"] == 12
    assert "interaction" in parts
    note = "noise: the seed changes nothing in the first steps of training; runs of it count as repeats"
    assert study.notes == (note,)
    assert note in text(study)


def test_a_source_is_not_inert_because_nothing_is_known(tmp_path: Path) -> None:
    """Without first steps in every log, or with a single run."""
    drawn_by = ("weights", "order")
    write(tmp_path / "one", Variation(0, 0, (NOISE,)), 1, None, drawn_by)
    assert read([tmp_path / "one"], RULESET).inert == ()

    def without(index: int, steps: list[Step]) -> None:
        if index == 1:
            find(steps, "tta_replay").value = {"steps": 0, "not_available": "cumsum"}

    write(tmp_path / "two", Variation(0, 0, (NOISE,)), 3, without, drawn_by)
    assert read([tmp_path / "two"], RULESET).inert == ()


def test_other_runs_are_those_in_which_all_seeds_differ(tmp_path: Path) -> None:
    """Each folder has its own mean; a log that is named by itself is of its folder."""
    one, other = (write(tmp_path / name, None) for name in ("a", "b"))
    for index in range(3):
        path = other / f"result_{index}.txt"
        path.write_text(
            path.read_text().replace(f'"key": "seed", "value": {100 + index}', f'"key": "seed", "value": {index}')
        )

    study = read([one, other / "result_0.txt", other / "result_1.txt"], RULESET)

    assert [(own.path, own.seeds, own.group.varied) for own in study.runs] == [
        (one, None, SOURCES),
        (other, None, SOURCES),
    ]
    assert [len(own.logs) for own in study.runs] == [3, 2]


def test_copies_of_a_run_count_once(tmp_path: Path) -> None:
    """Two results of the same seeds would have no scatter between them."""
    one, other = (write(tmp_path / name, None) for name in ("a", "b"))

    study = read([one, other], RULESET)

    assert len(study.runs) == 1
    assert study.notes[0] == f"{other}/result_0.txt: left out: has the seed of {one}/result_0.txt"


def test_runs_that_miss_are_counted_and_named(tmp_path: Path) -> None:
    def missed(index: int, steps: list[Step]) -> None:
        if index < 2:
            for step in steps:
                if step.key == "eval_accuracy":
                    step.value = min(step.value, 0.8)
            find(steps, "run_stop").metadata.update(status="aborted", reason="budget")

    folder = write(tmp_path / "all", Variation(0, 0, SOURCES), 3, missed)

    study = read([folder], RULESET)

    assert study.groups[0].samples[:2] == (None, None)
    assert study.notes[0] == f"{folder}/result_0.txt: missed the target: budget"
    assert conclusion(study) == "no tolerance follows: fewer than two runs with different seeds reached the target"
    assert status(study) == 1
    assert document(study)["tolerance"] == {"of_rules": None, "is_too_small": False, "found": None}


def test_log_without_an_end_is_left_out(tmp_path: Path) -> None:
    """Its run goes on, or was killed; and a file that is no log is named."""
    folder = write(tmp_path / "all", Variation(0, 0, SOURCES))
    lines = (folder / "result_1.txt").read_text().splitlines(keepends=True)
    (folder / "result_1.txt").write_text("".join(lines[:-1]))
    (folder / "result_2.txt").write_bytes(b"\x00")

    study = read([folder], RULESET)

    assert len(study.runs[0].logs) == 1
    assert any(note.startswith(f"{folder}/result_1.txt: left out: the log has no end") for note in study.notes)
    assert any(note.startswith(f"{folder}/result_2.txt: left out: ") for note in study.notes)


def test_weights_that_their_seed_does_not_hold_are_named(tmp_path: Path) -> None:
    """Something draws them that no seed reaches."""

    def other(index: int, steps: list[Step]) -> None:
        find(steps, "tta_replay").value["weights"]["0"] = fabricate.weights_digest(index)

    folder = write(tmp_path / "repeats", Variation(0, 0, ()), 2, other)

    assert read([folder], RULESET).notes == (f"{folder}: the initial weights differ, although their seed is the same",)


def rewritten(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


BENCHMARK = '"key": "submission_benchmark", "value": "toy_'


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (f'{BENCHMARK}mini"', f'{BENCHMARK}full"', "several benchmarks: toy_full, toy_mini"),
        (
            '"global_batch_size": 100',
            '"global_batch_size": 200',
            "global_batch_size is 200, that of .* 100; name runs",
        ),
        (
            '"module": null',
            '"module": {"name": "x.py"}',
            "module is .*x.py.*, that of .* None; name runs",
        ),
        ('"varied": {"weights"', '"varied": {"waits"', "tta_seeds: not one seed for each of"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(tmp_path: Path, before: str, after: str, why: str) -> None:
    folder = write(tmp_path / "w", Variation(0, 0, (WEIGHTS,)))
    rewritten(folder / "result_2.txt", before, after)

    with pytest.raises(UsageError, match=why):
        read([folder], RULESET)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "two", Variation(0, 0, (WEIGHTS, NOISE)))
    with pytest.raises(UsageError, match="varies several sources, but not all"):
        read([folder], RULESET)
    with pytest.raises(UsageError, match="ruleset v1 has no benchmark 'toy_mini'"):
        read([folder], fabricate.ruleset({}, benchmark_rules(suite="other")))

    for path in folder.glob("result_*"):
        path.write_bytes(b"\x00")
    with pytest.raises(UsageError, match="variance: no runs"):
        read([folder], RULESET)


def test_no_finished_run_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", None, 1)
    lines = (folder / "result_0.txt").read_text().splitlines(keepends=True)
    (folder / "result_0.txt").write_text("".join(lines[:-1]))

    with pytest.raises(UsageError, match="there are no finished runs here"):
        read([folder], RULESET)


def study_of(samples: tuple[float, ...], tolerance: float | None) -> Study:
    rules = benchmark_rules(reproduce_tolerance=tolerance)
    group = Group(SOURCES, samples)
    return Study(rules, (Runs(Path("all"), (), None, group),), (), ())


@pytest.mark.parametrize(("tolerance", "is_too_small"), [(0.1, True), (0.2, False), (None, False)])
def test_tolerance_of_the_rules_is_held_against_the_scatter(tolerance: float | None, is_too_small: bool) -> None:
    """Forty runs that vary by 40 %."""
    study = study_of((700.0, 1300.0) * 20, tolerance)

    assert status(study) == is_too_small
    assert document(study)["tolerance"]["is_too_small"] == is_too_small
    assert conclusion(study).endswith("too little") == is_too_small
    assert "calls for a tolerance of 20 %; the rules have" in conclusion(study)


class Made:
    """In place of `make_runs`: writes the folders that it is asked for."""

    def __init__(self, drawn_by: tuple[str, ...] = SOURCES, most: int = 99) -> None:
        self.asked: list[tuple[str, int]] = []
        self.drawn_by, self.most = drawn_by, most

    def __call__(self, request: Request) -> None:
        assert request.is_resumed
        assert request.out is not None
        assert request.runs is not None
        self.asked.append((request.out.name, request.runs))
        for path in request.out.glob("provenance/*"):
            path.unlink()
        write(request.out, request.variation, min(request.runs, self.most), None, self.drawn_by)


def said(line: str) -> None:
    """Nothing is checked of it."""


def test_runs_are_made_one_source_at_a_time(tmp_path: Path) -> None:
    """First two of each source; where they do not differ, none after them."""
    made = Made(drawn_by=("weights", "order"))

    make(Design(0, 2, 3), Request("toy"), tmp_path / "v", said, made)

    assert made.asked == [
        ("all", 6),
        ("base0_weights", 2),
        ("base0_weights", 3),
        ("base0_order", 2),
        ("base0_order", 3),
        ("base0_noise", 2),
        ("base0_repeats", 3),
        ("base1_weights", 3),
        ("base1_order", 3),
        ("base1_repeats", 3),
    ]
    assert read([tmp_path / "v"], RULESET).inert == (NOISE,)
    assert Design(0, 2, 3).total == 30
    assert Design(0, 2, 3, (WEIGHTS,)).total == 18


def test_runs_that_cannot_be_made_end_it(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"all: 1 of 6 runs could be made; their logs say why"):
        make(Design(0, 2, 3), Request("toy"), tmp_path / "v", said, Made(most=1))


def test_command_shows_a_folder_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = str(write_ruleset(tmp_path / "rules", RULES))
    folder = str(written(tmp_path / "v"))

    assert main(["variance", folder, "--ruleset", rules]) == 0
    assert "initial weights" in capsys.readouterr().out
    assert main(["variance", folder, "--ruleset", rules, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] == "toy_mini"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["toy", "--runs", "1"], "--runs 1: of one run there is no variance; at least 2"),
        (["toy", "--sources", "weights,luck"], "--sources: 'luck' is none of weights, order, noise"),
        (["toyy"], "unknown workload or folder 'toyy'; did you mean 'toy'?"),
        (["./toy"], "toy: there is no such file or folder"),
        ([""], "the path is empty"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = str(write_ruleset(tmp_path / "rules", RULES))

    assert main(["variance", *arguments, "--ruleset", rules]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.slow
def test_command_makes_runs_and_the_same_goes_on(tmp_path: Path) -> None:
    """Of the toy, which misses its target: six runs, of which the second call makes one again, with its seeds."""
    tree = toy_tree(tmp_path)
    command = ["variance", "toy", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--sources", "weights"]
    command += ["--runs", "2", "--bases", "1", "--no-mlflow"]

    def called() -> dict[str, Seeds | None]:
        running = Running(command, tree)
        try:
            status = running.wait(1200)  # six runs
        finally:
            running.end()
        assert status == 1, running.errors
        logs = sorted((tree / "out").glob("*/result_*.txt"))
        return {path.relative_to(tree / "out").as_posix(): seeds_of(run_log.read(path)) for path in logs}

    found = called()
    again = tree / "out" / "base0_weights" / "result_1.txt"
    again.unlink()
    assert called() == found

    names = ("all", "base0_repeats", "base0_weights")
    assert list(found) == [f"{name}/result_{index}.txt" for name in names for index in range(2)]
    for name, variation, _ in Design(0, 1, 2, (WEIGHTS,)).folders():
        assert [found[f"{name}/result_{index}.txt"] for index in range(2)] == [variation.of_run(i) for i in range(2)]
    weights = [run_log.read(path).first("run_start") for path in sorted((tree / "out").glob("base0_*/result_*.txt"))]
    digests = [event.metadata["weights_digest"] for event in weights if event is not None]
    assert len(digests) == 4
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
