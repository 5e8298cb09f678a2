#!/usr/bin/env bash
# What only a machine with an accelerator can show, in one call of at most 25 minutes, without a network; writes
# gpu_checks.json, gpu_checks.md and the output of each step. $python: an interpreter with tta-harness[all] (default:
# python3); a step for which a package is missing is skipped, and the page says so.
#     scripts/gpu_checks.sh --data FOLDER [--out FOLDER] [--minutes M] [--small]
# --data: the copies of public data (cifar10_jpeg.tar, fsdd_wav.tar, bccd_voc.tar, multi30k_en_de/); a step whose data are
# not there is skipped, too. --minutes: of this call; another one with the same --out does what is left. --small: the same
# steps in a form that a CPU does in minutes, to try them out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec "${python:-python3}" scripts/gpu_checks.py "$@"
