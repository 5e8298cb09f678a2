"""Where a measurement goes: a folder with a document, a text and a page, and an MLflow store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.base.files import write_new
from harness.characterise.page import as_html
from harness.characterise.report import Report, as_text
from harness.errors import OutputError, printable
from harness.tracking.measurement import Measurement
from harness.tracking.store import Store


def as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(dict(document), allow_nan=False, indent=2)


def shown(report: Report, document: Mapping[str, Any], output_format: str) -> str:
    """A measurement in one of the formats text, json and html."""
    if output_format == "json":
        return as_json(document)
    return as_html(report) if output_format == "html" else as_text(report)


def refuse_existing(folder: Path | None, name: str) -> None:
    """Refuse a folder that has such a document already, before anything is measured.

    Raises:
        OutputError: it has one.
    """
    if folder is not None and (folder / f"{name}.json").exists():
        raise OutputError(f"{printable(folder / f'{name}.json', 1000)}: exists already; choose another --out")


def kept(folder: Path, name: str, report: Report, document: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write NAME.json, NAME.txt and NAME.html into a folder; return their paths.

    Raises:
        OutputError: the document exists already, or one of them cannot be written.
    """
    paths = {kind: folder / f"{name}.{kind}" for kind in ("json", "txt", "html")}
    write_new(paths["json"], (as_json(document) + "\n").encode(), "exists already; choose another --out")
    write_again(paths["txt"], as_text(report) + "\n")
    write_again(paths["html"], as_html(report))
    return tuple(paths.values())


def kept_again(folder: Path, name: str, report: Report, document: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write the same in place of earlier versions, for what is made from another file.

    Raises:
        OutputError: one of them cannot be written.
    """
    texts = {"json": as_json(document) + "\n", "txt": as_text(report) + "\n", "html": as_html(report)}
    for kind, text in texts.items():
        write_again(folder / f"{name}.{kind}", text)
    return tuple(folder / f"{name}.{kind}" for kind in texts)


def write_again(path: Path, text: str) -> None:
    """Write a file that is made from another one, in place of an earlier version.

    Raises:
        OutputError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise OutputError(f"{printable(path, 1000)}: cannot be written: {error.strerror}") from None


def mirrored(uri: str, measurement: Measurement, files: tuple[Path, ...] = ()) -> bool:
    """Add a measurement to an MLflow store; return False if it has it already.

    Raises:
        OutputError: the store does not answer. MissingDependencyError: mlflow is not installed.
    """
    return Store(uri).add_measurement(replace(measurement, files=files))
