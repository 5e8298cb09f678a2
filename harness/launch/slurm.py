"""Slurm: the batch script of a job, its submission, and the part of a task that the script has started."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from harness.errors import UsageError, printable
from harness.launch.protocol import NODES
from harness.launch.scheduled import (
    FIRST_PORT,
    FIRST_VARIABLE,
    IMAGE_VARIABLE,
    NODES_VARIABLE,
    NUM_PORTS,
    VERSION_VARIABLE,
    Job,
    plain,
)

# Options that `sbatch` is given as they are.
OPTIONS = {
    "partition": "the partition of the job",
    "account": "the account that is charged",
    "qos": "the quality of service",
    "reservation": "the reservation to use",
    "constraint": "features that the nodes must have",
    "gres": "generic resources of each node, for example gpu:8, where --exclusive does not give them",
    "nodelist": "the nodes to use",
    "exclude": "nodes not to use",
    "time": "the limit of the job's time, for example 2:00:00",
}
RUNTIMES = ("pyxis", "apptainer")
_END_S = 60  # how long the other tasks may go on when one has ended: a referee names the lost node after 10 s
_SUBMIT_S = 60.0

_SCRIPT = """\
#!/usr/bin/env bash
{directives}

# One step, one task on each node, all with the same command: the task of the first node referees the runs, those of the
# others start and end their node's part of them. Nothing is started again: a run that loses a node is over.
set -euo pipefail
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    echo "tta: Slurm has started this job again (SLURM_RESTART_COUNT=$SLURM_RESTART_COUNT); submit a new one" >&2
    exit 2
fi
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\\n' ' ')
address=$(sinfo --noheader --nodes="${{nodes%% *}}" --format=%o | sed -n 1p)
{nodes_variable}=${{nodes% }}
{first_variable}=$address:{port}
{version_variable}=$(sinfo --version)
{image}# What the tasks know each other by; neither a command line nor the job's record has it.
{token_variable}=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')
export {exported}
trap : TERM  # at the end of its time the job waits for the step, which closes its log

# Shortly before the end of the job's time Slurm sends USR1 to every process of the step. It means that no run should
# begin any more; only the referee takes notice, and the shell has all others ignore it.
srun --ntasks-per-node=1 --cpus-per-task="${{SLURM_JOB_CPUS_PER_NODE%%[(,]*}}" --kill-on-bad-exit=0 --wait={end_s} \\
{step}    {shell} \\
    {command}
"""


def script(job: Job) -> str:
    """Return the batch script of a job.

    Raises:
        UsageError: an option cannot be written there.
    """
    options = {name: plain(name, value) for name, value in job.options.items()}
    output = plain("out", str(job.output)).replace("%", "%%")
    directives = {
        "job-name": plain("job-name", job.name),
        "nodes": str(job.num_nodes),
        "ntasks-per-node": "1",
        "exclusive": None,
        "mem": "0",
        "no-requeue": None,
        "signal": f"USR1@{job.last_start_s}",
        "output": f"{output}.slurm-%j.txt",
        **options,
    }
    exported = [NODES_VARIABLE, FIRST_VARIABLE, VERSION_VARIABLE, NODES.variable]
    image = step = ""
    shell = ["bash", "-c", 'trap "" USR1; exec "$@"', "task"]
    if (container := job.container) is not None:
        exported.append(IMAGE_VARIABLE)
        digest = container.digest or f'sha256:$(sha256sum {shlex.quote(container.image)} | cut -d " " -f 1)'
        image = f"{IMAGE_VARIABLE}={digest}\n"
        if job.runtime == "pyxis":
            words = [f"--container-image={container.for_enroot}"]
            words += [f"--container-mounts={','.join(container.mounts)}"] if container.mounts else []
            words += [f"--{option}" for option in container.options]
            step = f"    {shlex.join(words)} \\\n"
        else:
            binds = [word for mount in container.mounts for word in ("--bind", mount)]
            shell += ["apptainer", "exec", "--nv", *binds, container.for_apptainer]
    return _SCRIPT.format(
        directives="\n".join(
            f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={value}" for name, value in directives.items()
        ),
        nodes_variable=NODES_VARIABLE,
        first_variable=FIRST_VARIABLE,
        version_variable=VERSION_VARIABLE,
        token_variable=NODES.variable,
        port=job.port or f"$(({FIRST_PORT} + SLURM_JOB_ID % {NUM_PORTS}))",
        image=image,
        exported=" ".join(exported),
        end_s=_END_S,
        step=step,
        shell=shlex.join(shell),
        command=shlex.join(job.command),
    )


def submit(path: Path) -> str:
    """Submit a script; return the number of the job.

    Raises:
        UsageError: Slurm is not here, or refuses it.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(path)], capture_output=True, text=True, check=False, timeout=_SUBMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"sbatch: {printable(error)}; where Slurm is, submit {path}") from None
    if done.returncode != 0:
        raise UsageError(f"sbatch refuses {path}: {printable(done.stderr.strip(), 500)}")
    return done.stdout.strip().partition(";")[0]


def refuse_missing_pyxis() -> None:
    """Refuse a container where `srun` has no options for it; where there is no `srun`, `submit` says so.

    Raises:
        UsageError: pyxis is not installed.
    """
    if shutil.which("srun") is None:
        return
    known = subprocess.run(["srun", "--help"], capture_output=True, text=True, check=False, timeout=_SUBMIT_S).stdout
    if "--container-image" not in known:
        raise UsageError(
            "--container-image: srun has no such option here, because pyxis is not installed on this cluster; choose "
            "--container-runtime apptainer, or leave the container out"
        )
