#!/bin/bash
# The ablation lab on a SLURM cluster: each task of the array runs its share of the rows, in one folder for all.
#     sbatch deploy/train/ablation_slurm.sh --out /shared/ablation
#     python -m llm_anatomy experiment ablation --tables --out /shared/ablation    # when the array is done
# A run is a file, so that a task that was stopped and queued again goes on after the last one. The folder must lie on a
# disk that all nodes share. Other options of the command, such as --size base --device cuda, are passed on.
# Tested with a stand-in for Python, not on a cluster; sharing a folder was tested with two processes on one machine.
#SBATCH --array=1-13
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
exec python -m llm_anatomy experiment ablation --task "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
    --workers "$SLURM_CPUS_PER_TASK" "$@"
