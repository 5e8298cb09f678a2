#!/usr/bin/env bash
# ruff, mypy --strict and the import contracts, as CI runs them. $python: the interpreter to use (default: python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${python:-python3}
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
"$python" -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-cache
