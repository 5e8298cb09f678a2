"""A result on its whole way, through the interface for programs, on each database."""

from __future__ import annotations

from tests.harness.service.world import World


def test_a_valid_result_is_received_checked_published_and_ranked(unreviewed: World) -> None:
    """By three requests and two jobs."""
    world = unreviewed

    submission = world.submit(world.alice)
    assert world.state(submission) == "received"
    world.work()

    assert world.state(submission) == "published"
    found = world.client.get(f"/api/v1/submissions/{submission}").json()
    assert found["is_valid"] is True, found["findings"]
    [row] = world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    assert row["submission"] == submission
    assert row["score"]["seconds"] > 0


def test_what_is_not_valid_is_not_public(unreviewed: World) -> None:
    """Its team reads the findings; nobody else learns that there is such a submission."""
    world = unreviewed

    submission = world.submit(world.alice, num_runs=2)
    world.work()

    assert world.state(submission) == "invalid"
    findings = world.alice.get(f"/submissions/{submission}").json()["findings"]
    assert "RUN001" in {item["code"] for item in findings}
    assert world.bob.get(f"/submissions/{submission}").status_code == 404
    assert world.client.get(f"/api/v1/submissions/{submission}").status_code == 404
    assert world.client.get("/api/v1/boards/toy_mini").json()["rows"] == []
