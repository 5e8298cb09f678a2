"""By what a system is recognised in results of several submitters."""

from __future__ import annotations

from harness.log.events import digest_of
from harness.submission.system import digests_of

OURS = {"submitter": "acme", "system_name": "box1", "host_processor_model_name": "AMD EPYC", "hw_notes": "third rack"}
THEIRS = {**OURS, "submitter": "birch", "system_name": "lab", "hw_notes": "cold"}
OTHER = {**THEIRS, "host_processor_model_name": "Intel Xeon"}


def test_a_system_is_the_same_whoever_submits_it() -> None:
    ours, theirs, other = (digests_of(item, digest_of(item)) for item in (OURS, THEIRS, OTHER))

    assert ours & theirs
    assert not theirs & other
    assert digest_of(OURS) in ours


def test_a_description_that_was_not_logged_says_nothing() -> None:
    """One that was exchanged afterwards, and none at all: then the logged digest alone tells."""
    logged = digest_of(OTHER)

    assert digests_of(OURS, logged) == digests_of(None, logged) == {logged}
    assert digests_of(OURS, None) == frozenset()
