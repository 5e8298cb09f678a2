"""Two nodes with two ranks each train as one with four does: three seeds, in namespaces and on a real Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import slurm
from tests.harness.launch.test_slurm_jobs import Jobs
from tests.killing import toy_runs
from tests.nodes import needs_namespaces, runs_on_two_nodes
from tests.two_by_two import COMMAND, trained, training_tree

pytestmark = pytest.mark.slow
LIMIT_S = 900.0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What four ranks of one node do."""
    tree = training_tree(tmp_path_factory.mktemp("alone"))
    with toy_runs(tree) as begin:
        running = begin(*COMMAND, "4", "--isolation", "none")
        assert running.wait(LIMIT_S) == 1, running.errors
    return trained(tree / "out")


@needs_namespaces
def test_namespaces_train_as_one_node(tmp_path: Path, alone: list[dict[str, Any]]) -> None:
    """Over the cable between them."""
    for begin in runs_on_two_nodes(training_tree(tmp_path)):
        running = begin(*COMMAND, "2")
        assert running.wait(LIMIT_S) == 1, running.errors

    assert trained(tmp_path / "out") == alone


@pytest.mark.release  # what Slurm starts is in test_slurm_jobs, what the nodes compute in the test above
@pytest.mark.skipif(bool(slurm.MISSING), reason=slurm.WHY_SKIPPED)
def test_job_of_slurm_trains_as_one_node(tmp_path: Path, alone: list[dict[str, Any]]) -> None:
    """All three runs in one allocation."""
    (folder := tmp_path / "slurm").mkdir()
    with slurm.cluster(folder) as cluster:
        jobs = Jobs(cluster, training_tree(tmp_path / "tree"))
        jobs.submit("run", *COMMAND, "2")
        assert jobs.wait(LIMIT_S) == "FAILED", jobs.screen  # the target is missed, which is exit status 1

    assert trained(jobs.tree / "out") == alone
