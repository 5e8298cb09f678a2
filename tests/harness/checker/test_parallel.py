"""Results judged by several processes: interrupted, or one of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.checker import parallel
from harness.checker.report import text
from harness.checker.results import Rulesets
from harness.errors import SubmissionError
from tests import fabricate
from tests.rules.box import TODAY

ROOT = Path(__file__).parents[3]


def logs(folder: Path, num: int) -> list[Path]:
    """Logs, each a result by itself."""
    return [fabricate.write_log(folder / f"log_{index}.txt", fabricate.events(index)) for index in range(num)]


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are forks there only")
def test_a_process_that_is_killed_costs_the_result_that_killed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the system when memory runs out; the others are judged anyway, in order."""
    paths = logs(tmp_path, 4)
    judged = parallel.Judge.judged

    def killed_by_one(judge: parallel.Judge[text.Judged], path: Path) -> object:
        if path == paths[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return judged(judge, path)

    monkeypatch.setattr(parallel.Judge, "judged", killed_by_one)

    said = list(parallel.in_order(paths, parallel.Judge(Rulesets("v1", None), TODAY, text.judged), 2))

    assert isinstance(said[1], SubmissionError)
    assert "log_1.txt: the process that read it was killed" in str(said[1])
    assert [getattr(item, "path", None) for item in said] == [str(paths[0]), None, str(paths[2]), str(paths[3])]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
def test_ctrl_c_ends_every_process_and_the_command_with_130(tmp_path: Path) -> None:
    """No process is left, and nothing is shown of unfinished results."""
    os.mkfifo(tmp_path / "says")
    code = (
        "import os, sys, time\n"
        "from harness import cli\nfrom harness.checker import parallel\n"
        "def judged(judge, path):\n"
        "    with open(sys.argv[1], 'w') as said: said.write(f'{os.getpid()}\\n')\n"
        "    time.sleep(60)\n"
        "parallel.Judge.judged = judged\n"
        "sys.exit(cli.main(['check', '--ruleset', 'v1', '--jobs', '2', *sys.argv[2:]]))\n"
    )
    paths = [str(path) for path in logs(tmp_path, 4)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "says"), *paths],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with open(tmp_path / "says") as says:
        worker = int(says.readline())
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to all of them

    out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (130, b"", b"tta: interrupted\n")
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()
