#!/bin/sh
# A run on the cluster of compose.yaml: sh deploy/ray/job.sh experiment=offline limit=24
set -eu
exec docker compose --project-directory "$(dirname "$0")" exec head \
    python eval/run.py executor=ray executor.address=auto "$@"
