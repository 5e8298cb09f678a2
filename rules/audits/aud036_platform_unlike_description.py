"""The logs name a different machine from the one the result is submitted for.

## What it does
Takes the models out of `submission_platform`, that is, the words with a digit in them (MI325X, H200, v4 of tpu-v4-128),
and looks for each in the name of the system's folder and in the accelerator, processor and name of the system
description; letters after the last digit denote a variant and are left out. Words of memory, sockets, buses and
instruction sets (HBM3, SXM5, PCIe4, x86, x16, 80GB) are no models. A number before an x is that of the nodes,
which MLR021 compares; a number of its own may be that of all accelerators.

## Why it matters
A result of a faster machine that was put into the folder of a slower one is valid in itself, but its logs still say
where they come from.

## Example
`submission_platform` is 1xMI355X; the folder and the description are of MI325X.

## Instead
Submit a result with the description of the system it was made on.

## Source
MLPerf submission rules: a result belongs to the system description of its folder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys
from harness.submission import layout

SCOPE = "result"
LIMITS = ()
FIELDS = ("system_name", "accelerator_model_name", "host_processor_model_name")
NODES = re.compile("^[0-9]+x")  # MLR021 compares it
# Words of memory, sockets, buses, instruction sets and numbers of something.
NO_MODEL = re.compile(r"(?:sxm|oam|hbm|ddr|pcie|nvl|gen|n|x)[0-9]+[a-z]?|[0-9]+(?:x|gb?|tb?|w|ghz|gpus?)|(?:amd|arm)64")
WORD = re.compile(r"[a-z0-9]+")
BETWEEN = re.compile(r"(?<![0-9])[^a-z0-9]+|[^a-z0-9]+(?![0-9])")  # separators, except between two numbers


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    stated = Counter(value for run in subject.runs if isinstance(value := run.log.value(keys.SUBMISSION_PLATFORM), str))
    for platform, times in stated.items():
        odd = _odd(platform, subject)
        if odd:
            run = next(run for run in subject.runs if run.log.value(keys.SUBMISSION_PLATFORM) == platform)
            yield evidence(
                run.path,
                run.log.line_of(keys.SUBMISSION_PLATFORM),
                f"the platform is {platform!r}: {odd} (in {times} of {len(subject.runs)} runs)",
                1.0,
                platform=platform,
                runs=times,
            )


def _odd(platform: str, subject: Subject) -> str:
    """The models in a platform's name that are not in its system, as a clause; empty if there are none."""
    system, place = subject.result.system or {}, subject.path.absolute()
    names = [str(system[name]) for name in FIELDS if name in system]
    names += [place.parent.name] if layout.is_result_place(place) else []
    spelt = [form for name in names for form in (name.lower(), BETWEEN.sub("", name.lower()))]
    spelt.append(_num_accelerators(subject))
    missing = [model for model in _models(NODES.sub("", platform)) if not any(_has(form, model) for form in spelt)]
    return f"{', '.join(missing)} is not in {', '.join(map(repr, names))}" if names and missing else ""


def _models(platform: str) -> list[str]:
    """Words with a digit, without the letters after the last one; of bare numbers, those that can be a model's."""
    found = (word for word in WORD.findall(platform.lower()) if re.search("[0-9]", word))
    words = [re.sub("[a-z]+$", "", word) for word in found if not NO_MODEL.fullmatch(word)]
    return [word for word in words if not word.isdigit() or len(word) > 2]


def _has(text: str, model: str) -> bool:
    """Whether the model is in the text, and not as part of a longer number."""
    return re.search(f"{'(?<![0-9])' if model[0].isdigit() else ''}{model}(?![0-9])", text) is not None


def _num_accelerators(subject: Subject) -> str:
    """The number of accelerators in all nodes, as text; empty if it is not stated."""
    each = str((subject.result.system or {}).get("accelerators_per_node"))
    nodes = subject.result.num_nodes
    return str(int(each) * nodes) if nodes is not None and re.fullmatch("[0-9]{1,4}", each) else ""
