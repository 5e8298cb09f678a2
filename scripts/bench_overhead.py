#!/usr/bin/env python3
"""The overhead of the harness: the timed region of a run against a bare PyTorch loop that does the same work.

Each round trains the same network on the same data with the same seed, steps and evaluations, in new processes one
after the other, in rotating order: the bare loop below, which has no harness code; a run (`tta run`, timed by its log);
a run without isolation; and a run with the MLflow mirror. All runs have the evaluator. Prints, for each, the median of
the ratios with its 95 % interval (of order statistics), and what a run takes outside its clock.

    python scripts/bench_overhead.py [--pairs 30] [--samples 61440] [--kinds run,unconfined,mirrored]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # callable from any folder

from harness.log import run_log  # noqa: E402
from harness.ruleset import catalog, load  # noqa: E402
from harness.ruleset.model import BenchmarkRules  # noqa: E402
from harness.run import data_cache, workloads  # noqa: E402

BENCHMARK = ("image_classification", "mini")


def bare(config: dict[str, Any]) -> float:
    """Return the seconds of a plain loop that reads the data, trains and evaluates. The model is warmed up before."""
    import numpy as np
    import torch
    from torch.nn import functional

    from workloads.image_classification.model import build_model

    values, metadata = config["hyperparameters"], config["metadata"]
    torch.manual_seed(config["seed"])
    draws = torch.Generator().manual_seed(config["seed"])
    height, width, channels = metadata["image_shape"]
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    model = build_model("mini", (height, width, channels), metadata["num_classes"]).to(device)
    mean, std = (torch.tensor(metadata[name], device=device) for name in ("channel_mean", "channel_std"))
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=0.0,
        momentum=values["opt_momentum"],
        weight_decay=values["opt_weight_decay"],
        nesterov=True,
        fused=True,
    )
    batch, shift = values["global_batch_size"], values["data_translation"]
    peak, end = values["opt_base_learning_rate"], values["opt_end_learning_rate"]
    warmup, horizon = values["opt_learning_rate_warmup_steps"], values["opt_learning_rate_training_steps"]

    def normalised(images: torch.Tensor) -> torch.Tensor:
        return ((images.float() - mean) / std).permute(0, 3, 1, 2)

    def train(images: torch.Tensor, labels: torch.Tensor, rate: float) -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = functional.cross_entropy(model(normalised(images)), labels, label_smoothing=values["label_smoothing"])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def evaluate(images: torch.Tensor, labels: torch.Tensor) -> float:
        model.eval()
        correct = torch.zeros((), dtype=torch.int64, device=device)
        with torch.inference_mode():
            for first in range(0, len(labels), config["eval_batch"]):
                part = slice(first, first + config["eval_batch"])
                correct += (model(normalised(images[part])).argmax(1) == labels[part]).sum()
        model.train()
        return correct.item() / len(labels)

    def mirrored(index: torch.Tensor, size: int) -> torch.Tensor:
        return (size - 1) - ((size - 1) - index.abs()).abs()

    noise = torch.randint(0, 256, (config["eval_batch"], height, width, channels), dtype=torch.uint8).to(device)
    labels = torch.zeros(batch, dtype=torch.int64, device=device)
    for _ in range(3):
        train(noise[:batch], labels, 0.0)
    evaluate(noise, labels[:1])

    # A run reads its data from the disk, not from memory; so does this loop.
    data_cache.drop_caches(Path(config["data_dir"]))
    start = time.perf_counter()
    places = dict.fromkeys(("train_images", "train_labels", "test_images"), "data_dir") | {"test_labels": "labels_dir"}
    data = {name: torch.from_numpy(np.load(f"{config[place]}/{name}.npy")).to(device) for name, place in places.items()}
    images, labels = data["train_images"], data["train_labels"]
    samples = step = 0
    cursor = len(labels)
    while samples < config["max_samples"]:
        due = (samples // config["eval_every_samples"] + 1) * config["eval_every_samples"]
        total = torch.zeros((), device=device)
        while samples < due:
            if cursor + batch > len(labels):
                order = torch.randperm(len(labels), generator=draws).to(device)
                shifts = torch.randint(-shift, shift + 1, (len(labels), 2), generator=draws).to(device)
                cursor = 0
            chosen, moved = order[cursor : cursor + batch], shifts[cursor : cursor + batch]
            cursor += batch
            rows = mirrored(torch.arange(height, device=device) + moved[:, :1], height)
            columns = mirrored(torch.arange(width, device=device) + moved[:, 1:], width)
            fall = end + (peak - end) * max(0.0, (horizon - step) / (horizon - warmup))
            rate = peak * (step + 1) / (warmup + 1) if step < warmup else fall
            total += train(images[chosen[:, None, None], rows[:, :, None], columns[:, None, :]], labels[chosen], rate)
            step += 1
            samples += batch
        total.item()
        evaluate(data["test_images"], data["test_labels"])
    return time.perf_counter() - start


KINDS = {"run": "run", "unconfined": "run without isolation", "mirrored": "run with mirror"}


def harnessed(rules_folder: Path, out: Path, seed: int, cache: Path, kind: str) -> tuple[float, float]:
    """Return the seconds from `run_start` to `run_stop` of one run, and those of the command outside of them."""
    command = [sys.executable, "-m", "harness.cli", "run", *BENCHMARK[:1], "--suite", BENCHMARK[1], "--full-curve"]
    command += ["--ruleset", str(rules_folder), "--runs", "1", "--seed", str(seed), "--quiet", "--out", str(out)]
    command += ["--data", str(cache)]
    command += ["--mlflow", f"sqlite:///{out.parent}/mlflow.db"] if kind == "mirrored" else ["--no-mlflow"]
    command += ["--isolation", "none"] if kind == "unconfined" else []
    begin = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT)
    all_s = time.perf_counter() - begin
    log = run_log.read(out / "result_0.txt")
    run_s = log.seconds(log.one("run_start"), log.one("run_stop"))
    return run_s, all_s - run_s


def interval(values: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median: the order statistics that no distribution makes narrower."""
    ordered, n = sorted(values), len(values)
    # The number of values below the median is binomial; all of them are taken where they are too few to leave any out.
    tail, left_out = 0.5**n, 0
    while tail + math.comb(n, left_out + 1) * 0.5**n <= 0.025:
        left_out += 1
        tail += math.comb(n, left_out) * 0.5**n
    place = left_out if tail <= 0.025 else 0
    return ordered[place], ordered[-1 - place]


def bare_in_process(config: dict[str, Any], place: Path) -> float:
    place.write_text(json.dumps(config))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))  # as the harness sets it
    command = [sys.executable, __file__, "--bare", str(place)]
    return float(subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout)


def shortened_rules(folder: Path, num_samples: int, **others: Any) -> BenchmarkRules:
    """Write the rules of version 1 with a smaller budget to `folder` and return those of the benchmark.

    others: what else is changed in the rules of its suite.
    """
    source = catalog.ruleset_folder("v1")
    for path in source.glob("*.yaml"):
        (folder / path.name).write_text(path.read_text())
    path = folder / f"{BENCHMARK[0]}.yaml"
    content = yaml.safe_load(path.read_text())
    content["suites"][BENCHMARK[1]] |= {"max_samples": num_samples, **others}
    path.write_text(yaml.safe_dump(content))
    return load.load_ruleset(folder, "v1").benchmark(*BENCHMARK)


def measure(num_pairs: int, num_samples: int, kinds: list[str]) -> None:
    from workloads.image_classification.workload import EVAL_BATCH

    workload = workloads.workload(BENCHMARK[0])
    cache = data_cache.default_cache()
    data = data_cache.prepare(workload, BENCHMARK[1], cache)
    names = ["bare", *kinds]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    outside: dict[str, list[float]] = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "rules")
        folder.mkdir()
        rules = shortened_rules(folder, num_samples)
        config = {
            "hyperparameters": rules.defaults(),
            "metadata": data.metadata,
            "data_dir": str(data.path),
            "labels_dir": str(data.labels),
            "eval_batch": EVAL_BATCH[BENCHMARK[1]],
            "eval_every_samples": rules.eval_every_samples,
            "max_samples": rules.max_samples,
        }
        print("pair  " + "  ".join(f"{name + ' s':>10}" for name in names))
        for pair in range(num_pairs):
            # The order rotates, so that a drift of the machine affects all of them equally.
            first = pair % len(names)
            for name in names[first:] + names[:first]:
                if name == "bare":
                    seconds[name].append(bare_in_process({**config, "seed": pair}, Path(scratch, "bare.json")))
                else:
                    run_s, outside_s = harnessed(folder, Path(scratch, f"{name}_{pair}"), pair, cache, name)
                    seconds[name].append(run_s)
                    outside[name].append(outside_s)
            print(f"{pair:>4}  " + "  ".join(f"{seconds[name][-1]:>10.3f}" for name in names), flush=True)
    for name in kinds:
        ratios = [one / other for one, other in zip(seconds[name], seconds["bare"], strict=True)]
        low, high = interval(ratios)
        print(
            f"{KINDS[name]} / bare loop: median ratio {statistics.median(ratios):.4f} (95 % {low:.4f} to {high:.4f}, "
            f"{num_pairs} pairs); outside its clock {statistics.median(outside[name]):.1f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--samples", type=int, default=61_440, help="samples a run trains on (default: %(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what is compared (default: %(default)s)")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare is not None:
        print(bare(json.loads(arguments.bare.read_text())))
    else:
        measure(arguments.pairs, arguments.samples, arguments.kinds.split(","))


if __name__ == "__main__":
    main()
