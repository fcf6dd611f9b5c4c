#!/bin/bash
# gputrain on a Slurm cluster: sbatch slurm.sh run.yaml
#SBATCH --job-name=gputrain
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

# --signal: two minutes before its time is over every rank is told to save and stop. It then ends with code 3.
# --requeue: the job starts again after a node has failed, and below after a stop. The same command goes on from the newest checkpoint.
# --wait: once a rank has ended, the others have a minute. Of several codes srun takes the highest.
srun --mpi=pmix --wait=60 gputrain train "${1:-run.yaml}" --progress plain
code=$?

# 3: stopped and saved. 9: a rank was lost. Above 128: a signal has ended one. After a hundred restarts only stops go on.
died=$((code == 9 || code > 128))
if [ "$code" = 3 ] || { [ "$died" = 1 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 100 ]; }; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
