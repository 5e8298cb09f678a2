#!/usr/bin/env python3
"""The loaders of `workloads/streaming/`: memory and start of a rank against reading a set whole, and the image path.

The first part generates two sets of random bytes, in examples of 100 kB, drops them from the cache of the disk, and
reads 200 batches on each rank: streamed, with two worker processes a rank, and whole, each rank into its own memory.
Start is from opening the folder to the first batch; memory is what the rank and its workers hold, at its highest,
without the libraries and without mapped files, which are the operating system's cache. The second part decodes JPEG
images of 500 by 375 pixels, crops, mirrors and batches them in one process, as the workload image classification does
in its full suite, with torchvision's ImageFolder and DataLoader, and with datasets as its manual has it: images per CPU
second, and ratios of runs one after the other. Prints Markdown.

    python scripts/bench_streaming.py [--gigabytes 5] [--ranks 2] [--pairs 3] [--image-pairs 7] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # callable from any folder

from harness.run import data_cache  # noqa: E402
from workloads.streaming import loader, shards  # noqa: E402
from workloads.streaming.order import share, shuffled  # noqa: E402

EXAMPLE_BYTES, EXAMPLES_PER_SHARD, BATCH = 100_000, 1000, 128
NUM_WORKERS, NUM_BATCHES = 2, 200
NUM_IMAGES, NUM_CLASSES, IMAGE_BATCH, SIDE = 256, 8, 64, 224


def random_rows(part: int) -> Iterator[Mapping[str, Any]]:
    import numpy as np

    random = np.random.RandomState(part)
    for _ in range(EXAMPLES_PER_SHARD):
        yield {"data": random.bytes(EXAMPLE_BYTES)}


def load_bytes(rows: Any, seeds: Any) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(np.stack([np.frombuffer(data, np.uint8) for data in rows["data"].to_pylist()]))


def held_mib(pid: int) -> float:
    """Private and shared memory of a process and its children, without mapped files; what is shared is counted once."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    sizes = [
        re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", Path(f"/proc/{p}/smaps_rollup").read_text(), re.M) for p in pids
    ]
    return sum(int(size) for found in sizes for size in found) / 1024


def read_set(kind: str, folder: Path, rank: int, num_ranks: int) -> dict[str, float]:
    """Read this rank's share of the first batches; return seconds to the first one, and MiB beyond the libraries'."""
    import torch

    torch.set_num_threads(1)
    import datasets

    place = loader.Place(rank, num_ranks, torch.device("cpu"), NUM_WORKERS)
    before_mib, since_s = held_mib(os.getpid()), time.perf_counter()
    batches: Iterator[Any]
    if kind == "streamed":
        examples = loader.Examples(folder, load_bytes)
        order = shuffled(len(examples), BATCH, 0)
        training = loader.TrainingLoader(examples, order, 0, place)
        batches = (batch for _ in range(NUM_BATCHES) for batch in training.next_batch())
    else:
        rows = datasets.load_from_disk(str(folder), keep_in_memory=True).with_format("arrow")
        order = shuffled(len(rows), BATCH, 0)
        batches = (load_bytes(rows[share(batch, rank, num_ranks)], None) for batch in order(0)[:NUM_BATCHES])
    next(batches)
    found = {"start_s": time.perf_counter() - since_s, "held_mib": held_mib(os.getpid()) - before_mib}
    for number, _ in enumerate(batches, 1):
        if number % 20 == 0:
            found["held_mib"] = max(found["held_mib"], held_mib(os.getpid()) - before_mib)
    return found


def on_ranks(kind: str, folder: Path, num_ranks: int) -> dict[str, float]:
    """The worst of the ranks, which read at the same time."""
    data_cache.drop_caches(folder)
    place = ["--folder", str(folder), "--ranks", str(num_ranks), "--rank"]
    command = [sys.executable, __file__, "--rank-of", kind, *place]
    ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(num_ranks)]
    found = [json.loads(process.communicate()[0]) for process in ranks]
    return {name: max(rank[name] for rank in found) for name in found[0]}


def bench_sets(folder: Path, gigabytes: float, num_ranks: int, pairs: int) -> None:
    import datasets

    features = datasets.Features({"data": datasets.Value("binary")})
    print("| set | read | start, s | memory of a rank, MiB |\n|---|---|---:|---:|")
    for size in (gigabytes / 10, gigabytes):
        data_dir = folder / f"set_{size:g}" / "data"
        num_shards = max(1, round(size * 1e9 / EXAMPLE_BYTES / EXAMPLES_PER_SHARD))
        data_dir.mkdir(parents=True, exist_ok=True)
        if not (data_dir / "train").exists():
            with shards.Shards(data_dir) as written:
                written.write("train", features, list(range(num_shards)), random_rows)
        found: dict[str, list[dict[str, float]]] = {"streamed": [], "whole": []}
        for _ in range(pairs):
            for kind, results in found.items():
                results.append(on_ranks(kind, data_dir / "train", num_ranks))
        for kind, results in found.items():
            cells = [_median([result[name] for result in results]) for name in ("start_s", "held_mib")]
            print(f"| {size:g} GB | {kind} | {' | '.join(cells)} |", flush=True)


def _median(values: list[float]) -> str:
    digits = 0 if statistics.median(values) >= 100 else 2
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def make_images(folder: Path) -> None:
    """Write images with detail at every scale, about 100 kB each, in folders of classes and as shards."""
    import datasets
    import numpy as np
    from PIL import Image

    random = np.random.RandomState(0)
    for number in range(NUM_IMAGES):
        pixels = np.zeros((375, 500, 3))
        for scale in (2, 8, 32, 128):
            coarse = random.randint(0, 256, (375 // scale + 1, 500 // scale + 1, 3), np.uint8)
            pixels += np.asarray(Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC))
        path = folder / "images" / f"class{number % NUM_CLASSES}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels / 4).astype(np.uint8)).save(path, quality=90)
    features = datasets.Features({"image": datasets.Value("binary"), "label": datasets.Value("int32")})
    data_dir = folder / "data"
    data_dir.mkdir(parents=True)
    with shards.Shards(data_dir, num_processes=1) as written:
        written.write("train", features, [sorted(map(str, (folder / "images").rglob("*.jpg")))], image_rows)


def image_rows(part: list[str]) -> Iterator[Mapping[str, Any]]:
    for path in part:
        yield {"image": Path(path).read_bytes(), "label": int(Path(path).parent.name[-1])}


def read_images(kind: str, folder: Path) -> dict[str, float]:
    """Read two epochs in this process; return images per CPU second in the second."""
    import datasets
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    from workloads.image_classification.full_images import load_training

    torch.set_num_threads(1)
    transform = v2.Compose([v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip(), v2.PILToTensor()])
    batches: Any
    if kind == "tta":
        place = loader.Place(0, 1, torch.device("cpu"), num_workers=0)
        examples = loader.Examples(folder / "data" / "train", load_training)
        order = shuffled(NUM_IMAGES, IMAGE_BATCH, 0)
        training = loader.TrainingLoader(examples, order, 0, place)
        batches = [()] * (NUM_IMAGES // IMAGE_BATCH)
    elif kind == "torchvision":
        batches = DataLoader(ImageFolder(str(folder / "images"), transform), IMAGE_BATCH, shuffle=True)
    else:
        rows = datasets.load_from_disk(str(folder / "data" / "train")).cast_column("image", datasets.Image())
        transformed = rows.with_transform(
            lambda batch: {**batch, "image": [transform(image.convert("RGB")) for image in batch["image"]]}
        )
        batches = DataLoader(transformed, IMAGE_BATCH, shuffle=True)
    since_s = num_images = 0.0
    for _ in range(2):
        since_s, num_images = time.process_time(), 0
        for batch in batches:
            found = next(iter(training.next_batch())) if kind == "tta" else batch
            images = found["image"] if kind == "datasets" else found[0]
            assert images.dtype == torch.uint8
            num_images += len(images)
    assert num_images == NUM_IMAGES
    return {"images_per_cpu_s": num_images / (time.process_time() - since_s)}


def bench_images(folder: Path, pairs: int) -> None:
    if not folder.exists():
        make_images(folder)
    found: dict[str, list[float]] = {"tta": [], "torchvision": [], "datasets": []}
    for _ in range(pairs):
        for kind, rates in found.items():
            command = [sys.executable, __file__, "--images-of", kind, "--folder", str(folder)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rates.append(json.loads(done.stdout)["images_per_cpu_s"])
    print("\n| loop | images per CPU second | `tta` over it, median of pairs |\n|---|---:|---:|")
    for kind, rates in found.items():
        ratios = [own / rate for own, rate in zip(found["tta"], rates, strict=True)]
        print(f"| {kind} | {_median(rates)} | {_median(ratios)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark of the loaders for data that fit in no memory.")
    parser.add_argument("--gigabytes", type=float, default=5.0, help="size of the larger set (default: 5)")
    parser.add_argument("--ranks", type=int, default=2, help="processes that read at once (default: 2)")
    parser.add_argument("--pairs", type=int, default=3, help="readings of each set; 0: no sets (default: 3)")
    parser.add_argument("--image-pairs", type=int, default=7, help="readings of the images; 0: none (default: 7)")
    parser.add_argument("--folder", type=Path, help="keep the data there, and read what is there already")
    for name in ("--rank-of", "--images-of", "--rank"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank_of:
        print(json.dumps(read_set(arguments.rank_of, arguments.folder, int(arguments.rank), arguments.ranks)))
        return
    if arguments.images_of:
        print(json.dumps(read_images(arguments.images_of, arguments.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="tta-bench-") as temporary:
        folder = arguments.folder or Path(temporary)
        if arguments.pairs:
            bench_sets(folder, arguments.gigabytes, arguments.ranks, arguments.pairs)
        if arguments.image_pairs:
            bench_images(folder / "images", arguments.image_pairs)


if __name__ == "__main__":
    main()
