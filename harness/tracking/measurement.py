"""A measurement that is no run, such as a profile, as an MLflow run of its own: what a store is to have of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.base.values import finite_number
from harness.log.events import digest_of
from harness.tracking.sanitize import clean, flat, param_name, word

EXPERIMENT = "tta-characterise"
MAX_PARAM_CHARS = 500


@dataclass(frozen=True, slots=True)
class Measurement:
    """A finished measurement.

    name: of the MLflow run. digest: of its content, by which a store knows it again. start_ms: since 1970.
    """

    name: str
    digest: str
    start_ms: int
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    files: tuple[Path, ...] = ()


def measurement(
    name: str,
    document: Mapping[str, object],
    params: Mapping[str, object],
    metrics: Mapping[str, object],
    made_s: float,
) -> Measurement:
    """Return what a store is to have of a document.

    params, metrics: nested mappings, which are flattened; metrics that are no finite numbers are left out.
    """
    numbers = {param_name(key): finite_number(value) for key, value in flat(dict(metrics)).items()}
    return Measurement(
        name=word(name),
        digest=digest_of(dict(document)),
        start_ms=round(1e3 * made_s),
        params={param_name(key): clean(value)[:MAX_PARAM_CHARS] for key, value in flat(dict(params)).items()},
        metrics={key: value for key, value in numbers.items() if value is not None},
    )
