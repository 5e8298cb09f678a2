"""The form by which a person hands in a result: a folder that they pick, bounded, then the way that programs take."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select
from starlette.datastructures import FormData, UploadFile
from starlette.responses import HTMLResponse, RedirectResponse, Response

from harness.base.files import walk
from harness.errors import OutputError, TtaError, UsageError, printable
from harness.service import packing, rounds, schema, submissions, submitting
from harness.service.instance import Instance
from harness.service.packing import Choices
from harness.service.pages.public import html
from harness.service.pages.session import actor_of, instance_of, require_same_site
from harness.service.people import Actor
from harness.service.states import IMPROVABLE
from harness.submission.claiming import CATEGORIES
from harness.submission.layout import BENCHMARKS, NAME_PATTERN, RESULTS, SYSTEMS

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
PATH = "/submit"
_MAX_FIELDS, _MAX_FIELD_BYTES = 20, 4000
_MAX_DEPTH = 10
_MAX_IMPROVED = 200  # own results among which one chooses


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person chose in the form. Empty: nothing."""

    round: str = ""
    category: str = ""
    notes: str = ""
    supersedes: str = ""
    weights_at: str = ""


@router.get(PATH)
def show(request: Request, supersedes: Annotated[str, Query(max_length=32)] = "") -> Response:
    """The form; somebody who is not signed in is asked to."""
    instance, actor = instance_of(request), actor_of(request)
    if not actor.is_known:
        return RedirectResponse("/account", 303)
    return _form(instance, actor, Asked(supersedes=supersedes))


def _form(instance: Instance, actor: Actor, asked: Asked, error: str = "", status: int = 200) -> HTMLResponse:
    with instance.database.read() as connection:
        open_rounds = rounds.open_at(connection, instance.now_ms())
        table = schema.submission
        is_it = (table.c.organisation == actor.organisation) & table.c.state.in_(IMPROVABLE)
        is_it &= table.c.superseded_by.is_(None)
        improved = submissions.page(connection, actor, _MAX_IMPROVED, None, is_it)
    return html(
        "service_submit.html", "submit", actor, status, asked=asked, error=error, rounds=open_rounds,
        improved=improved, categories=CATEGORIES, limits=instance.settings.limits, url=instance.settings.url,
    )  # fmt: skip


@router.post(PATH)
async def submit(request: Request) -> Response:
    """Take the folder. How large the body may be, `harness.service.web` has seen to before it is parsed."""
    require_same_site(request)
    instance = instance_of(request)
    actor = await run_in_threadpool(actor_of, request)
    if not actor.is_known:
        return RedirectResponse("/account", 303)
    max_files = instance.settings.limits.max_form_files
    async with request.form(max_files=max_files, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES) as form:
        return await run_in_threadpool(_submitted, instance, actor, form)


def _submitted(instance: Instance, actor: Actor, form: FormData) -> Response:
    fields = {name: form.get(name) for name in Asked.__dataclass_fields__}
    asked = Asked(**{name: value.strip() for name, value in fields.items() if isinstance(value, str)})
    files = [item for item in form.getlist("files") if isinstance(item, UploadFile) and item.filename]
    try:
        submission = _handed_in(instance, actor, files, asked)
    except TtaError as error:
        return _form(instance, actor, asked, printable(error, 2000), 422)
    return RedirectResponse(f"/submissions/{submission}", 303)


def _handed_in(instance: Instance, actor: Actor, files: Sequence[UploadFile], asked: Asked) -> str:
    with instance.database.read() as connection:
        round_id = submitting.round_named(connection, asked.round or None, instance.now_ms())
        round_ = connection.execute(select(schema.round).where(schema.round.c.id == round_id)).one()
    work = instance.folder / "work" / instance.new_id()
    try:
        tree, folder = work / "tree", work / "folder"
        tree.mkdir(parents=True, mode=0o700)
        places = [_place(item.filename or "", actor.organisation_name) for item in files]
        is_packed = any(place is not None and place.is_packed for place in places)
        for place, item in zip(places, files, strict=True):
            if place is not None and place.is_packed == is_packed:
                _write((tree if is_packed else folder) / place.path, item)
        if not is_packed:
            if not folder.is_dir():
                raise UsageError(
                    "there is no file of a result in what you picked: pick the folder that `tta run` wrote"
                )
            choices = Choices(round_.ruleset, asked.category, asked.notes, asked.weights_at)
            packing.packed(folder, tree, choices, instance.settings.limits, instance.now_ms())
        names = [level.path / name for level in walk(tree, instance.settings.limits.max_files, "submission")
                 for name in level.names]  # fmt: skip
        return submitting.hand_in(instance, actor, tree, sorted(names), round_.name, asked.supersedes or None)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file of a picked folder belongs. is_packed: in a submission's tree; otherwise in a result's folder."""

    path: str
    is_packed: bool


def _place(name: str, organisation: str) -> _Place | None:
    """Return where a file belongs, by the path that a browser sends; None: nowhere, such as what a desktop leaves."""
    parts = name.split("/")
    for at, (part, below) in enumerate(itertools.pairwise(parts)):
        if part == organisation and below in (RESULTS, SYSTEMS, BENCHMARKS):
            parts, is_packed = parts[at:], True
            break
    else:
        # The first is the folder's own name; files that were picked one by one have none.
        parts, is_packed = parts[1:] if len(parts) > 1 else parts, False
    if len(parts) > _MAX_DEPTH or not all(map(NAME_PATTERN.fullmatch, parts)):
        return None
    return _Place("/".join(parts), is_packed)


def _write(target: Path, item: UploadFile) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with target.open("xb") as stream:
            shutil.copyfileobj(item.file, stream)
    except FileExistsError:
        raise UsageError(f"{printable(item.filename, 300)}: is there twice") from None
    except OSError as error:
        raise OutputError(f"{printable(item.filename, 300)}: cannot be kept: {error.strerror}") from None
