"""The same questions asked of several programs side by side, each program's answers kept as a run of its own.

The arms run at the same time, so that whatever happens to the model's server happens to all of them. Each leaves a
folder that every other command can read: report, compare, sync. An arm that was cut short goes on where it was.

    arms = [Arm("parent", folder / "parent", prompts, resources), Arm("winner", folder / "winner", tuned, resources)]
    evaluate_pairs(arms, config, samples, info, stop, console)      # None, or why it ended early
    read_arm_records(arms[0])
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.console import Console, RunProgress
from eval.execution.executors.local import LocalExecutor
from eval.execution.run_session import RunSession, begin_session, run_to_end
from eval.execution.termination import StopController
from eval.reports.files import write_reports
from eval.runs.folder import DATABASE
from eval.runs.logs import RunLogs, log_parts
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, StoreError, list_pending
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.system import Program, Resources


@dataclass(frozen=True)
class Arm:
    name: str
    folder: Path
    prompts: PromptSet
    resources: Resources
    change_program: Callable[[Program], None] | None = None  # called before the first sample
    gold_informed: str = ""  # as in RunInfo


def evaluate_pairs(
    arms: Sequence[Arm],
    config: EvalConfig,
    samples: Sequence[Sample],
    info: RunInfo,
    stop: StopController,
    console: Console,
) -> str | None:
    """Ask every arm what is left of it, `config.run.epochs` times each question.

    Args:
        arms: at least one.
        config: of each; `run.concurrency` holds for each of them.
        samples: the questions.
        info: of each arm, apart from its prompts.
        stop: ends all of them.
        console: where the bar goes.

    Returns:
        Why it ended early; None: every answer is there. What the model's server failed to answer is asked again by a
        later session, if there is one.

    Raises:
        UserError: another process writes to one of the folders.
    """
    at_once = config.limit_concurrency(config.run.concurrency, len(arms))
    config = replace(config, run=replace(config.run, concurrency=at_once))
    with ExitStack() as stack, stop.handle_signals():
        sessions = [_ArmSession(stack, arm, config, samples, info, stop, console) for arm in arms]
        total = sum(len(each.pending) for each in sessions)
        traffic = config.list_traffic
        progress = stack.enter_context(RunProgress(total, console, at_once=at_once * len(arms), list_traffic=traffic))
        work = [stack.enter_context(each.open_execution(progress)) for each in sessions]
        stopped = run_to_end(work, stop) if total else None
        for each in sessions:
            each.end(stopped)
    return stopped


def write_arm_reports(folders: Iterable[Path]) -> None:
    """Write summary and report of arms whose answers may be seen."""
    for folder in folders:
        with RunStore(folder / DATABASE, read_only=True) as store:
            write_reports(folder, store)


def read_arm_records(arm: Arm) -> list[Record]:
    """Its records so far, one per question and epoch."""
    with RunStore(arm.folder / DATABASE, read_only=True) as store:
        return list(store.final_records())


class _ArmSession:
    """One arm in this process."""

    def __init__(
        self,
        stack: ExitStack,
        arm: Arm,
        config: EvalConfig,
        samples: Sequence[Sample],
        info: RunInfo,
        stop: StopController,
        console: Console,
    ) -> None:
        self.arm, self.config = arm, config
        arm.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.store = stack.enter_context(RunStore(arm.folder / DATABASE))
        except StoreError as error:
            raise UserError(f"{error}.") from error
        info = replace(
            info,
            prompts_sha256=digest(arm.prompts),
            epochs=config.run.epochs,
            command=[],
            gold_informed=arm.gold_informed,
        )
        self.recorder = begin_session(arm.folder, self.store, info, samples, arm.prompts)
        by_id = {sample.id: sample for sample in samples}
        left = list_pending(list(by_id), config.run.epochs, self.store.read_last_attempts(), retry_errors=True)
        self.pending = [(by_id[sample_key.sample_id], sample_key) for sample_key in left]
        self.logs = stack.enter_context(RunLogs(arm.folder, config.secrets(), config.log))
        self.run = RunSession(config, self.recorder, arm.folder, self.logs, console, stop)

    def open_execution(self, progress: RunProgress) -> AbstractContextManager[Coroutine[object, object, None]]:
        executor = LocalExecutor(self.config, self.arm.prompts, self.arm.resources)
        if self.arm.change_program is not None:
            self.arm.change_program(executor.program)
        info = self.recorder.info
        log_parts(self.logs.entry_point, info.system, info.config, self.arm.prompts, executor.program)
        return self.run.open_execution(executor, self.pending, progress.update)

    def end(self, stopped: str | None) -> None:
        self.recorder.end(stopped)
