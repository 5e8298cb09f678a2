"""Estimated time and cost of a run: the reference's samples times a pace, with the spread of both."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.cost.price_book import Price, PriceBook
from harness.errors import InputError
from harness.log import run_log
from harness.ruleset.model import ReferenceConvergence
from harness.scoring.estimate import Pace, estimate, paces, run_seconds, spread
from tests import fabricate
from tests.fabricate import benchmark_rules, events, write_log

RESULTS = Path(__file__).parents[3] / "submissions" / "reference" / "results"
REFERENCE = RESULTS / "two-core-cloud-vm" / "image_classification_mini"
P5 = "aws/p5.48xlarge/us-east-1/on_demand"


def price(usd: str, sku: str = "box", purchase: str = "on_demand", **more: Any) -> Price:
    fields = {"retrieved": "2025-11-01", "granularity_s": 60, "minimum_s": 0, "num_accelerators": 8, **more}
    fixed = {"effective": None, "source": "a price list", "confidence": "B"}
    return Price("acme", sku, "here", purchase, Decimal(usd), **fixed, **fields)


BOOK = PriceBook(
    (
        price("36"),
        price("9", purchase="spot"),
        price("3.60", "single", unit="gpu-h", num_accelerators=1),
        price("36", "old", retrieved=None),
        price("36", "azure", granularity_s=None),
    ),
    "1" * 64,
    "2026-01-01",
)
RULES = benchmark_rules(reference_convergence=(ReferenceConvergence(100, (2000, 3000, 4000)),))


def test_a_run_is_opening_training_and_evaluations() -> None:
    """3,000 samples at 500 a second are 6 s, three evaluations of 0.5 s and 0.2 s of opening: 7.7 s."""
    assert run_seconds(3000, Pace(500.0, 0.5, 0.2), 1000) == pytest.approx(7.7)
    assert run_seconds(3001, Pace(500.0, 0.5, 0.2), 1000) == pytest.approx(8.202)
    assert run_seconds(3000, Pace(500.0), 1000) == pytest.approx(6.0)


def test_pace_of_a_log_is_that_of_its_events(tmp_path: Path) -> None:
    """The fabricated run trains 3,000 samples in 6 s, evaluates 0.5 s each, opens its data in 0.2 s, prepares 1 s."""
    log = run_log.read(write_log(tmp_path / "result_0.txt", events()))
    found = paces([log])

    assert len(found) == 1
    assert found[0].samples_per_s == pytest.approx(500.0)
    assert (found[0].eval_s, found[0].open_s, found[0].init_s) == (
        pytest.approx(0.5), pytest.approx(0.2), pytest.approx(1.0),
    )  # fmt: skip
    assert run_seconds(3000, found[0], 1000) == pytest.approx(7.7), "the run itself"


def test_a_run_without_an_end_or_samples_has_no_pace(tmp_path: Path) -> None:
    """A truncated log does not show how long a run is, nor blocks without samples how fast; another run may."""
    honest = run_log.read(write_log(tmp_path / "result_1.txt", events()))
    idle = events()
    for step in idle:
        if step.key == "block_stop":
            step.metadata["samples_count"] = 0
    nothing = run_log.read(write_log(tmp_path / "result_0.txt", idle))
    endless = [step for step in events() if step.key != "run_stop"]
    cut_off = run_log.read(write_log(tmp_path / "result_0.txt", endless))

    assert paces([nothing, honest]) == paces([honest])
    with pytest.raises(InputError, match="the speed of no run is known"):
        paces([nothing])
    with pytest.raises(InputError, match="none has both an end and samples"):
        paces([cut_off])


def test_spread_is_the_middle_95_per_cent() -> None:
    """Of 0 to 1,000 in steps of 1: from 25 to 975; of one value: that one."""
    found = spread([float(value) for value in range(1001)])

    assert (found.mean, found.low, found.high) == pytest.approx((500.0, 25.0, 975.0))
    assert spread([7.0]) == type(found)(7.0, 7.0, 7.0)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50))
def test_spread_is_within_the_values(values: list[float]) -> None:
    """No assumed distribution extends beyond the data."""
    found = spread(values)

    assert min(values) <= found.low <= found.high <= max(values)


def test_estimate_is_samples_times_pace_times_price() -> None:
    """2,000, 3,000 and 4,000 samples at 100 a second: 30 s on average; at a cent a second and node, 0.60 on two.

    Five runs of 30 s and 1 s of initialisation before each are 155 s, three minutes begun: 180 s at a cent.
    """
    found = estimate(RULES, (2000, 3000, 4000), [Pace(100.0)], BOOK, "acme/box/here/on_demand", nodes=2)

    assert (found.seconds.mean, found.num_pairs) == (30.0, 3)
    assert found.usd == (Decimal("0.600000"), Decimal("0.410000"), Decimal("0.790000"))
    assert (found.usd_per_hour, found.is_ranked, found.as_of) == (Decimal(72), True, "2025-11-01")
    assert (found.init_s, found.usd_result) == (None, None), "initialisation is not known, so neither is a result"
    whole = estimate(RULES, (3000,), [Pace(100.0, init_s=1.0)], BOOK, "acme/box/here/on_demand")
    assert whole.usd_result == Decimal("1.800000")


def test_both_spreads_are_in_the_range() -> None:
    """Two paces and three numbers of samples are six pairs: from 20 s to 80 s, cut to the middle 95 %."""
    found = estimate(RULES, (2000, 3000, 4000), [Pace(100.0), Pace(50.0)], BOOK, "acme/box/here/on_demand")

    assert found.num_pairs == 6
    assert found.seconds.mean == pytest.approx(45.0)
    assert 20.0 < found.seconds.low < 22.0
    assert 75.0 < found.seconds.high < 80.0


@pytest.mark.parametrize(
    ("sku", "gpus", "usd_per_hour", "is_ranked", "as_of"),
    [
        ("acme/box/here/on_demand", None, "36", True, "2025-11-01"),
        ("acme/box/here/spot", None, "9", False, "2025-11-01"),
        ("acme/old/here/on_demand", None, "36", False, None),
        ("acme/single/here/on_demand", 8, "28.80", True, "2025-11-01"),
    ],
)
def test_unranked_prices_are_marked(
    sku: str, gpus: int | None, usd_per_hour: str, is_ranked: bool, as_of: str | None
) -> None:
    """Spot and undated rows are shown at their own price and marked as unranked."""
    found = estimate(RULES, (3000,), [Pace(100.0)], BOOK, sku, gpus_per_node=gpus)

    assert (found.usd_per_hour, found.is_ranked, found.as_of) == (Decimal(usd_per_hour), is_ranked, as_of)


@pytest.mark.parametrize("sku", ["acme/bax/here/on_demand", "acme/single/here/on_demand"])
def test_without_a_price_there_is_still_a_time(sku: str) -> None:
    """The time is known; the cost is null, with the reason."""
    found = estimate(RULES, (3000,), [Pace(100.0)], BOOK, sku)

    assert (found.usd, found.seconds.mean) == (None, 30.0)
    assert found.why_not


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.integers(1, 1000), st.integers(1, 1000))
def test_estimates_fall_with_pace_and_grow_with_nodes(one: float, other: float, few: int, many: int) -> None:
    """Never negative."""
    slow, fast = sorted((one, other))
    low, high = sorted((few, many))

    def usd(pace: float, nodes: int) -> Decimal:
        found = estimate(RULES, (2000, 4000), [Pace(pace)], BOOK, "acme/box/here/on_demand", nodes=nodes)
        assert found.usd is not None
        return found.usd[0]

    assert 0 <= usd(fast, low) <= usd(slow, low) <= usd(slow, high)


def test_reference_result_predicts_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """From the reference's samples and its own pace, the estimate contains the reference's measured time."""
    assert main(["estimate", "image_classification", "--sku", P5, "--from", str(REFERENCE), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["estimates"][0]
    assert main(["score", str(REFERENCE), "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)["tables"][0]["rows"][0]["score"]

    assert found["seconds"]["low"] <= measured["measured_seconds"] <= found["seconds"]["high"]
    assert abs(found["seconds"]["mean"] / measured["measured_seconds"] - 1) < 0.1
    exact = Decimal(str(found["seconds"]["mean"])) * Decimal("55.04") / 3600
    assert [isinstance(part, str) for part in found["usd"]] == [True] * 3
    assert abs(Decimal(found["usd"][0]) - exact) <= Decimal("0.000001")


def test_table_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Several machines, one with a pace of its own; spot and undated ones are marked."""
    skus = [P5, "aws/p5en.48xlarge/us-east-1/spot@90000", "aws/m7i.large/us-east-1/on_demand", "aws/x/y/on_demand"]

    assert main(["estimate", "image_classification", "--throughput", "5000", "--sku", *skus]) == 0

    shown = capsys.readouterr().out
    assert "left out, because their duration is unknown: evaluations, opening the data, initialisation" in shown
    assert "one throughput is used for several machines" in shown
    assert "not included: storage, traffic, licences, tax, failed attempts" in shown
    assert "aws/p5en.48xlarge/us-east-1/spot: information only" in shown
    assert "aws/m7i.large/us-east-1/on_demand: information only" in shown
    assert "aws/x/y/on_demand: unknown price" in shown
    assert "no price" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["image_classification", "--suite", "standard", "--sku", P5], "no reference convergence points"),
        (["image_classification", "--sku", P5], "its throughput is unknown"),
        (["image_classification", "--sku", f"{P5}@fast"], "not a throughput above 0"),
        (["image_classification", "--sku", f"{P5}@nan"], "not a throughput above 0"),
        (["image_classification", "--sku", P5, "--throughput", "0"], "is not a number above 0"),
        (["image_classification", "--sku", P5, "--throughput", "9", "--from", "x"], "not allowed with"),
        (["image_classification", "--sku", P5, "--from", "/nowhere"], "there is no such file or folder"),
        (["image_classification", "--sku", P5, "--throughput", "9", "--batch-size", "100"], "one at 64, 128, 256"),
        (["image_classification", "--sku", P5, "--throughput", "9", "--nodes", "0"], "not a whole number of at least"),
        (["image_classification", "--sku", P5, "--throughput", "9", "--book", "abc"], "neither a file nor"),
        (["image_clasification", "--sku", P5, "--throughput", "9"], "did you mean 'image_classification'"),
        (["image_classification", "--throughput", "9"], "--sku"),
    ],
)
def test_bad_estimate_is_one_sentence_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on standard output."""
    assert main(["estimate", *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_a_result_of_another_benchmark_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its pace does not apply to this one."""
    fabricate.write_result(tmp_path / "r")

    assert main(["estimate", "image_classification", "--sku", P5, "--from", str(tmp_path / "r")]) == 2
    assert "is a result of toy_mini, not of image_classification_mini" in capsys.readouterr().err
