"""From the list of files to a receipt: what a submission consists of is announced first, then the missing files come.

The files are those of a leaderboard's tree, by path:

    <organisation>/systems/<system>.json
    <organisation>/results/<system>/<benchmark>/…
    <organisation>/benchmarks/<benchmark>/<module>.py
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path

from sqlalchemy import Connection, func, insert, or_, select, update
from starlette.responses import FileResponse

from harness.base import strict_json
from harness.base.files import sha256_of, small_file
from harness.base.values import mapping_or_empty
from harness.errors import InputError, SubmissionError, UsageError, printable
from harness.service import blobs, events, rounds, schema, submissions
from harness.service.instance import Instance
from harness.service.people import HOUR_MS, Actor
from harness.service.states import State
from harness.service.submissions import ConflictError, ForbiddenError, NotThereError, Submission
from harness.submission.claim import Claim, Unreadable, digest_lines, read_claim
from harness.submission.layout import BENCHMARKS, CLAIM_NAME, MODULE_PATTERN, NAME_PATTERN, RESULTS, SYSTEMS
from harness.transparency.receipt import NAMESPACE, Receipt

SHA256_PATTERN = re.compile("[0-9a-f]{64}")
MAX_PATH = 400
_submission, _file, _round = schema.submission, schema.submission_file, schema.round


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a submission, as it is announced."""

    path: str
    sha256: str
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a team says that it will send. round: its name; None: the only one that is open."""

    files: tuple[ListedFile, ...]
    round: str | None = None
    supersedes: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Announced:
    """The submission, and the files that the service still lacks. is_new: it was not announced before."""

    submission: Submission
    missing: tuple[ListedFile, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Places:
    """The parts of a submission's paths. result: the folder of the result."""

    organisation: str
    system: str
    benchmark: str
    result: str


def manifest_digest(files: Iterable[ListedFile]) -> str:
    """Return the digest that names a submission: of its list of files, as sha256sum writes it, sorted by path."""
    return hashlib.sha256(digest_lines({item.path: item.sha256 for item in files}).encode()).hexdigest()


def places_of(files: Sequence[ListedFile]) -> Places:
    """Return what the paths of a submission say, which must be one result with what belongs to it.

    Raises:
        UsageError: a path is not one of a submission, is there twice, or belongs to another result.
    """
    seen: set[str] = set()
    folders: set[str] = set()
    results: set[tuple[str, str, str]] = set()
    for item in files:
        parts = item.path.split("/")
        if len(item.path) > MAX_PATH or len(parts) > 10 or not all(map(NAME_PATTERN.fullmatch, parts)):
            raise UsageError(f"{printable(item.path, 300)!r}: not the path of a file in a submission")
        if item.path.casefold() in seen:
            raise UsageError(f"{item.path!r}: is listed twice, or once in other letters of the two cases")
        seen.add(item.path.casefold())
        if not SHA256_PATTERN.fullmatch(item.sha256):
            raise UsageError(f"{item.path}: its digest is not 64 hexadecimal digits")
        folders.update("/".join(parts[:depth]).casefold() for depth in range(1, len(parts)))
        match parts:
            case [organisation, found, system, benchmark, _, *_] if found == RESULTS:
                results.add((organisation, system, benchmark))
            case [_, found, name] if found == SYSTEMS and name.endswith(".json"):
                pass
            case [_, found, _, name] if found == BENCHMARKS and MODULE_PATTERN.fullmatch(name):
                pass
            case _:
                raise UsageError(
                    f"{item.path}: belongs to no result: write {RESULTS}/<system>/<benchmark>/…, "
                    f"{SYSTEMS}/<system>.json or {BENCHMARKS}/<benchmark>/<module>.py below the organisation's name"
                )
    if both := sorted(seen & folders):
        raise UsageError(f"{both[0]!r}: is listed as a file, and as a folder of other files")
    if len(results) != 1:
        raise UsageError(f"the files belong to {len(results)} results; a submission is one")
    [(organisation, system, benchmark)] = results
    result = f"{organisation}/{RESULTS}/{system}/{benchmark}"
    for path in (item.path for item in files):
        names = path.split("/")
        of_it = names[0] == organisation and (
            names[1] == RESULTS
            or (names[1] == SYSTEMS and names[2] == f"{system}.json")
            or (names[1] == BENCHMARKS and benchmark.startswith(names[2]))
        )
        if not of_it:
            raise UsageError(f"{path}: does not belong to the result {result}")
    if f"{result}/{CLAIM_NAME}" not in {item.path for item in files}:
        raise UsageError(f"{result}: has no {CLAIM_NAME}; `tta submit` writes it")
    return Places(organisation, system, benchmark, result)


def announce(instance: Instance, actor: Actor, what: Announcement) -> Announced:
    """Begin a submission; with the same files as before, go on with that one. One that was withdrawn begins again.

    Raises:
        UsageError: the list is not one of a submission, is too large, or names another organisation, round or result.
        ForbiddenError: the team's quota is used up. ConflictError: the round is closed.
    """
    limits = instance.settings.limits
    if not 0 < len(what.files) <= limits.max_files:
        raise UsageError(f"{len(what.files):,} files; a submission has 1 to {limits.max_files:,}")
    places = places_of(what.files)
    if places.organisation != actor.organisation_name:
        raise UsageError(
            f"the result is {places.organisation}'s, and you submit for {actor.organisation_name}; a log cannot be "
            "submitted under another name"
        )
    num_bytes = 0
    for item in what.files:
        num_bytes += item.num_bytes
        if not 0 <= item.num_bytes <= limits.max_file_bytes:
            raise UsageError(f"{item.path}: {item.num_bytes:,} bytes; a file has at most {limits.max_file_bytes:,}")
    if num_bytes > limits.max_result_bytes:
        raise UsageError(f"{num_bytes:,} bytes; a result has at most {limits.max_result_bytes:,}")
    manifest, now_ms = manifest_digest(what.files), instance.now_ms()
    with instance.database.write() as connection:
        quota = lock_quota(connection, instance, actor)  # so that two that are alike become one
        known = _known(connection, actor, manifest, what.idempotency_key)
        if known is not None:
            if known.manifest_sha256 != manifest:
                raise ConflictError(f"the idempotency key was used for submission {known.id}, which has other files")
            if known.state is State.WITHDRAWN:
                _require_own(connection, actor, what)
                chosen = round_named(connection, what.round, now_ms)
                values = {"round": chosen, "supersedes": what.supersedes}
                submissions.change(connection, "renew", known, actor, now_ms, values, **values)
                known = submissions.find(connection, known.id, actor)
            if known.state is State.DRAFT:
                known = _changed_mind(connection, actor, known, what, now_ms)
            _require_round(connection, known, what.round)
            return Announced(known, _missing(connection, actor, what.files), is_new=False)
        _require_room(connection, instance, actor, num_bytes, quota, now_ms)
        found = round_named(connection, what.round, now_ms)
        _require_own(connection, actor, what)
        submission = instance.new_id()
        connection.execute(
            insert(_submission).values(
                id=submission, round=found, organisation=actor.organisation, person=actor.person,
                benchmark=places.benchmark, division="", category="", system=places.system, accelerator="",
                manifest_sha256=manifest, num_files=len(what.files), num_bytes=num_bytes, state=State.DRAFT, seq=0,
                supersedes=what.supersedes,  idempotency_key=what.idempotency_key,
                created_ms=now_ms, changed_ms=now_ms,
            )
        )  # fmt: skip
        connection.execute(
            insert(_file),
            [
                {"submission": submission, "path": item.path, "sha256": item.sha256, "num_bytes": item.num_bytes}
                for item in what.files
            ],
        )
        row = submissions.find(connection, submission, actor)
        missing = _missing(connection, actor, what.files)
        news = events.News(
            "submission.announced", submission, {"manifest_sha256": manifest, "round": found}, actor.person
        )
        events.append(connection, now_ms, news)
        return Announced(row, missing, is_new=True)


def _require_round(connection: Connection, known: Submission, name: str | None) -> None:
    """Refuse to let a team believe that files are in another round than they are."""
    own = connection.execute(select(_round.c.name).where(_round.c.id == known.round)).scalar_one()
    if name not in (None, own):
        raise ConflictError(
            f"these files are submission {known.id}, in the round {own}; to submit them to another, withdraw it first"
        )


def _changed_mind(
    connection: Connection, actor: Actor, draft: Submission, what: Announcement, now_ms: int
) -> Submission:
    """Return a draft with the round, and the result that it improves, as they are named now."""
    named: dict[str, str] = {}
    if what.round is not None:
        is_it = connection.execute(select(_round.c.name).where(_round.c.id == draft.round)).scalar_one() == what.round
        named |= {} if is_it else {"round": round_named(connection, what.round, now_ms)}
    if what.supersedes is not None and what.supersedes != draft.supersedes:
        if what.supersedes == draft.id:
            raise UsageError("a submission cannot improve itself: these are the same files")
        _require_own(connection, actor, what)
        named["supersedes"] = what.supersedes
    if not named:
        return draft
    connection.execute(update(_submission).where(_submission.c.id == draft.id).values(**named))
    body = {"manifest_sha256": draft.manifest_sha256, "round": draft.round, **named}
    events.append(connection, now_ms, events.News("submission.announced", draft.id, body, actor.person))
    return submissions.find(connection, draft.id, actor)


def _known(connection: Connection, actor: Actor, manifest: str, key: str | None) -> Submission | None:
    is_it = _submission.c.manifest_sha256 == manifest
    if key is not None:
        is_it = or_(is_it, _submission.c.idempotency_key == key)
    query = select(_submission.c.id).where(_submission.c.organisation == actor.organisation, is_it)
    # One with the same files comes before one with the same key.
    found = connection.execute(query.order_by(_submission.c.manifest_sha256 != manifest)).scalars().first()
    return None if found is None else submissions.locked(connection, found, None)


def lock_quota(connection: Connection, instance: Instance, actor: Actor) -> int:
    """Return how many bytes a team may have, and keep its other requests from counting theirs meanwhile."""
    table = schema.organisation
    query = select(table.c.quota_bytes).where(table.c.id == actor.organisation).with_for_update()
    quota: int | None = connection.execute(query).scalar()
    return instance.settings.limits.quota_bytes if quota is None else quota


def require_quota(actor: Actor, num_used: int, num_bytes: int, quota: int) -> None:
    """Raises:
    ForbiddenError: with so many bytes more than it has, a team would have more than its quota.
    """
    if (total := num_used + num_bytes) > quota:
        raise ForbiddenError(
            f"{num_bytes:,} bytes would make {total:,} of {actor.organisation_name}'s {quota:,}; ask the organiser for "
            "a larger quota"
        )


def _require_room(
    connection: Connection, instance: Instance, actor: Actor, num_bytes: int, quota: int, now_ms: int
) -> None:
    limits, own = instance.settings.limits, _submission.c.organisation == actor.organisation
    used = connection.execute(select(func.coalesce(func.sum(_submission.c.num_bytes), 0)).where(own)).scalar_one()
    require_quota(actor, used, num_bytes, quota)
    drafts = connection.execute(select(func.count()).where(own, _submission.c.state == State.DRAFT)).scalar_one()
    if drafts >= limits.max_drafts:
        raise ForbiddenError(
            f"{drafts:,} submissions of {actor.organisation_name} wait for their files; finish or withdraw one first"
        )
    recent = connection.execute(
        select(func.count()).where(own, _submission.c.created_ms > now_ms - HOUR_MS)
    ).scalar_one()
    if recent >= limits.max_submissions_per_hour:
        raise ForbiddenError(f"{recent:,} submissions of {actor.organisation_name} within an hour; wait a while")


def round_named(connection: Connection, name: str | None, now_ms: int) -> str:
    """Return the id of the round of that name, which must be open; without a name, of the only one that is."""
    rows = rounds.open_at(connection, now_ms)
    named = [row for row in rows if name in (None, row.name)]
    if len(named) == 1:
        return str(named[0].id)
    if name is None:
        open_ones = ", ".join(row.name for row in rows) or "none"
        raise UsageError(f"name the round; open are: {open_ones}")
    if connection.execute(select(_round.c.id).where(_round.c.name == name)).scalar() is None:
        raise UsageError(f"there is no round {printable(name)!r}")
    raise ConflictError(f"the round {name} is not open")


def _require_own(connection: Connection, actor: Actor, what: Announcement) -> None:
    """Refuse to supersede another team's result."""
    if what.supersedes is not None:
        old = submissions.find(connection, what.supersedes, actor)
        if old.organisation != actor.organisation:
            raise ForbiddenError(f"submission {old.id} is another team's; you can supersede your own")
        if old.superseded_by is not None:
            raise ConflictError(f"submission {old.id} was superseded by {old.superseded_by}; name that one")


def _missing(connection: Connection, actor: Actor, files: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
    held = blobs.held(connection, actor.organisation, (item.sha256 for item in files))
    by_digest = {item.sha256: item for item in files if item.sha256 not in held}
    return tuple(sorted(by_digest.values(), key=lambda item: item.path))


def expire_drafts(instance: Instance) -> int:
    """Withdraw the drafts whose files did not come in time; return how many. Announced again, they go on."""
    now_ms = instance.now_ms()
    before_ms = now_ms - int(instance.settings.limits.draft_days * 24 * HOUR_MS)
    is_old = (_submission.c.state == State.DRAFT) & (_submission.c.changed_ms < before_ms)
    with instance.database.read() as connection:
        old = list(connection.execute(select(_submission.c.id).where(is_old)).scalars())
    for submission in old:
        with instance.database.write() as connection:
            found = submissions.locked(connection, submission, None)
            if found.state is State.DRAFT:
                submissions.change(connection, "expire", found, None, now_ms)
    return len(old)


def files_of(connection: Connection, submission: str) -> list[ListedFile]:
    """Return the files of a submission, sorted by path."""
    query = select(_file.c.path, _file.c.sha256, _file.c.num_bytes).where(_file.c.submission == submission)
    return [ListedFile(*row) for row in connection.execute(query.order_by(_file.c.path))]


def missing_of(connection: Connection, submission: Submission) -> list[ListedFile]:
    """Return the files of a submission that its team has not sent."""
    files = files_of(connection, submission.id)
    held = blobs.held(connection, submission.organisation, (item.sha256 for item in files))
    return [item for item in files if item.sha256 not in held]


def finalise(instance: Instance, actor: Actor, submission: str) -> Receipt:
    """End a submission whose files are all there, and have it checked; a second call returns the same receipt.

    Raises:
        NotThereError: there is none that they see. ForbiddenError: it is another team's.
        ConflictError: a file is missing, or the round is closed. InputError: the claim cannot be read, or says another
            organisation, system, benchmark or ruleset than paths and round.
    """
    now_ms = instance.now_ms()
    with instance.database.write() as connection:
        found = submissions.locked(connection, submission, actor)
        if found.state is not State.DRAFT:
            if found.organisation != actor.organisation:
                raise ForbiddenError(f"submission {submission} is another team's")
            return receipt_of(connection, instance, found)
        submissions.require_allowed(connection, "finalise", found, actor)
        missing = missing_of(connection, found)
        if missing:
            raise ConflictError(f"{len(missing):,} files are missing, the first is {missing[0].path}")
        files = files_of(connection, submission)
        round_ = connection.execute(select(_round).where(_round.c.id == found.round)).one()
        if round_.closes_ms is not None and round_.closes_ms <= now_ms:
            raise ConflictError(f"the round {round_.name} is closed")
        claim = claim_of(instance, files, actor.organisation_name, round_.ruleset)
        accelerator, _ = accelerator_of(instance, files)
        changed = submissions.change(
            connection, "finalise", found, actor, now_ms, {"manifest_sha256": found.manifest_sha256},
            received_ms=now_ms, division=claim.division, category=printable(claim.category), accelerator=accelerator,
        )  # fmt: skip
        assert changed.state is State.RECEIVED
        return receipt_of(connection, instance, submissions.find(connection, submission, None))


def hand_in(
    instance: Instance,
    actor: Actor,
    tree: Path,
    files: Iterable[Path],
    round_name: str | None = None,
    supersedes: str | None = None,
) -> str:
    """Announce, keep and finalise a submission whose files are on this machine, in `tree`; return its id.

    Raises:
        TtaError: see `announce` and `finalise`.
    """
    listed = [ListedFile(item.relative_to(tree).as_posix(), sha256_of(item), item.stat().st_size) for item in files]
    found = announce(instance, actor, Announcement(tuple(listed), round_name, supersedes))
    for item in found.missing:
        with (tree / item.path).open("rb") as stream:
            instance.blobs.add(item.sha256, item.num_bytes, iter(lambda: stream.read(1 << 20), b""))
    with instance.database.write() as connection:
        sent = [(item.sha256, item.num_bytes) for item in found.missing]
        blobs.note_held(connection, actor.organisation, sent, instance.now_ms())
    finalise(instance, actor, found.submission.id)
    return found.submission.id


def own_receipt(connection: Connection, instance: Instance, submission: Submission, actor: Actor) -> Receipt:
    """Return the receipt of a submission of the actor's team.

    Raises:
        ForbiddenError: it is another team's. ConflictError: it was not received.
    """
    if submission.organisation != actor.organisation:
        raise ForbiddenError("a receipt is for the team that submitted")
    return receipt_of(connection, instance, submission)


def receipt_of(connection: Connection, instance: Instance, submission: Submission) -> Receipt:
    """Return the receipt of a submission that was received.

    Raises:
        ConflictError: it was not.
    """
    received = [
        item for item in events.of_subject(connection, submission.id) if item.event["kind"] == "submission.finalise"
    ]
    if not received or submission.received_ms is None:
        raise ConflictError(f"submission {submission.id} was not received: it was withdrawn before")
    draft = Receipt(
        submission.id,
        submission.manifest_sha256,
        submission.received_ms,
        instance.settings.origin,
        received[-1],
    )
    return replace(draft, signature=instance.key.sign(draft.text.encode(), NAMESPACE))


def claim_of(instance: Instance, files: Sequence[ListedFile], organisation: str, ruleset: str) -> Claim:
    """Return what a submission claims.

    Raises:
        InputError: it cannot be read, or says something else than the paths and the round.
    """
    places = places_of(files)
    name = f"{places.result}/{CLAIM_NAME}"
    place = _blob_path(instance, files, name)
    faults: list[Unreadable] = []
    claim = read_claim(place, faults)
    if claim is None:
        raise InputError(f"{name}: {faults[0].message}")
    expected: Mapping[str, tuple[str, str]] = {
        "submitter": (claim.submitter, organisation),
        "system": (claim.system, places.system),
        "ruleset": (claim.ruleset, ruleset),
    }
    for what, (said, wanted) in expected.items():
        if said != wanted:
            raise InputError(f"{name}: the {what} is {printable(said)!r}; it must be {wanted!r} here")
    if not places.benchmark.startswith(claim.benchmark):
        raise InputError(f"{name}: the benchmark is {printable(claim.benchmark)!r}, the folder is {places.benchmark!r}")
    if claim.division not in instance.ruleset(ruleset).divisions:
        raise InputError(f"{name}: the division is {printable(claim.division)!r}; the ruleset has no such division")
    return claim


def accelerator_of(instance: Instance, files: Sequence[ListedFile]) -> tuple[str, int]:
    """Return the accelerator that the system description names, and how many there are; "none" and 0 without one."""
    places = places_of(files)
    try:
        path = _blob_path(instance, files, f"{places.organisation}/{SYSTEMS}/{places.system}.json")
        record = mapping_or_empty(strict_json.loads(small_file(path)))
    except (InputError, SubmissionError, ValueError):
        return "none", 0  # the check says what is wrong with it
    name = printable(record.get("accelerator_model_name") or "none", 300)
    counts = [str(record.get(field, "")) for field in ("number_of_nodes", "accelerators_per_node")]
    numbers = [int(text) if re.fullmatch("[0-9]{1,5}", text) else 0 for text in counts]
    return name, numbers[0] * numbers[1]


def _blob_path(instance: Instance, files: Sequence[ListedFile], path: str) -> Path:
    for item in files:
        if item.path == path:
            return instance.blobs.path(item.sha256)
    raise InputError(f"{path}: is not among the files")


def file_response(instance: Instance, submission: Submission, files: Sequence[ListedFile], path: str) -> FileResponse:
    """Return an answer with a file of a submission: something to save, and nothing that a browser would show.

    It is as old as the submission: the time of the blob is that at which any team has sent it last.

    Raises:
        NotThereError: it is not among the files, or was never sent.
    """
    listed = next((item for item in files if item.path == path), None)
    place = None if listed is None else instance.blobs.path(listed.sha256)
    if listed is None or place is None or not place.is_file():
        raise NotThereError(f"the submission has no file {printable(path)!r}")
    modified = formatdate(submission.created_ms / 1000, usegmt=True)
    headers = {"etag": f'"{listed.sha256}"', "last-modified": modified, "x-content-type-options": "nosniff"}
    name = path.rpartition("/")[2]
    return FileResponse(place, media_type="application/octet-stream", filename=name, headers=headers)
