"""RunLog x rules -> RunResult; runs -> Score; scores -> Leaderboard. Pure: from logs and rules alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One point of a quality curve, on monotonic time since `run_start`."""

    samples: int
    seconds: float
    quality: float
    num_examples: int | None
    line: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one log says, computed from its events.

    seconds, samples: from `run_start` to the evaluation that ended it in success; None if the target was not reached.
    status: "success", "aborted", or "started" where the log has no `run_stop`. reason: as logged.
    ledger: seconds by phase (init, data, train, eval, checkpoint, other), other by subtraction.
    energy_j, usd: None is "not measured" or "no price", never 0.
    """

    path: str
    seed: int | None
    status: str
    reason: str | None
    seconds: float | None
    samples: int | None
    quality: float | None
    evaluations: tuple[Evaluation, ...]
    ledger: dict[str, float]
    run_s: float | None
    energy_j: float | None
    energy_source: str
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Score:
    """The result of several runs.

    seconds: olympic mean after normalisation; None where the result has no score, `why_not` says why.
    interval: 95 % confidence interval of the trimmed mean, in seconds (Tukey and McLaughlin 1963).
    raw_seconds: before normalisation. normalised_by: factor >= 1 by which faster convergence than the
        reference's was taken back. runs: every run; dropped: indices into runs left out of the mean.
    samples: trimmed mean of samples to target.
    """

    benchmark: str
    division: str
    seconds: float | None
    interval: tuple[float, float] | None
    raw_seconds: float | None
    normalised_by: float
    samples: float | None
    energy_j: float | None
    energy_source: str
    usd: Decimal | None
    runs: tuple[RunResult, ...]
    dropped: tuple[int, ...]
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a leaderboard table. band: rows of one band cannot be told apart; None for an invalid row."""

    band: int | None
    submitter: str
    system: str
    category: str
    submitted: str
    path: str
    score: Score
    num_errors: int
    num_warnings: int

    @property
    def is_ranked(self) -> bool:
        return self.num_errors == 0 and self.score.seconds is not None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one benchmark in one division, ranked ones first."""

    benchmark: str
    division: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All tables, under one ruleset."""

    ruleset: str
    ruleset_digest: str
    tables: tuple[Table, ...]


def leaderboard(ruleset: str, ruleset_digest: str, rows: Sequence[Row]) -> Leaderboard:
    """Groups rows into tables and gives them their rank bands."""
    raise NotImplementedError
