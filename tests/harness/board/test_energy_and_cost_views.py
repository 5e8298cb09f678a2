"""The rankings by energy and by cost: what is compared, what is shown unranked, and what is drawn."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from harness.board.charts.power import component_chart, quality_and_power, time_axis
from harness.board.charts.scales import Label
from harness.board.charts.scatter import Dot, front_of, scatter_chart
from harness.board.index import Board
from harness.board.pages.cost_view import CostView, cost_view, measured_usd_interval, usd_interval
from harness.board.pages.energy_view import EnergyView, energy_view
from harness.board.pages.energy_words import CLASS_WORDS
from harness.board.pages.power_trace import NUM_STEPS, PowerLine, PowerTrace, Step, binned, power_trace
from harness.board.pages.render import render_pages
from harness.board.pages.time_view import table_view
from harness.checker import registry
from harness.energy.accounting import run_energy
from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.submission.result import read_result
from tests import fabricate, powertrace
from tests.harness.board.test_index import RULES, board_of, energy_tree, gap, ruleset, submit
from tests.harness.board.test_render import Page

LABEL = Label("c", "A chart", "What it shows.")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return board_of(energy_tree(tmp_path_factory.mktemp("energy") / "tree"))


@pytest.fixture(scope="module")
def made(board: Board) -> Mapping[str, bytes]:
    return dict(render_pages(board))


@pytest.fixture(scope="module")
def by_energy(board: Board) -> EnergyView:
    return energy_view(board, table_view(board, board.leaderboard.tables[0]))


@pytest.fixture(scope="module")
def by_cost(board: Board) -> CostView:
    return cost_view(table_view(board, board.leaderboard.tables[0]))


def _text(made: Mapping[str, bytes], path: str) -> str:
    return " ".join(" ".join(Page(made[path].decode()).text).split())


def test_nodes_and_components_are_ranked_separately(by_energy: EnergyView) -> None:
    """Only equal scopes share a list; rows that the runs cannot tell apart have the same ranks."""
    found = {
        (group.board, group.scope): [(row.view.row.system, row.ranks) for row in group.rows]
        for group in by_energy.groups
    }

    assert found == {
        ("node", "node (ac)"): [
            ("bmc-b", (1, 2)),
            ("bmc-tied", (1, 2)),
            ("wall-a", (3, 3)),
            ("cellar", (4, 4)),
        ],
        ("component", "cpu_package (package) + gpu (board)"): [("counters-slow", (1, 2)), ("counters", (1, 2))],
        ("component", "gpu (board)"): [("sampled", (1, 1))],
    }
    assert [group.board for group in by_energy.groups] == ["node", "component", "component"]


def test_unranked_energies_have_reasons(by_energy: EnergyView) -> None:
    """Void, estimated, not measured and unranked are four different states; none has a rank."""
    others = {row.view.row.system: row for row in by_energy.others}

    assert {name: row.kind for name, row in others.items()} == {
        "with-a-gap": "void",
        "modelled": "estimated",
        "not-metered": "not measured",
        "missed": "unranked",
    }
    assert not [row for row in others.values() if row.ranks is not None or not row.reasons]
    assert others["with-a-gap"].reasons == ((None, "a meter gave no reading for more than 2 s"),)
    assert others["not-metered"].energy == "not measured"


def test_a_reason_links_to_its_check(tmp_path: Path) -> None:
    """With the real checks installed, the code precedes the words."""
    tree = tmp_path / "tree"
    submit(tree, "fir", "with-a-gap", power="node", block_s=4.0, damage=gap)
    installed = {**RULES, "PWR005": registry.checks()["PWR005"]}
    made = dict(render_pages(board_of(tree, ruleset(codes={"TST001": "error"}), installed)))

    for path in ("benchmarks/toy_mini--energy.html", "results/fir--with-a-gap--toy_mini.html"):
        assert "../rules/pwr005.html" in Page(made[path].decode()).links


def test_void_energies_are_shown(made: Mapping[str, bytes]) -> None:
    """The page shows the joules with their class and the word void."""
    page = _text(made, "benchmarks/toy_mini--energy.html")

    assert "Not ranked by energy" in page
    for text in ("void", "estimated", "not measured", "unranked", "no score", *CLASS_WORDS.values()):
        assert text in page, text


def test_results_are_ranked_by_list_price(by_cost: CostView) -> None:
    """Cheapest first, with the ranks each may have; spot is ranked at the on-demand price of the same row."""
    found = [(row.view.row.system, row.ranks) for row in by_cost.ranked]

    assert found == [
        ("cellar", (1, 1)),
        ("bmc-b", (2, 3)),
        ("bmc-tied", (2, 3)),
        ("with-a-gap", (4, 4)),
        ("not-metered", (5, 5)),
        ("wall-a", (6, 6)),
        ("counters", (7, 7)),
        ("sampled", (8, 8)),
    ]
    rows = {row.view.row.system: row for row in by_cost.ranked}
    assert rows["sampled"].price is not None
    assert rows["sampled"].price.purchase == "on_demand"
    assert rows["wall-a"].bill == "$ 60.01"
    assert rows["wall-a"].paid == "$ 20.00"
    assert rows["cellar"].electricity == "$ 0.0011"  # 11.2 kJ: 0.0031 kWh at 0.30 and a PUE of 1.2
    assert rows["bmc-b"].electricity is None  # rented: it is in the price


def test_results_without_a_cost_have_reasons(by_cost: CostView) -> None:
    """A price that is not in the book, none named, and an unranked result; no number is invented."""
    reasons = {row.view.row.system: row.reason or "" for row in by_cost.others}

    assert reasons["modelled"].startswith("unknown price 'cloud/no-such/here/on_demand'")
    assert reasons["counters-slow"] == "the system description has no tta_price_sku"
    assert reasons["missed"].startswith("the result is not ranked")
    assert {row.usd for row in by_cost.others} == {None}


def test_a_missed_target_is_a_cross_and_not_on_the_front(made: Mapping[str, bytes]) -> None:
    """It stopped sooner and cheaper than others reached the target, but beats none of them."""
    for name in ("energy", "cost"):
        text = made[f"benchmarks/toy_mini--{name}.html"].decode()
        assert text.count('<path class="miss" transform') == 2  # in the chart and in its legend
        assert "missed the target" in text
    dots = [Dot("a", "1", 10.0, 5.0), Dot("b", "2", 1.0, 1.0, is_reached=False)]
    assert front_of(dots) == [0]
    assert 'class="best"' in scatter_chart(LABEL, dots, "x", "y")


def test_intervals_are_drawn_and_clipped_on_a_logarithmic_axis() -> None:
    """Two whiskers per point with intervals; an interval down to 0 does not break a logarithmic axis."""
    dots = [
        Dot("a", "1", 1.0, 1.0, (0.5, 1.5), (0.0, 2.0)),
        Dot("b", "2", 100.0, 100.0, (90.0, 110.0), (90.0, 110.0)),
    ]
    svg = scatter_chart(LABEL, dots, "x", "y")

    assert svg.count('class="whisker"') == 4
    assert "logarithmic" in svg
    assert "nan" not in svg


def test_the_interval_of_a_cost_follows_from_that_of_its_time(board: Board) -> None:
    """The price is exact, so the relative width is the same."""
    score = board.entries["acme/results/wall-a/toy_mini"].row.score
    interval = usd_interval(score)

    assert interval is not None
    assert score.interval is not None
    assert score.seconds is not None
    assert score.usd is not None
    assert interval[1] / float(score.usd) == pytest.approx(score.interval[1] / score.seconds)
    assert usd_interval(replace(score, usd=None)) is None
    assert measured_usd_interval(score) == pytest.approx(
        [0.01 * end for end in score.measured_interval or ()], rel=1e-4
    )
    assert measured_usd_interval(replace(score, measured_interval=None)) is None
    assert score.usd.as_tuple().exponent == Decimal("0.000001").as_tuple().exponent


def test_the_json_has_energy_and_cost(made: Mapping[str, bytes]) -> None:
    """Class, interval, void and rank; money as exact text; missing values are null."""
    document = json.loads(made["leaderboard.json"])
    rows = {row["system"]: row for table in document["tables"] for row in table["rows"]}

    assert rows["bmc-b"]["energy"]["ranks"] == rows["bmc-tied"]["energy"]["ranks"] == [1, 2]
    assert rows["bmc-b"]["energy"]["class"] == "B"
    assert rows["bmc-b"]["energy"]["idle_w"] == pytest.approx(82.5)
    assert rows["with-a-gap"]["energy"]["void"] == ["gap"]
    assert rows["with-a-gap"]["energy"]["ranks"] is None
    assert rows["not-metered"]["energy"] is None
    assert rows["wall-a"]["energy"]["measured_joules"] < rows["wall-a"]["energy"]["joules"]  # it was lucky
    assert len(rows["wall-a"]["energy"]["measured_interval"]) == len(rows["wall-a"]["cost"]["measured_interval"]) == 2
    assert float(rows["wall-a"]["cost"]["measured_usd"]) == pytest.approx(
        rows["wall-a"]["measured_seconds"] / 100, abs=1e-6
    )
    assert rows["wall-a"]["cost"]["billed_usd"] == "60.010000"
    assert rows["wall-a"]["cost"]["prices_digest"] == "p" * 64
    assert rows["counters-slow"]["cost"]["usd"] is None
    assert "tta_price_sku" in rows["counters-slow"]["cost"]["why_not"]
    assert rows["counters"]["runs"][0]["energy"]["method"] == "tta-2"


def test_the_csv_has_energy_and_cost(made: Mapping[str, bytes]) -> None:
    """Every line has as many cells as the header; missing values are empty."""
    lines = list(csv.reader(io.StringIO(made["leaderboard.csv"].decode())))
    rows = {line[5]: dict(zip(lines[0], line, strict=True)) for line in lines[1:]}

    assert rows["counters"]["energy_class"] == "C"
    assert rows["counters"]["energy_board"] == "component"
    assert rows["wall-a"]["usd_as_bought"] == "20.003333"
    assert float(rows["wall-a"]["measured_energy_low_j"]) < float(rows["wall-a"]["measured_energy_j"])
    assert float(rows["wall-a"]["measured_usd_low"]) < float(rows["wall-a"]["measured_usd"])
    assert rows["not-metered"]["measured_energy_j"] == ""
    assert rows["not-metered"]["energy_rank_first"] == rows["not-metered"]["energy_class"] == ""
    assert rows["with-a-gap"]["energy_void"] == "gap"


def test_a_result_page_shows_its_meters_and_watts(made: Mapping[str, bytes]) -> None:
    """Meters with class, scope, accuracy, period and source; a chart per run with a table below it; the bill."""
    page = _text(made, "results/acme--counters--toy_mini.html")
    for text in (
        "Quality and power over time",
        "nvml:GPU-0:energy",
        "energy counter",
        "± 2.0 %",
        "processor package",
        "idle, measured before the runs",
        "longest gap",
        "run_stop",
        "Seconds since run_start",
        "cloud/big-node/here/on_demand",
    ):
        assert text in page, text
    assert made["results/acme--counters--toy_mini.html"].decode().count('class="band-w') == 15
    assert "node allocations, spot, 2 interruptions" in _text(made, "results/acme--wall-a--toy_mini.html")
    assert "this result has no power logs" in _text(made, "results/fir--not-metered--toy_mini.html")
    assert "no reading" in _text(made, "results/fir--with-a-gap--toy_mini.html")


def test_the_index_names_the_leaders(made: Mapping[str, bytes]) -> None:
    """Fastest, cheapest, lowest energy of nodes and of components, with the number of ties."""
    page = _text(made, "index.html")

    assert "Fastest, cheapest, lowest energy" in page
    assert "1 other may be first, too" in page
    for link in ("benchmarks/toy_mini--energy.html", "benchmarks/toy_mini--cost.html"):
        assert link in Page(made["index.html"].decode()).links


def test_watts_of_a_line_are_exact_in_every_step() -> None:
    """A ramp from 0 to 100 W over 10 s in ten steps: 5, 15, ... W; a counter has its mean between two readings.

    Three seconds without a reading are three steps without watts; minimum and maximum are kept.
    """
    ramp = binned([(0.0, 0.0), (10.0, 100.0)], 0.0, 1.0, 10, 20.0, is_counter=False)
    counted = binned([(0.0, 7.0), (5.0, 507.0), (10.0, 607.0)], 0.0, 1.0, 10, 20.0, is_counter=True)

    assert [step.mean_w for step in ramp if step] == pytest.approx([5 + 10 * index for index in range(10)])
    assert [step.mean_w for step in counted if step] == pytest.approx([100.0] * 5 + [20.0] * 5)
    points = [(0.0, 10.0), (1.0, 30.0), (4.0, 30.0), (5.0, 50.0)]
    first, *others = binned(points, 0.0, 1.0, 5, 2.0, is_counter=False)
    assert first == Step(20.0, 10.0, 30.0)
    assert [step is None for step in others] == [True, True, True, False]


def test_a_trace_has_a_fixed_number_of_steps(tmp_path: Path) -> None:
    """100,000 readings of two meters: 480 steps, and the area under them is the energy."""
    fabricate.write_result(tmp_path / "r", num_runs=1, power="counters")
    [log] = read_result(tmp_path / "r").runs
    start_s, stop_s = 0.0, 7.7
    samples = powertrace.power(lambda at_s: 200.0 + 10 * at_s, -0.5, 9.5, 1e-4)
    spec = powertrace.spec()
    origin = log.one("tta_clock").value["mono_ns"] + log.one("run_start").elapsed_ns
    shifted = tuple(replace(item, mono_ns=item.mono_ns + origin) for item in samples)
    log = replace(log, nodes=(powertrace.node(0, {spec: shifted}, offsets=(), host="h"),))
    energy = run_energy(log.nodes, origin, origin + round(stop_s * 1e9))
    trace = power_trace(log, energy, 2.0)

    assert len(samples) == 100_001
    assert trace is not None
    assert len(trace.total.steps) == NUM_STEPS
    inside = [
        step.mean_w * trace.step_s
        for index, step in enumerate(trace.total.steps)
        if step is not None and start_s <= trace.at(index) <= stop_s
    ]
    assert energy.joules is not None
    assert sum(inside) == pytest.approx(energy.joules, rel=0.005)
    assert len(component_chart(LABEL, trace, 80.0, time_axis([trace]))) < 60_000


@pytest.mark.parametrize(("kind", "num_steps"), [("node", 215), ("counters", 480)])
def test_a_counter_has_no_gap_in_its_trace(kind: str, num_steps: int, tmp_path: Path) -> None:
    """Five seconds without a reading: nobody knows the power, but a counter knows its mean."""
    fabricate.write_result(tmp_path / "r", num_runs=1, power=kind)
    [log] = read_result(tmp_path / "r").runs
    energy = energy_of(log, EnergyLimits())
    origin_ns = log.one("tta_clock").value["mono_ns"]
    [node] = log.nodes
    samples = {
        name: tuple(item for item in series if not 4e9 <= item.mono_ns - origin_ns < 9e9)
        for name, series in node.samples.items()
    }
    assert energy is not None

    trace = power_trace(replace(log, nodes=(replace(node, samples=samples),)), energy, 2.0)

    assert trace is not None
    assert sum(step is not None for step in trace.total.steps) == num_steps


def test_a_chart_of_watts_draws_gaps_idle_and_edges() -> None:
    """Two stretches are two lines; the idle baseline and both edges are labelled."""
    steps = (Step(1.0, 0.5, 2.0), Step(2.0, 1.0, 3.0), None, Step(4.0, 4.0, 4.0))
    line = PowerLine("node", steps)
    trace = PowerTrace(-1.0, 1.0, 2.5, PowerLine("total", steps), (line,))
    svg = component_chart(LABEL, trace, 0.7, time_axis([trace]))

    assert svg.count('<polyline class="line') == 2
    assert svg.count('class="band-w') == 1
    for text in ("run_start", "run_stop", "idle 0.7 W"):
        assert text in svg
    assert quality_and_power(LABEL, [], [], "quality", 0.9, (0.0, 1.0), None) == ""
    assert "nan" not in quality_and_power(LABEL, [], [(0, "r", trace)], "quality", 0.9, (0.0, 1.0), None)
    empty = replace(trace, lines=(PowerLine("node", (None,) * 4),), total=PowerLine("total", (None,) * 4))
    assert component_chart(LABEL, empty, None, time_axis([empty])) == ""


def test_the_runs_of_a_result_share_one_time_axis() -> None:
    """From the earliest reading of any run to the latest, so that run_stop of a shorter run is further left."""
    steps = (Step(1.0, 1.0, 1.0),) * 10
    short, long = (
        PowerTrace(-1.0, step_s, run_s, PowerLine("total", steps), (PowerLine("node", steps),))
        for step_s, run_s in ((0.5, 3.0), (1.0, 8.0))
    )

    axis = time_axis([short, long])
    stops = [
        re.findall(r'class="edge" x1="([0-9.]+)"', component_chart(LABEL, trace, None, axis)) for trace in (short, long)
    ]
    assert (axis.low, axis.high) == (-1.0, 9.0)
    assert stops[0][0] == stops[1][0]
    assert float(stops[0][1]) < float(stops[1][1])


def test_energies_that_may_not_be_compared_have_no_place_in_an_order(board: Board) -> None:
    """In the table by time, too: node and component energies are sorted apart, void and estimated ones after them."""
    page = dict(render_pages(board))["benchmarks/toy_mini.html"].decode()
    cells = re.findall(r'data-label="Energy" (data-value="[^"]*"(?: data-unranked| data-group="[^"]*"))', page)
    [table] = [table for table in board.leaderboard.tables if table.benchmark == "toy_mini"]

    assert len(cells) == sum(row.is_ranked for row in table.rows)
    for row, cell in zip(table.rows, cells, strict=False):
        energy = row.score.energy
        if energy is None or not energy.may_rank:
            assert cell.endswith(" data-unranked")
        else:
            assert f'data-group="{"0" if energy.board == "node" else "1"} {energy.scope}"' in cell
