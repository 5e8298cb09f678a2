"""Whether what a witness has said of a result is in its log, and whether that log is one: by key and proofs.

Without a network: the signatures of receipts and checkpoints, and two checkpoints of the same size. With the service's
address also that each receipt is in the newest checkpoint, and that this one continues those that are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base import ssh_signature
from harness.base.files import small_file
from harness.base.http import HttpClient, RefusedError
from harness.errors import InputError, SubmissionError, printable
from harness.submission import receipts
from harness.submission.result import Result
from harness.transparency import checkpoint as checkpoints
from harness.transparency.checkpoint import SignedCheckpoint, parse_note
from harness.transparency.tree import continues, includes
from harness.transparency.witnessed import NAMESPACE, Witnessed

_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Verified:
    """What was verified. faults: what is wrong; doubts: what could not be seen here."""

    num_receipts: int
    faults: tuple[str, ...]
    doubts: tuple[str, ...]


def verify(
    result: Result, key: str, notes: Sequence[tuple[str, SignedCheckpoint]], client: HttpClient | None
) -> Verified:
    """Return what the receipts of a result, and checkpoints of the witness's log, show.

    key: the public key of the service, as in a list of keys. notes: checkpoints, each with its place.

    Raises:
        InputError: the service does not answer, or answers what cannot be.
    """
    found, faults, doubts = list(_receipts(result)), list[str](), list[str]()
    for place, receipt in found:
        _judge(place, receipt.text, receipt.signature, NAMESPACE, key, faults, doubts)
    newest = None
    if client is not None:
        place = f"{client.root}api/v1/log/checkpoint"
        newest = parse_note(client.request("GET", "api/v1/log/checkpoint").body, place)
        notes = [*notes, (place, newest)]
    for place, note in notes:
        signature = note.signatures[0] if note.signatures else ""
        _judge(place, note.checkpoint.text, signature, checkpoints.NAMESPACE, key, faults, doubts)
    faults += _histories(notes)
    if client is not None and newest is not None:
        faults += _in_log(client, newest, found)
        faults += [fault for place, note in notes if (fault := _continued(client, place, note, newest)) is not None]
    return Verified(len(found), tuple(faults), tuple(dict.fromkeys(doubts)))


def read_notes(paths: Sequence[Path]) -> list[tuple[str, SignedCheckpoint]]:
    """Return the checkpoints in files.

    Raises:
        InputError: one cannot be read, or is none.
    """
    try:
        return [(str(path), parse_note(small_file(path), str(path))) for path in paths]
    except SubmissionError as error:
        raise InputError(str(error)) from None


def _receipts(result: Result) -> Iterator[tuple[str, Witnessed]]:
    for run in receipts.witnessed_runs(result):
        if run.fault is not None:
            raise InputError(run.fault)
        for line, item in enumerate(run.receipts.receipts if run.receipts is not None else (), 1):
            assert run.receipts is not None
            yield f"{run.receipts.path}:{line}", item
    end = receipts.campaign_end(result)
    if end is not None:
        yield end.path, end.receipt


def _judge(
    place: str, text: str, signature: str, namespace: str, key: str, faults: list[str], doubts: list[str]
) -> None:
    refusal = ssh_signature.refusal(text.encode(), signature.encode(), namespace, f"board {key}\n".encode(), "board")
    if refusal is not None:
        (doubts if refusal.is_inconclusive else faults).append(
            f"signatures were not verified: {refusal.why}" if refusal.is_inconclusive
            else f"{place}: is not signed with the key of the service: {refusal.why}"
        )  # fmt: skip


def _histories(notes: Sequence[tuple[str, SignedCheckpoint]]) -> Iterator[str]:
    """Two checkpoints of one log with one size and two roots: who has signed both has shown two histories."""
    seen: dict[tuple[str, int], tuple[str, bytes]] = {}
    for place, note in notes:
        point = note.checkpoint
        other, root = seen.setdefault((point.origin, point.size), (place, point.root))
        if root != point.root:
            yield f"{place}: another history than {other}: both have {point.size:,} events, and other roots"


def _in_log(client: HttpClient, newest: SignedCheckpoint, found: Sequence[tuple[str, Witnessed]]) -> Iterator[str]:
    size, root = newest.checkpoint.size, newest.checkpoint.root
    for place, receipt in found:
        index = receipt.opening.seq
        if receipt.origin != newest.checkpoint.origin:
            yield f"{place}: is of the log {printable(receipt.origin)}, not of {newest.checkpoint.origin}"
            continue
        try:
            answer = client.get(f"api/v1/log/proof/inclusion?leaf={index}&size={size}")
        except RefusedError as error:
            yield f"{place}: {error}"
            continue
        if not includes(receipt.opening.leaf, index, size, _hashes(client, answer), root):
            yield f"{place}: is not event {index:,} of the checkpoint of {size:,} events"


def _continued(client: HttpClient, place: str, note: SignedCheckpoint, newest: SignedCheckpoint) -> str | None:
    old, new = note.checkpoint, newest.checkpoint
    if old.origin != new.origin:
        return f"{place}: is of the log {printable(old.origin)}, not of {new.origin}"
    if old.size > new.size:
        return f"{place}: has {old.size:,} events; the service shows {new.size:,}"
    try:
        answer = client.get(f"api/v1/log/proof/consistency?from={old.size}&to={new.size}")
    except RefusedError as error:
        return f"{place}: {error}"
    if continues(old.size, old.root, new.size, new.root, _hashes(client, answer)):
        return None
    return f"{place}: the log that the service shows now does not continue this checkpoint: it is another history"


def _hashes(client: HttpClient, answer: dict[str, Any]) -> list[bytes]:
    proof = answer.get("proof")
    if not isinstance(proof, list) or not all(isinstance(item, str) and _HASH.fullmatch(item) for item in proof):
        raise InputError(f"{client.root}: the proof is not a list of hashes")
    return [bytes.fromhex(item) for item in proof]


def cosign(client: HttpClient, key: Path, kept: Path) -> str:
    """Sign the newest checkpoint, if it continues the one that was signed last; return a sentence.

    kept: the file with the checkpoint that was signed last; without it, this is the first.

    Raises:
        InputError: the log does not continue it: then nothing is signed, and the file is the evidence.
    """
    newest = parse_note(client.request("GET", "api/v1/log/checkpoint").body, client.root)
    if kept.exists():
        [(place, before)] = read_notes([kept])
        if (fault := _continued(client, place, before, newest)) is not None:
            raise InputError(f"{fault}; nothing was signed; keep {kept} as evidence")
    text = newest.checkpoint.text.encode()
    signature = ssh_signature.sign(text, key, checkpoints.COSIGN_NAMESPACE, "--key").decode()
    note = SignedCheckpoint(newest.checkpoint, (*newest.signatures, signature)).note.encode()
    client.request("POST", "api/v1/log/cosignatures", note, {"content-type": "text/plain"})
    draft = kept.with_name(f".{kept.name}.new")
    draft.write_bytes(newest.note.encode())
    draft.replace(kept)
    return f"signed the checkpoint of {newest.checkpoint.size:,} events of {newest.checkpoint.origin}"
