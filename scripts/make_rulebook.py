"""Writes docs/rulebook.md from the documents of the checks: what `tta explain --all` prints. --check only compares."""

import argparse
import contextlib
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it can be called from anywhere

from harness.commands import explain

PAGE = Path(__file__).parents[1] / "docs" / "rulebook.md"
HEAD = "<!-- Made by scripts/make_rulebook.py from rules/checks and rules/audits; edit those. -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where it is not up to date")
    arguments = parser.parse_args()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        explain.run(None, all_codes=True)
    text = f"{HEAD}\n\n{out.getvalue()}"
    if arguments.check:
        is_same = PAGE.exists() and PAGE.read_text() == text
        if not is_same:
            print(f"{PAGE} is not up to date: python scripts/make_rulebook.py", file=sys.stderr)
        return 0 if is_same else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
