#!/usr/bin/env bash
# Environment, lint, types and tests. `scripts/test.sh --slow` also runs the slow tests, and requires that the others
# cover every branch of what judges and computes (scripts/coverage.sh). What is marked `release` runs in neither.
# The environment is .venv-test, or the folder in TTA_VENV.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh
with_slow=
if [ "${1:-}" = "--slow" ]; then with_slow=1; shift; fi
environment "${TTA_VENV:-.venv-test}" all,atari  # without the game its tests are skipped
say "lint and types"
. scripts/lint.sh
# Two processes of one thread each: with two threads each they wait for one another more than they compute.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
if [ -z "$with_slow" ]; then
    say "tests (not slow and not gpu)"
    "$python" -m pytest -n 2 -m "not slow and not gpu" "$@"
    exit
fi
# Every part runs even if one before it failed, so that one call reports all failures.
failed=
say "fast tests of all but the workloads and the service, and their coverage"
export python
bash scripts/coverage.sh || failed=1
say "property tests and slow tests of all but the workloads and the service"
"$python" -m pytest -n 2 -m "(slow or hypothesis) and not release and not gpu" tests \
    --ignore=tests/workloads --ignore=tests/harness/service "$@" || failed=1
say "tests of the service and of the workloads"
"$python" -m pytest -n 2 -m "not release and not gpu" tests/harness/service tests/workloads "$@" || failed=1
[ -z "$failed" ] || { say "FAILED: see above"; exit 1; }
