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
# Two processes of one thread each: two of two threads each wait for one another more than they compute.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
"$python" -m pytest -n 2 -m "$marks" "$@"
