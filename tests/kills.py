"""Kills at random moments: the referee, a worker, its starter, the evaluator, the mirror or the power agent, in each
form of isolation.

    python -m tests.kills 100        one hundred of them, with seeds 0 to 99; prints a line each, stops at a fault

In each run the worker has spawned a child in a session of its own, with an empty environment and without a parent. The
log must parse and state how the run ended, the exit status must be right, and nothing may be left running. A run goes
on to its end without its mirror or its power agent.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from harness.log import run_log
from harness.submission.system import IDLE_POWER_KEY, MAX_POWER_KEY
from tests import users
from tests.fabricate import SYSTEM
from tests.killing import kill, toy_runs, toy_tree, until

VICTIMS = ("referee", "worker", "starter", "evaluator", "mirror", "agent")
DECLARED = {**SYSTEM, IDLE_POWER_KEY: 100, MAX_POWER_KEY: 300, "accelerators_per_node": "0"}
WITH = {
    "mirror": ("--mlflow", "sqlite:///mlflow.db"),
    "agent": ("--meter", "estimate", "--system", "declared.json", "--idle", "0"),
}
# What each form needs beyond the one after it; "none" is asked for.
FORMS = {"bubblewrap": (), "unshare": ("bwrap",), "landlock": ("bwrap", "unshare"), "none": ()}
LATEST_S = 12.0


def one(seed: int, python: users.User | None = None) -> str:
    """Kill one process of one run; return what was done.

    python: an ordinary user for every other seed.

    Raises:
        AssertionError: something was not as it must be.
    """
    chance = random.Random(seed)
    victim, form, delay_s = chance.choice(VICTIMS), chance.choice(list(FORMS)), chance.uniform(0, LATEST_S)
    user = python if python is not None and seed % 2 else users.itself()
    place = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        place.chmod(0o755)
        environment = {"PATH": users.path_without(place / "bin", FORMS[form])} if FORMS[form] else {}
        tree = toy_tree(place / "tree")
        (tree / "declared.json").write_text(json.dumps(DECLARED))
        if user.id != os.geteuid():
            user.own(place)
        with toy_runs(tree) as begin:
            more = (*WITH.get(victim, ()), *(("--isolation", "none") if form == "none" else ()))
            fault = ("fault=prepare:detached", "pause_s=0.7", *more)
            running = begin(*fault, environment=environment, prefix=user.prefix, python=user.python)
            path = tree / "out" / "result_0.txt"
            assert until(path.exists, 120), running.errors
            time.sleep(delay_s)
            if victim == "referee":
                running.process.kill()
                is_hit = True
            else:
                is_hit = kill(running.find(victim))
            status = running.wait(180)
            assert until(lambda: not running.relatives(), 10), running.relatives()
        log = run_log.read(path)
        stop = log.first("run_stop")
        done = f"seed {seed}: {victim} of {form}, user {user.id}, after {delay_s:.1f} s: "
        assert log.defects == (), (done, log.defects)
        reason = None if stop is None else stop.metadata["reason"]
        if stop is None:
            assert (victim, status) == ("referee", -signal.SIGKILL), (done, status, running.errors)
        elif victim in WITH or not is_hit or reason == "budget":  # needless, too late, or between two workers
            assert (status, reason) in ((1, "budget"), (-signal.SIGKILL, "budget")), (done, status, reason)
        else:
            assert (status, reason) == (1, "crashed"), (done, status, reason, running.errors)
        assert "Traceback" not in running.errors, (done, running.errors)
        return f"{done}{'hit' if is_hit else 'missed'}, exit status {status}, {reason or 'no end'}"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main(number: int) -> int:
    with tempfile.TemporaryDirectory(prefix="kills-user-") as place:
        Path(place).chmod(0o755)
        user = users.ordinary(Path(place) / "python")
        if isinstance(user, str):
            print(f"as one user only: {user}")
        for seed in range(number):
            print(one(seed, None if isinstance(user, str) else user), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
