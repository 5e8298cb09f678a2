"""What the user sees during a run: a live panel in a terminal, plain lines elsewhere, or nothing.

Everything goes to standard error. Without a terminal there is one line per evaluation and at least one per minute,
because a run that prints nothing for five hours gets killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, TextIO, cast

from harness.base.streams import TolerantStream
from harness.errors import printable
from harness.run.plan import Outcome, Plan, Progress, View

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_MINUTE_NS = 60_000_000_000
_FRAME_NS = 500_000_000  # two frames a second: a frame costs a few milliseconds of one core
_BAR_CELLS = 32


class QuietView:
    """Prints nothing, except for a run that ended without reaching its target."""

    def begin(self, plan: Plan, progress: Progress) -> None:
        self._plan = plan

    def tick(self, elapsed_ns: int) -> None:
        pass

    def evaluation(self, elapsed_ns: int) -> None:
        pass

    def end(self, outcome: Outcome) -> None:
        if not outcome.is_reached and outcome.reason != "full_curve":
            with contextlib.suppress(OSError):
                print(f"run {self._plan.index}: {_ended(outcome)}", file=sys.stderr)


class LineView:
    """One plain line per evaluation, and one per minute in between."""

    def __init__(self, stream: TextIO, usd_per_hour: Decimal | None) -> None:
        self._stream = TolerantStream(stream)
        self._usd_per_hour = usd_per_hour
        self._last_ns = 0

    def begin(self, plan: Plan, progress: Progress) -> None:
        self._plan, self._progress, self._last_ns = plan, progress, 0
        self._print(f"{plan.rules.name}, seed {plan.seed}: starting the worker")

    def tick(self, elapsed_ns: int) -> None:
        if elapsed_ns - self._last_ns >= _MINUTE_NS:
            self._last_ns = elapsed_ns
            self._print(f"{self._progress.phase}; {_state(self._plan, self._progress, elapsed_ns, self._usd_per_hour)}")

    def evaluation(self, elapsed_ns: int) -> None:
        self._last_ns = elapsed_ns
        self._print(_state(self._plan, self._progress, elapsed_ns, self._usd_per_hour))

    def end(self, outcome: Outcome) -> None:
        self._print(_ended(outcome))

    def _print(self, text: str) -> None:
        print(f"run {self._plan.index}: {text}", file=self._stream, flush=True)


class LiveView:
    """A panel in the terminal, redrawn in place; one line remains of each run."""

    def __init__(self, stream: TextIO, usd_per_hour: Decimal | None) -> None:
        from rich.console import Console

        self._console = Console(file=cast(TextIO, TolerantStream(stream)), highlight=False, markup=False, emoji=False)
        self._usd_per_hour = usd_per_hour
        self._live: Live | None = None
        self._drawn_ns = 0

    def begin(self, plan: Plan, progress: Progress) -> None:
        from rich.live import Live

        self._plan, self._progress, self._drawn_ns = plan, progress, 0
        # No refresh thread: the ticks of the referee draw the frames.
        self._live = Live(self._panel(0), console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def tick(self, elapsed_ns: int) -> None:
        if elapsed_ns - self._drawn_ns >= _FRAME_NS:
            self._draw(elapsed_ns)

    def evaluation(self, elapsed_ns: int) -> None:
        self._draw(elapsed_ns)

    def end(self, outcome: Outcome) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(f"run {self._plan.index}: {_ended(outcome)}")

    def _draw(self, elapsed_ns: int) -> None:
        self._drawn_ns = elapsed_ns
        if self._live is not None:
            self._live.update(self._panel(elapsed_ns), refresh=True)

    def _panel(self, elapsed_ns: int) -> Table:
        from rich.table import Table
        from rich.text import Text

        plan, progress = self._plan, self._progress
        panel = Table.grid(padding=(0, 2))
        panel.add_column(style="dim")
        panel.add_column()
        panel.add_row("run", Text(f"{plan.index}  {plan.rules.name}  seed {plan.seed}  {progress.phase}"))
        panel.add_row("quality", Text(_quality(plan, progress)))
        panel.add_row("", Text(_bar(plan, progress)))
        speed = "–" if progress.samples_per_s is None else f"{progress.samples_per_s:,.0f} samples/s"
        panel.add_row("speed", Text(f"{speed}, {progress.samples:,} of at most {plan.rules.max_samples:,} samples"))
        seconds = _elapsed_s(progress, elapsed_ns)
        panel.add_row("time", Text("the clock has not started" if seconds is None else f"{seconds:,.1f} s"))
        panel.add_row("power", Text(_power(progress)))
        panel.add_row("cost", Text(_cost(seconds, self._usd_per_hour)))
        return panel


def open_view(is_quiet: bool, usd_per_hour: Decimal | None, stream: TextIO | None = None) -> View:
    """Return the view that suits standard error."""
    stream = stream or sys.stderr
    if is_quiet:
        return QuietView()
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return LiveView(stream, usd_per_hour)
    return LineView(stream, usd_per_hour)


def _elapsed_s(progress: Progress, elapsed_ns: int) -> float | None:
    return None if progress.run_start_ns is None else (elapsed_ns - progress.run_start_ns) / 1e9


def _power(progress: Progress) -> str:
    if progress.power_source == "none":
        return "not measured"
    if progress.power_w is None:
        return "–"
    return f"{progress.power_w:,.0f} W{', estimated' if progress.power_source == 'estimated' else ''}"


def _cost(seconds: float | None, usd_per_hour: Decimal | None) -> str:
    if usd_per_hour is None:
        return "no price"
    return f"${Decimal(seconds or 0) * usd_per_hour / 3600:.4f} so far"


def _quality(plan: Plan, progress: Progress) -> str:
    metric = plan.rules.metric
    sign = "≥" if metric.direction == "max" else "≤"
    now = "–" if progress.quality is None else f"{progress.quality:.4f}"
    best = "" if progress.best is None else f", best {progress.best:.4f}"
    return f"{metric.name} {now}{best}, target {sign} {plan.rules.target:g}"


def _bar(plan: Plan, progress: Progress) -> str:
    """Draw the best quality as a fraction of the way from the worst possible value to the target."""
    if progress.best is None:
        return "·" * _BAR_CELLS
    low, high = plan.rules.quality_range
    worst = low if plan.rules.metric.direction == "max" else high
    way = plan.rules.target - worst
    fraction = 1.0 if way == 0 else min(1.0, max(0.0, (progress.best - worst) / way))
    cells = int(fraction * _BAR_CELLS)
    return "█" * cells + "·" * (_BAR_CELLS - cells)


def _state(plan: Plan, progress: Progress, elapsed_ns: int, usd_per_hour: Decimal | None) -> str:
    seconds = _elapsed_s(progress, elapsed_ns)
    parts = [_quality(plan, progress), f"{progress.samples:,} samples"]
    if progress.samples_per_s is not None:
        parts.append(f"{progress.samples_per_s:,.0f} samples/s")
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    if progress.power_w is not None:
        parts.append(_power(progress))
    if usd_per_hour is not None:
        parts.append(_cost(seconds, usd_per_hour))
    return ", ".join(parts)


def _ended(outcome: Outcome) -> str:
    clock = "the clock never started" if outcome.run_s is None else f"{outcome.run_s:.2f} s on the clock"
    if outcome.is_reached:
        return f"target reached: {printable(outcome.evidence, 400)}; {clock}"
    return f"{outcome.status} ({outcome.reason}): {printable(outcome.evidence, 400)}; {clock}"
