"""Weights that are kept: their digests, their sizes, and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.log.run_log import RunLog
from harness.submission.result import read_result
from harness.submission.weights import are_apart, place_fault, weights_digest, wrong_with_weights
from tests import fabricate
from tests.fabricate import Step, find

DIGEST = "ab" * 32


def log_of(folder: Path, is_apart: bool = False, **changes: object) -> RunLog:
    """The log of a run that kept its weights; changes: of what it says of them."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        fabricate.keep_weights(steps, folder / "weights_0.safetensors", b"weights", is_apart)
        find(steps, "tta_weights").value.update(changes)
        return steps

    return read_result(fabricate.write_result(folder, 1, change)).runs[0]


@pytest.mark.parametrize(
    ("is_apart", "digest", "found"),
    [
        (False, DIGEST, False),
        (True, DIGEST, True),
        (True, None, False),
        (True, DIGEST.upper(), False),
        (True, 5, False),
    ],
)
def test_weights_with_a_digest_and_no_file_are_apart(
    tmp_path: Path, is_apart: bool, digest: object, found: bool
) -> None:
    log = log_of(tmp_path, is_apart, sha256=digest)

    assert are_apart(log) is found
    assert weights_digest(log) == (digest if digest == DIGEST else None)


def test_a_run_that_kept_none_has_none(tmp_path: Path) -> None:
    (log,) = read_result(fabricate.write_result(tmp_path, 1)).runs

    assert weights_digest(log) is None
    assert not are_apart(log)


@pytest.mark.parametrize("place", ["https://a.example/w", "s3://bucket/acme", "hf://acme/weights"])
def test_a_place_is_an_address(place: str) -> None:
    assert place_fault(place) == ""


@pytest.mark.parametrize(
    "place", ["", "file:///etc", "/mnt/weights", "https://a b", "https://a\x1b[31m", "https://" + "a" * 500]
)
def test_what_is_no_address_is_no_place(place: str) -> None:
    assert place_fault(place).startswith("expected an address that begins with https://")


def test_a_size_that_is_none_is_a_fault(tmp_path: Path) -> None:
    """The rest is the fixtures' of QUA018."""
    log = log_of(tmp_path, num_bytes=7.5)

    why = wrong_with_weights(log, 0, read_result(tmp_path).files)

    assert why == "weights_0.safetensors does not have the weights of the last evaluation"
