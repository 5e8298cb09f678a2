#!/usr/bin/env python3
"""Make a release of the code: write the digests of its files to rules/releases/VERSION.txt.

    python scripts/release.py VERSION

VERSION must be that of harness/__init__.py. The code must be committed as it is, and the version must not have been
released before: a list that is out is never changed. The list is not part of the code that it describes, so it is
committed afterwards, and tagged.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import OutputError, TtaError, UsageError
from harness.run.identity import identify
from harness.submission.provenance import RELEASES_FOLDER

ROOT = Path(__file__).resolve().parents[1]


def release(root: Path, version: str) -> Path:
    """Write the list of the code in the checkout `root`, and return its path.

    Raises:
        UsageError: the version is not the code's, or the code is not a commit's. OutputError: it is released already.
    """
    text = (root / "harness" / "__init__.py").read_text(encoding="utf-8")
    stated = re.search(r'^__version__ = "([0-9]+\.[0-9]+\.[0-9]+)"$', text, re.MULTILINE)
    if stated is None or stated[1] != version:
        says = "no version of three numbers" if stated is None else stated[1]
        raise UsageError(f"{version}: harness/__init__.py says {says}; the version of a release is that of its code")
    identity = identify(root)
    if not identity.is_clean:
        raise UsageError(f"{root}: not a checkout whose harness/, workloads/ and rules/ are as committed; commit first")
    path = root / "rules" / RELEASES_FOLDER / f"{version}.txt"
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(identity.lists[0])
    except FileExistsError:
        raise OutputError(f"{path}: is released already; a release never changes, so raise the version") from None
    return path


def main(argv: list[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("version", metavar="VERSION", help="as in harness/__init__.py")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the checkout (default: this one)")
    arguments = parser.parse_args(argv)
    try:
        path = release(arguments.root, arguments.version)
    except TtaError as error:
        print(f"release: {error}", file=sys.stderr)
        return int(error.exit_status)
    name = path.relative_to(arguments.root)
    print(f"git add {name} && git commit -m 'Release {arguments.version}' && git tag v{arguments.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
