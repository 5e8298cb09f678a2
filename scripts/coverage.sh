#!/usr/bin/env bash
# Line and branch coverage of what judges and computes: the pure rooms of harness/, and rules/. Prints what is missing
# and fails below 100 %.
#   scripts/coverage.sh                                          the fast tests, except those of workloads and service
#   scripts/coverage.sh tests/rules -k 'not hostile_trees'       some of them: the list of misses is then too long
# Slow tests, property tests, real data and accelerators add nothing: a fast test covers what they cover. Nor do the
# tests of the service, which take twice as long when measured. What a property test draws depends on more than its seed
# (Hypothesis also draws constants of the loaded modules), so its coverage is a matter of chance. scripts/test.sh runs
# all these separately.
# $python: the interpreter to use (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${python:-python3}
export PYTHONPATH="$PWD" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export COVERAGE_FILE="$folder/data"
scope=$(printf 'harness/%s/*,' base log cost energy mlperf submission ruleset scoring checker transparency)
scope+=harness/errors.py,harness/findings.py,harness/workload.py,'rules/*'
[ $# -gt 0 ] || set -- -m "not slow and not gpu and not hypothesis" tests --ignore=tests/workloads --ignore=tests/harness/service
passed=0
"$python" -m coverage run -m pytest -q -n 2 -p no:cacheprovider "$@" || passed=$?
"$python" -m coverage combine --quiet
# parallel.py runs in the processes of a pool, which end without saving their data.
"$python" -m coverage report --include="$scope" --omit=harness/checker/parallel.py --fail-under=100
exit "$passed"
