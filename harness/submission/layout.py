"""Names and places of the files of a submission: `tta`'s tree and MLPerf's. Lists nothing, reads nothing.

    <submitter>/systems/<system>.json
    <submitter>/results/<system>/<benchmark>/result_<k>.txt, predictions_<k>.npz, weights_<k>.safetensors,
                                             receipts_<k>.jsonl, campaign.json,
                                             submission.yaml, MANIFEST.sha256, billing.yaml, scaling.json,
                                             power/result_<k>/node_<i>.txt,
                                             provenance/code.txt, provenance/packages.txt,
                                             unfinished/result_<k>.<time>.txt
    <submitter>/benchmarks/<benchmark>/<module>.py

A reproduction is in <benchmark>-again-<first 12 digits of what it repeats>, next to the submitter's own result.

MLPerf permits result_<anything>.txt; `tta` writes result_<k>.txt. The names of power logs are in
`harness.log.power_files`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

RESULTS, SYSTEMS, BENCHMARKS = "results", "systems", "benchmarks"
CLAIM_NAME = "submission.yaml"
MANIFEST_NAME = "MANIFEST.sha256"
SIGNATURE_NAME = f"{MANIFEST_NAME}.sig"
BILLING_NAME = "billing.yaml"
CAMPAIGN_NAME = "campaign.json"  # the end of the campaign of witnessed runs
# The lists whose digests are in the logs: the files of the code, and the installed distributions.
CODE_LIST, PACKAGES_LIST = "provenance/code.txt", "provenance/packages.txt"
# In a result that was not submitted yet, next to the logs: the system description and the folder of the module.
SYSTEM_NAME, CODE_NAME = "system.json", "code"
CHECKPOINTS = "checkpoints"  # the folder of those from which runs that are not over can go on
UNFINISHED = "unfinished"  # the folder of attempts at runs that have no end; `tta run --resume` moved them there
OWN_FOLDERS = ("power", "provenance", CHECKPOINTS, UNFINISHED)  # of a result; there is no other result in them
# What MLCommons' programs obey where they find it in a submission: claims of the submitter's.
SCALING_NAME, PARAMETERS_NAME = "scaling.json", "package_checker_params"

RESULT_PATTERN = re.compile(r"result_(0|[1-9][0-9]{0,3})\.txt")
RECEIPTS_PATTERN = re.compile(r"receipts_(0|[1-9][0-9]{0,3})\.jsonl")  # of a witness, for the heads of that run's log
UNFINISHED_PATTERN = re.compile(rf"{UNFINISHED}/result_(0|[1-9][0-9]{{0,3}})\.[0-9]{{1,20}}\.txt")
LOG_PATTERN = re.compile(r"result_[^/\n]+\.txt")  # directly in the result's folder; a deeper file is not a log
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")  # of submitters, systems and benchmarks
MODULE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\.py")


def result_name(benchmark: str, repeats: str | None, what: str = "again") -> str:
    """Return the name of a result's folder. repeats: the digest of the result that it repeats; None: of none."""
    return benchmark if repeats is None else f"{benchmark}-{what}-{repeats[:12]}"


def receipts_name(log: str) -> str:
    """Return the name of a run's receipts. log: the name of its log, without its ending."""
    return f"receipts_{log.removeprefix('result_')}.jsonl"


def is_result_place(folder: Path) -> bool:
    """Whether `folder` is where MLPerf has a result: results/<system>/<benchmark>."""
    return folder.absolute().parts[-3:-2] == (RESULTS,)


def is_submitted(folder: Path, with_results: Container[Path]) -> bool:
    """Whether a folder in the place of a result is a submitter's, although it has no logs.

    with_results: the folders, absolute, with a result below them. A submitter has systems/ or benchmarks/ next to
    results/, or other results; results/ within a program's folder have none of these.
    """
    place = folder.absolute()
    has_tree = any((place.parents[2] / name).is_dir() for name in (SYSTEMS, BENCHMARKS))
    return has_tree or place.parents[1] in with_results


def system_file(folder: Path) -> Path | None:
    """Return the path of the system description for the result in `folder`; None if it is not in MLPerf's place."""
    if not is_result_place(folder):
        return None
    place = folder.absolute()
    return place.parents[2] / SYSTEMS / f"{place.parent.name}.json"


def log_names(names: Iterable[str]) -> list[str]:
    """Return the run logs among `names`, as MLPerf permits them, in natural order: result_2 before result_10."""
    return sorted((name for name in names if LOG_PATTERN.fullmatch(name)), key=_natural_order)


def num_attempts(names: Iterable[str]) -> dict[int, int]:
    """Return how many unfinished attempts at each run are among `names`, relative to the result's folder."""
    return dict(Counter(int(match[1]) for match in map(UNFINISHED_PATTERN.fullmatch, names) if match))


def _natural_order(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split("([0-9]+)", name))
