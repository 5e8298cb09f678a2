"""Kubernetes: the manifest of a job, as a JobSet or as an Indexed Job with its service. Nothing is applied."""

from __future__ import annotations

from typing import Any

import yaml

from harness.errors import UsageError, printable
from harness.launch.protocol import NODES
from harness.launch.scheduled import FIRST_PORT, FIRST_VARIABLE, IMAGE_VARIABLE, NODES_VARIABLE, Job

FORMS = ("jobset", "job")
SECRET = "tta-nodes"  # noqa: S105  (its name)
_LABEL = "tta-job"
_GROUP = "nodes"
_GRACE_S = 60  # for the referee to close its log
_OPENING = """\
# The token that the tasks know each other by is a secret of the namespace, made once:
#     kubectl create secret generic {secret} --from-literal=token="$(openssl rand -hex 32)"
"""


def manifest(job: Job, form: str, namespace: str | None, resource: str | None) -> str:
    """Return the manifest of a job.

    form: one of FORMS. namespace: None: the one of the cluster's context. resource: the name by which the cluster
    counts accelerators, such as "nvidia.com/gpu"; None: the pods ask for none.

    Raises:
        UsageError: there is no image, or a mount is not of a claim.
    """
    if job.container is None:
        raise UsageError("--launcher k8s: needs --container-image, an image that has tta in it")
    # The names of pods: those of a JobSet's jobs have the group and the number of the job.
    pods = f"{job.name}-{_GROUP}-0" if form == "jobset" else job.name
    names = [f"{pods}-{number}.{job.name}" for number in range(job.num_nodes)]
    pod = _pod(job, names, job.container.image, job.container.digest, resource)
    batch = {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": job.num_nodes,
        "parallelism": job.num_nodes,
        "template": {"metadata": {"labels": {_LABEL: job.name}}, "spec": pod},
    }
    metadata = {"name": job.name, **({} if namespace is None else {"namespace": namespace})}
    documents: list[dict[str, Any]]
    if form == "jobset":
        documents = [
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": metadata,
                "spec": {
                    "network": {"enableDNSHostnames": True, "subdomain": job.name, "publishNotReadyAddresses": True},
                    "failurePolicy": {"maxRestarts": 0},
                    "replicatedJobs": [{"name": _GROUP, "replicas": 1, "template": {"spec": batch}}],
                },
            }
        ]
    else:
        pod["subdomain"] = job.name
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {_LABEL: job.name}}
        documents = [
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": dict(metadata), "spec": batch},
        ]
    return _OPENING.format(secret=SECRET) + yaml.safe_dump_all(
        documents, sort_keys=False, explicit_start=len(documents) > 1, width=1000
    )


def _pod(job: Job, names: list[str], image: str, digest: str | None, resource: str | None) -> dict[str, Any]:
    if digest is None:
        raise UsageError(f"--container-image {printable(image)}: Kubernetes takes NAME@sha256:DIGEST, and no file")
    environment: list[dict[str, Any]] = [
        {"name": NODES.variable, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "token"}}},
        {"name": NODES_VARIABLE, "value": " ".join(names)},
        {"name": FIRST_VARIABLE, "value": f"{names[0]}:{job.port or FIRST_PORT}"},
        {"name": IMAGE_VARIABLE, "value": digest},
    ]
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108  (of the pod)
    assert job.container is not None
    for mount in job.container.mounts:
        claim, _, rest = mount.partition(":")
        path, _, flags = rest.partition(":")
        if not claim or not path.startswith("/") or flags not in ("", "ro"):
            raise UsageError(f"--container-mounts {printable(mount)}: must be CLAIM:/PATH or CLAIM:/PATH:ro")
        if claim not in {volume["name"] for volume in volumes}:
            volumes.append({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": claim, "mountPath": path, **({"readOnly": True} if flags else {})})
    container = {
        "name": "task",
        "image": image,
        "command": list(job.command),
        "env": environment,
        **({} if resource is None else {"resources": {"limits": {resource: job.num_devices}}}),
        "volumeMounts": mounts,
    }
    apart = {"labelSelector": {"matchLabels": {_LABEL: job.name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_S,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "containers": [container],
        "volumes": volumes,
    }
