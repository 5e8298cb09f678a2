"""Estimated time, energy and cost of a run: a pace times the reference's samples, with the spread of both."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.characterise.cells import Cell, Row, as_record
from harness.characterise.power import Drawn
from harness.characterise.power import as_record as as_power
from harness.characterise.preflight import document as preflight_document
from harness.characterise.profile import document as profile_document
from harness.characterise.sweep import Sweep
from harness.cli import main
from harness.cost.price_book import Price, PriceBook
from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.energy.reasons import VoidReason
from harness.energy.run_energy import RunEnergy
from harness.errors import InputError, UsageError
from harness.log import run_log
from harness.ruleset import catalog, load
from harness.ruleset.model import ReferenceConvergence
from harness.scoring.convergence import Reference
from harness.scoring.estimate import (
    Budget,
    Pace,
    Power,
    Spread,
    System,
    best,
    compare,
    described_system,
    estimate,
    measured_pace,
    measured_power,
    reference_samples,
)
from harness.scoring.run_result import RunResult, run_result
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import SYSTEM, benchmark_rules, events, write_log
from tests.harness.characterise.test_pacing import BOX as BOX_DESCRIPTION
from tests.harness.characterise.test_pacing import preflight, profile
from tests.rules_folder import write_ruleset

RESULTS = Path(__file__).parents[3] / "submissions" / "reference" / "results"
REFERENCE = RESULTS / "two-core-cloud-vm" / "image_classification_mini"
M7I = "aws/m7i.large/us-east-1/on_demand"
P5 = "aws/p5.48xlarge/us-east-1/on_demand"


def price(usd: str, sku: str = "box", purchase: str = "on_demand", **more: Any) -> Price:
    fields = {"retrieved": "2025-11-01", "granularity_s": 60, "minimum_s": 0, "num_accelerators": 8, **more}
    fixed: dict[str, Any] = {"effective": None, "source": "a price list", "confidence": "B"}
    return Price("acme", sku, "here", purchase, Decimal(usd), **fixed, **fields)


H100S = price("36", accelerator="H100")
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
RULES = benchmark_rules(reference_convergence=(ReferenceConvergence(100, (2000, 4000, 8000)),))
EXACT = Reference(3000.0, 0.0, 3, 1 / 3, "reference at batch size 100")  # all seeds alike
BOX = System("box", 1, 8, "NVIDIA H100 80GB HBM3", "Example 9000")
BARE = System("vm", 1, 0, None, "Example 9000")


def runs_of(folder: Path, *block_s: float) -> list[RunResult]:
    """Runs of 3,000 samples in three blocks of so many seconds, evaluated 0.5 s each, after 0.2 s of opening."""
    paths = [write_log(folder / f"result_{i}.txt", events(i, block_s=s)) for i, s in enumerate(block_s)]
    return [run_result(run_log.read(path), RULES) for path in paths]


def test_measured_pace_is_that_of_the_pace_score(tmp_path: Path) -> None:
    """Runs of 7.7 and 9.2 s with 0.2 s of opening: 2.5 and 3.0 ms per sample, geometric mean 2.739."""
    found = measured_pace(runs_of(tmp_path, 2.0, 2.5), BOX)

    assert found.sample_s == pytest.approx(math.sqrt(0.0025 * 0.003))
    assert found.fixed_s == pytest.approx(0.2)
    assert found.init_s == pytest.approx(1.0)
    assert (found.num_runs, found.system) == (2, BOX)
    # The variance of one more run: that of ln 2.5 and ln 3.0, and half of it for their mean.
    assert found.errors[0] == pytest.approx((1.5 * math.log(3 / 2.5) ** 2 / 2, 1))
    assert measured_pace(runs_of(tmp_path, 2.0), BOX).errors == (), "one run shows no scatter"


def test_only_runs_that_reached_their_target_have_a_pace(tmp_path: Path) -> None:
    """A truncated log does not show how long a run is; another run may."""
    reached = runs_of(tmp_path, 2.0)
    endless = write_log(tmp_path / "result_1.txt", [step for step in events() if step.key != "run_stop"])
    cut_off = run_result(run_log.read(endless), RULES)

    assert measured_pace([cut_off, *reached], BOX) == measured_pace(reached, BOX)
    with pytest.raises(InputError, match="no run reached its target, so the pace is not known"):
        measured_pace([cut_off], BOX)


def test_initialisation_that_is_not_logged_is_not_known(tmp_path: Path) -> None:
    """Neither 0 nor the others' mean divided by all."""
    (run,) = runs_of(tmp_path, 2.0)

    assert measured_pace([replace(run, ledger={})], BOX).init_s is None
    assert measured_pace([replace(run, ledger={}), run], BOX).init_s == pytest.approx(1.0)


def test_system_is_what_its_description_states() -> None:
    """ "none", "unknown" and values of another type are not names; 0 accelerators are known."""
    assert described_system({**SYSTEM, "system_name": 7}) == System(None, 1, 0, None, "Example 9000")
    many = {"number_of_nodes": "2", "accelerators_per_node": 8, "accelerator_model_name": "H100"}
    assert described_system(many) == System(None, 2, 8, "H100", None)
    assert described_system({"accelerators_per_node": -1, "accelerator_model_name": "unknown"}) == System()
    assert described_system(None) == System()


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (BARE, "vm (1 node, Example 9000, no accelerators)"),
        (System("big", 2, 8, "H100", "X"), "big (2 nodes, X, 8 x H100 per node)"),
        (System(), "a system without a description (? nodes, ?, ? x unknown accelerator per node)"),
    ],
)
def test_system_in_words(system: System, words: str) -> None:
    """Name, nodes, processor, accelerators."""
    assert system.words == words


@pytest.mark.parametrize(
    ("system", "row", "nodes", "gpus", "reason", "compared"),
    [
        (BOX, H100S, 1, 8, None, True),
        (BOX, H100S, 2, 8, "2 nodes of it are asked for, and box has 1", True),
        (BOX, replace(H100S, num_accelerators=4), 1, 8, "its accelerators per node are 4 (H100), those of box 8", True),
        (BOX, replace(H100S, accelerator="A100 80 GB"), 1, 8, "it has A100 80 GB, and box has NVIDIA H100", True),
        (BOX, replace(H100S, accelerator=None), 1, 8, None, False),
        (BOX, replace(H100S, num_accelerators=None), 1, 8, None, False),
        (BOX, replace(H100S, unit="gpu-h", num_accelerators=1), 1, 8, None, True),
        (BOX, replace(H100S, unit="gpu-h", num_accelerators=1), 1, 4, "per node are 4 (H100), those of box 8", True),
        (BARE, H100S, 1, 0, "its accelerators per node are 8 (H100), those of vm 0", True),
        (BARE, replace(H100S, unit="gpu-h", num_accelerators=1), 1, 0, "are 1 (H100), those of vm 0", True),
        (BARE, replace(H100S, num_accelerators=0, accelerator=None), 1, 0, None, True),
        (BARE, replace(H100S, accelerator=None), 1, 0, "its accelerators per node are 8, those of vm 0", True),
        (replace(BOX, name=None), H100S, 3, 8, "and the measured system has 1", True),
        (System(), H100S, 7, None, None, False),
    ],
)
def test_other_accelerators_are_another_machine(
    system: System, row: Price, nodes: int, gpus: int | None, reason: str | None, compared: bool
) -> None:
    """By number per node, by name, and by the number of nodes; what one side does not state is not compared."""
    found = compare(system, row, nodes, gpus)

    assert found.difference is None if reason is None else reason in (found.difference or "")
    assert found.is_complete is compared


def test_reference_is_interpolated_and_required() -> None:
    """As in the score: nothing beyond the smallest and the largest batch size."""
    two = replace(RULES, reference_convergence=(*RULES.reference_convergence, ReferenceConvergence(400, (8000, 8000))))

    between = reference_samples(two, 200)
    assert between is not None
    assert between.samples == pytest.approx(math.sqrt(4000 * 8000))
    with pytest.raises(UsageError, match="outside the reference's, 100 to 400, so the samples to target are not known"):
        reference_samples(two, 401)


@pytest.mark.parametrize(("max_seconds", "seconds"), [(1000.0, 105.0), (60.0, 60.0)])
def test_without_any_reference_the_budget_is_the_bound(max_seconds: float, seconds: float) -> None:
    """10,000 samples at 100 a second after 5 s of opening the data, or less if the seconds of the rules end before."""
    rules = replace(RULES, reference_convergence=(), max_samples=10_000, max_seconds=max_seconds)

    found = estimate(rules, reference_samples(rules, 100), Pace(0.01, 5.0), BOOK, "acme/box/here/on_demand")

    assert found.is_bound
    assert (found.samples, found.seconds) == (Spread(10_000.0, 10_000.0, 10_000.0), Spread(seconds, seconds, seconds))


def test_estimate_is_samples_times_pace_times_price() -> None:
    """3,000 samples at 100 a second: 30 s; at a cent a second and node, 0.60 on two.

    Five runs of 30 s and 1 s of initialisation before each are 155 s, three minutes begun: 180 s at a cent.
    """
    found = estimate(RULES, EXACT, Pace(0.01), BOOK, "acme/box/here/on_demand", nodes=2)

    assert (found.samples, found.seconds) == (Spread(3000.0, 3000.0, 3000.0), Spread(30.0, 30.0, 30.0))
    assert found.usd == (Decimal("0.600000"),) * 3
    assert (found.usd_per_hour, found.is_ranked, found.as_of) == (Decimal(72), True, "2025-11-01")
    assert found.usd_result is None, "initialisation is not known, so neither is a result"
    whole = estimate(RULES, EXACT, Pace(0.01, init_s=1.0), BOOK, "acme/box/here/on_demand")
    assert whole.usd_result == Decimal("1.800000")
    assert estimate(RULES, EXACT, Pace(0.01, fixed_s=2.0), BOOK, "acme/box/here/on_demand").seconds.mean == 32.0


def test_range_is_that_of_one_more_run() -> None:
    """Seeds of 2,000, 4,000 and 8,000 samples: ln 2 is their standard deviation, t(0.975, 2) = 4.3027.

    One more seed scatters by sqrt(1 + 1/3) of it. The pace adds its own, and the fixed part is certain.
    """
    reference = reference_samples(RULES, 100)
    found = estimate(RULES, reference, Pace(0.01, 5.0), BOOK, "acme/box/here/on_demand")
    half = 4.302653 * math.log(2) * math.sqrt(4 / 3)

    assert found.samples.mean == pytest.approx(4000)
    assert found.samples.high == pytest.approx(4000 * math.exp(half))
    assert found.seconds.mean == pytest.approx(45.0)
    assert found.seconds.low == pytest.approx(5 + 40 * math.exp(-half))
    assert found.usd is not None
    assert found.usd[1] < found.usd[0] < found.usd[2]
    noisy = estimate(RULES, EXACT, Pace(0.01, errors=((0.0004, 4),)), BOOK, "acme/box/here/on_demand")
    assert noisy.seconds.high == pytest.approx(30 * math.exp(2.776445 * 0.02))


WATTS = Power(200.0, 9.8, "C", "gpu (board)")


def test_energy_is_power_for_as_long_as_the_run_takes() -> None:
    """30 s of training and 2 s of opening at 200 W; 9.8 W are 1.96 standard deviations of 2.5 %."""
    pace = Pace(0.01, 2.0, power=WATTS, no_power="")
    found = estimate(RULES, EXACT, pace, BOOK, "acme/box/here/on_demand")
    half = 1.9623 * 0.025  # Student's, with 1,000 degrees of freedom

    assert found.energy_j is not None
    assert found.energy_j.mean == pytest.approx(6400.0)
    assert found.energy_j.low == pytest.approx(400 + 6000 * math.exp(-half), rel=1e-6)
    assert found.energy_j.high == pytest.approx(400 + 6000 * math.exp(half), rel=1e-6)
    assert estimate(RULES, EXACT, Pace(0.01), BOOK, "acme/box/here/on_demand").energy_j is None


def test_energy_scatters_as_seeds_and_power_do() -> None:
    """More than the time alone; without a reference, the bound of the time is that of the energy."""
    scattered = replace(WATTS, scatter=((0.01, 4),))
    reference = reference_samples(RULES, 100)
    one, two = (
        estimate(RULES, reference, Pace(0.01, power=power), BOOK, "acme/box/here/on_demand")
        for power in (WATTS, scattered)
    )
    bound = estimate(RULES, None, Pace(0.01, power=WATTS), BOOK, "acme/box/here/on_demand")

    assert one.energy_j is not None
    assert two.energy_j is not None
    assert one.energy_j.mean == pytest.approx(200 * one.seconds.mean)
    assert one.energy_j.high > 200 * one.seconds.high
    assert two.energy_j.high > one.energy_j.high
    assert bound.energy_j is not None
    assert bound.energy_j.mean == pytest.approx(200 * bound.seconds.mean)


def energies(folder: Path, **options: Any) -> list[RunEnergy | None]:
    """Of a result with meters: 300, 301 ... W."""
    fabricate.write_result(folder, power="node", rules=RULES, **options)
    logs = read_result(folder).runs
    return [energy_of(log, EnergyLimits()) for log in logs]


def test_power_of_a_result_is_the_mean_of_its_runs(tmp_path: Path) -> None:
    """300 to 302 W by one sensor of 2 %; they scatter by a three hundredth, and one more run by 4/3 of that."""
    found = measured_power(energies(tmp_path, num_runs=3), EnergyLimits())

    assert isinstance(found, Power)
    assert found.mean_w == pytest.approx(301.0, rel=0.005)
    assert (found.meter_class, found.scope, found.source) == ("B", "node (ac)", "measured")
    assert found.u95_w == pytest.approx(0.02 * found.mean_w, rel=0.2)
    ((variance, dof),) = found.scatter
    assert variance == pytest.approx((1 / 301) ** 2 * 4 / 3, rel=0.1)
    assert dof == 2


def test_power_that_is_not_known(tmp_path: Path) -> None:
    """Of no run, of one that was not metered, of a void one, of meters in different places, and of none that drew."""
    one, other = energies(tmp_path, num_runs=2)
    assert one is not None
    assert other is not None

    def why_not(*runs: RunEnergy | None) -> Power | str:
        return measured_power(runs, EnergyLimits())

    assert why_not() == why_not(one, None) == "not metered"
    assert why_not(replace(one, void=(VoidReason.COUNTER_RESET,))) == "a counter was reset during a run"
    assert "not all metered in the same places" in str(why_not(one, replace(other, scope="gpu (board)")))
    assert why_not(replace(one, mean_w=0.0)) == "the meters show no power"
    assert isinstance(why_not(replace(one, void=(VoidReason.FEW_SAMPLES,))), Power)


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
    found = estimate(RULES, EXACT, Pace(0.01), BOOK, sku, gpus_per_node=gpus)

    assert (found.usd_per_hour, found.is_ranked, found.as_of) == (Decimal(usd_per_hour), is_ranked, as_of)


@pytest.mark.parametrize("sku", ["acme/bax/here/on_demand", "acme/single/here/on_demand"])
def test_without_a_price_there_is_still_a_time(sku: str) -> None:
    """The time is known; the cost is null, with the reason."""
    found = estimate(RULES, EXACT, Pace(0.01), BOOK, sku)

    assert (found.usd, found.seconds.mean) == (None, 30.0)
    assert found.why_not


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.integers(1, 1000), st.integers(1, 1000))
def test_estimates_grow_with_seconds_and_nodes(one: float, other: float, few: int, many: int) -> None:
    """Never negative."""
    fast, slow = sorted((one, other))
    low, high = sorted((few, many))

    def usd(sample_s: float, nodes: int) -> Decimal:
        found = estimate(RULES, EXACT, Pace(sample_s), BOOK, "acme/box/here/on_demand", nodes=nodes)
        assert found.usd is not None
        return found.usd[0]

    assert 0 <= usd(fast, low) <= usd(slow, low) <= usd(slow, high)


def test_reference_result_predicts_its_own_score(capsys: pytest.CaptureFixture[str]) -> None:
    """Pace times reference samples is the pace score, and most of its runs are within the range of single runs."""
    assert main(["estimate", "image_classification", "--sku", M7I, "--from", str(REFERENCE), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["estimates"][0]
    assert main(["score", str(REFERENCE), "--format", "json"]) == 0
    score = json.loads(capsys.readouterr().out)["tables"][0]["rows"][0]["score"]

    assert score["basis"] == "pace"
    assert found["seconds"]["mean"] == pytest.approx(score["seconds"], rel=1e-12)
    inside = [found["seconds"]["low"] <= run["seconds"] <= found["seconds"]["high"] for run in score["runs"]]
    assert sum(inside) >= 4
    assert found["pace"]["system"] == {
        "name": "two-core-cloud-vm",
        "nodes": 1,
        "accelerators_per_node": 0,
        "accelerator": None,
        "processor": "AMD EPYC",
    }
    exact = Decimal(str(found["seconds"]["mean"])) * Decimal("0.1008") / 3600
    assert [isinstance(part, str) for part in found["usd"]] == [True] * 3
    assert abs(Decimal(found["usd"][0]) - exact) <= Decimal("0.000001")


def test_a_provisional_target_and_published_points_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Next to the samples that rest on them."""
    point = ReferenceConvergence(100, (2000, 4000, 8000), "a paper")
    ruleset = write_ruleset(tmp_path / "rules", benchmark_rules(provisional=True, reference_convergence=(point,)))
    arguments = ["estimate", "toy", "--ruleset", str(ruleset), "--sku", M7I, "--throughput", "100"]

    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert main([*arguments, "--format", "json"]) == 0

    assert "geometric mean of the reference at batch size 100, published: a paper" in shown
    assert "the target top1_accuracy 0.9 is provisional and may change" in shown
    assert json.loads(capsys.readouterr().out)["provisional"] is True


def test_table_names_the_machine_of_the_pace(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured where accelerators agree, as given elsewhere; another batch size and an unknown row are noted."""
    skus = [M7I, f"{P5}@90000", "aws/x/y/on_demand"]

    assert (
        main(["estimate", "image_classification", "--from", str(REFERENCE), "--batch-size", "100", "--sku", *skus]) == 0
    )

    rows = capsys.readouterr().out.splitlines()
    assert "two-core-cloud-vm" in next(row for row in rows if row.startswith(M7I))
    assert "as given" in next(row for row in rows if row.startswith(P5))
    shown = "\n".join(rows)
    assert "on two-core-cloud-vm (1 node, AMD EPYC, no accelerators)" in shown
    assert "reference between the batch sizes 64 and 128" in shown
    assert f"{M7I}: has no accelerators either; processors are not compared" in shown
    assert "aws/x/y/on_demand: whether its accelerators are those of the pace is not known" in shown
    assert "the pace was measured at batch size 128; at 100 it may be another" in shown


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--sku", P5], "its accelerators per node are 8 (H100), those of two-core-cloud-vm 0"),
        (["--sku", "hyperstack/H100 SXM/any/on_demand"], "those of two-core-cloud-vm 0"),
        (["--sku", M7I, "--nodes", "2"], "2 nodes of it are asked for, and two-core-cloud-vm has 1"),
    ],
)
def test_pace_of_another_machine_is_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A two-core processor is not a node of accelerators."""
    assert main(["estimate", "image_classification", "--from", str(REFERENCE), *arguments]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "the pace was measured on another machine" in err
    assert reason in err
    assert f"{arguments[1]}@SAMPLES_PER_S" in err


def test_table_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Several machines, one with a pace of its own; spot and undated ones are marked."""
    skus = [P5, "aws/p5en.48xlarge/us-east-1/spot@90000", M7I, "aws/x/y/on_demand"]

    assert main(["estimate", "image_classification", "--throughput", "5000", "--sku", *skus]) == 0

    shown = capsys.readouterr().out
    assert "a throughput as given is taken as exact" in shown
    assert "one throughput is used for several machines" in shown
    assert "not included: storage, traffic, licences, tax, failed attempts" in shown
    assert "aws/p5en.48xlarge/us-east-1/spot: information only" in shown
    assert f"{M7I}: information only" in shown
    assert "aws/x/y/on_demand: unknown price" in shown
    assert "no price" in shown


def test_a_bound_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has trained detection_full to its target yet: time and cost are at most those of the budget."""
    assert main(["estimate", "detection", "--suite", "full", "--sku", f"{P5}@1000"]) == 0

    out = capsys.readouterr().out
    assert "at most 1,876.2 s" in out
    assert "no reference convergence points; at most the budget of 1,876,224 samples" in out
    assert "geometric mean" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["image_classification", "--sku", P5], "its throughput is unknown"),
        (["image_classification", "--sku", f"{P5}@fast"], "not a throughput above 0"),
        (["image_classification", "--sku", f"{P5}@nan"], "not a throughput above 0"),
        (["image_classification", "--sku", P5, "--throughput", "0"], "is not a number above 0"),
        (["image_classification", "--sku", P5, "--throughput", "9", "--from", "x"], "not allowed with"),
        (["image_classification", "--sku", P5, "--from", "/nowhere"], "there is no such file or folder"),
        (
            ["image_classification", "--sku", P5, "--throughput", "9", "--batch-size", "300"],
            "the reference's, 64 to 256",
        ),
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


def test_an_open_result_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reference's samples are those of the closed recipe."""
    rules = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmark("image_classification", "mini")
    for index in range(2):
        write_log(tmp_path / f"result_{index}.txt", events(index, rules=rules, division="open"))

    assert main(["estimate", "image_classification", "--sku", M7I, "--from", str(tmp_path)]) == 2
    assert "is of the open division" in capsys.readouterr().err


def configurations() -> list[Any]:
    """Three estimates of exactly 3,000 samples: 30 s at 36 USD/h, 60 s at 9 USD/h, 15 s without a price."""
    return [
        estimate(RULES, EXACT, Pace(0.01), BOOK, "acme/box/here/on_demand"),
        estimate(RULES, EXACT, Pace(0.02), BOOK, "acme/box/here/spot"),
        estimate(RULES, EXACT, Pace(0.005), BOOK, "acme/none/here/on_demand"),
    ]


@pytest.mark.parametrize(
    ("amount", "unit", "place"),
    [
        (100.0, "seconds", 1),  # 0.15 USD against 0.30
        (59.9, "seconds", 0),
        (60.0, "seconds", 1),  # exactly the budget
        (29.9, "seconds", 2),  # nothing with a price is within it
        (14.9, "seconds", None),
        (1.0, "usd", 0),  # the fastest that has a price
        (0.2999, "usd", 1),
        (0.15, "usd", 1),  # exactly the budget
        (0.1499, "usd", None),
    ],
)
def test_best_within_a_budget(amount: float, unit: Any, place: int | None) -> None:
    """The cheapest within a time, the fastest within an amount of money."""
    assert best(configurations(), Budget(amount, unit)) == place


@pytest.mark.parametrize(("joules", "place"), [(6400.0, 1), (3300.0, 0), (3000.0, None)])
def test_fastest_within_an_energy(joules: float, place: int | None) -> None:
    """30 s at 100 W, 15 s at 400 W, and 7.5 s at a power that is not known."""
    found = [
        estimate(RULES, EXACT, Pace(sample_s, power=power), BOOK, "acme/box/here/on_demand")
        for sample_s, power in (
            (0.01, Power(100.0, 4.0, "C", "gpu (board)")),
            (0.005, Power(400.0, 16.0, "C", "gpu (board)")),
            (0.0025, None),
        )
    ]

    assert best(found, Budget(joules, "joules")) == place


def test_within_a_budget_are_95_per_cent_of_runs() -> None:
    """A mean that is within it is not enough."""
    reference = Reference(3000.0, 0.04, 5, 0.2, "reference")
    (found,) = [estimate(RULES, reference, Pace(0.01), BOOK, "acme/box/here/on_demand")]

    assert found.seconds.mean == pytest.approx(30.0)
    assert best([found], Budget(31.0, "seconds")) is None
    assert best([found], Budget(found.seconds.high, "seconds")) == 0


def measured_files(folder: Path) -> list[str]:
    """A profile, a sweep and a preflight of image_classification_mini, as their verbs write them."""
    rules = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmark("image_classification", "mini")
    host = {**BOX_DESCRIPTION, "accelerators_per_node": "0", "accelerator_model_name": "none"}
    one = profile(benchmark=rules.name, batch_size=128, system=host)
    (folder / "profile.json").write_text(json.dumps(profile_document(one)))
    (folder / "preflight.json").write_text(json.dumps(preflight_document(preflight(system=host))))
    rows = [Row(Cell(1, "fp32", size, "real"), "ok", "", (0.03, 0.03)) for size in (64, 128, 100_000)]
    sweep = Sweep(rules.name, 2, 0.0, host, ())
    lines = [sweep.header, *map(as_record, rows)]
    (folder / "cells.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return ["estimate", "image_classification", "--sku", M7I]


def test_estimate_from_a_profile_and_a_prediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The prediction is marked, and is the best only where nothing measured is within the budget."""
    command = measured_files(tmp_path)
    files = ["--profile", f"{tmp_path}/profile.json", "--preflight", f"{tmp_path}/preflight.json", "--devices", "2"]

    assert main([*command, *files, "--within", "10d", "--format", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    one, two = found["estimates"]
    assert (one["is_predicted"], two["is_predicted"], two["num_devices"]) == (False, True, 2)
    assert one["seconds"]["mean"] == pytest.approx(one["pace"]["sample_s"] * one["samples"]["mean"] + 0.5)
    assert found["within"] == {"seconds": 864_000.0, "best_estimate": 0}
    assert any(note.startswith("processes of a host share its cores") for note in found["notes"])
    assert main([*command, *files, "--within", "1s"]) == 1
    text = capsys.readouterr().out
    assert "2 (predicted)" in text
    assert "nothing is within 1 s: 95 % of runs must be" in text


def with_power(folder: Path, watts: float) -> None:
    """Gives the profile of `measured_files` a power."""
    path = folder / "profile.json"
    shown = json.loads(path.read_text())
    shown["power"] = as_power(Drawn(Power(watts, 0.05 * watts, "E", "node (model)")))
    path.write_text(json.dumps(shown))


def test_estimate_from_a_profile_has_the_energy_of_its_power(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In JSON with the power and its source, in the table with its interval; a budget in kWh, Wh or MWh."""
    command = [*measured_files(tmp_path), "--profile", f"{tmp_path}/profile.json"]
    with_power(tmp_path, 20_000.0)

    assert main([*command, "--within", "10kWh", "--format", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    (one,) = found["estimates"]
    assert one["energy_j"]["mean"] == pytest.approx(20_000 * one["seconds"]["mean"])
    assert one["energy_j"]["low"] < one["energy_j"]["mean"] < one["energy_j"]["high"]
    assert (one["pace"]["power"]["meter_class"], one["pace"]["power"]["scope"]) == ("E", "node (model)")
    assert found["within"] == {"joules": 36e6, "best_estimate": 0}
    assert main([*command, "--within", "0.001MWh"]) == 1
    text = capsys.readouterr().out
    assert "nothing is within 1 kWh: 95 % of runs must be" in text
    assert "power: 20,000.0 W (± 1,000.0 W), estimated, class E, of node (model)" in text
    assert "energy: not available" not in text
    assert f"{one['energy_j']['mean'] / 3.6e6:.3g} kWh" in text
    with_power(tmp_path, 2.0)
    assert main([*command, "--within", "500Wh"]) == 0
    assert " kJ, " in capsys.readouterr().out


def test_estimate_without_a_meter_says_why_it_has_no_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a profile, and of a throughput as given."""
    command = measured_files(tmp_path)

    assert main([*command, "--profile", f"{tmp_path}/profile.json"]) == 0
    assert "energy: not available: no meter was read while this was measured" in capsys.readouterr().out
    assert main([*command, "--throughput", "5000"]) == 0
    assert "energy: not available: a throughput as given says nothing of power" in capsys.readouterr().out


def test_estimate_from_a_metered_result_has_its_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmark("image_classification", "mini")
    fabricate.write_result(tmp_path, power="node", rules=rules, batch_size=128, qualities=(0.5, 0.8, 0.95, 0.96))

    assert main(["estimate", "image_classification", "--sku", M7I, "--from", str(tmp_path), "--format", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    (one,) = found["estimates"]
    assert one["pace"]["power"]["mean_w"] == pytest.approx(302.0, rel=0.01)
    assert one["energy_j"]["mean"] == pytest.approx(one["pace"]["power"]["mean_w"] * one["seconds"]["mean"])
    assert any("power: 30" in note and "measured, class B, of node (ac)" in note for note in found["notes"])


def test_estimates_from_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each cell that has a reference; another batch size is left out and named."""
    command = measured_files(tmp_path)

    assert main([*command, "--sweep", f"{tmp_path}/cells.jsonl", "--within", "$50"]) == 0

    text = capsys.readouterr().out
    rows = [line for line in text.splitlines() if line.startswith(M7I)]
    assert [row.split()[1] for row in rows] == ["64", "128"]
    assert "left out: image_classification_mini: batch size 100000 is outside the reference's" in text
    assert f"the fastest within $50 (with 95 % of runs): {M7I}, row 2 of the table" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "{}/cells.jsonl"], "is not a profile"),
        (["--sweep", "{}/profile.json"], "it is not a sweep's cells.jsonl"),
        (["--profile", "{}/none.json"], "none.json: cannot be read"),
        (["--profile", "{}/profile.json", "--throughput", "5"], "not allowed with argument"),
        (["--profile", "{}/profile.json", "--devices", "2"], "needs --preflight FILE as well"),
        (["--profile", "{}/profile.json", "--preflight", "{}/preflight.json"], "say for how many devices"),
        (["--throughput", "5", "--preflight", "{}/preflight.json"], "give --profile FILE as well"),
        (["--profile", "{}/profile.json", "--batch-size", "64"], "no configuration that was measured is left"),
        (["--throughput", "5", "--within", "4 hours"], "is not a time (90s, 30m, 4h, 2d), a price ($50)"),
        (["--throughput", "5", "--within", "$-1"], "is not a time"),
    ],
)
def test_what_was_measured_and_cannot_be_used(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = measured_files(tmp_path)

    assert main([*command, *(argument.format(tmp_path) for argument in arguments)]) == 2

    assert said in capsys.readouterr().err


def test_a_budget_for_machines_with_a_stated_pace(capsys: pytest.CaptureFixture[str]) -> None:
    """It needs no measurement."""
    command = ["estimate", "image_classification", "--sku", f"{M7I}@5000", "--within"]

    assert main([*command, "4h"]) == 0
    assert "the cheapest within 14400 s (with 95 % of runs)" in capsys.readouterr().out
    assert main([*command, "2s"]) == 1
