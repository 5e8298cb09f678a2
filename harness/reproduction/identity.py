"""What a claim was made with, and what is here: code, rules, data, recipe, packages, system; before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.base.values import mapping_or_empty
from harness.errors import InputError, SubmissionError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.reproduction.claim import Claim
from harness.run.plan import Plan
from harness.submission.layout import CODE_LIST, PACKAGES_LIST
from harness.submission.provenance import difference, digest_of_list, read_list
from harness.submission.system import digests_of

_MAX_NAMED = 5
# The distributions that compute; others may differ without a word.
COMPUTING = (
    "torch", "torchvision", "torchaudio", "transformers", "accelerate", "numpy", "datasets", "gymnasium", "ale-py",
    "tokenizers", "sacrebleu", "pycocotools", "scipy", "triton",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """what: code, rules, data, recipe, packages, python or system. then, now: of the claim, and here."""

    what: str
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.what}: {self.then}; here: {self.now}"


@dataclass(frozen=True, slots=True)
class Identity:
    """differences: in the order in which they matter. is_same_system: the system descriptions are the same, but for
    their submitter, names and notes."""

    differences: tuple[Difference, ...]
    is_same_system: bool

    @property
    def may_be_equal(self) -> bool:
        """Whether steps that are repeated can be expected to be the same bit by bit."""
        return self.is_same_system and not {item.what for item in self.differences} - {"code"}


def compare(claim: Claim, plan: Plan) -> Identity:
    """Compare a claim with the plan of its reproduction."""
    log = claim.first
    found = list(_differences(claim, log, plan))
    then = digests_of(claim.result.system, log.field(keys.TTA_SYSTEM, "digest"))
    now = digests_of(plan.system, _header(plan)[keys.TTA_SYSTEM]["digest"])
    return Identity(tuple(found), bool(then & now))


def _header(plan: Plan) -> dict[str, Any]:
    return {key: value for key, value, _ in plan.header()}


def _differences(claim: Claim, log: RunLog, plan: Plan) -> Iterator[Difference]:
    header = _header(plan)
    yield from _of_code(claim, log, plan)
    for what, key, name in (
        ("rules", keys.TTA_RULES, "terms_digest"),
        ("data", keys.TTA_DATA, "digest"),
    ):
        then, now = log.field(key, name), header[key][name]
        if then != now:
            yield Difference(what, _short(then), _short(now))
    own = header[keys.TTA_CONFIG]
    for name in ("precision", "num_devices", "module", "hyperparameters", keys.EXECUTION_FIELD):
        yield from _of_values(name, claim.config.get(name), own[name])
    yield from _of_packages(claim, log, plan)


def _of_values(name: str, then: object, now: object) -> Iterator[Difference]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            yield from _of_values(key, then.get(key, "absent"), now.get(key, "absent"))
    elif then != now:
        yield Difference("recipe", f"{printable(name, 60)} {printable(then, 60)}", printable(now, 60))


def _of_code(claim: Claim, log: RunLog, plan: Plan) -> Iterator[Difference]:
    then, now = log.field(keys.TTA_CODE, "digest"), digest_of_list(plan.identity.code)
    if then == now:
        return
    listed = _listed(claim, CODE_LIST, then)
    if listed is None:
        yield Difference(
            "code", f"{_short(then)}, version {printable(log.field(keys.TTA_CODE, 'version'), 20)}", _short(now)
        )
        return
    changed = difference(plan.identity.code, "the claim's", listed)
    yield Difference("code", _short(then), f"{_short(now)}: {changed.num_files} files differ")


def _of_packages(claim: Claim, log: RunLog, plan: Plan) -> Iterator[Difference]:
    """The packages that compute, by version; without the claim's list, what its logs say of them."""
    then = log.field(keys.TTA_PACKAGES, "digest")
    if then == digest_of_list(plan.identity.packages):
        return
    own = versions(plan.identity.packages)
    others = claimed_versions(claim)
    for name in ("python", *COMPUTING):
        if name in others and own.get(name) != others[name]:
            yield Difference("packages", f"{name} {printable(others[name], 40)}", own.get(name, "not installed"))


def claimed_versions(claim: Claim) -> dict[str, str]:
    """Return the versions of the claim's packages and of Python, by normalised name, from the list next to its logs.

    Without one, those that its first rank stated: of the packages that compute.
    """
    log = claim.first
    listed = _listed(claim, PACKAGES_LIST, log.field(keys.TTA_PACKAGES, "digest"))
    if listed is not None:
        return versions(listed)
    ranks = log.value(keys.TTA_WORLD)
    first = mapping_or_empty(ranks[0]) if isinstance(ranks, list) and ranks else {}
    return {name: str(version) for name, version in mapping_or_empty(first.get("versions")).items() if version}


def versions(packages: Mapping[str, str]) -> dict[str, str]:
    """Return the version of each distribution in a list of packages, by its normalised name."""
    found = {}
    for item in packages:
        name, _, version = item.rpartition("-")
        found[name.lower().replace("_", "-").replace(".", "-")] = version
    return found


def _listed(claim: Claim, path: str, digest: object) -> dict[str, str] | None:
    """The list next to the claim's logs, if it is the one that they name."""
    try:
        listed = read_list(claim.result.path / path)
    except (SubmissionError, InputError):
        return None
    return listed if digest_of_list(listed) == digest else None


def _short(digest: object) -> str:
    return f"{printable(digest, 60)[:12]}…"
