#!/bin/bash
# A class on a SLURM cluster: one share of it in each job of an array. The folder COURSE lies on the shared disk and
# holds submissions, private/KEY.key.json and grader.sif, which `apptainer build grader.sif docker-archive:grader.tar`
# makes of the image. N is written twice, here and below, since an array that repeats one job still has N shares.
#     COURSE=/shared/course KEY=week-1 sbatch deploy/slurm.sh
#     COURSE=/shared/course KEY=week-1 sbatch --array=3 deploy/slurm.sh    # repeats the third task only
#SBATCH --array=1-8
#SBATCH --cpus-per-task=2
#SBATCH --mem=6G
#SBATCH --time=01:00:00
N=8
apptainer run --containall --bind "$COURSE:/course" "$COURSE/grader.sif" \
    grade /course/submissions --exercises "/course/private/$KEY.key.json" --out /course/marks \
    --workers 2 --task "$SLURM_ARRAY_TASK_ID/$N"
