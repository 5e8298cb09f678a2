"""The environment of a claim: what of its list reaches pip, and what pip can do with it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.reproduction import versions
from harness.reproduction.versions import environment, pins


def wheel(folder: Path, name: str, version: str, requires: str = "") -> Path:
    """A wheel with nothing but one module."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip finds two versions of a package that this installation is made to require."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        wheel(folder, "alpha", version)
    wheel(folder, "gamma", "1.0")
    own = wheel(folder, "own", "1.0", "alpha")
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(folder)), ("PIP_CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(versions, "_source", lambda _: [str(own)])
    return folder


@pytest.mark.slow
def test_what_is_required_gets_the_version_of_the_claim_and_nothing_else_is_installed(
    index: Path, tmp_path: Path
) -> None:
    """A name in the claim's list that nothing requires is no reason to install it: lists are submitters' texts."""
    program = environment({"alpha": "1.0", "gamma": "1.0"}, tmp_path / "made")

    def shown(code: str) -> str:
        return subprocess.run([program, "-c", code], check=True, capture_output=True, text=True).stdout

    assert shown("import alpha; print(alpha.VERSION)") == "1.0\n"
    assert shown("import importlib.util as u; print(u.find_spec('gamma'))") == "None\n"
    for file in index.iterdir():
        file.unlink()
    assert environment({"alpha": "1.0", "gamma": "1.0"}, tmp_path / "made") == program  # it is not made again


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_version_that_pip_does_not_find_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pip cannot install the claim's versions"):
        environment({"alpha": "3.0"}, tmp_path / "made")


def test_python_that_is_not_here_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"was made with Python 3\.99\.1; python3\.99 is not here"):
        environment({"python": "3.99.1"}, tmp_path / "made")
    with pytest.raises(UsageError, match="is not here"):
        environment({"python": "../../bin/sh"}, tmp_path / "made")


def test_only_well_formed_names_and_versions_are_pins() -> None:
    """What pip would read as an option, an address or a second line never reaches it."""
    hostile = {
        "evil @ https://example.com/evil.whl": "1",
        "--index-url": "1",
        "a\nb": "1",
        "a": "1\n--index-url https://example.com",
        "b": "1 ; python_version > '3'",
        "c": "@ https://example.com",
        "python": "3.11.7",
    }
    assert pins({**hostile, "torch": "2.11.0+cpu", "typing-extensions": "4.15.0"}) == [
        "torch==2.11.0+cpu",
        "typing-extensions==4.15.0",
    ]


def test_installed_files_become_a_wheel_again(tmp_path: Path) -> None:
    """Without a checkout, what is installed is packed: with its metadata, without what the installer added."""
    site = tmp_path / "site"
    name = versions.DISTRIBUTION.replace("-", "_")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    files = [
        "harness_copy.py",
        f"{info.name}/METADATA",
        f"{info.name}/INSTALLER",
        f"{info.name}/WHEEL",
        "../../bin/tta",
    ]
    (site / "harness_copy.py").write_text("")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {versions.DISTRIBUTION}\nVersion: 1.0\n")
    (info / "WHEEL").write_text("")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
        "from harness.reproduction import versions; print(versions._wheel(Path(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site), str(tmp_path)], check=True, capture_output=True, text=True
    )

    path = Path(done.stdout.strip())

    assert path.name == f"{name}-1.0-py3-none-any.whl"
    assert sorted(zipfile.ZipFile(path).namelist()) == sorted(
        ["harness_copy.py", f"{info.name}/METADATA", f"{info.name}/WHEEL"]
    )
