"""The lines of `tta`'s power log: what is written is read back, and a malformed meter is refused with a sentence."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.log import power_format, power_log
from harness.log.power_format import ClockOffset, MeterSpec, Sample
from tests.powertrace import WALL_MS, gpu, ns, package, spec

SPECS = (spec(), package(), gpu(averaging_s=0.5, period_s=0.1, accuracy_pct=None))


def log_text(specs: tuple[MeterSpec, ...] = SPECS, seconds: int = 3) -> str:
    """A whole log: all meters once a second, the counters' second read failing."""
    lines = [power_format.opening_line(WALL_MS, node="node_2", host="n17", machine="m", run_id="r")]
    lines += [power_format.meter_line(WALL_MS, each) for each in specs]
    lines.append(power_format.start_line(WALL_MS, ns(1)))
    lines.append(power_format.clock_offset_line(WALL_MS, ClockOffset(ns(1), -7, 50)))
    for seq in range(seconds):
        for each in specs:
            value = None if seq == 1 and each.kind == "energy_j" else 100.0 + seq
            lines.append(power_format.reading_line(WALL_MS + 1000 * seq, each, Sample(ns(1 + seq), value), seq))
    lines.append(power_format.sampler_line(WALL_MS + 3000, ns(4), 0.004))
    lines.append(power_format.stop_line(WALL_MS + 3000, ns(4)))
    return "".join(lines)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Meters, readings, failed reads, offsets, processor time and edges, without a defect."""
    path = tmp_path / "node_2.txt"
    path.write_text(log_text())

    log = power_log.read(path)

    assert log.defects == ()
    assert (log.dialect, log.node, log.host, log.machine, log.run_id) == ("tta", "node_2", "n17", "m", "r")
    assert tuple(log.specs.values()) == SPECS
    assert log.samples["csv:wall"] == (Sample(ns(1), 100.0), Sample(ns(2), 101.0), Sample(ns(3), 102.0))
    assert log.samples[package().id] == (Sample(ns(1), 100.0), Sample(ns(2), None), Sample(ns(3), 102.0))
    assert log.offsets == (ClockOffset(ns(1), -7, 50),)
    assert (log.start_ns, log.stop_ns, log.sampler_cpu_s) == (ns(1), ns(4), 0.004)


def test_nan_cannot_be_written() -> None:
    """JSON has no NaN: a sensor that reports it has failed."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        power_format.reading_line(WALL_MS, spec(), Sample(0, float("nan")), 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"component": "fan"}, "component is 'fan'; it must be one of node, pdu"),
        ({"meter_class": "a"}, "meter_class is 'a'"),
        ({"kind": "kwh"}, "kind is 'kwh'"),
        ({"period_s": 0}, "period_s is 0; it must be a number above zero"),
        ({"period_s": True}, "period_s is True"),
        ({"period_s": float("nan")}, "period_s is nan"),
        ({"accuracy_pct": -1}, "accuracy_pct is -1"),
        ({"wrap_at_j": 0}, "wrap_at_j is 0"),
        ({"averaging_s": "long"}, "averaging_s is long"),
        ({"id": ""}, "id is not a text"),
        ({"id": "a\nb"}, "id is not a text"),
        ({"device": 5}, "device is not a text"),
        ({"source": "x" * 501}, "source is not a text"),
        ({"acuracy_pct": 1}, "did you mean 'accuracy_pct'"),
    ],
)
def test_a_malformed_meter_is_refused(change: dict[str, Any], message: str) -> None:
    """The message names the field, its value and what is permitted."""
    with pytest.raises(ValueError, match=message):
        power_format.spec_of({**dataclasses.asdict(spec()), **change})


@pytest.mark.parametrize("name", ["id", "component", "scope", "meter_class", "kind", "period_s", "source"])
def test_meter_without_a_required_field_is_refused(name: str) -> None:
    """Every required field of a meter is required."""
    fields = dataclasses.asdict(spec())
    del fields[name]

    with pytest.raises(ValueError, match=f"the meter has no '{name}'"):
        power_format.spec_of(fields)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_declared_value_is_a_meter_or_a_sentence(value: object) -> None:
    """No value of a line of JSON raises anything else."""
    for field in dataclasses.fields(MeterSpec):
        with contextlib.suppress(ValueError):
            power_format.spec_of({**dataclasses.asdict(spec()), field.name: value})
    with pytest.raises(ValueError, match="a meter must be an object"):
        power_format.spec_of([value])
