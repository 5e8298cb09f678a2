"""An environment with the package versions of a claim: `tta reproduce --same-versions`.

pip resolves what this installation requires, and the claim's list only constrains the versions: a name in it that `tta`
does not require is never installed. The claim's list is a submitter's text, and packages are programs.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from harness.base.processes import SOURCE_ROOT
from harness.errors import UsageError, printable

DISTRIBUTION = "tta-harness"
_COMPLETE = "tta-complete"  # an empty file in an environment whose installation has ended
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_-]*")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+).*?extra == [\"'](?P<extra>[A-Za-z0-9._-]+)[\"']", re.DOTALL)
_OTHER_EXTRAS = {"all", "dev", "docs", "fuzz"}  # nothing that a run imports


def environment(versions: Mapping[str, str], folder: Path) -> Path:
    """Return the interpreter of an environment in `folder`, which is made, or completed, if it is not there.

    versions: of each distribution of the claim, by its normalised name, and of "python".

    Raises:
        UsageError: no interpreter of the claim's version is here, or pip cannot install such versions.
    """
    program = folder.absolute() / "bin" / "python"
    if (folder / _COMPLETE).is_file():
        return program
    interpreter = _interpreter(versions.get("python"))
    folder.mkdir(parents=True, exist_ok=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in pins(versions)))
    _carry_out([interpreter, "-m", "venv", str(folder)], "an environment cannot be made")
    wanted = [str(program), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _carry_out(
        [*wanted, "--constraint", str(constraints), *_source(folder)],
        "pip cannot install the claim's versions (see above); without --same-versions, those that are here are used",
    )
    (folder / _COMPLETE).touch()
    return program


def pins(versions: Mapping[str, str]) -> list[str]:
    """Return a constraint for pip for each distribution whose name and version are well-formed, sorted."""
    return sorted(
        f"{name}=={version}"
        for name, version in versions.items()
        if name not in ("python", DISTRIBUTION) and _NAME.fullmatch(name) and _VERSION.fullmatch(version)
    )


def _interpreter(version: str | None) -> str:
    """The interpreter of that version, the last part of which may differ."""
    own = platform.python_version_tuple()[:2]
    wanted = own if version is None else tuple(version.split("."))[:2]
    if wanted == own:
        return sys.executable
    name = f"python{'.'.join(wanted)}"
    found = shutil.which(name) if _VERSION.fullmatch(".".join(wanted)) else None
    if found is None:
        raise UsageError(
            f"--same-versions: the claim was made with Python {printable(version, 20)}; {name} is not here"
        )
    return found


def _carry_out(command: list[str], failure: str) -> None:
    """Run a command whose output goes to standard error."""
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode:
        raise UsageError(f"--same-versions: {failure}")


def _source(folder: Path) -> list[str]:
    """What pip is to install: the checkout that runs, or a wheel of the files that are installed."""
    found = ",".join(_extras())
    if (SOURCE_ROOT / "pyproject.toml").is_file():
        return ["--editable", f"{SOURCE_ROOT}[{found}]"]
    return [f"{_wheel(folder)}[{found}]"]


def _extras() -> list[str]:
    """The extras whose requirements are all installed here."""
    complete: dict[str, bool] = {}
    for requirement in metadata.requires(DISTRIBUTION) or ():
        if (match := _REQUIREMENT.match(requirement)) is not None and match["extra"] not in _OTHER_EXTRAS:
            complete[match["extra"]] = complete.get(match["extra"], True) and _is_installed(match["name"])
    return sorted(extra for extra, is_complete in complete.items() if is_complete)


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _wheel(folder: Path) -> Path:
    """Pack the installed files of this distribution again."""
    distribution = metadata.distribution(DISTRIBUTION)
    path = folder / f"{DISTRIBUTION.replace('-', '_')}-{distribution.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, place in _files(distribution):
            wheel.write(place, name)
    return path


def _files(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a wheel by their names in it, without what an installer has added."""
    for file in distribution.files or ():
        added = file.name in ("INSTALLER", "REQUESTED", "direct_url.json") or file.suffix == ".pyc"
        if ".." not in file.parts and not added:
            yield file.as_posix(), Path(str(file.locate()))
