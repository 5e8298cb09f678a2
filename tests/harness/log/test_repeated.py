"""What the runs of a reproduction say that they repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.log import run_log
from harness.log.repeated import is_reproduction, repeated, repeated_by, scored
from harness.log.run_log import RunLog
from tests import fabricate
from tests.fabricate import Step

ONE, OTHER = "1" * 64, "2" * 64


def logs_of(folder: Path, *stated: tuple[object, ...]) -> list[RunLog]:
    """A log for each item, with a line of `tta_reproduces` for each of its values."""
    folder.mkdir(exist_ok=True)
    logs = []
    for index, values in enumerate(stated):
        steps = fabricate.events(index)
        steps[2:2] = [Step(0.0, "tta_reproduces", value) for value in values]
        logs.append(run_log.read(fabricate.write_log(folder / f"result_{index}.txt", steps)))
    return logs


def test_runs_that_agree_are_a_reproduction(tmp_path: Path) -> None:
    """One line a run, or the same twice."""
    logs = logs_of(tmp_path, ({"digest": ONE},), ({"digest": ONE}, {"digest": ONE}))

    assert (repeated(logs), is_reproduction(logs)) == (ONE, True)
    assert [repeated_by(log) for log in logs] == [ONE, ONE]


def test_runs_that_say_nothing_repeat_nothing(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, (), ())

    assert (repeated(logs), is_reproduction(logs)) == (None, False)
    assert (repeated([]), is_reproduction([])) == (None, False)


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        pytest.param([({"digest": ONE},), ({"digest": OTHER},)], "repeats 2222.*, and result_0.txt 1111", id="two"),
        pytest.param([({"digest": ONE},), ()], "result_1.txt repeats nothing, and result_0.txt 1111", id="only one"),
        pytest.param([(), ({"digest": ONE},)], "result_1.txt repeats 1111.*, and result_0.txt nothing", id="late"),
        pytest.param([({"digest": "theirs"},)], "result_0.txt repeats 'theirs', which is not the digest", id="a name"),
        pytest.param([({"digest": [f"{item:064x}" for item in range(1000)]},)], "which is not the digest", id="a list"),
        pytest.param([("theirs",)], "repeats 'theirs', which is not", id="no object"),
        pytest.param([({"digest": ONE.replace("1", "A")},)], "which is not the digest", id="upper case"),
        pytest.param([({},)], "repeats 'None', which is not", id="nothing in it"),
        pytest.param([({"digest": ONE},), ({"digest": "5d"},)], "result_1.txt repeats '5d', which", id="too short"),
        pytest.param(
            [tuple({"digest": f"{item:064x}"} for item in range(1000))],
            "repeats 1,000 different results",
            id="a thousand",
        ),
    ],
)
def test_what_is_no_statement_is_said(tmp_path: Path, stated: list[tuple[object, ...]], why: str) -> None:
    """In one sentence, which names the log; such runs are no reproduction."""
    logs = logs_of(tmp_path, *stated)

    with pytest.raises(ValueError, match=why):
        repeated(logs)
    assert not is_reproduction(logs)
    assert scored(logs, 0) is logs


def test_a_reproduction_is_scored_by_its_first_runs(tmp_path: Path) -> None:
    """As many as are required; any other result, and a shorter one, by all."""
    logs = logs_of(tmp_path / "new", *[({"digest": ONE},)] * 3)
    plain = logs_of(tmp_path / "plain", (), (), ())

    assert [log.path.name for log in scored(logs, 2)] == ["result_0.txt", "result_1.txt"]
    assert scored(logs, 3) is logs
    assert scored(plain, 2) is plain
