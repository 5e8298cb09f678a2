"""A preflight next to those of like machines, in a system description, and what it warns of."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.characterise import disk
from harness.characterise.clocks import State
from harness.characterise.preflight import (
    Preflight,
    compared,
    described,
    document,
    history,
    preflight,
    read,
    warnings,
)
from harness.characterise.preflight_report import records, report
from harness.errors import InputError, OutputError, UsageError
from harness.log.events import digest_of
from harness.submission.preflight import carried
from harness.submission.system import PREFLIGHT_KEY, digests_of

SYSTEM = {
    "submitter": "acme",
    "system_name": "box",
    "accelerators_per_node": "0",
    "accelerator_model_name": "none",
    "host_processor_model_name": "CPU",
    "host_processor_vcpu_count": "2",
}
CALM = State(2600.0, None, None, 1.0, 100.0, ())


def timed(median_s: float, **fields: Any) -> dict[str, Any]:
    return {"median_s": median_s, "iqr_s": 0.01 * median_s, "num": 9, **fields}


def measured(factor: float = 1.0) -> dict[str, Any]:
    """What the processes answer; all rates are times `factor`."""
    s = 1 / factor
    return {
        "matrix_products": [
            timed(s, precision="fp32", shape=[10, 20, 30], flop_per_s=12_000 / s),
            timed(s, precision="bf16", shape=[10, 20, 30], flop_per_s=24_000 / s),
        ],
        "convolutions": [timed(s, precision="fp32", shape=[4, 3, 8, 8, 16, 3, 1], flop_per_s=5_000 / s)],
        "copies": [timed(s, name="within the device", bytes=256, bytes_per_s=256 / s)],
        "memory": [timed(s, bytes=512, bytes_per_s=512 / s)],
        "all_reduces": [timed(s, bytes=1 << 20, ranks=2, bytes_per_s=(1 << 20) / s, is_right=True)],
        "skipped": [],
        "fp32_is_tf32": None,
        "seconds": 1.0,
        "world": [{"rank": rank, "num_threads": 2} for rank in range(2)],
    }


def made(factor: float = 1.0, system: Mapping[str, Any] = SYSTEM, devices: int = 2) -> Preflight:
    return Preflight(1e9, dict(system), devices, measured(factor), timed(1.0, bytes=8, bytes_per_s=8.0), {}, {}, ())


def test_slow_machine_is_told_by_the_median_of_its_like() -> None:
    """18 % below the median of 12; machines with other processors, or as many devices more, do not count."""
    others = [made(1.0)] * 6 + [made(0.9)] * 3 + [made(1.1)] * 3
    strangers = [made(9.0, {**SYSTEM, "host_processor_model_name": "other"}), made(9.0, devices=4)]

    found = compared(made(0.82), [*others, *strangers])

    by_name = {one.name: one for one in found}
    product = by_name["matrix product 10 x 20 x 30, fp32"]
    assert (product.words, product.is_slow) == ("18 % below the median of 12", True)
    assert by_name["reading the disk"].ratio == 1.0
    assert "matrix product 10 x 20 x 30, fp32: 18 % below the median of 12 like it" in warnings(made(0.82), found)


def test_ten_per_cent_below_is_not_slow() -> None:
    """The limit itself is permitted."""
    assert not any(one.is_slow for one in compared(made(0.9), [made(1.0)]))
    assert any(one.is_slow for one in compared(made(0.89), [made(1.0)]))
    assert compared(made(0.5), []) == ()


def test_what_a_preflight_warns_of() -> None:
    """A wrong sum, float32 that is none, times that vary, what was not measured, and what slowed the machine down."""
    found = measured()
    found["all_reduces"][0]["is_right"] = False
    found |= {"fp32_is_tf32": True, "skipped": ["convolution x"]}
    found["memory"][0]["iqr_s"] = 0.2
    own = Preflight(1e9, SYSTEM, 2, found, None, {}, {}, ("cores were throttled for heat 3 times",))

    said = warnings(own, ())

    assert len(said) == 5
    for words in ("throttled", "vary by 20 %", "TF32", "sum over the devices was wrong", "convolution x"):
        assert any(words in line for line in said), words
    assert warnings(made(), ()) == []


def test_peak_is_that_of_all_devices() -> None:
    """Of each precision the fastest product, times the devices."""
    assert made().peak("fp32") == 24_000
    assert made().peak("bf16") == 48_000
    assert made().peak("fp16") is None


def test_preflight_survives_its_file_and_a_history(tmp_path: Path) -> None:
    """Files that are no preflight are passed over in a history, and refused by themselves."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps(document(made())))
    (tmp_path / "other.json").write_text("{}")

    assert read(path).quantities == made().quantities
    assert read(path).kind == made().kind
    assert len(list(history(tmp_path))) == 1
    with pytest.raises(InputError, match=r"other\.json: is not a preflight"):
        read(tmp_path / "other.json")
    with pytest.raises(UsageError, match="is not a folder"):
        list(history(path))


@pytest.mark.parametrize("value", [0, -1.0, "12", None])
def test_rate_that_is_none_is_refused(tmp_path: Path, value: object) -> None:
    shown = copy.deepcopy(document(made()))
    shown["measured"]["matrix_products"][0]["flop_per_s"] = value
    (tmp_path / "one.json").write_text(json.dumps(shown))

    with pytest.raises(InputError, match="is not a preflight"):
        read(tmp_path / "one.json")


def test_description_carries_the_rates_and_stays_that_of_the_system() -> None:
    """What was measured does not make another system of it: its digest of hardware and software is the same."""
    one, other = (described(SYSTEM, made(factor)) for factor in (1.0, 0.9))

    assert one[PREFLIGHT_KEY]["rates"]["matrix product 10 x 20 x 30, fp32"] == 12_000
    assert one[PREFLIGHT_KEY]["digest"] != other[PREFLIGHT_KEY]["digest"]
    assert {name: one[name] for name in SYSTEM} == SYSTEM
    shared = [digests_of(found, digest_of(dict(found))) for found in (one, other, SYSTEM)]
    assert len(shared[0] & shared[1] & shared[2]) == 1


def test_audit_reads_what_a_description_carries() -> None:
    """Rates by the names that they have here, the fastest of a device, the operations that vary, and what is alike."""
    found = measured()
    found["memory"][0]["iqr_s"] = found["matrix_products"][1]["iqr_s"] = 0.2
    own = Preflight(1e9, dict(SYSTEM), 2, found, None, {}, {}, ())

    read_back = carried(described(SYSTEM, own))

    assert read_back is not None
    assert (read_back.num_devices, read_back.num_threads, read_back.num_varying) == (2, 4, 2)
    assert read_back.rates == pytest.approx({one.name: one.value for one in own.quantities}, rel=1e-3)
    assert [read_back.device_peak(name) for name in ("fp32", "bf16", "fp16")] == [12_000, 24_000, None]
    assert read_back.kind == own.kind
    assert not read_back.has_accelerators


def test_copies_from_the_host_are_those_of_accelerators() -> None:
    found = measured()
    found["copies"].append(timed(1.0, name="host to device", bytes=256, bytes_per_s=256.0))
    system = {**SYSTEM, "accelerators_per_node": "2", "accelerator_model_name": "Toy 100"}

    read_back = carried(described(system, Preflight(1e9, system, 2, found, None, {}, {}, ())))

    assert read_back is not None
    assert read_back.has_accelerators


def test_measuring_asks_the_processes_and_reads_the_clocks_around_it(tmp_path: Path) -> None:
    """Stolen time that grew in between is a disturbance."""
    states = iter([CALM, State(2600.0, None, None, 11.0, 110.0, ())])

    @contextmanager
    def processes(num_devices: int) -> Iterator[Any]:
        yield lambda command: {**measured(), "ok": True, "asked": [num_devices, command["do"]]}

    found = preflight(SYSTEM, 2, None, lambda: next(states), processes)

    assert found.measured["asked"] == [2, "preflight"]
    assert found.disk is None
    assert found.disturbances == ("the hypervisor gave 50 % of the CPU time to other machines (10.0 s)",)


def test_disk_is_read_and_nothing_is_left(tmp_path: Path) -> None:
    found = disk.reading(tmp_path / "cache", 8 << 20)

    assert found["bytes"] == 8 << 20
    assert found["bytes_per_s"] == pytest.approx((8 << 20) / found["median_s"])
    assert list((tmp_path / "cache").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="the disk cannot be measured there"):
        disk.reading(tmp_path / "file")


def test_report_has_every_quantity() -> None:
    shown = report(made(0.82), compared(made(0.82), [made(1.0)]))

    rows = [row for section in shown.sections[:-1] for row in section.rows]
    assert [row[0] for row in rows] != []
    assert {row[0] for row in rows} == {one.name for one in made().quantities}
    assert rows[0][-1] == "18 % below the median of 1"
    assert "at most 19.7 kFLOP/s in fp32" in shown.summary
    assert len(records(made()).metrics) == len(made().quantities)
