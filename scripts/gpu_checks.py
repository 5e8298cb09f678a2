#!/usr/bin/env python3
"""The steps of scripts/gpu_checks.sh: each bounded, its failure reported, and the next one done whatever became of it.

The page is written again after every step, so that a call that is cut short leaves what it has found; another call
with the same --out does the steps that were not done. The verdict of a step is one of

    passed
    failed: WHY           its exit status, or what kept it from being started
    unfinished: WHY       its limit was over; a run that was still training is no failure: see its samples a second
    skipped: WHY          a package, the data or the accelerator that it needs is not there
    not done: WHY         the time of the call was over before, or while, it could be done

Exit status: 0 if every step has passed or was skipped; otherwise 1; 2 for arguments that cannot be used.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # callable from any folder

from harness.base.processes import adopt_orphans, children, end_children  # noqa: E402

BUDGET_S = 25 * 60.0
SURVEY_S = 60.0
CLOSING_S = 5.0  # what a step has to close its logs once its time is over
TAIL = 4000  # characters of a step's output that are on the page
OTHERS = ("detection", "recommendation", "reinforcement_learning", "speech_recognition", "translation")
IMAGES = "image_classification"
# What of the shared data is the source of a workload's `standard`.
ARCHIVES = {IMAGES: "cifar10_jpeg.tar", "detection": "bccd_voc.tar", "speech_recognition": "fsdd_wav.tar"}
FOLDERS = {"translation": "multi30k_en_de"}
CAPTURED = ("detection", "translation")  # those with cuda_graphs whose `standard` is run
TESTED = ("pytest", "hypothesis", "psutil", "torch", "accelerate")
PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Step:
    """A command with a limit. out: the folder of its runs, whose logs are read even if the command failed.

    needs: packages by their import names. workload: its own are needed as well. source: the file or the folder of
    the shared data that it needs; None if it needs none, "" if --data was not given. unpacked: where an archive is
    unpacked to before. needs_cuda: there is nothing to learn without a device.
    """

    name: str
    command: Sequence[str]
    limit_s: float
    out: Path | None = None
    needs: Sequence[str] = ()
    workload: str | None = None
    source: Path | str | None = None
    unpacked: Path | None = None
    needs_cuda: bool = False


@dataclass(slots=True)
class Found:
    """What became of a step. line: the last line of its output. facts: of each of its runs."""

    name: str
    verdict: str
    seconds: float = 0.0
    line: str = ""
    facts: list[dict[str, Any]] = field(default_factory=list)
    tail: str = ""

    @property
    def is_done(self) -> bool:
        return not self.verdict.startswith("not done")


def steps_of(data: Path | None, out: Path, is_small: bool) -> list[Step]:
    """Return the steps, with limits whose sum is within the budget.

    is_small: `mini` instead of `standard`, in fp32, and no graphs.
    """
    tta = [sys.executable, "-m", "harness.cli"]
    pytest = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", "-m", "gpu"]
    pytest += ["--continue-on-collection-errors", "tests/workloads", "tests/harness/run"]
    needs_cuda = not is_small

    def run(
        name: str, workload: str, limit_s: float, *options: str, suite: str = "mini" if is_small else "standard"
    ) -> Step:
        folder = out / name.replace(" ", "_")
        command = [*tta, "run", workload, "--suite", suite, "--seed", "0", "--no-mlflow", "--out", str(folder)]
        command += ["--data", str(out / "data"), *options]
        if "--runs" not in options:
            command += ["--runs", "1"]
        kept = (ARCHIVES | FOLDERS).get(workload) if suite == "standard" else None
        source = None if kept is None else "" if data is None else data / kept
        unpacked = out / "sources" / workload if workload in ARCHIVES and source else None
        if source:
            command += ["--source", str(unpacked or source)]
        needs = ("Box2D",) if workload == "reinforcement_learning" and suite == "standard" else ()
        return Step(name, command, limit_s, folder, needs, workload, source, unpacked, needs_cuda)

    graphs = [] if is_small else ["--execution", "cuda_graphs=true"]
    bf16 = [] if is_small else ["--precision", "bf16"]  # `mini` permits fp32 alone
    power = [] if is_small else ["--meter", "auto", "--idle", "5"]
    found = [
        Step("doctor", [*tta, "doctor", "--out", str(out / "system.json")], 40),
        Step(
            "counter and sampled power", [sys.executable, __file__, "--power"], 40,
            needs=("torch", "pynvml"), needs_cuda=True,
        ),
        Step("tests marked gpu", [*pytest, "-k", "not compiled"], 190, needs=TESTED, needs_cuda=True),
        Step("tests of compiling", [*pytest, "-k", "compiled"], 120, needs=TESTED, needs_cuda=True),
        run(IMAGES, IMAGES, 190, *bf16, *graphs, *power, "--runs", "1" if is_small else "3"),
    ]  # fmt: skip
    for workload in OTHERS:
        if workload == "recommendation":  # MovieLens has to be downloaded
            found.append(run(workload, workload, 80, suite="mini"))
        else:
            found.append(run(workload, workload, 80, *(graphs if workload in CAPTURED else [])))
    for precision in ("fp32",) if is_small else ("fp32", "tf32", "bf16", "fp16"):
        found.append(run(f"precision {precision}", IMAGES, 55, "--precision", precision))
    found.append(run("compiled", IMAGES, 150, *bf16, "--execution", "compile=true"))
    overhead = [sys.executable, "scripts/bench_overhead.py", "--kinds", "run", "--pairs", "3"]
    overhead += ["--samples", "10240"] if is_small else []
    found.append(Step("overhead against a bare loop", overhead, 140, workload=IMAGES, needs_cuda=needs_cuda))
    return found


def missing(step: Step, no_cuda: str | None) -> str | None:
    """Return what a step lacks on this machine; None if nothing. no_cuda: why there is no accelerator."""
    packages = [name for name in step.needs if importlib.util.find_spec(name) is None]
    if packages:
        return f"{', '.join(packages)}: not installed"
    if step.needs_cuda and no_cuda is not None:
        return no_cuda
    if step.workload is not None and (reason := _unusable(step.workload)) is not None:
        return reason
    if step.source == "":
        return "--data was not given"
    if step.source is not None and not Path(step.source).exists():
        return f"{step.source} is not there"
    return None


def _unusable(workload: str) -> str | None:
    """Return which library of a workload is not installed; None if all are."""
    from harness.errors import MissingDependencyError
    from harness.run import workloads

    try:
        workloads.workload(workload)
    except MissingDependencyError as error:
        return str(error)
    return None


def do(step: Step, limit_s: float, out: Path) -> Found:
    """Do a step, and end it with all its processes at `limit_s`. Its whole output is in `out`."""
    begin = time.monotonic()
    output = out / f"{step.name.replace(' ', '_')}.txt"
    verdict = PASSED
    if step.unpacked is not None and not step.unpacked.is_dir():
        partly = step.unpacked.with_suffix(".part")
        shutil.rmtree(partly, ignore_errors=True)
        unpack = [sys.executable, "-m", "tarfile", "--filter", "data", "--extract", str(step.source), str(partly)]
        verdict = _verdict_of(unpack, limit_s, output)
        if verdict == PASSED:
            partly.rename(step.unpacked)
    if verdict == PASSED:
        verdict = _verdict_of(step.command, limit_s - (time.monotonic() - begin), output)
    text = output.read_text("utf-8", "replace").strip() if output.exists() else ""
    facts = [] if step.out is None else [of_log(path) for path in sorted(step.out.glob("result_*.txt"))]
    lines = text.splitlines() or [""]
    return Found(step.name, verdict, round(time.monotonic() - begin, 1), lines[-1][:160], facts, text[-TAIL:])


def _verdict_of(command: Sequence[str], limit_s: float, output: Path) -> str:
    """Carry out a command, whose output is added to a file; nothing that descends from it is left behind."""
    # bench_overhead.py prepares its own data there.
    environment = {"TTA_DATA": str(output.parent / "data"), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    adopt_orphans()
    spared = frozenset(children())
    try:
        with output.open("ab") as stream:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        return f"failed: {error}"
    try:
        status = process.wait(max(limit_s, 0.1))
    except subprocess.TimeoutExpired:
        # The harness closes its runs when it is interrupted; what is left after that is ended.
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return f"unfinished: {limit_s:.0f} s were not enough"
    finally:
        end_children(spared)
        process.poll()
    return PASSED if status == 0 else f"failed: exit status {status}"


def of_log(path: Path) -> dict[str, Any]:
    """Return what the log of a run says of its speed, as far as the run came."""
    from harness.errors import LogError
    from harness.log import keys, run_log
    from harness.scoring import timeline

    try:
        log = run_log.read(path)
        blocks = [(stats, log.seconds(start, stop)) for stats, start, stop in timeline.block_stats(log)]
        stop, energy, ledger = (log.first(key) for key in (keys.RUN_STOP, keys.TTA_ENERGY, keys.TTA_LEDGER))
        samples = blocks[-1][0].metadata["samples_count"] if blocks else 0
        return {
            "log": path.name,
            "status": timeline.status(log),
            "reason": None if stop is None else stop.metadata.get("reason"),
            "run_s": timeline.run_s(log),
            "qualities": [value for _, value in timeline.qualities(log)],
            "samples": samples,
            "train_s": round(sum(block_s for _, block_s in blocks), 3),
            "samples_per_s": round(samples / sum(block_s for _, block_s in blocks)) if blocks else None,
            "energy": None if energy is None else energy.value,
            "ledger": None if ledger is None else ledger.value,
        }
    except LogError as error:  # of a run that was killed before its first line
        return {"log": path.name, "status": f"cannot be read: {error}", "qualities": []}


def as_markdown(found: Sequence[Found], facts: Mapping[str, Any]) -> str:
    """The page: a line for each step, a line for each run, and the end of the output of each step without runs, and of
    what did not pass."""
    lines = ["# Checks on an accelerator", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += [*_row("step", "verdict", "seconds", "last line of its output"), "|---|---|---|---|"]
    for step in found:
        lines += _row(step.name, step.verdict, step.seconds, step.line)
    lines += ["", *_row("run", "ended", "clock, s", "training, s", "samples a second", "last quality", "energy, J")]
    lines += ["|---|---|---|---|---|---|---|"]
    for step in found:
        for run in step.facts:
            ended = f"{run['status']}, {run['reason']}" if run.get("reason") else run["status"]
            last = run["qualities"][-1] if run["qualities"] else None
            numbers = (run.get("run_s"), run.get("train_s"), run.get("samples_per_s"), last, _joules(run))
            lines += _row(f"{step.name}, {run['log']}", ended, *numbers)
    for step in found:
        if step.tail and (step.verdict != PASSED or not step.facts):
            lines += ["", f"## {step.name}: {step.verdict}", "", "```text", step.tail, "```"]
    return "\n".join(lines) + "\n"


def _joules(run: Mapping[str, Any]) -> float | None:
    return (run.get("energy") or {}).get("energy_j")


def _row(*cells: object) -> list[str]:
    shown = ("" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells)
    return [f"| {' | '.join(cell.replace('|', '/') for cell in shown)} |"]


def write(out: Path, found: Sequence[Found], facts: Mapping[str, Any]) -> None:
    """Write both files anew; a reader never sees one that is half written."""
    content = json.dumps({**facts, "steps": [asdict(step) for step in found]}, indent=1)
    for name, text in (("gpu_checks.json", content + "\n"), ("gpu_checks.md", as_markdown(found, facts))):
        (out / f"{name}.new").write_text(text, "utf-8")
        (out / f"{name}.new").replace(out / name)


def done_before(out: Path) -> dict[str, Found]:
    """Return the steps that an earlier call has done, by their names."""
    page = out / "gpu_checks.json"
    found = [Found(**step) for step in json.loads(page.read_text("utf-8"))["steps"]] if page.exists() else []
    return {step.name: step for step in found if step.is_done}


def do_all(
    steps: Sequence[Step], out: Path, facts: Mapping[str, Any], budget_s: float = BUDGET_S, no_cuda: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Found]:  # fmt: skip
    """Do the steps one after the other, as far as the budget lasts; those that were done before are not done again.

    no_cuda: why there is no accelerator. An interrupt ends the step, and leaves a page that says so.
    """
    end = clock() + budget_s
    before = done_before(out)
    found = [before.get(step.name, Found(step.name, "not done: not reached")) for step in steps]
    try:
        for number, step in enumerate(steps):
            if step.name in before:
                continue
            found[number] = Found(step.name, "not done: interrupted")
            write(out, found, facts)
            left_s = end - clock() - CLOSING_S
            if (reason := missing(step, no_cuda)) is not None:
                found[number] = Found(step.name, f"skipped: {reason}")
            elif left_s < 1:
                found[number] = Found(step.name, "not done: no time left")
            else:
                if step.out is not None:  # of a call that was cut short
                    shutil.rmtree(step.out, ignore_errors=True)
                found[number] = do(step, min(step.limit_s, left_s), out)
                if left_s < step.limit_s and found[number].verdict.startswith("unfinished"):
                    found[number].verdict = f"not done: only {left_s:.0f} s of the call were left"
            print(f"{step.name}: {found[number].verdict} ({found[number].seconds:.1f} s)", flush=True)
    finally:
        write(out, found, facts)
    return found


def survey() -> dict[str, Any]:
    """What the page says of the machine; found out in a process of its own, since a driver may fail or hang."""
    facts: dict[str, Any] = {
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
    }
    if importlib.util.find_spec("torch") is None:
        return facts | {"torch": "not installed", "accelerator": "none: torch is not installed"}
    try:
        shown = subprocess.run(
            [sys.executable, __file__, "--survey"], capture_output=True, text=True, timeout=SURVEY_S, check=False
        )
    except subprocess.TimeoutExpired:
        return facts | {"accelerator": f"none: torch has not answered within {SURVEY_S:.0f} s"}
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["no message"])[-1]
        return facts | {"accelerator": f"none: torch cannot be used: {last}"}
    found = json.loads(shown.stdout.splitlines()[-1])
    if found["accelerator"].startswith("none: ") and (warned := shown.stderr.strip().splitlines()):
        found["accelerator"] += f" ({warned[0]})"  # what is wrong with the driver
    return facts | found


def seen_by_torch() -> dict[str, Any]:
    """Return torch's versions and its accelerator."""
    import torch

    cuda: Any = torch.cuda
    found = {
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
        "accelerator": "none: torch finds no CUDA device",
    }
    if cuda.is_available():
        seen = cuda.get_device_properties(0)
        size = f"{seen.total_memory / 2**30:.0f} GiB, {seen.multi_processor_count} multiprocessors"
        found["accelerator"] = f"{seen.name}, {size}, compute capability {seen.major}.{seen.minor}"
        found["cudnn"] = torch.backends.cudnn.version()
    if (program := shutil.which("nvidia-smi")) is not None:
        names = "driver_version,power.limit,clocks.max.sm,mig.mode.current,persistence_mode"
        asked = [program, f"--query-gpu={names}", "--format=csv,noheader"]
        shown = subprocess.run(asked, capture_output=True, text=True, timeout=SURVEY_S / 3, check=False)
        found["nvidia-smi"] = re.sub(r"\s+", " ", shown.stdout.strip() or shown.stderr.strip())
    return found


def compare_power(seconds: float = 10.0) -> int:
    """Print joules of NVML's counter and of its sampled power over the same seconds of matrix products."""
    import pynvml
    import torch

    pynvml.nvmlInit()
    properties: Any = torch.cuda.get_device_properties(0)
    device = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")  # NVML does not number devices as CUDA does
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def work() -> float:
        for _ in range(10):
            matrix @ matrix
        torch.cuda.synchronize()
        return time.perf_counter()

    # Sampled power is the mean over a second: the power must be steady before.
    warm = time.perf_counter() + 3.0
    while work() < warm:
        pass
    readings = []
    begin_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
    begin = now = time.perf_counter()
    while now - begin < seconds:
        now = work()
        readings.append((now, pynvml.nvmlDeviceGetPowerUsage(device) / 1000))
    counted_j = (pynvml.nvmlDeviceGetTotalEnergyConsumption(device) - begin_mj) / 1000
    sampled_j, before = 0.0, begin
    for at, watts in readings:
        sampled_j, before = sampled_j + (at - before) * watts, at
    if counted_j <= 0:
        print(f"counter {counted_j:.0f} J: it does not count; sampled {sampled_j:.0f} J")
        return 1
    print(
        f"counter {counted_j:.0f} J, sampled {sampled_j:.0f} J over {before - begin:.1f} s, "
        f"ratio {sampled_j / counted_j:.4f}"
    )
    return 0 if abs(sampled_j / counted_j - 1) < 0.05 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the copies of public data")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=Path("gpu_checks"),
        help="a new folder, or that of an earlier call, whose steps are not done again (default: %(default)s)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        default=BUDGET_S / 60,
        help="of this call; what it does not reach is left to another one (default: %(default)g)",
    )
    parser.add_argument("--small", action="store_true", help="the same steps in a form that a CPU does in minutes")
    parser.add_argument("--power", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--survey", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.power:
        return compare_power()
    if arguments.survey:
        print(json.dumps(seen_by_torch()))
        return 0
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what ends this ends the step, and the page says so
    out = arguments.out.resolve()
    if out.is_dir() and any(out.iterdir()) and not (out / "gpu_checks.json").is_file():
        parser.error(f"--out {out}: has other content; choose another folder")
    if arguments.data is not None and not arguments.data.is_dir():
        parser.error(f"--data {arguments.data}: is no folder")
    out.mkdir(parents=True, exist_ok=True)
    data = None if arguments.data is None else arguments.data.resolve()
    facts = survey()
    accelerator = str(facts["accelerator"])
    no_cuda = accelerator.removeprefix("none: ") if accelerator.startswith("none: ") else None
    budget_s = 60 * arguments.minutes - (time.monotonic() - begin)
    try:
        found = do_all(steps_of(data, out, arguments.small), out, facts, budget_s, no_cuda)
    except KeyboardInterrupt:
        return 130
    return 0 if all(step.verdict == PASSED or step.verdict.startswith("skipped") for step in found) else 1


if __name__ == "__main__":
    sys.exit(main())
