#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A campaign on Slurm: an array of jobs, each with a worker for each of its CPUs. On a login node, in a checkout that all
# nodes see:
#     docs/clusters/slurm.sh 8 library/campaigns/matrix.yml --seeds 5
# starts eight jobs, runs `./openbach-run library/campaigns/matrix.yml --seeds 5` on their workers, and ends them.
# A guest has 512 MB. SBATCH_PARTITION, SBATCH_ACCOUNT and the like of your environment apply.
#SBATCH --cpus-per-task=8 --mem-per-cpu=1500M --time=04:00:00 --requeue
set -eu
if [ "${SLURM_ARRAY_TASK_ID:-}" ]; then # one of the jobs; its directory is where sbatch was called
	exec ./openbach-run dask worker --scheduler-file "$1" --nworkers "$SLURM_CPUS_PER_TASK" --nthreads 1 \
		--local-directory "${TMPDIR:-/tmp}" --no-dashboard
fi
cd "$(dirname "$(realpath -- "$0")")/../.."
jobs=$1
shift
export OPENBACH_RUN_EXTRA=cluster DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=1s DASK_LOGGING__DISTRIBUTED=warning
mkdir -p results
place=$(mktemp -d "$PWD/results/.slurm.XXXXXX") # the nodes see it, too
trap '[ ! "${array:-}" ] || scancel "$array"; [ ! "${scheduler:-}" ] || kill "$scheduler"; rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
./openbach-run dask scheduler --scheduler-file "$place/scheduler" --no-dashboard &
scheduler=$!
array=$(sbatch --parsable --array="1-$jobs" --output="$place/%a.log" docs/clusters/slurm.sh "$place/scheduler")
echo "job $array; waiting for the first worker (logs: $place)" >&2
address=$(./openbach-run python -c 'import distributed, sys
client = distributed.Client(scheduler_file=sys.argv[1])
client.wait_for_workers(1)
print(client.scheduler.address)' "$place/scheduler")
OPENBACH_RUN_EXTRA='' ./openbach-run "$@" --scheduler "$address"
