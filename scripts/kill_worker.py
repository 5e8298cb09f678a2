#!/usr/bin/env python
"""Kills the worker, its launcher or the referee at random moments of a real run, and looks at what is left.

    python scripts/kill_worker.py --moments 20 --seed 1

Exit status 1 if a log has a defect, a run claims to have ended that did not, or a process is left.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.errors import LogError  # noqa: E402
from harness.log import run_log  # noqa: E402
from harness.run import data_cache  # noqa: E402
from tests.killing import RULESET, Running, kill, until  # noqa: E402


def small_rules(folder: Path) -> Path:
    """Image classification with a target nobody reaches and a budget of some seconds."""
    law = (ROOT / "rules" / "v1" / "image_classification.yaml").read_text()
    head, _, rest = law.partition("  mini:\n")
    mini = rest.partition("  standard:\n")[0]
    changes = {"target": "1.0", "eval_every_samples": "1280", "max_samples": "38400", "max_seconds": "60"}
    lines = []
    for line in (head + "  mini:\n" + mini).splitlines():
        name = line.strip().partition(":")[0]
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(f"{indent}{name}: {changes[name]}" if name in changes else line)
    folder.mkdir()
    (folder / "image_classification.yaml").write_text("\n".join(lines) + "\n")
    (folder / "ruleset.yaml").write_text(RULESET)
    shutil.copyfile(ROOT / "rules" / "v1" / "prices.yaml", folder / "prices.yaml")
    return folder


def one(work: Path, rules: Path, nth: int, victim: str, after_s: float) -> tuple[str, list[str]]:
    """One run, whose `victim` is killed `after_s` seconds after it came up: what happened, what is wrong with it."""
    out = work / f"out{nth}"
    command = ["run", "image_classification", "--ruleset", str(rules), "--out", str(out), "--runs", "1", "--no-mlflow"]
    running = Running([*command, "--quiet"], ROOT)
    wrong = []
    try:
        if victim == "referee":
            until(lambda: (out / "result_0.txt").exists(), 120)
        else:
            until(lambda: running.find(victim) or running.process.poll() is not None, 120)
        time.sleep(after_s)
        was_there = kill(running.find(victim)) if victim != "referee" else running.process.poll() is None
        if victim == "referee":
            running.process.kill()
        status = running.wait(180)
        try:
            log = run_log.read(out / "result_0.txt")
        except LogError as error:
            return "no log", [str(error)]
        stop = log.first("run_stop")
        reason = "no run_stop" if stop is None else str(stop.metadata["reason"])
        if log.defects:
            wrong.append(f"{len(log.defects)} defects: {log.defects[0]}")
        if not until(lambda: not running.relatives(), 10):
            wrong.append(f"left behind: {running.relatives()}")
        # A process that is told to close after run_stop may be killed then: the run ended before.
        expected = (
            {"referee": {"no run_stop", "budget"}}.get(victim, {"crashed", "budget"}) if was_there else {"budget"}
        )
        if reason not in expected:
            wrong.append(f"the run ended as {reason}")
        if victim != "referee" and status != 1:
            wrong.append(f"exit status {status}")
        last = log.events[-1].key if log.events else "nothing"
        return f"{reason}, exit {status}, {log.counts.get('eval_accuracy', 0)} evaluations, last {last}", wrong
    finally:
        running.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--longest", type=float, default=12.0, metavar="SECONDS", help="the latest moment of a kill")
    arguments = parser.parse_args()
    draws = random.Random(arguments.seed)
    num_wrong = num_hits = nth = 0
    with tempfile.TemporaryDirectory(prefix="tta-kill-") as name:
        work = Path(name)
        rules = small_rules(work / "rules")
        print(f"data: {data_cache.default_cache()}; seed {arguments.seed}")
        # A moment after the end of the run proves nothing and is drawn again.
        while num_hits < arguments.moments and nth < 4 * arguments.moments:
            victim = draws.choice(("worker", "worker", "launcher", "referee"))
            after_s = draws.uniform(0.0, arguments.longest)
            what, wrong = one(work, rules, nth, victim, after_s)
            num_wrong += bool(wrong)
            is_hit = not what.startswith("budget")
            num_hits += is_hit
            nth += 1
            verdict = "; ".join(wrong) or ("well" if is_hit else "too late: the run had ended")
            print(f"{num_hits:3d}  {victim:8}  {after_s:5.2f} s  {what}  {verdict}", flush=True)
    print(f"{num_hits} kills in the middle of a run, {num_wrong} with something wrong")
    return 1 if num_wrong or num_hits < arguments.moments else 0


if __name__ == "__main__":
    sys.exit(main())
