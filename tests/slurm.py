"""A real Slurm of two nodes on this machine: one controller, two node daemons, free ports, a temporary folder.

Its authentication trusts everyone who can reach the ports, so it listens on this machine for as long as a test lasts,
and is for nothing else.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NODES = ("n1", "n2")
PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scancel")
# The daemons are where the path of an ordinary user does not look.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
MISSING = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
WHY_SKIPPED = (
    f"no Slurm here: {', '.join(MISSING)} missing; "
    "apt-get install slurmctld slurmd slurm-client slurm-wlm-basic-plugins"
)
_START_S = 60.0
_END_S = 30.0
# Two node daemons on one host are told apart by name and port; Debian's packages are built with that.
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
NodeName=n1 NodeHostname={host} NodeAddr={address} Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr={address} Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


@dataclass(frozen=True)
class Cluster:
    """A running Slurm. environment: with it, the commands of Slurm mean this one."""

    folder: Path
    environment: Mapping[str, str]

    def call(self, *command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command that means this cluster."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=timeout_s
        )

    def state(self, job: str) -> str:
        """Return the state of a job, as Slurm names it."""
        return self.call("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}").stdout.strip()

    def wait(self, job: str, timeout_s: float) -> str:
        """Wait until a job has ended, and return its state."""
        deadline_s = time.monotonic() + timeout_s
        while (state := self.state(job)) in ("PENDING", "RUNNING", "COMPLETING"):
            assert time.monotonic() < deadline_s, f"job {job} is {state} after {timeout_s:.0f} s"
            time.sleep(0.2)
        return state


def _free_ports(address: str) -> list[int]:
    with contextlib.ExitStack() as probes:
        found = [probes.enter_context(socket.socket()) for _ in range(3)]
        for probe in found:
            probe.bind((address, 0))
        return [int(probe.getsockname()[1]) for probe in found]


def own_address() -> str:
    """Return an address of this machine that is not the loopback's, if it has one."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return next((address for address in found if "." in address), "127.0.0.1")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a cluster in a folder, yield it when both nodes are idle, and end it with all jobs that it has."""
    address = own_address()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            address=address,
            ports=_free_ports(address),
            user=pwd.getpwuid(os.geteuid()).pw_name,
            folder=folder,
        )
    )
    for name in ("state", *NODES):
        (folder / name).mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SRUN"))}
    running = Cluster(folder, {**own, "PATH": PATH, "SLURM_CONF": str(configuration)})
    daemons = [["slurmctld", "-D"], *(["slurmd", "-D", "-N", name] for name in NODES)]
    with contextlib.ExitStack() as ended:
        for number, command in enumerate(daemons):
            with (folder / f"daemon_{number}.txt").open("wb") as output:
                process = subprocess.Popen(
                    [*command, "-f", str(configuration)],
                    env=running.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            ended.callback(_end, process)
        ended.callback(_end_jobs, running)
        deadline_s = time.monotonic() + _START_S
        while running.call("sinfo", "--noheader", "--format=%T %D").stdout.strip() != "idle 2":
            assert time.monotonic() < deadline_s, "\n".join(path.read_text() for path in folder.glob("*.log"))
            time.sleep(0.2)
        yield running


def _end_jobs(running: Cluster) -> None:
    jobs = running.call("squeue", "--noheader", "--format=%A").stdout.split()
    for job in jobs:
        running.call("scancel", job)
    deadline_s = time.monotonic() + _END_S
    while jobs and running.call("squeue", "--noheader").stdout and time.monotonic() < deadline_s:
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
