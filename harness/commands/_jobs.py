"""`--launcher slurm` and `k8s`, for the verbs that run on several nodes: the job, or the part of a task of one."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.base.files import write_new
from harness.commands._arguments import Parser, as_positive
from harness.errors import ExitStatus, UsageError
from harness.launch import kubernetes, scheduled, slurm
from harness.launch.scheduled import SCHEDULERS, Container, Job

_FLAGS = ("container-mount-home", "no-container-mount-home", "container-remap-root", "container-writable")
_ACCELERATORS = "nvidia.com/gpu"


def add_scheduler(parser: Parser) -> None:
    """Add the options of a scheduler's job; those of Slurm and pyxis have their names there."""
    for name, what in slurm.OPTIONS.items():
        parser.add_argument(f"--{name}", metavar="VALUE", help=f"Slurm: {what}")
    parser.add_argument(
        "--last-start",
        type=as_positive,
        default=300,
        metavar="SECONDS",
        help="Slurm: begin no run in so many last seconds of the job's time (default: %(default)s)",
    )
    parser.add_argument(
        "--container-image",
        metavar="IMAGE",
        help="Slurm, Kubernetes: what the tasks run in: NAME@sha256:DIGEST, or a file",
    )
    parser.add_argument(
        "--container-mounts",
        metavar="LIST",
        help="Slurm: SRC:DST[:FLAGS], separated by commas; Kubernetes: CLAIM:/PATH[:ro]",
    )
    parser.add_argument(
        "--container-runtime",
        choices=slurm.RUNTIMES,
        default=slurm.RUNTIMES[0],
        help="Slurm: what runs the container (default: %(default)s)",
    )
    for name in ("container-workdir", "container-env"):
        parser.add_argument(f"--{name}", metavar="VALUE", help="Slurm: the option of pyxis")
    for name in _FLAGS:
        parser.add_argument(
            f"--{name}", action="append_const", dest="container_flags", const=name, help="Slurm: the option of pyxis"
        )
    parser.add_argument(
        "--manifest",
        choices=kubernetes.FORMS,
        default=kubernetes.FORMS[0],
        help="Kubernetes: a JobSet, or an Indexed Job with its service (default: %(default)s)",
    )
    parser.add_argument("--namespace", metavar="NAME", help="Kubernetes: the namespace of the job")
    parser.add_argument(
        "--accelerator-resource",
        default=_ACCELERATORS,
        metavar="NAME",
        help="Kubernetes: the name by which accelerators are counted, or none (default: %(default)s)",
    )
    parser.add_argument(
        "--print", action="store_true", dest="is_printed", help="show the job's script or manifest, and do nothing"
    )


def carried_out(arguments: argparse.Namespace, name: str, output: Path, added: Sequence[str] = ()) -> ExitStatus | None:
    """Carry out what a scheduler's job needs of this process; None if that is the referee's part.

    name: of the job. output: the job's files are named after it. added: arguments that the tasks need besides those of
    this command line.

    Raises:
        UsageError: the job cannot be made. TtaError: what the helper of a node raises.
    """
    if arguments.launcher not in SCHEDULERS:
        _refuse_options(arguments)
        return None
    task = scheduled.task_of(arguments.launcher, os.environ)
    if task is not None:
        scheduled.hold_warning()
        if task.number == 0:
            arguments.port = task.port if arguments.nodes > 1 else None
            return None
        scheduled.help_referee(task, arguments.interface, arguments.address_of)
        return ExitStatus.OK
    job = _job(arguments, name, output, added)
    if arguments.launcher == "k8s":
        resource = None if arguments.accelerator_resource == "none" else arguments.accelerator_resource
        text = kubernetes.manifest(job, arguments.manifest, arguments.namespace, resource)
        if not arguments.is_printed:
            raise UsageError("--launcher k8s: writes a manifest and applies nothing: --print > job.yaml")
        print(text, end="")
        return ExitStatus.OK
    text = slurm.script(job)
    if arguments.is_printed:
        print(text, end="")
        return ExitStatus.OK
    if job.container is not None and job.runtime == "pyxis":
        slurm.refuse_missing_pyxis()
    path = output.with_name(f"{output.name}.slurm.sh")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_new(path, text.encode(), "exists already; choose another --out")
    print(text)
    if "SLURM_JOB_ID" in os.environ:  # an allocation that someone has made
        print(f"tta: running {path} in job {os.environ['SLURM_JOB_ID']}", file=sys.stderr, flush=True)
        return ExitStatus(_status(subprocess.run(["bash", str(path)], check=False).returncode))
    number = slurm.submit(path)
    print(f"tta: job {number} submitted; its output goes to {output}.slurm-{number}.txt", file=sys.stderr)
    return ExitStatus.OK


def _status(status: int) -> int:
    """Return the exit status of a job as one of `tta`."""
    return status if status in list(ExitStatus) else ExitStatus.INTERRUPTED if status > 128 else ExitStatus.USAGE


def _refuse_options(arguments: argparse.Namespace) -> None:
    """Refuse the options of a scheduler where there is none."""
    for option, value in vars(_parser().parse_args([])).items():
        if getattr(arguments, option) != value:
            named = {"is_printed": "print", "container_flags": (arguments.container_flags or [""])[0]}
            name = named.get(option, option.replace("_", "-"))
            raise UsageError(f"--{name}: is for a scheduler's job: --launcher slurm or k8s")


def _job(arguments: argparse.Namespace, name: str, output: Path, added: Sequence[str]) -> Job:
    options = {option: value for option in slurm.OPTIONS if (value := getattr(arguments, option)) is not None}
    if arguments.launcher == "k8s" and options:
        raise UsageError(f"--{next(iter(options))}: is an option of Slurm; --launcher k8s has no use for it")
    container = None
    if arguments.container_image is not None:
        further = {
            option: getattr(arguments, option.replace("-", "_")) for option in ("container-workdir", "container-env")
        }
        container = Container(
            arguments.container_image,
            tuple(filter(None, (arguments.container_mounts or "").split(","))),
            (*(f"{option}={value}" for option, value in further.items() if value), *(arguments.container_flags or ())),
        )
    _, own = _parser().parse_known_args(arguments.argv)
    program = (sys.executable, "-m", "harness.cli") if container is None else ("tta",)
    return Job(
        name=name,
        command=(*program, *own, *added),
        num_nodes=arguments.nodes,
        num_devices=arguments.devices,
        output=output,
        options=options,
        container=container,
        runtime=arguments.container_runtime,
        last_start_s=arguments.last_start,
        port=arguments.port,
    )


def _parser() -> Parser:
    """Return a parser of these options alone."""
    parser = Parser(add_help=False, allow_abbrev=False)
    add_scheduler(parser)
    return parser
