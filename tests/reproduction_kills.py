"""Reproductions that are interrupted at random moments, and go on by the same command.

    python -m tests.reproduction_kills [NUM] [SEED]

Half of the claims are honest and half are cut by a fifth. Each reproduction gets SIGINT, SIGTERM or SIGKILL up to three
times; the same command must then come to the verdict on the samples that it comes to without, with every run that was
complete kept as it was. Prints a line each; fails if one ends otherwise.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.log import keys, run_log
from tests.killing import Running, toy_tree, until

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
NUM_RUNS = 3
PAUSE = "pause_s=0.3"  # in each phase and block: most signals come in the middle of a run
MAX_INTERRUPTIONS = 3
LIMIT_S = 600.0  # for what takes a few seconds: on a machine under a load of 15, a run of the toy was seen to take 53 s
# A quality that rises with each block, sooner or later by seed: the target is crossed after 338 to 346 samples.
LEARNING = "lambda: min(1.0, 0.26 * self.num_blocks + 0.002 * (config.seed % 11))"


def learning_tree(place: Path) -> Path:
    """A source tree in which the toy learns, however slow the machine: a run beyond its seconds would have missed."""
    tree = toy_tree(place)
    for name, limit in (("ruleset.yaml", "max_init_s: {closed: 60, open: 60}"), ("toy.yaml", "max_seconds: 30")):
        rules = tree / "toy_rules" / name
        assert limit in rules.read_text()
        rules.write_text(rules.read_text().replace(limit, limit.replace("60", "600").replace("30", "300")))
    file = tree / "workloads" / "toy" / "__init__.py"
    text = file.read_text()
    assert "lambda: 0.5)" in text
    file.write_text(text.replace("lambda: 0.5)", f"{LEARNING})"))
    return tree


def claim(tree: Path) -> Path:
    """The folder of an honest claim."""
    command = [sys.executable, "-m", "harness.cli", "run", "toy", "--ruleset", "toy_rules", "--data", "data"]
    options = ["--seed", "1", "--out", "claim", "--runs", str(NUM_RUNS), "--no-mlflow", "--quiet", PAUSE]
    subprocess.run([*command, *options], cwd=tree, check=True, capture_output=True)
    for path in (tree / "claim").glob("predictions_*.npz"):
        path.unlink()  # a toy's are single numbers, which no evaluation again takes
    return tree / "claim"


def cut(folder: Path) -> None:
    """State a fifth fewer samples in each evaluation, for the verdict to find; a check would see it."""
    for path in folder.glob("result_*.txt"):
        lines = []
        for line in path.read_text().splitlines():
            head, token, text = line.partition(":::MLLOG ")
            event: dict[str, Any] = json.loads(text)
            if event["key"] == keys.EVAL_ACCURACY:
                event["metadata"]["samples_count"] = round(0.8 * event["metadata"]["samples_count"])
            lines.append(f"{head}{token}{json.dumps(event)}")
        path.write_text("\n".join(lines) + "\n")


def command(out: str) -> list[str]:
    options = ["--ruleset", "toy_rules", "--data", "data", "--out", out, "--tolerance", "0.12", "--runs", str(NUM_RUNS)]
    return ["reproduce", "claim", *options, "--no-mlflow", "--format", "json"]


def complete(folder: Path) -> dict[str, bytes]:
    """The logs that have an end, but for those that a signal ended."""
    found = {}
    for path in folder.glob("result_*.txt"):
        log = run_log.read(path)
        stop = log.first(keys.RUN_STOP)
        if log.first(keys.TTA_END) is not None and stop is not None and stop.metadata["reason"] != "interrupted":
            found[path.name] = path.read_bytes()
    return found


def attempt(tree: Path, out: str, chance: random.Random, wanted: str, most: int = MAX_INTERRUPTIONS) -> str:
    """Make one reproduction with up to `most` interruptions; return what was done.

    Raises:
        AssertionError: it did not end as it must.
    """
    done, folder = [], tree / out
    for _ in range(chance.randint(min(1, most), most)):
        running = Running(command(out), tree)
        try:
            number, delay_s = chance.choice(SIGNALS), chance.uniform(0.5, 20.0)
            until(lambda running=running: running.process.poll() is not None, delay_s, 0.1)  # type: ignore[misc]
            if running.process.poll() is None:
                running.process.send_signal(number)
            status = running.wait(LIMIT_S)
            assert until(lambda running=running: not running.relatives(), LIMIT_S), running.relatives()  # type: ignore[misc]
            assert "Traceback" not in running.errors, running.errors
            done.append(f"{number.name} after {delay_s:.1f} s: {status}")
        finally:
            running.end()
    before = complete(folder) if folder.exists() else {}
    output = subprocess.run(
        [sys.executable, "-m", "harness.cli", *command(out)], cwd=tree, capture_output=True, text=True, check=False
    )
    how = f"{'; '.join(done)}; then {output.returncode} with {len(before)} runs kept"
    assert output.returncode in (0, 1), (how, output.stderr)
    found = json.loads(output.stdout)
    assert output.returncode == (found["verdict"] != "reproduced"), how
    # The pace of a toy is that of whatever else the machine does; the verdict on the samples is the claim's.
    assert found["samples"]["status"] == wanted, (how, found)
    assert (found["samples"]["missed_new"], found["samples"]["num_new"]) == (0, NUM_RUNS), how
    after = complete(folder)
    assert before.items() <= after.items(), how
    assert len(after) == NUM_RUNS, how
    return how


def main(number: int, seed: int) -> int:
    """Make the reproductions; return how many ended otherwise than they must."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background programs have it ignored
    num_wrong = 0
    with tempfile.TemporaryDirectory(prefix="tta-again-") as place:
        trees = {}
        for wanted in ("reproduced", "not reproduced"):
            trees[wanted] = learning_tree(Path(place) / wanted.replace(" ", "_"))
            folder = claim(trees[wanted])
            if wanted != "reproduced":
                cut(folder)
        chance = random.Random(seed)
        for index in range(number):
            wanted = list(trees)[index % 2]
            try:
                line = attempt(trees[wanted], f"again_{index}", chance, wanted)
            except AssertionError as error:
                num_wrong += 1
                line = f"WRONG: {error}"
            print(f"{index:3d} {wanted:15s} {line}", flush=True)
    print(f"{number - num_wrong} of {number} came to their verdict")
    return num_wrong


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(1 if main(*(numbers + [20, 1][len(numbers) :])) else 0)
