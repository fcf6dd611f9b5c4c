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

# --signal: two minutes before the job's time is over, every rank is told to save and stop. It ends with code 3.
# --requeue: Slurm starts the job again after a node has failed, and this script after a stop. The same command resumes
#   from the newest checkpoint.
# --wait: after a rank has ended, the others have a minute. srun ends with the highest of several codes.
srun --mpi=pmix --wait=60 gputrain train "${1:-run.yaml}" --progress plain
code=$?

# 3: stopped and saved. 9: a rank was lost. Above 128: a signal has ended a rank. After a hundred restarts, it starts
# again only after a stop.
died=$((code == 9 || code > 128))
if [ "$code" = 3 ] || { [ "$died" = 1 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 100 ]; }; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
