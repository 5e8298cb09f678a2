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
from harness.run import curve
from harness.run.checkpoint import failed_words
from harness.run.forecast import Samples, duration, end_of, reference_of
from harness.run.plan import Outcome, Plan, Progress, View
from harness.scoring.convergence import Reference

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_MINUTE_NS = 60_000_000_000
_FRAME_NS = 500_000_000  # two frames a second: a frame costs a few milliseconds of one core
_BAR_CELLS = 32
_CURVE_ROWS = 8
_PANEL_ROWS = 24  # with the curve; a lower terminal gets none
_STYLES = {curve.TARGET: "yellow", curve.EXPECTED: "dim"}


class Watch:
    """What a view knows: the run that it shows, and those that it has shown before.

    num_runs: of the result, those before --resume included. usd_per_hour: price of the system; None if unknown.
    """

    def __init__(self, num_runs: int, usd_per_hour: Decimal | None) -> None:
        self._num_runs = num_runs
        self._usd_per_hour = usd_per_hour
        self._last: Outcome | None = None
        self._total_s = 0.0

    def begin(self, plan: Plan, progress: Progress) -> None:
        self.plan, self.progress = plan, progress
        self._reference = reference_of(plan)

    def end(self, outcome: Outcome) -> None:
        self._last = outcome
        self._total_s += outcome.run_s or 0.0

    @property
    def name(self) -> str:
        """`run 2 (3 of 5)`: the number in the name of the log, and the place among the runs of the result."""
        index = self.plan.index
        return f"run {index} ({index + 1} of {max(self._num_runs, index + 1)})"

    def elapsed_s(self, elapsed_ns: int) -> float | None:
        """Return the seconds on the clock; None before it starts."""
        start_ns = self.progress.run_start_ns
        return None if start_ns is None else (elapsed_ns - start_ns) / 1e9

    @property
    def pace_s(self) -> float | None:
        """Seconds a sample up to the last evaluation, all phases included; those of the last run before the first."""
        evaluations, last = self.progress.evaluations, self._last
        if evaluations and (seconds := self.elapsed_s(evaluations[-1].elapsed_ns)) is not None:
            return seconds / evaluations[-1].samples
        return None if last is None or last.run_s is None or not last.samples else last.run_s / last.samples

    @property
    def end_samples(self) -> Samples | None:
        """The samples at which the run will end; None if that is unknown."""
        if self.plan.full_curve:
            return Samples(*[self.plan.rules.max_samples] * 3)
        if isinstance(self._reference, str):
            return None
        return end_of(self.plan, self._reference, self.progress.evaluations)

    def quality(self) -> str:
        metric, qualities = self.plan.rules.metric, [found.quality for found in self.progress.evaluations]
        sign = "≥" if metric.direction == "max" else "≤"
        best = (max if metric.direction == "max" else min)(qualities, default=None)
        now = "–" if best is None else f"{qualities[-1]:.4f}, best {best:.4f}"
        return f"{metric.name} {now}, target {sign} {self.plan.rules.target:g}"

    def share(self) -> tuple[float, str]:
        """Return how much of the samples that are expected has been trained on, and what that is a share of."""
        samples, reference = self.progress.samples, self._reference
        if isinstance(reference, Reference) and not self.plan.full_curve:
            return samples / reference.samples, f"of the reference's {reference.samples:,.0f}"
        return samples / self.plan.rules.max_samples, f"of at most {self.plan.rules.max_samples:,}"

    def samples(self) -> str:
        share, of_what = self.share()
        return f"{self.progress.samples:,} samples, {100 * share:.0f} % {of_what}"

    def left(self, elapsed_ns: int) -> list[str]:
        """Return when the target, and when the budget, will be reached."""
        seconds, pace_s, rules = self.elapsed_s(elapsed_ns), self.pace_s, self.plan.rules
        if seconds is None:
            return []
        budget_s = rules.max_seconds - seconds
        if pace_s is not None:
            budget_s = min(budget_s, rules.max_samples * pace_s - seconds)
        parts = [f"budget ends in {duration(budget_s)}"]
        if pace_s is None or self.plan.full_curve:
            return parts
        if isinstance(self._reference, str):
            return [f"target: no estimate ({self._reference})", *parts]
        end = self.end_samples
        if end is None:
            return ["target: later than 99 % of the reference runs", *parts]
        low, middle, high = (duration(count * pace_s - seconds) for count in (end.low, end.middle, end.high))
        return [f"target in about {middle}" + ("" if low == high else f" ({low} to {high})"), *parts]

    def speed(self) -> str | None:
        speed = self.progress.samples_per_s
        return None if speed is None else f"{speed:,.0f} samples/s"

    def power(self) -> str:
        progress = self.progress
        if progress.power_source == "none":
            return "not measured"
        if progress.power_w is None:
            return "–"
        return f"{progress.power_w:,.0f} W{', estimated' if progress.power_source == 'estimated' else ''}"

    def cost(self, elapsed_ns: int) -> str | None:
        """Return what the run has cost so far, and all runs if there were others; None without a price."""
        if self._usd_per_hour is None:
            return None
        seconds = self.elapsed_s(elapsed_ns) or 0.0
        own, all_runs = (Decimal(value) * self._usd_per_hour / 3600 for value in (seconds, seconds + self._total_s))
        return f"${own:.4f} so far" + (f", ${all_runs:.4f} for all runs" if self._total_s else "")

    def failed_checkpoints(self) -> str | None:
        failed = self.progress.failed_checkpoints
        return failed_words(failed) if failed else None

    def last(self) -> str | None:
        return None if self._last is None else _ended(self._last)

    def state(self, elapsed_ns: int) -> str:
        """Return all of this that is known, as one line."""
        seconds = self.elapsed_s(elapsed_ns)
        parts: list[str | None] = [self.quality(), self.samples(), self.speed()]
        parts += [None if seconds is None else f"{seconds:.1f} s", *self.left(elapsed_ns)]
        parts += [None if self.progress.power_w is None else self.power(), self.cost(elapsed_ns)]
        return ", ".join(part for part in parts if part is not None)


class QuietView:
    """Prints nothing, except for a run that ended without reaching its target."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def begin(self, plan: Plan, progress: Progress) -> None:
        self._watch.begin(plan, progress)

    def tick(self, elapsed_ns: int) -> None:
        pass

    def evaluation(self, elapsed_ns: int) -> None:
        pass

    def checkpoint_failed(self, elapsed_ns: int) -> None:
        pass

    def end(self, outcome: Outcome) -> None:
        if not outcome.is_reached and outcome.reason != "full_curve":
            with contextlib.suppress(OSError):
                print(f"{self._watch.name}: {_ended(outcome)}", file=sys.stderr)


class LineView:
    """One plain line per evaluation, one per minute in between, and one for the first checkpoint that fails."""

    def __init__(self, stream: TextIO, watch: Watch) -> None:
        self._stream = TolerantStream(stream)
        self._watch = watch
        self._last_ns = 0

    def begin(self, plan: Plan, progress: Progress) -> None:
        self._watch.begin(plan, progress)
        self._last_ns = 0
        self._is_failure_said = False
        self._print(f"{plan.rules.name}, seed {plan.seed}: starting the worker")

    def tick(self, elapsed_ns: int) -> None:
        if elapsed_ns - self._last_ns >= _MINUTE_NS:
            self._last_ns = elapsed_ns
            self._print(f"{self._watch.progress.phase}; {self._watch.state(elapsed_ns)}")

    def evaluation(self, elapsed_ns: int) -> None:
        self._last_ns = elapsed_ns
        self._print(self._watch.state(elapsed_ns))

    def checkpoint_failed(self, elapsed_ns: int) -> None:
        if not self._is_failure_said:  # a full disk fails all of them; the last line has their number
            self._is_failure_said = True
            self._print(f"{self._watch.failed_checkpoints()}; the run goes on")

    def end(self, outcome: Outcome) -> None:
        self._print(_ended(outcome))
        self._watch.end(outcome)

    def _print(self, text: str) -> None:
        print(f"{self._watch.name}: {text}", file=self._stream, flush=True)


class LiveView:
    """A panel in the terminal, redrawn in place; one line remains of each run."""

    def __init__(self, stream: TextIO, watch: Watch) -> None:
        from rich.console import Console

        self._console = Console(file=cast(TextIO, TolerantStream(stream)), highlight=False, markup=False, emoji=False)
        self._watch = watch
        self._live: Live | None = None
        self._drawn_ns = 0

    def begin(self, plan: Plan, progress: Progress) -> None:
        from rich.live import Live

        self._watch.begin(plan, progress)
        self._drawn_ns = 0
        # No refresh thread: the ticks of the referee draw the frames.
        self._live = Live(self._panel(0), console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def tick(self, elapsed_ns: int) -> None:
        if elapsed_ns - self._drawn_ns >= _FRAME_NS:
            self._draw(elapsed_ns)

    def evaluation(self, elapsed_ns: int) -> None:
        self._draw(elapsed_ns)

    def checkpoint_failed(self, elapsed_ns: int) -> None:
        self._draw(elapsed_ns)

    def end(self, outcome: Outcome) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(f"{self._watch.name}: {_ended(outcome)}")
        self._watch.end(outcome)

    def _draw(self, elapsed_ns: int) -> None:
        self._drawn_ns = elapsed_ns
        if self._live is not None:
            self._live.update(self._panel(elapsed_ns), refresh=True)

    def _panel(self, elapsed_ns: int) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        watch, plan, progress = self._watch, self._watch.plan, self._watch.progress
        seconds, share = watch.elapsed_s(elapsed_ns), watch.share()[0]
        rows = {
            "run": f"{watch.name.removeprefix('run ')}  {plan.rules.name}  seed {plan.seed}  {progress.phase}",
            "quality": watch.quality(),
            "": _bar(share),
            "samples": watch.samples(),
            "speed": watch.speed() or "–",
            "time": "the clock has not started" if seconds is None else f"{seconds:,.1f} s",
            "left": "\n".join(watch.left(elapsed_ns)) or "–",
            "last run": watch.last() or "this is the first",
            "power": watch.power(),
            "cost": watch.cost(elapsed_ns) or "no price",
        }
        if (failed := watch.failed_checkpoints()) is not None:
            rows["checkpoints"] = failed
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for name, text in rows.items():
            table.add_row(name, Text(text))
        return Group(self._curve(), table)

    def _curve(self) -> RenderableType:
        from rich.text import Text

        watch, console, text = self._watch, self._console, Text(no_wrap=True)
        points = [(found.samples, found.quality) for found in watch.progress.evaluations]
        if not points or console.height < _PANEL_ROWS or not curve.is_drawable(console.encoding):
            return text
        end = watch.end_samples
        expected = None if end is None else end.middle
        for line in curve.draw(points, watch.plan.rules.target, expected, console.width, _CURVE_ROWS):
            for character in line:
                is_dot = "\u2800" <= character <= "\u28ff"
                text.append(character, style="cyan" if is_dot else _STYLES.get(character))
            text.append("\n")
        text.rstrip()
        return text


def open_view(is_quiet: bool, num_runs: int, usd_per_hour: Decimal | None, stream: TextIO | None = None) -> View:
    """Return the view that suits standard error."""
    stream, watch = stream or sys.stderr, Watch(num_runs, usd_per_hour)
    if is_quiet:
        return QuietView(watch)
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return LiveView(stream, watch)
    return LineView(stream, watch)


def _bar(share: float) -> str:
    cells = int(min(1.0, share) * _BAR_CELLS)
    return "█" * cells + "·" * (_BAR_CELLS - cells)


def _ended(outcome: Outcome) -> str:
    clock = "the clock never started" if outcome.run_s is None else f"{outcome.run_s:.2f} s on the clock"
    if outcome.failed_checkpoints:
        clock += f"; {failed_words(outcome.failed_checkpoints)}"
    if outcome.is_reached:
        return f"target reached: {printable(outcome.evidence, 400)}; {clock}"
    return f"{outcome.status} ({outcome.reason}): {printable(outcome.evidence, 400)}; {clock}"
