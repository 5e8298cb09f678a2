#!/usr/bin/env bash
# Lines and branches that the tests cover of what must be covered in full: layers 0 and 1 of harness/, as
# tests/test_layers.py has them, rules/checks/ and rules/audits/. Prints what is missing; fails below 100 %.
#   scripts/coverage.sh                                          the fast tests but those of the workloads
#   scripts/coverage.sh tests/rules -k 'not hostile_trees'       some of them: what is missing is then too long a list
# Slow tests, property tests, real data and accelerators add nothing to it: what they reach, a fast test reaches too. What
# a property test draws depends on more than its seed (Hypothesis draws constants of the modules that are loaded, too), so
# that what it covers is a matter of chance: scripts/test.sh runs those apart.
# $python: the interpreter to use (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${python:-python3}
export PYTHONPATH="$PWD" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export COVERAGE_FILE="$folder/data"
scope=$("$python" -c '
from tests.test_layers import LAYERS
nouns = [name for layer in (0, 1) for name in LAYERS[layer].split()]
print(",".join(f"harness/{name}.py,harness/{name}/*" for name in nouns) + ",rules/*")')
[ $# -gt 0 ] || set -- -m "not slow and not gpu and not hypothesis" tests/harness tests/rules tests/fuzz tests/interop
passed=0
"$python" -m coverage run --rcfile=scripts/coverage.ini -m pytest -q -n 2 -p no:cacheprovider "$@" || passed=$?
"$python" -m coverage combine --rcfile=scripts/coverage.ini --quiet
"$python" -m coverage report --rcfile=scripts/coverage.ini --include="$scope" --fail-under=100
exit "$passed"
