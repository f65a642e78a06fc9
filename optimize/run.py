"""Look for better prompts, test them on sealed questions, and publish them only if they are better.

python optimize/run.py model=gpt-4o-mini reflection_model=gpt-4o budget.usd=5      GAIA: learns on 2 and 3, tests on 1
python optimize/run.py system=toy data=toy model=offline yes=true                  simulated model: no key, no network
python optimize/run.py resume=latest                                               go on; nothing is paid for twice
python optimize/run.py --help                                                      every option
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from omegaconf import DictConfig

from eval.cli.command import exit_now, run_cli, run_command
from eval.cli.hydra_compat import get_task_overrides
from eval.runs.folder import PROMPTS_FOLDER
from optimize.session.config import read_config
from optimize.session.tuning_store import RESUME, find_tuning_run, read_original_arguments


def task(composed: DictConfig) -> int:
    config = read_config(composed, get_task_overrides())
    if config.resume:
        from optimize.reports.tuning_page import show_finished_run

        if (code := show_finished_run(config.resume)) is not None:
            return code
        config.base.prompts = str(find_tuning_run(config.resume) / PROMPTS_FOLDER)  # the set may have been edited
    config.check()
    from optimize.pipeline.tuning import tune

    _, code = tune(config)
    return code


def main() -> int:
    return run_cli(lambda: run_command(task, "optimize", RESUME, read_original_arguments))


if __name__ == "__main__":
    exit_now(main())
