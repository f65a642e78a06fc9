"""An open tuning run: its session, and what the phases share besides (program, questions, trials, reflection)."""

import functools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import dspy

from eval.execution.budget import REFLECTION_KEY
from eval.execution.console import Output, RunProgress
from eval.execution.run_session import Session, SessionRequest, describe_run, open_session
from eval.execution.termination import MIN_JUDGED, RunStoppedError
from eval.runs.folder import TUNING_FILE
from eval.runs.run_info import RunInfo, TuningTask, describe_task
from eval.runs.store import open_run
from eval.scorers.score import name_metric, read_scorer_digest, read_scorer_name
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.prompt_sets.shelf import is_gated
from mas.runtime.event_loop import background_loop
from mas.runtime.sample_context import SampleContext, use_context
from mas.system import Program
from optimize.gate.gate import MAX_FAILED_SHARE, EarlyVerdictError
from optimize.publishing.leaks import LeakIndex, LeakReport, collect_system_words
from optimize.questions.splits import Splits
from optimize.search.optimizer import PARENT
from optimize.search.student import Objective, Student
from optimize.search.trials import Trial, Trials
from optimize.session.config import TuneConfig
from optimize.session.tuning_store import check_unchanged, find_tuning_run, read_parent, take_snapshot, write_file


class TuningRun:
    """State of one session of a run. Created by `open_tuning_run`."""

    def __init__(self, config: TuneConfig, splits: Splits, session: Session) -> None:
        self.config, self.splits, self.session = config, splits, session
        self.store, self.folder, self.stop = session.store, session.folder, session.stop
        self.answers, self.call_log, self.budget = session.answers, session.call_log, session.budget
        self.console = session.output.console
        self.stopped: str | None = None  # why it ends without a verdict
        self.parent = self.read_prompts(PARENT)
        self.objective = Objective(splits.train, splits.val, config.base.scorer, splits.labels)
        self.trials = Trials(session, self.objective.samples)

    @property
    def metric(self) -> str:
        """The name of what is compared, by the scorer and the answers so far."""
        return name_metric(read_scorer_name(self.config.stored_config.get("scorer")), self.store.list_scores())

    def build_program(self, prompts: PromptSet) -> Program:
        """Return a copy of the system's program with these prompts."""
        program = self.session.program.deepcopy()
        apply_prompt_set(program, prompts)
        return program

    def build_student(self, prompts: PromptSet) -> Student:
        return Student(self.build_program(prompts), prompts, self.trials, self.config.agents)

    def answer_validation(self, prompts: PromptSet, epoch: int = 1) -> list[Trial]:
        """Answer each validation question once. Answers of epoch 1 are shared with the search, and count as its own."""
        with self.watch():
            trials = self.build_student(prompts).answer_all(self.objective.val_ids, epoch)
        self.check_stopped()
        self.check_metric()
        if not all(trial.completed for trial in trials):
            raise RunStoppedError(f"{self.budget.refusal}, before there was a verdict; raise that budget")
        return trials

    @functools.cached_property
    def reflection_lm(self) -> dspy.BaseLM:
        """The model that rewrites prompts; call it inside `use_reflection`."""
        return self.config.base.model.create_reflection_lm(self.config.reflection_model)

    @contextmanager
    def use_reflection(self) -> Iterator[None]:
        """Log, pay and replay the reflection's requests inside the block."""
        with use_context(self._reflection), self.watch():
            yield

    @functools.cached_property
    def _reflection(self) -> SampleContext:
        """One context for the session, so that a repeated request is not answered from its first reply."""
        return self.session.open_context(REFLECTION_KEY)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Inside the block, Ctrl-C stops the requests instead of the process, and progress is shown."""
        traffic = self.config.base.list_traffic
        progress = RunProgress(None, self.console, list_traffic=traffic, describe=self._format_progress)
        with self.stop.handle_signals(), self.stop.in_flight(self._close_reflection), progress:
            self.trials.show = progress.update
            yield

    def _format_progress(self) -> str:
        """Return a line with the answers of this session, replayed ones included, and the spend of all sessions."""
        spend, planned = self.budget.spend(), self.config.budget.metric_calls
        usd = f", ${spend.cost_usd:,.4f}" if spend.cost_usd else ""
        scored = f"{spend.metric_calls:,} of {planned:,} metric calls"
        spent = f"{spend.lm_calls:,} requests{usd}, {spend.seconds:,.0f} s"
        return f"so far: {self.trials.n_completed:,} answers ({scored}), {spent}"

    def _close_reflection(self) -> None:
        background_loop().call_soon_threadsafe(self._reflection.close)

    def get_stop_reason(self) -> str | None:
        """Return why no more requests are sent; None while the search may go on."""
        return self.stop.reason or self.budget.refusal

    def check_stopped(self) -> None:
        self.trials.check()
        if reason := self.stop.reason:
            raise RunStoppedError(reason)

    def check_metric(self) -> None:
        """Check the share of answers that could not be scored; EarlyVerdictError: the others mean nothing."""
        trials, objective = self.trials, self.objective
        for failed, scored, first in (
            (trials.n_metric_errors, trials.n_completed, trials.metric_error),
            (objective.errors, objective.calls, objective.first_error),
        ):
            if scored >= MIN_JUDGED and failed > MAX_FAILED_SHARE * scored:
                raise EarlyVerdictError("metric_errors", f"{failed} of {scored} answers could not be scored: {first}")

    def read_prompts(self, candidate_id: str) -> PromptSet:
        return take_snapshot(self.store).get_prompts(candidate_id)

    def check_leaks(self, prompts: PromptSet) -> LeakReport:
        task, words = self.session.info.tuning, collect_system_words(self.session.program)
        return self._leak_index.check(prompts, self.parent, words, task is not None and task.parent_gated)

    @functools.cached_property
    def _leak_index(self) -> LeakIndex:
        return LeakIndex(self.splits.train, self.splits.val, self.splits.sealed, self.splits.labels)

    def save_spend(self, **changes: object) -> None:
        """Write what was spent so far, and other changes of the run's state."""
        self.session.update(spend=vars(self.budget.spend()), **changes)

    def show(self, line: str) -> None:
        self.console.print(self.config.base.redact(line), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def open_tuning_run(config: TuneConfig, splits: Splits, output: Output) -> Iterator[TuningRun]:
    """Open a new run, or the one that is resumed, and begin a session; UserError: it is not as it was started."""
    folder, before, prompts = None, RunInfo(), config.parent
    if config.resume:  # checked before the store is opened, which writes to it
        folder = find_tuning_run(config.resume)
        with open_run(folder) as kept:
            before, saved = kept.read_info(), kept.read_result("splits")
    if folder and before.tuning:
        check_unchanged(before, config.base, config.stored_config)
        splits.check_same(saved or {})
        prompts = replace(read_parent(folder, before), name=before.prompts_name or prompts.name)
    asked = SessionRequest(
        config=config.base,
        prompts=prompts,
        command=config.command,
        samples=[*splits.train, *splits.val, *splits.sealed],
        kind="optimize",
        name=f"{config.name}_{config.optimizer.name}",
        resumed=folder,
    )
    with open_session(asked, output) as session:
        if not before.tuning:
            write_file(session.store, TUNING_FILE, splits.to_dict())  # first: by it the folder is known
            session.store.write_results({"splits": splits.to_dict()})
        session.begin(_describe(config, splits, asked, before), budget=config.budget)
        run = TuningRun(config, splits, session)
        with closing(run.trials):
            yield run


def _describe(config: TuneConfig, splits: Splits, asked: SessionRequest, before: RunInfo) -> RunInfo:
    base, stored = config.base, config.stored_config
    task = describe_task(splits.sealed, stored.get("scorer"), splits.labels.names)
    # The copy in the folder of a resumed run does not say it.
    parent_gated = before.tuning.parent_gated if before.tuning else is_gated(config.parent)
    info = describe_run(asked, stored, replace(task, dataset_sha256=splits.sealed_digest))
    return replace(
        info,
        origin={**info.origin, "mlflow.source.name": "optimize/run.py"},
        tuning=TuningTask(
            name=config.name,
            optimizer=config.optimizer.name,
            reflection_model=config.reflection_model or base.model_name,
            seed=config.seed,
            split_digest=splits.digest,
            sealed_digest=splits.sealed_digest,
            scorer_sha256=read_scorer_digest(base.scorer),
            parent_gated=parent_gated,
        ),
    )
