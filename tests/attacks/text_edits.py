"""Edits of a submission of `tta` as text, at places that a seed chooses, with the manifest written again.

Each names the checks that must find it, whatever the seed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.log.events import TOKEN

Act = Callable[[list[str], random.Random], list[str]]


@dataclass(frozen=True)
class TextEdit:
    name: str
    act: Act
    checks: tuple[str, ...]


TEXT_EDITS: list[TextEdit] = []


def text_edit(name: str, *checks: str) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        TEXT_EDITS.append(TextEdit(name, act, checks))
        return act

    return add


def changed(lines: Iterable[str], key: str, old: str, new: str) -> list[str]:
    return [re.sub(old, new, line, count=1) if f'"key": "{key}"' in line else line for line in lines]


@text_edit("a random line is deleted", "LOG006", "LOG007")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(1, len(lines) - 1)
    return lines[:place] + lines[place + 1 :]


@text_edit("a random line is duplicated", "LOG006", "LOG007")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(len(lines))
    return lines[: place + 1] + lines[place:]


@text_edit("two random lines are swapped", "LOG006", "LOG007", "LOG016")
def _(lines: list[str], rng: random.Random) -> list[str]:
    one, other = sorted(rng.sample(range(len(lines)), 2))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


@text_edit("a random digit is changed", "LOG006")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(len(lines))
    digits = [match.start() for match in re.finditer(r"\d", lines[place])]
    spot = rng.choice(digits)
    digit = str((int(lines[place][spot]) + rng.randrange(1, 10)) % 10)
    lines[place] = lines[place][:spot] + digit + lines[place][spot + 1 :]
    return lines


@text_edit("the log is cut off after a random line", "LOG001", "QUA001")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return lines[: rng.randrange(1, len(lines) - 1)]


@text_edit("a line of another program is inserted", "LOG006", "LOG008")
def _(lines: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(1, len(lines))
    line = {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "note", "value": 1, "metadata": {}}
    return [*lines[:place], f"{TOKEN}{json.dumps(line)}", *lines[place:]]


@text_edit("the seed is changed", "HYP005", "LOG006")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "seed", r'"value": \d+', f'"value": {rng.randrange(10**6)}')


@text_edit("an accuracy is raised", "LOG006", "QUA004")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "eval_accuracy", r'"value": 0\.\d+', '"value": 0.9999')


@text_edit("run_stop is moved earlier", "LOG006", "LOG016", "LOG017", "TIM003", "TIM007")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "run_stop", r'"elapsed_ns": (\d+)\d', r'"elapsed_ns": \1')


@text_edit("the energy is typed in", "LOG006", "PWR002")
def _(lines: list[str], rng: random.Random) -> list[str]:
    return changed(lines, "tta_energy", r'"energy_j": [^,}]+', '"energy_j": 12.0')
