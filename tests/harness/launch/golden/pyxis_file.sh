#!/usr/bin/env bash
#SBATCH --job-name=tta-image-classification-mini
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --no-requeue
#SBATCH --signal=USR1@300
#SBATCH --output=results/mine.slurm-%j.txt

# One step, one task on each node, all with the same command: the task of the first node referees the runs, those of the
# others start and end their node's part of them. Nothing is started again: a run that loses a node is over.
set -euo pipefail
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    echo "tta: Slurm has started this job again (SLURM_RESTART_COUNT=$SLURM_RESTART_COUNT); submit a new one" >&2
    exit 2
fi
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')
address=$(sinfo --noheader --nodes="${nodes%% *}" --format=%o | sed -n 1p)
TTA_NODES=${nodes% }
TTA_FIRST_NODE=$address:$((20000 + SLURM_JOB_ID % 10000))
TTA_SLURM_VERSION=$(sinfo --version)
TTA_IMAGE_DIGEST=sha256:$(sha256sum '/images/tta 1.sqsh' | cut -d " " -f 1)
# What the tasks know each other by; neither a command line nor the job's record has it.
TTA_NODE_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export TTA_NODES TTA_FIRST_NODE TTA_SLURM_VERSION TTA_NODE_TOKEN TTA_IMAGE_DIGEST
trap : TERM  # at the end of its time the job waits for the step, which closes its log

# Shortly before the end of the job's time Slurm sends USR1 to every process of the step. It means that no run should
# begin any more; only the referee takes notice, and the shell has all others ignore it.
srun --ntasks-per-node=1 --cpus-per-task="${SLURM_JOB_CPUS_PER_NODE%%[(,]*}" --kill-on-bad-exit=0 --wait=60 \
    '--container-image=/images/tta 1.sqsh' \
    bash -c 'trap "" USR1; exec "$@"' task \
    tta run image_classification --nodes 2 --devices 8 --out results/mine --launcher slurm
