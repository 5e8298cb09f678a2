#!/usr/bin/env bash
# From a fresh clone to a leaderboard page: environment, five runs, submission, check, score, board.
# What it creates is in .venv/ and quickstart/, and the prepared data in $TTA_DATA (otherwise ~/.cache/tta); a second call
# continues where the first one stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh
environment .venv train
tta() { .venv/bin/tta "$@"; }
place=$PWD/quickstart
mkdir -p "$place/leaderboard"

if [ ! -f "$place/system.json" ]; then
    say "describing this machine (tta doctor)"
    tta doctor --submitter "${TTA_SUBMITTER:-quickstart}" --out "$place/system.json"
fi
system=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["system_name"])' "$place/system.json")
submitter=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["submitter"])' "$place/system.json")
submission=$place/leaderboard/$submitter/results/$system/image_classification_mini

if [ -d "$submission" ]; then
    say "the result is already in the leaderboard; remove $place to start over"
else
    say "five runs of image_classification mini, each in a new process (tta run)"
    tta run image_classification --suite mini --system "$place/system.json" --out "$place/result" --resume \
        --mlflow "sqlite:///$place/mlflow.db"
    say "submitting to a local tree (tta submit)"
    tta submit "$place/result" --to "$place/leaderboard" --notes "made by scripts/quickstart.sh"
fi

say "checking the submission (tta check)"
tta check "$place/leaderboard"
say "scoring it (tta score)"
tta score "$place/leaderboard"
say "building the leaderboard's pages (tta board build)"
tta board build "$place/leaderboard" --out "$place/site"

say "making sure that MLflow has everything (tta sync)"
tta sync "$place/result" --mlflow "sqlite:///$place/mlflow.db"

cat >&2 <<EOF

The leaderboard:  $place/site/index.html  (a file; open it in a browser)
The logs:         $place/result/result_0.txt ...
MLflow:           start the server and open the address as shown above (.venv/bin/mlflow ...)
EOF
