#!/usr/bin/env bash
# Environment, lint, types, tests. `scripts/test.sh --slow` runs the slow tests too.
# The environment is .venv-test, or the folder that TTA_VENV names.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh
marks="not slow and not gpu"
if [ "${1:-}" = "--slow" ]; then marks="not gpu"; shift; fi
environment "${TTA_VENV:-.venv-test}" all
say "lint and types"
. scripts/lint.sh
say "tests ($marks)"
"$python" -m pytest -m "$marks" "$@"
