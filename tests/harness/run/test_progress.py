"""What the user sees of a run: plain lines without a terminal, a panel in one, and no control text of a worker."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pytest

from harness.run.plan import Outcome, Progress
from harness.run.progress import LineView, LiveView, QuietView, open_view
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


def test_lines_say_where_the_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    """One line at the start, per evaluation, per minute and at the end; each names the run."""
    stream, progress = io.StringIO(), Progress()
    view = LineView(stream, Decimal("3.6"))
    view.begin(plan(index=2), progress)
    view.tick(59 * SECOND_NS)
    view.tick(60 * SECOND_NS)
    view.tick(61 * SECOND_NS)
    progress.run_start_ns, progress.samples, progress.quality, progress.best = 60 * SECOND_NS, 1000, 0.5, 0.5
    progress.samples_per_s, progress.power_w, progress.power_source = 500.0, 70.4, "measured"
    view.evaluation(70 * SECOND_NS)
    view.end(REACHED)

    assert stream.getvalue().splitlines() == [
        "run 2: toy_mini, seed 7: starting the worker",
        "run 2: starting; top1_accuracy –, target ≥ 0.9, 0 samples, $0.0000 so far",
        "run 2: top1_accuracy 0.5000, best 0.5000, target ≥ 0.9, 1,000 samples, 500 samples/s, 10.0 s, 70 W, "
        "$0.0100 so far",
        "run 2: target reached: accuracy 0.95 after 3,000 samples; 7.50 s on the clock",
    ]
    assert capsys.readouterr() == ("", "")


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
    view = LiveView(stream, None)
    view.begin(plan(), progress)
    view.evaluation(SECOND_NS)
    view.end(REACHED)

    line = next(line for line in stream.getvalue().splitlines() if "power" in line)
    assert line.rstrip().endswith(shown)


def test_quiet_view_speaks_only_of_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing for a success or a reference run, one line otherwise."""
    view = QuietView()
    view.begin(plan(index=2), Progress())
    view.tick(0)
    view.evaluation(0)
    view.end(REACHED)
    view.end(Outcome("aborted", "full_curve", "", 0, None, 1.0))
    assert capsys.readouterr() == ("", "")

    view.end(Outcome("aborted", "oom", "no memory", 0, None, None))
    assert capsys.readouterr().err == "run 2: aborted (oom): no memory; the clock never started\n"


def show(view: LineView | LiveView, evidence: str) -> None:
    """A short run with a power reading and a hostile end."""
    progress = Progress()
    view.begin(plan(index=2), progress)
    progress.run_start_ns, progress.quality, progress.best, progress.samples_per_s = 0, 0.45, 0.45, 1.0
    for second in range(3):
        view.tick(second * SECOND_NS)
    view.evaluation(3 * SECOND_NS)
    view.end(Outcome("aborted", "crashed", evidence, 0, None, 1.0))


def test_lines_have_no_escape_whatever_the_worker_says() -> None:
    """Control characters are shown, markup is text, and a message stays on its line, shortened."""
    stream = io.StringIO()
    show(LineView(stream, None), HOSTILE + "x" * 1_000_000)

    last = stream.getvalue().splitlines()[-1]
    assert all(line.isprintable() for line in stream.getvalue().splitlines())
    assert len(stream.getvalue()) < 3000
    assert last.startswith(
        "run 2: aborted (crashed): [bold]x[/bold] \\x1b]0;title\\x07\\x1b[2J \\r\\n\\u202e [/etc/passwd]"
    )


def test_panel_shows_hostile_text_as_text() -> None:
    """Markup and emoji codes are not interpreted, no escape of the worker arrives, and the cursor is shown again."""
    stream = Terminal()
    show(LiveView(stream, Decimal("1")), HOSTILE)

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

    assert type(open_view(is_quiet, None, stream)) is expected


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
    show(view(stream(), None), "x")


@pytest.mark.parametrize(("best", "cells"), [(None, 0), (1.0, 0), (0.75, 16), (0.5, 32), (0.0, 32)])
def test_bar_goes_the_right_way_for_a_metric_that_shrinks(best: float | None, cells: int) -> None:
    """From the worst possible value to the target, whichever is larger."""
    stream = Terminal()
    view = LiveView(stream, None)
    progress = Progress(best=best)
    rules = benchmark_rules(metric=Metric("word_error_rate", "fraction", "min"), target=0.5)
    view.begin(plan(rules), progress)
    view.end(REACHED)

    assert stream.getvalue().count("█") == cells
