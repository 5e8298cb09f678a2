"""Batch scripts and manifests, byte for byte as they are stored, and what is refused before one is written.

python -m tests.harness.launch.test_slurm        writes them again; look at the difference
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.cli import main
from harness.launch import slurm

GOLDEN = Path(__file__).parent / "golden"
RUN = ("run", "image_classification", "--nodes", "2", "--devices", "8", "--out", "results/mine", "--print")
DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"registry.example:5000/tta:1.0@{DIGEST}"
JOBS = {
    "plain.sh": (*RUN, "--launcher", "slurm"),
    "options.sh": (
        *RUN,
        *("--launcher", "slurm", "--partition", "gpu", "--account=team", "--qos", "high", "--time", "2:00:00"),
        *(
            "--constraint",
            "[a|b]&c",
            "--gres",
            "gpu:8",
            "--nodelist",
            "n[1-2]",
            "--exclude",
            "n3",
            "--reservation",
            "r",
        ),
        *("--last-start", "900", "--port", "21000", "opt_base_learning_rate=0.1", "--runs", "5"),
    ),
    "pyxis.sh": (
        *RUN,
        *("--launcher", "slurm", "--container-image", IMAGE, "--container-mounts", "/data:/data:ro,/results:/results"),
        *("--no-container-mount-home", "--container-remap-root", "--container-workdir", "/results"),
    ),
    "pyxis_file.sh": (*RUN, "--launcher", "slurm", "--container-image", "/images/tta 1.sqsh"),
    "apptainer.sh": (
        *RUN,
        *("--launcher", "slurm", "--container-runtime", "apptainer", "--container-image", "/images/tta.sif"),
        *("--container-mounts", "/data:/data:ro,/results:/results"),
    ),
    "apptainer_name.sh": (
        *("doctor", "--nodes", "3", "--print", "--launcher", "slurm", "--container-runtime", "apptainer"),
        *("--container-image", f"docker://{IMAGE}"),
    ),
    "jobset.yaml": (
        *RUN,
        *(
            "--launcher",
            "k8s",
            "--container-image",
            IMAGE,
            "--container-mounts",
            "data:/data:ro,data:/more,home:/results",
        ),
    ),
    "job.yaml": (
        *RUN,
        *("--launcher", "k8s", "--manifest", "job", "--namespace", "team", "--container-image", IMAGE),
        *("--accelerator-resource", "none", "--port", "21000"),
    ),
}
every_job = pytest.mark.parametrize("name", JOBS)


def printed(name: str) -> str:
    """What `--print` shows, with a fixed interpreter and a fixed time."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(JOBS[name]) == 0
    lines = output.getvalue().replace(sys.executable, "/opt/tta/bin/python").splitlines(keepends=True)
    return "".join("#SBATCH --output=tta-doctor-TIME\n" if "=tta-doctor-2" in line else line for line in lines)


@every_job
def test_job_is_the_stored_one(name: str) -> None:
    """Every byte of it: what a person has read and tried is what the next release writes."""
    assert printed(name) == (GOLDEN / name).read_text()


@pytest.mark.parametrize("name", [name for name in JOBS if name.endswith(".sh")])
def test_script_is_one_of_bash(name: str) -> None:
    """Bash reads it, and shellcheck, where it is, has nothing to say."""
    tools = [["bash", "-n"], *([["shellcheck"]] if shutil.which("shellcheck") else [])]
    for tool in tools:
        done = subprocess.run([*tool, str(GOLDEN / name)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", [name for name in JOBS if name.endswith(".yaml")])
def test_manifest_has_a_pod_for_each_node(name: str) -> None:
    """Each on a node of its own; none is started again; the first one's name is where the others connect."""
    *_, document = yaml.safe_load_all((GOLDEN / name).read_text())
    batch = document["spec"]
    if document["kind"] == "JobSet":
        assert document["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
        assert batch["failurePolicy"] == {"maxRestarts": 0}
        (group,) = batch["replicatedJobs"]
        assert group["replicas"] == 1
        batch = group["template"]["spec"]

    pod = batch["template"]["spec"]
    environment = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    assert (batch["completionMode"], batch["completions"], batch["parallelism"]) == ("Indexed", 2, 2)
    assert (batch["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert environment["TTA_NODES"].split()[0] == environment["TTA_FIRST_NODE"].partition(":")[0]
    assert environment["TTA_NODE_TOKEN"] is None  # a secret has it
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", [name for name in JOBS if name.endswith(".yaml")])
def test_manifest_passes_kubeconform(name: str) -> None:
    """By the schemas that it has; a JobSet's is not among those of Kubernetes itself."""
    if shutil.which("kubeconform") is None or "KUBECONFORM_SCHEMAS" not in os.environ:
        pytest.skip("NO KUBECONFORM HERE, or no KUBECONFORM_SCHEMAS: manifests are compared with stored ones only")
    command = ["kubeconform", "-strict", "-schema-location", os.environ["KUBECONFORM_SCHEMAS"], str(GOLDEN / name)]

    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--launcher", "slurm", "--partition", "a b"), "--partition 'a b': must be letters"),
        (("--launcher", "slurm", "--container-image", "tta:latest"), "a tag may name another image tomorrow"),
        (("--launcher", "k8s"), "needs --container-image"),
        (("--launcher", "k8s", "--container-image", "/i/tta.sif"), "Kubernetes takes NAME@sha256:DIGEST"),
        (("--launcher", "k8s", "--container-image", IMAGE, "--time", "1"), "--time: is an option of Slurm"),
        (
            ("--launcher", "k8s", "--container-image", IMAGE, "--container-mounts", "data:data"),
            "must be CLAIM:/PATH or CLAIM:/PATH:ro",
        ),
        (("--launcher", "local", "--partition", "gpu"), "--partition: is for a scheduler's job"),
        (("--container-remap-root",), "--container-remap-root: is for a scheduler's job"),
    ],
)
def test_job_that_cannot_be_is_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 and a sentence with the option."""
    wanted = [word for word in RUN if word != "--print" or ("--launcher" in arguments and "local" not in arguments)]

    assert main([*wanted, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_manifest_is_never_applied(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --print there is nothing to do."""
    assert main([*RUN[:-1], "--launcher", "k8s", "--container-image", IMAGE]) == 2
    assert "--print > job.yaml" in capsys.readouterr().err


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_job_is_submitted_with_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script is shown, kept next to the result it will make, and submitted; a second one needs another place."""
    program(tmp_path / "bin", "sbatch", 'cp "$2" submitted; echo "17;cluster"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.chdir(tmp_path)
    arguments = [*RUN[:-1], "--launcher", "slurm"]

    assert main(arguments) == 0
    shown = capsys.readouterr()

    script = (tmp_path / "results" / "mine.slurm.sh").read_text()
    assert script == shown.out.removesuffix("\n") == (tmp_path / "submitted").read_text()
    assert "job 17 submitted; its output goes to results/mine.slurm-17.txt" in shown.err
    assert main(arguments) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_allocation_that_is_there_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same script runs in it, and its exit status is that of `tta`; one that a signal has ended is 130."""
    for name in ("scontrol", "sinfo"):
        program(tmp_path / "bin", name, "echo n1; echo n2")
    program(tmp_path / "bin", "srun", 'echo "$TTA_NODES $TTA_FIRST_NODE" >started; exit "$STATUS"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    for name, value in {"JOB_ID": "10005", "JOB_NODELIST": "n[1-2]", "JOB_CPUS_PER_NODE": "2(x2)"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)

    for number, (ended, status) in enumerate({"0": 0, "1": 1, "143": 130, "7": 2}.items()):
        monkeypatch.setenv("STATUS", ended)
        out = str(tmp_path / f"out{number}")
        assert main(["run", "image_classification", "--nodes", "2", "--launcher", "slurm", "--out", out]) == status

    assert (tmp_path / "started").read_text() == "n1 n2 n1:20005\n"


def test_restarted_job_is_refused(tmp_path: Path) -> None:
    """Before any step of it."""
    environment = {**os.environ, "SLURM_RESTART_COUNT": "1"}
    command = ["bash", str(GOLDEN / "plain.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 2
    assert "SLURM_RESTART_COUNT=1" in done.stderr


def test_missing_slurm_and_missing_pyxis_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do instead."""
    script = tmp_path / "job.sh"
    script.touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    slurm.refuse_missing_pyxis()
    with pytest.raises(slurm.UsageError, match="where Slurm is, submit"):
        slurm.submit(script)
    program(tmp_path / "bin", "srun", "echo --container")
    with pytest.raises(slurm.UsageError, match="pyxis is not installed on this cluster"):
        slurm.refuse_missing_pyxis()
    program(tmp_path / "bin", "srun", "echo --container-image")
    slurm.refuse_missing_pyxis()
    program(tmp_path / "bin", "sbatch", "echo invalid partition >&2; exit 1")
    with pytest.raises(slurm.UsageError, match="invalid partition"):
        slurm.submit(script)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for job in JOBS:
        (GOLDEN / job).write_text(printed(job))
