"""What MLflow should have of one run: a pure function of its log, built event by event, and totals from elsewhere.

The same log gives the same record, however often and in however many pieces it is read; this is why a second pass
adds what is missing without duplicates. The step is samples trained on, the time is the referee's clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from harness.base.values import finite_number, mapping_or_empty, storable_int
from harness.cost.price_book import Cost
from harness.energy.run_energy import RunEnergy
from harness.log import keys
from harness.log.events import Event, digest_of
from harness.ruleset.model import BenchmarkRules
from harness.tracking.sanitize import clean, flat, param_name, word

SCHEMA = "1"
MAX_POINTS_PER_METRIC = 10_000  # as many events per key as the log reader keeps
MAX_PARAMS = 99
MAX_PARAM_CHARS = 6000  # beyond this MLflow truncates a value silently
MAX_TAG_CHARS = 1000
INTERRUPTED, FULL_CURVE = "interrupted", "full_curve"  # reasons of an aborted run that did not fail
# Line colours in MLflow's charts, one per result: Okabe and Ito's palette without black and yellow, plus two.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f3c8d", "#8c564b")
_RUN_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_TRACKED = {
    "train_loss": "train/loss",
    "throughput": "throughput/samples_per_s",
    "data_wait_s": "train/data_wait_s",
}
SYSTEM = "system/"  # MLflow shows these on a page of their own
ENERGY = "result/energy_j"
COST_LIST, COST_BILLED = "result/cost_list", "result/cost_billed"
PHASES = ("init_s", "data_s", "train_s", "eval_s", "checkpoint_s", "interrupted_s", "other_s", "run_s")


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric. time_ms: wall time of the referee's clock. step: samples trained on."""

    name: str
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class ClockZero:
    """The zero of the referee's clock, on the system's monotonic clock and on the wall clock."""

    mono_ns: int
    wall_ms: float


@dataclass(frozen=True, slots=True)
class DataSet:
    """The data that the run trained on."""

    name: str
    digest: str
    num_files: int | None
    num_bytes: int | None


@dataclass(slots=True)
class MlflowRun:
    """The record so far.

    rules_of: returns the rules of a benchmark by ruleset and benchmark, or None.
    params, tags, points: what the run in MLflow should have. They only grow, except for the tag `tta.state`.
    overflow: parameters beyond MLflow's limits, in full. seconds: time to target; None if it was not reached.
    clock: None until the log has it. is_initialised: whether `init_start` was read.
    is_closed: whether the last line of the log was read.
    """

    rules_of: Callable[[str, str], BenchmarkRules | None]
    params: dict[str, str] = field(default_factory=dict)
    overflow: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=lambda: {"tta.schema": SCHEMA, "tta.state": "started"})
    points: list[Point] = field(default_factory=list)
    data: DataSet | None = None
    rules: BenchmarkRules | None = None
    target: float | None = None
    ruleset: str = ""
    start_ms: int | None = None
    end_ms: int | None = None
    seconds: float | None = None
    clock: ClockZero | None = None
    is_configured: bool = False
    is_initialised: bool = False
    is_closed: bool = False
    _config: dict[str, object] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _samples: int = 0
    _run_start_ns: int | None = None
    _quality: float | None = None
    _run_stop: Event | None = None

    @property
    def run_id(self) -> str | None:
        """The id that the log has for its run; None until it was read."""
        return self.tags.get("tta.run_id")

    @property
    def is_placed(self) -> bool:
        """Whether the run and its experiment are known."""
        return all(f"tta.{name}" in self.tags for name in ("run_id", "benchmark", "division"))

    @property
    def experiment(self) -> str:
        """The name of the experiment. It has no slash: MLflow would show only the part after it."""
        return f"tta-{word(self.tags['tta.benchmark'])}-{word(self.tags['tta.division'])}"

    @property
    def name(self) -> str:
        """`run<index>-seed<seed>-<submitter>-<system>-<shortid>`: the runs of a list differ at the front."""
        submitter, system = self.tags.get("tta.submitter", "?"), self.tags.get("tta.system", "?")
        place = f"run{self.tags.get('tta.index', '?')[:10]}-seed{self.params.get('seed', '?')[:20]}"
        return f"{place}-{submitter[:60]}-{system[:60]}-{(self.run_id or '?')[:8]}"

    @property
    def status(self) -> str:
        """The status of the run in MLflow, given that the log has no more lines."""
        state = self.tags["tta.state"]
        if state == "success":
            return "FINISHED"
        if state == "aborted" and self.tags.get("tta.reason") == FULL_CURVE:
            return "FINISHED"
        return "FAILED" if state == "aborted" and self.tags.get("tta.reason") != INTERRUPTED else "KILLED"

    @property
    def metric(self) -> str:
        """The name of the quality metric."""
        return word(self.rules.metric.name) if self.rules else "quality"

    def take(self, event: Event) -> None:
        """Add what one event contains. Events that MLflow has no use for are skipped."""
        if self.start_ms is None:
            self.start_ms = storable_int(event.time_ms)
        self.end_ms = storable_int(event.time_ms)
        if (samples := storable_int(event.samples_count)) is not None:
            self._samples = samples
        take = _TAKERS.get(event.key)
        if take is not None:
            take(self, event)

    def _format(self, event: Event) -> None:
        value = mapping_or_empty(event.value)
        run_id = value.get("run_id")
        if isinstance(run_id, str) and _RUN_ID.fullmatch(run_id):
            self.tags.setdefault("tta.run_id", run_id)
        self.tag("submission_id", value.get("result_id"))
        self.tag("index", value.get("index"))
        self._param("harness.version", value.get("harness"))

    def _code(self, event: Event) -> None:
        """The commit, where MLflow's pages look for it."""
        commit = mapping_or_empty(event.value).get("commit")
        if isinstance(commit, str) and commit:
            self.tags.setdefault("mlflow.source.git.commit", clean(commit)[:MAX_TAG_CHARS])

    def _clock(self, event: Event) -> None:
        mono_ns, wall_ms = mapping_or_empty(event.value).get("mono_ns"), finite_number(event.time_ms)
        if isinstance(mono_ns, int) and abs(mono_ns) < 1 << 63 and event.elapsed_ns is not None and wall_ms is not None:
            self.clock = self.clock or ClockZero(mono_ns, wall_ms - event.elapsed_ns / 1e6)

    def _initialising(self, event: Event) -> None:
        self.is_initialised = True

    def _rules(self, event: Event) -> None:
        value = mapping_or_empty(event.value)
        for tag, name in (("rules_version", "ruleset"), ("terms_digest",) * 2, (keys.PRICES_FIELD,) * 2):
            self.tag(tag, value.get(name))
        self.ruleset = self.tags.get("tta.rules_version", "")

    def _benchmark(self, event: Event) -> None:
        self.tag("benchmark", event.value)
        self._find_rules()

    @property
    def target_line(self) -> str | None:
        """What the line of the target is called in the charts; None if the target is unknown."""
        if self.rules is None or self.target is None:
            return None
        return f"target: {self.metric} {'≥' if self.rules.metric.direction == 'max' else '≤'} {self.target:g}"

    def _find_rules(self) -> None:
        """Look up the rules that the log names. Their target counts only if the log has the same terms."""
        self.rules = self.rules_of(self.ruleset, self.tags.get("tta.benchmark", ""))
        if self.rules is not None and self.rules.terms_digest == self.tags.get("tta.terms_digest"):
            self.target = self.rules.target
            self.tags["tta.target"] = f"{self.rules.target:g}"

    def _configuration(self, event: Event) -> None:
        self._config = flat(event.value)
        for name, value in self._config.items():
            self._param(name, value)
        names = [self.tags.get(f"tta.{name}", "?")[:60] for name in ("submitter", "system")]
        result = self.tags["tta.result"] = " ".join([*names, self.tags.get("tta.submission_id", "?")[:8]])
        self.tags["mlflow.runColor"] = COLORS[int(digest_of(result), 16) % len(COLORS)]
        self.is_configured = True

    def _resolved(self, event: Event) -> None:
        for name, value in flat(event.value).items():
            if self._config.get(name) != value:
                self._param(f"resolved.{name}", value)

    def _numerics(self, event: Event) -> None:
        for name, value in flat(event.value).items():
            self._param(f"numerics.{name}", value)

    def _system(self, event: Event) -> None:
        value = mapping_or_empty(event.value)
        self._param("system.name", value.get("name"))
        self._param("system.digest", value.get("digest"))

    def _world(self, event: Event) -> None:
        ranks = [rank for rank in event.value if isinstance(rank, dict)] if isinstance(event.value, list) else []
        self._param("world_size", len(ranks))
        for name in ("host", "device"):
            self._param(f"{name}s", ", ".join(sorted({clean(rank.get(name)) for rank in ranks})))
        for name, value in flat(ranks[0].get("versions") if ranks else None).items():
            self._param(f"versions.{name}", value)

    def _data(self, event: Event) -> None:
        value = mapping_or_empty(event.value)
        if isinstance(value.get("digest"), str):
            num_files, num_bytes = storable_int(value.get("num_files")), storable_int(value.get("num_bytes"))
            self.data = DataSet(self.tags.get("tta.benchmark", "?"), clean(value["digest"])[:100], num_files, num_bytes)

    def _started(self, event: Event) -> None:
        self._run_start_ns = event.elapsed_ns

    def _tracked(self, event: Event) -> None:
        for name, value in mapping_or_empty(event.value).items():
            if name in _TRACKED:
                self._add(_TRACKED[name], value, event)

    def _evaluated(self, event: Event) -> None:
        self._add(f"eval/{self.metric}", event.value, event)
        self._add("eval/target", self.target, event)
        self._add("eval/elapsed_s", self._seconds(event), event)
        self._quality = finite_number(event.value)

    def _resumed(self, event: Event) -> None:
        self._add("interruption/away_s", mapping_or_empty(event.value).get("away_s"), event)

    def _stopped(self, event: Event) -> None:
        if event.metadata.get("status") in ("success", "aborted"):
            self.tags["tta.state"] = event.metadata["status"]
        self.tag("reason", event.metadata.get("reason"))
        is_reached = event.metadata.get("status") == "success"
        self._total("result/reached", 1.0 if is_reached else 0.0, event)
        self._total("result/quality", self._quality, event)
        if is_reached:
            self.seconds = self._seconds(event)
            self._total("result/time_to_target_s", self.seconds, event)
            self._total("result/samples_to_target", self._samples, event)
        self._run_stop = event

    def _seconds(self, event: Event) -> float | None:
        """Return the seconds on the referee's clock since `run_start`."""
        if self._run_start_ns is None or event.elapsed_ns is None:
            return None
        return (event.elapsed_ns - self._run_start_ns) / 1e9

    def total(self, name: str, value: float | None) -> bool:
        """Add a total that is not in the log, once, and only to a run that has ended; return whether it was added."""
        if self._run_stop is None or value is None or name in self._counts:
            return False
        self._total(name, value, self._run_stop)
        return True

    def measured(self, values: Mapping[str, float], time_ms: int) -> None:
        """Add what the machine did at a wall time, while the run is going on; its step is seconds of the clock."""
        if self.clock is None or not self.is_initialised or self.is_closed:
            return
        step = max(0, int((time_ms - self.clock.wall_ms) / 1000))
        for name, value in values.items():
            self._point(Point(f"{SYSTEM}{name}", value, time_ms, step))

    def _energy(self, event: Event) -> None:
        """Add the energy of a log without power logs; `add_energy` computes that of the others."""
        if "method" not in mapping_or_empty(event.value):
            self._total(ENERGY, mapping_or_empty(event.value).get("energy_j"), event)

    def _ledger(self, event: Event) -> None:
        for name, value in mapping_or_empty(event.value).items():
            if name in PHASES:
                self._total(f"ledger/{name}", value, event)

    def _close(self) -> None:
        self.is_closed = True

    def tag(self, name: str, value: object) -> None:
        if isinstance(value, str | int) and str(value):
            self.tags.setdefault(f"tta.{name}", clean(value)[:MAX_TAG_CHARS])

    def _param(self, name: str, value: object) -> None:
        """Add a parameter once: MLflow does not allow it to change."""
        text, name = clean("" if value is None else value), param_name(name)
        if not text or name in self.params or name in self.overflow:
            return
        if len(self.params) >= MAX_PARAMS:
            self.overflow[name] = text
        elif len(text) > MAX_PARAM_CHARS:
            self.overflow[name] = text
            self.params[name] = f"({len(text):,} characters; in full in tta/params.json)"
        else:
            self.params[name] = text

    def _total(self, name: str, value: object, event: Event) -> None:
        """Add a metric with one value per run, at step 0, for which MLflow draws a bar instead of a curve."""
        self._add(name, value, event, step=0)

    def _add(self, name: str, value: object, event: Event, step: int | None = None) -> None:
        """Add a point, unless the value is not a finite number or the metric has `MAX_POINTS_PER_METRIC`."""
        finite, time_ms = finite_number(value), storable_int(event.time_ms)
        if finite is not None and time_ms is not None:
            self._point(Point(name, finite, time_ms, self._samples if step is None else step))

    def _point(self, point: Point) -> None:
        count = self._counts.get(point.name, 0)
        if count < MAX_POINTS_PER_METRIC:
            self._counts[point.name] = count + 1
            self.points.append(point)


_TAKERS: dict[str, Callable[[MlflowRun, Event], None]] = {
    keys.TTA_FORMAT: MlflowRun._format,
    keys.TTA_CODE: MlflowRun._code,
    keys.TTA_CLOCK: MlflowRun._clock,
    keys.INIT_START: MlflowRun._initialising,
    keys.TTA_RULES: MlflowRun._rules,
    keys.SUBMISSION_BENCHMARK: MlflowRun._benchmark,
    keys.SUBMISSION_DIVISION: lambda record, event: record.tag("division", event.value),
    keys.SUBMISSION_ORG: lambda record, event: record.tag("submitter", event.value),
    keys.SUBMISSION_PLATFORM: lambda record, event: record.tag("system", event.value),
    keys.TTA_CONFIG: MlflowRun._configuration,
    keys.TTA_RESOLVED: MlflowRun._resolved,
    keys.TTA_NUMERICS: MlflowRun._numerics,
    keys.SEED: lambda record, event: record._param("seed", event.value),
    keys.TTA_SYSTEM: MlflowRun._system,
    keys.TTA_WORLD: MlflowRun._world,
    keys.TTA_DATA: MlflowRun._data,
    keys.RUN_START: MlflowRun._started,
    keys.TRACKED_STATS: MlflowRun._tracked,
    keys.EVAL_ACCURACY: MlflowRun._evaluated,
    keys.TTA_RESUME: MlflowRun._resumed,
    keys.RUN_STOP: MlflowRun._stopped,
    keys.TTA_ENERGY: MlflowRun._energy,
    keys.TTA_LEDGER: MlflowRun._ledger,
    keys.TTA_END: lambda record, event: record._close(),
}


def add_energy(record: MlflowRun, energy: RunEnergy) -> None:
    """Add the totals of the power logs; unknown joules stay absent."""
    record.total(ENERGY, energy.joules)
    record.total("result/energy_u95_j", energy.uncertainty_j)
    record.total("result/power_mean_w", energy.mean_w)
    record.total("result/coverage", energy.coverage)
    record.total("result/est_share", energy.share_estimated)
    record.tag("energy.class", energy.meter_class)
    record.tag("energy.scope", energy.scope)
    record.tag("energy.void", ", ".join(energy.void))


def add_cost(record: MlflowRun, cost: Cost) -> None:
    """Add the cost of the run at list price, with the price and its book."""
    if record.total(COST_LIST, float(cost.usd)):
        record.tag("price", f"{cost.price_id} as of {cost.as_of or 'an unknown date'}")
        record.tag("price_book", cost.price_digest)


def add_billed(record: MlflowRun, usd: Decimal | None) -> None:
    """Add the cost at list prices of the usage that the whole result declares; the same for each of its runs."""
    record.total(COST_BILLED, None if usd is None else float(usd))
