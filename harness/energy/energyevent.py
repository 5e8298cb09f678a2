"""The value of a run log's `tta_energy`: what the referee adds up of the power logs, for who has only this log. Pure.

    {"energy_j": x | null, "source": "measured" | "estimated" | "none", "class": "A" to "E" | "N", "scope": text,
     "u95_j": x | null, "coverage": 0 to 1 | null, "void": [names], "meters": [names], "method": "tta-1"}

energy_j is null where the source is none, and only there. u95_j: half width of the 95 % interval. meters: the meters
whose joules were added, each once, whatever the number of nodes. Judges do not read it: they add up the power logs.
Logs that were made before there were power logs have energy_j, source and meter alone.
"""

from __future__ import annotations

from typing import Any

from harness.energy.run_energy import METHOD, RunEnergy


def energy_value(energy: RunEnergy | None) -> dict[str, Any]:
    """`energy` as it stands in the log; None: the run was not metered, or its clock never ran."""
    if energy is None:
        return {
            "energy_j": None,
            "source": "none",
            "class": "N",
            "scope": "none",
            "u95_j": None,
            "coverage": None,
            "void": [],
            "meters": [],
            "method": METHOD,
        }
    is_known = energy.joules is not None
    return {
        "energy_j": energy.joules,
        "source": energy.source,
        "class": energy.meter_class if is_known else "N",
        "scope": energy.scope,
        "u95_j": energy.uncertainty_j,
        "coverage": energy.coverage if energy.parts else None,
        "void": list(energy.void),
        "meters": sorted({part.meter for part in energy.parts if part.joules is not None}),
        "method": energy.method,
    }
