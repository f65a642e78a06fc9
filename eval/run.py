"""Evaluate a system on a set of questions.

python eval/run.py model=gpt-4o-mini          GAIA Level 1, validation
python eval/run.py experiment=offline         simulated model, sample questions: no key, no network
python eval/run.py -m model=gpt-4o-mini,gpt-4o     a sweep: one run after the other, then a table
python eval/run.py run.resume=latest          continue the run that was started last
python eval/run.py --help                     every option
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from eval.cli.command import exit_now, run_cli, run_command
from eval.cli.hydra_compat import get_multirun_job, get_task_overrides
from eval.config.evaluation import EvalConfig, read_config
from eval.config.measured import RESUME

if TYPE_CHECKING:
    from eval.runs.run_info import SweepJob
    from eval.workflows.evaluate import Ended


def task(composed: DictConfig) -> int:
    if (place := get_multirun_job()) is not None:
        from eval.workflows.sweep import run_as_job

        return run_as_job(place, composed, _evaluate)
    config = read_config(composed)
    if config.run.resume:
        from eval.workflows.resume import show_finished_run

        if (code := show_finished_run(config)) is not None:
            return code
    return _evaluate(config).code


def _evaluate(config: EvalConfig, sweep: "SweepJob | None" = None) -> "Ended":
    prompts = config.check()
    from eval.execution.run_session import SessionRequest
    from eval.workflows.evaluate import evaluate

    return evaluate(SessionRequest(config=config, prompts=prompts, command=get_task_overrides()), sweep=sweep)


def _read_original(run: str, arguments: Sequence[str]) -> Sequence[str]:
    from eval.workflows.resume import read_original_arguments

    return read_original_arguments(run, arguments)


def _run_jobs() -> int:
    code = run_command(task, "eval", RESUME, _read_original)
    if "eval.workflows.sweep" in sys.modules:  # a job of a sweep has run
        from eval.workflows.sweep import finish_sweep

        finish_sweep()
    return code


def main() -> int:
    return run_cli(_run_jobs)


if __name__ == "__main__":
    exit_now(main())
