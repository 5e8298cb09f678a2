"""What the user sees of a run: plain lines without a terminal, a panel in one, and no control text of a worker."""

from __future__ import annotations

import dataclasses
import io
from decimal import Decimal
from typing import Any

import pytest

from harness.ruleset.model import ReferenceConvergence
from harness.run.plan import Evaluated, Outcome, Progress
from harness.run.progress import LineView, LiveView, QuietView, Watch, open_view
from harness.workload import Metric
from tests.fabricate import benchmark_rules
from tests.scripted import plan

SECOND_NS = 1_000_000_000
HOSTILE = "[bold]x[/bold] \x1b]0;title\x07\x1b[2J \r\n\u202e [/etc/passwd] :smile:"
REACHED = Outcome("success", "target", "accuracy 0.95 after 3,000 samples", 3000, 0.95, 7.5)


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def watch(usd_per_hour: str | None = None, num_runs: int = 5) -> Watch:
    return Watch(num_runs, None if usd_per_hour is None else Decimal(usd_per_hour))


def test_lines_say_where_the_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    """One line at the start, per evaluation, per minute and at the end; each names the run."""
    stream, progress = io.StringIO(), Progress()
    view = LineView(stream, watch("3.6"))
    view.begin(plan(benchmark_rules(reference_convergence=()), index=2), progress)
    view.tick(59 * SECOND_NS)
    view.tick(60 * SECOND_NS)
    view.tick(61 * SECOND_NS)
    progress.run_start_ns, progress.samples = 60 * SECOND_NS, 1000
    progress.evaluations.append(Evaluated(1000, 70 * SECOND_NS, 0.5))
    progress.samples_per_s, progress.power_w, progress.power_source = 500.0, 70.4, "measured"
    view.evaluation(70 * SECOND_NS)
    view.end(REACHED)

    assert stream.getvalue().splitlines() == [
        "run 2 (3 of 5): toy_mini, seed 7: starting the worker",
        "run 2 (3 of 5): starting; top1_accuracy –, target ≥ 0.9, 0 samples, 0 % of at most 10,000, $0.0000 so far",
        "run 2 (3 of 5): top1_accuracy 0.5000, best 0.5000, target ≥ 0.9, 1,000 samples, 10 % of at most 10,000, "
        "500 samples/s, 10.0 s, target: no estimate (there are no reference convergence points), "
        "budget ends in 1 min 30 s, 70 W, $0.0100 so far",
        "run 2 (3 of 5): target reached: accuracy 0.95 after 3,000 samples; 7.50 s on the clock",
    ]
    assert capsys.readouterr() == ("", "")


REFERENCE = (ReferenceConvergence(100, (2000,) * 5),)


@pytest.mark.parametrize(
    ("changes", "at_samples", "said"),
    [
        # Every reference run took 2,000 samples; 1,000 took 10 s.
        ({}, 1000, ["target in about 10 s", "budget ends in 1 min 30 s"]),
        ({}, 2500, ["target: later than 99 % of the reference runs", "budget ends in 1 min 15 s"]),
        ({"full_curve": True}, 1000, ["budget ends in 1 min 30 s"]),
        (
            {"division": "open"},
            1000,
            ["target: no estimate (the reference runs are of the closed division)", "budget ends in 1 min 30 s"],
        ),
    ],
)
def test_what_is_left(changes: dict[str, Any], at_samples: int, said: list[str]) -> None:
    """To the target at the pace of this run, where the reference says how far it is, and to the end of the budget."""
    seen = watch()
    progress = Progress(samples=at_samples, run_start_ns=0)
    seen.begin(plan(benchmark_rules(reference_convergence=REFERENCE), **changes), progress)
    assert seen.left(0) == ["budget ends in 10 min 00 s"]  # without a pace, the seconds alone

    progress.evaluations.append(Evaluated(at_samples, at_samples * SECOND_NS // 100, 0.5))

    assert seen.left(at_samples * SECOND_NS // 100) == said


def test_the_last_run_lends_its_pace_and_stays_on_the_bill() -> None:
    """Before the first evaluation of the second run: its predecessor's time, its seconds a sample, both runs' cost."""
    seen = watch("3600", num_runs=2)
    seen.begin(plan(), Progress())
    assert (seen.last(), seen.cost(0)) == (None, "$0.0000 so far")
    seen.end(REACHED)  # 3,000 samples in 7.5 s

    seen.begin(plan(benchmark_rules(reference_convergence=REFERENCE), index=1), Progress(run_start_ns=0))

    assert seen.name == "run 1 (2 of 2)"
    assert seen.left(SECOND_NS)[0] == "target in about 4 s"
    assert seen.last() == "target reached: accuracy 0.95 after 3,000 samples; 7.50 s on the clock"
    assert seen.cost(SECOND_NS) == "$1.0000 so far, $8.5000 for all runs"


@pytest.mark.parametrize(
    ("height", "term_encoding", "is_drawn"), [(40, "utf-8", True), (23, "utf-8", False), (40, "ascii", False)]
)
def test_panel_has_a_curve_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, height: int, term_encoding: str, is_drawn: bool
) -> None:
    """The qualities as dots and the target as a line, as wide as the terminal; not where they cannot be shown."""
    monkeypatch.setenv("LINES", str(height))
    monkeypatch.setenv("COLUMNS", "80")
    stream, progress = Terminal(), Progress(run_start_ns=0)
    monkeypatch.setattr(Terminal, "encoding", term_encoding)
    view = LiveView(stream, watch())
    view.begin(plan(benchmark_rules(reference_convergence=REFERENCE)), progress)
    for number, quality in enumerate((0.2, 0.6, 0.8), 1):
        progress.evaluations.append(Evaluated(500 * number, number * SECOND_NS, quality))
    view.tick(5 * SECOND_NS)
    view.end(REACHED)

    shown = stream.getvalue()
    assert ("┈" in shown and any("\u2801" <= letter <= "\u28ff" for letter in shown)) == is_drawn


@pytest.mark.parametrize(
    ("source", "power_w", "shown"),
    [
        ("none", None, "not measured"),
        ("measured", None, "–"),
        ("measured", 1234.4, "1,234 W"),
        ("measured", 0.0, "0 W"),
        ("estimated", 210.0, "210 W, estimated"),
    ],
)
def test_panel_tells_what_is_drawn_from_what_is_not_known(source: Any, power_w: float | None, shown: str) -> None:
    """Not metered, not yet known and zero watts are distinct; a model's watts are labelled."""
    stream, progress = Terminal(), Progress(power_source=source, power_w=power_w)
    view = LiveView(stream, watch())
    view.begin(plan(), progress)
    view.evaluation(SECOND_NS)
    view.end(REACHED)

    line = next(line for line in stream.getvalue().splitlines() if "power" in line)
    assert line.rstrip().endswith(shown)


FULL = "rank 0: No space left on device"


def test_a_failed_checkpoint_is_a_line_once() -> None:
    """A full disk fails the next ones, too: the last line has their number, and the next run begins again."""
    stream = io.StringIO()
    view = LineView(stream, watch())
    for _ in range(2):
        progress = Progress()
        view.begin(plan(), progress)
        for _ in range(3):
            progress.failed_checkpoints.append(FULL)
            view.checkpoint_failed(SECOND_NS)
        view.end(dataclasses.replace(REACHED, failed_checkpoints=tuple(progress.failed_checkpoints)))

    said = [
        f"run 0 (1 of 5): a checkpoint could not be written: {FULL}; the run goes on",
        "run 0 (1 of 5): target reached: accuracy 0.95 after 3,000 samples; 7.50 s on the clock; "
        f"3 checkpoints could not be written, the last: {FULL}",
    ]
    assert [line for line in stream.getvalue().splitlines() if "starting" not in line] == said * 2


def test_a_failed_checkpoint_stays_in_the_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """From when it failed; there is no such row before."""
    monkeypatch.setenv("COLUMNS", "100")
    stream, progress = Terminal(), Progress()
    view = LiveView(stream, watch())
    view.begin(plan(), progress)
    view.evaluation(SECOND_NS)
    assert "checkpoint" not in stream.getvalue()

    progress.failed_checkpoints.append(FULL)
    view.checkpoint_failed(2 * SECOND_NS)
    shown = stream.getvalue()
    view.end(REACHED)

    (row,) = [line for line in shown.splitlines() if "checkpoint" in line]
    assert row.rstrip().endswith(f"a checkpoint could not be written: {FULL}")


def test_quiet_view_speaks_only_of_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing for a success or a reference run, one line otherwise."""
    view = QuietView(watch())
    view.begin(plan(index=2), Progress())
    view.tick(0)
    view.evaluation(0)
    view.checkpoint_failed(0)
    view.end(dataclasses.replace(REACHED, failed_checkpoints=(FULL,)))
    view.end(Outcome("aborted", "full_curve", "", 0, None, 1.0))
    assert capsys.readouterr() == ("", "")

    view.end(Outcome("aborted", "oom", "no memory", 0, None, None))
    assert capsys.readouterr().err == "run 2 (3 of 5): aborted (oom): no memory; the clock never started\n"


def show(view: LineView | LiveView, evidence: str) -> None:
    """A short run with a power reading and a hostile end."""
    progress = Progress()
    view.begin(plan(index=2), progress)
    progress.run_start_ns, progress.samples_per_s = 0, 1.0
    progress.evaluations.append(Evaluated(500, SECOND_NS, 0.45))
    for second in range(3):
        view.tick(second * SECOND_NS)
    view.evaluation(3 * SECOND_NS)
    view.end(Outcome("aborted", "crashed", evidence, 0, None, 1.0))


def test_lines_have_no_escape_whatever_the_worker_says() -> None:
    """Control characters are shown, markup is text, and a message stays on its line, shortened."""
    stream = io.StringIO()
    show(LineView(stream, watch()), HOSTILE + "x" * 1_000_000)

    last = stream.getvalue().splitlines()[-1]
    assert all(line.isprintable() for line in stream.getvalue().splitlines())
    assert len(stream.getvalue()) < 3000
    assert last.startswith(
        "run 2 (3 of 5): aborted (crashed): [bold]x[/bold] \\x1b]0;title\\x07\\x1b[2J \\r\\n\\u202e [/etc/passwd]"
    )


def test_panel_shows_hostile_text_as_text() -> None:
    """Markup and emoji codes are not interpreted, no escape of the worker arrives, and the cursor is shown again."""
    stream = Terminal()
    show(LiveView(stream, watch("1")), HOSTILE)

    shown = stream.getvalue()
    assert "[bold]x[/bold]" in shown
    assert ":smile:" in shown
    assert "\x1b]0;title" not in shown
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") > 0


@pytest.mark.parametrize(
    ("is_quiet", "stream", "term", "expected"),
    [
        (False, io.StringIO(), "xterm", LineView),
        (False, Terminal(), "xterm", LiveView),
        (False, Terminal(), "dumb", LineView),
        (True, Terminal(), "xterm", QuietView),
        (True, io.StringIO(), "xterm", QuietView),
    ],
)
def test_view_suits_where_it_goes(
    monkeypatch: pytest.MonkeyPatch, is_quiet: bool, stream: io.StringIO, term: str, expected: type
) -> None:
    """Only a terminal that can draw gets a panel."""
    monkeypatch.setenv("TERM", term)

    assert type(open_view(is_quiet, 5, None, stream)) is expected


class Gone(io.StringIO):
    """A stream without a reader."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


class GoneTerminal(Gone):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("view", "stream"), [(LineView, Gone), (LiveView, GoneTerminal)])
def test_reader_that_went_away_does_not_disturb_the_run(
    view: type[LineView | LiveView], stream: type[io.StringIO]
) -> None:
    """Neither `2>&1 | head` nor a closed window ends a run of hours."""
    show(view(stream(), watch()), "x")


@pytest.mark.parametrize(("direction", "best"), [("max", "0.7000"), ("min", "0.4000")])
def test_best_is_the_best_for_the_direction(direction: Any, best: str) -> None:
    """The largest of an accuracy, the smallest of an error rate."""
    seen = watch()
    progress = Progress(evaluations=[Evaluated(100 * k, k, quality) for k, quality in enumerate((0.4, 0.7, 0.5), 1)])
    seen.begin(plan(benchmark_rules(metric=Metric("rate", "fraction", direction), target=0.5)), progress)

    assert seen.quality().startswith(f"rate 0.5000, best {best}, target")


@pytest.mark.parametrize(("samples", "cells"), [(0, 0), (1000, 16), (2000, 32), (5000, 32)])
def test_bar_is_the_share_of_the_reference(samples: int, cells: int) -> None:
    """Empty at the start, full where the reference would be done, and not longer than that."""
    stream = Terminal()
    view = LiveView(stream, watch())
    view.begin(plan(benchmark_rules(reference_convergence=REFERENCE)), Progress(samples=samples))
    view.end(REACHED)

    assert stream.getvalue().count("█") == cells
