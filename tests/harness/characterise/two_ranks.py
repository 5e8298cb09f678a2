"""Two processes that train a ResNet-18 under watch; prints the bytes that each exchanged in a step.

Usage: python -m tests.harness.characterise.two_ranks
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

RANKS = 2


def of_rank() -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torchvision.models import resnet18

    from harness.characterise.watching import Clock, Exchange, Watch, network_of
    from tests.harness.characterise.toys import ToySession

    torch.manual_seed(0)
    dist.init_process_group("gloo")

    def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        dist.all_reduce(torch.ones(1000))
        return torch.randn(n, 3, 32, 32), torch.randn(n, 10)

    session = ToySession(network=resnet18(num_classes=10), wrap=DistributedDataParallel, batch=batch)
    network = network_of(lambda: session.train_block(2))
    exchange = Exchange(network, Clock())
    with Watch(session, network, exchange).watching() as step:
        step(2)
        found = step(2)
    assert 0 < found.exchange_s < found.seconds
    rows = [None] * RANKS
    dist.all_gather_object(rows, f"{found.exchanged_bytes} {found.other_bytes} {found.other_sums}")
    if dist.get_rank() == 0:
        print(*rows, sep="\n")
    dist.destroy_process_group()


def main() -> int:
    if "RANK" in os.environ:
        of_rank()
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", "tests.harness.characterise.two_ranks"]
    started = [subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank)}) for rank in range(RANKS)]
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main())
