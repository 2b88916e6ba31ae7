#!/bin/bash
# A training run on several nodes of a SLURM cluster, which is queued again when its time is over or it is preempted.
#     sbatch deploy/train/slurm.sh run.yaml
#     sbatch --array=1-3 deploy/train/slurm.sh run.yaml    # three runs; give each a folder and a seed of its own below
# SLURM sends SIGTERM to all processes five minutes before the time is over. The run then finishes its step, saves and
# leaves with status 75, and this script queues the job again; the run resumes from its last checkpoint. With any other
# status, the job ends. The folder of the run must lie on a disk that all nodes share.
# Tested with stand-ins for srun and scontrol, not on a cluster; resuming was tested with two processes on one machine.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
trap : TERM  # preemption sends SIGTERM to this script as well, which must outlive the run
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun python -m llm_anatomy.training.lab.launch \
    --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node 8 --shutdown-timeout 240 \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first_node:29500" \
    -m llm_anatomy train "$@"
status=$?
if [ "$status" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
