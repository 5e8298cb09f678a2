"""The data of the mini suites, made once, and one thread for every test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.run import data_cache, workloads


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], data_cache.DataSet]:
    """The mini data of a workload, made once for all tests (and for all processes of xdist)."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "mini_data"
    return lambda name: data_cache.prepare(workloads.workload(name), "mini", cache)


@pytest.fixture(scope="module")
def mini_dir(
    request: pytest.FixtureRequest,
    prepared: Callable[[str], data_cache.DataSet],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The mini data of the workload that the module tests, with the labels in the same folder."""
    data = prepared(request.module.WORKLOAD.name)
    folder = tmp_path_factory.mktemp(data.path.parents[1].name)
    for path in (*data.path.iterdir(), *data.labels.iterdir()):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread: sums have one order, and other work on the machine does not slow the tests twentyfold."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
