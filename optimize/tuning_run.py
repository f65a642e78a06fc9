"""A tuning run with everything open that its phases share: files, call log, budget, program, questions.

with opened(request, splits, folder, console) as run:
    run.answers(run.parent.prompts, run.val_ids)     # one Trial a question
    run.purse.over                                   # None, or which budget is used up
"""

import functools
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from eval.call_log import CallLog
from eval.missing_services import missing_service
from eval.paths import PROJECT_ROOT, shown
from eval.run_lock import RunInUseError, RunLock
from eval.runner import Runner
from eval.tracking.origin import origin
from eval.tracking.settings import without_passwords
from mas.errors import UserError
from mas.llm.loop import background_loop
from mas.prompts import PromptSet, apply_prompt_set
from mas.question import Question, Sample, at_work
from optimize.budget import REFLECTION, Purse, spent_before
from optimize.candidate import PARENT, Candidate, Proposal, made_of
from optimize.config import OptimizeConfig
from optimize.cost_estimate import UNLIMITED
from optimize.ending import EndedError, HaltedError
from optimize.halting import Halt
from optimize.leaks import LeakIndex, LeakReport, system_words
from optimize.objective import Objective
from optimize.progress import progress_line, watching
from optimize.resuming import check_unchanged, of_the_run
from optimize.run_files import MARKER, RunFiles
from optimize.spend import Spend
from optimize.splits import Splits
from optimize.student import Student
from optimize.trials import Trial, Trials
from optimize.veil import Veiled

LEAST_JUDGED = 10  # answers; before that a share of failures is luck
TRIALS = "trials.db"
_UNITS = {"lm_calls": "requests"}
SEALED = "sealed"  # the folder of the sealed test's runs, and the name under which their requests are paid for


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line, checked."""

    config: OptimizeConfig
    resolved: dict[str, Any]  # the same as plain dictionaries
    prompts: PromptSet  # to begin with
    command: Sequence[str]  # the overrides as typed
    shelf: Path = PROJECT_ROOT / "prompts"  # where a set is published


class TuningRun:
    """Made by `opened`."""

    def __init__(self, request: Request, splits: Splits, folder: Path, console: Console, stack: ExitStack) -> None:
        self.config, self.resolved, self.splits, self.console = request.config, request.resolved, splits, console
        self.files, self.request = RunFiles(folder, request.config.redact), request
        self.origin = {**origin(), "mlflow.source.name": "optimize/run.py"}
        self._began = time.monotonic()
        self._begin()
        self.parent = Candidate(PARENT, self.prompts_of(PARENT))
        self.call_log = stack.enter_context(closing(CallLog(folder / "calls.db")))
        self.purse = Purse(self.config.budget, self._spent_before())
        base = self.config.base
        resources = stack.enter_context(base.system.open_resources(base.tools, missing_service(base)))
        self._program = base.system.build(base.model, self.parent.prompts, base.tools, resources)
        examples = {each.id: each for each in (*splits.train, *splits.val)}
        self.objective = Objective(examples)
        self.trials = Trials(self._runner(), examples, self.purse, folder / TRIALS, lambda: self.halt.reason)
        stack.callback(self.trials.close)
        self.halt = Halt(self.config.run.drain_seconds, self._cancel)

    @property
    def run_id(self) -> str:
        return str(self.files.read("tuning")["run_id"])

    @property
    def train_ids(self) -> list[str]:
        return [example.id for example in self.splits.train]

    @property
    def val_ids(self) -> list[str]:
        return [example.id for example in self.splits.val]

    # Programs and answers

    def program(self, prompts: PromptSet) -> Any:
        """A copy of the system's program with these prompts."""
        program = self._program.deepcopy()
        apply_prompt_set(program, prompts)
        return program

    def student(self, prompts: PromptSet) -> Student:
        return Student(self.program(prompts), prompts, self.trials, self.config.agents)

    def answers(self, prompts: PromptSet, epoch: int = 1) -> list[Trial]:
        """Each validation question answered once; those of the first epoch are the search's own, and count as such.

        Raises:
            EndedError: the budget is used up, or the metric is broken.
            HaltedError: it was stopped.
        """
        with self.asking():
            trials = self.trials.answers(self.student(prompts), self.val_ids, epoch, counted=epoch == 1)
        self.check_halted()
        self.check_metric()
        if not all(trial.reached for trial in trials):
            raise EndedError("budget", f"{self.purse.over or self.trials.over}, before there was a verdict")
        return trials

    def _runner(self) -> Runner:
        config = self.config
        return Runner(
            run_id=self.run_id,
            program=None,  # each trial brings its own
            scorer=config.base.scorer,
            concurrency=config.run.concurrency,
            deadline_seconds=config.run.deadline_seconds,
            listener=lambda thread_id, sample: lambda level, event, fields: None,
            redact=config.redact,
            finished=lambda record: None,
            question=self._question,
        )

    def _question(self, sample: Sample) -> Question:
        replies = self._replies(sample)
        paid = functools.partial(self.call_log.pay, sample)
        return Question(
            sample,
            self.config.base.limits,
            call_log=replies,
            tool_log=replies,
            reserve=functools.partial(self.purse.reserve_call, paid=paid),
        )

    def _replies(self, sample: Sample) -> Veiled:
        return Veiled(self.call_log.for_sample(sample), self.config.base.secrets)

    @functools.cached_property
    def reflection_lm(self) -> Any:
        """The model that rewrites prompts; to be asked inside `reflecting`."""
        return self.config.base.model.reflection_lm(self.config.reflection_model)

    @contextmanager
    def reflecting(self) -> Iterator[None]:
        """The reflection's requests are logged, paid for and replayed like any other's."""
        with at_work(self._reflection), self.asking():
            yield

    @functools.cached_property
    def _reflection(self) -> Question:
        """One for the whole session: the same request, made again, is another one."""
        paid = functools.partial(self.call_log.pay, REFLECTION)
        return Question(
            REFLECTION,
            call_log=self._replies(REFLECTION),
            reserve=functools.partial(self.purse.reserve_call, reflection=True, paid=paid),
        )

    # Ending

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ctrl-C inside stops what is asked, not the process; meanwhile it is told how far the run has come."""
        with self.halt.on_signals(), watching(self.console, self._so_far):
            yield

    def _cancel(self) -> None:
        """Break off what is asked, a reflection as well."""
        self.trials.cancel()
        background_loop().call_soon_threadsafe(self._reflection.close)

    def _so_far(self) -> str:
        return progress_line(self.trials.n_reached, self.purse.spend(), self.config.budget)

    def why_stopped(self) -> str | None:
        """Why nothing more is asked; None: the search may go on."""
        return self.trials.over or self.purse.over

    def check_halted(self) -> None:
        """
        Raises:
            HaltedError: by a signal, or by a model server that takes no more calls.
        """
        self.trials.check()
        if reason := self.halt.reason or self.trials.reason:
            raise HaltedError(reason)

    def check_metric(self) -> None:
        """
        Raises:
            EndedError: so many answers could not be scored that the others say nothing.
        """
        share, trials, objective = self.config.gate.max_metric_error_share, self.trials, self.objective
        for failed, scored, first in (
            (trials.n_metric_errors, trials.n_reached, trials.metric_error),
            (objective.errors, objective.calls, objective.first_error),
        ):
            if scored >= LEAST_JUDGED and failed > share * scored:
                raise EndedError(
                    "metric_errors",
                    f"{failed} of {scored} answers could not be scored (gate.max_metric_error_share={share:g}): "
                    f"{first}",
                )

    @property
    def max_metric_calls(self) -> int:
        """Of the search, the parent's among them."""
        budget = self.config.budget.metric_calls
        return UNLIMITED if budget is None else budget

    @property
    def answers_afresh(self) -> int:
        """That the shortlist takes."""
        shortlist = self.config.shortlist
        return (shortlist.size + 1) * shortlist.epochs * len(self.splits.val)

    @property
    def answers_of_test(self) -> int:
        return 2 * self.config.gate.epochs * len(self.splits.sealed)

    def check_room(self, needed: Spend) -> None:
        """
        Args:
            needed: for what is left of the sealed test.

        Raises:
            EndedError: it would be begun, or gone on with, and not ended; it is opened only if there is room.
        """
        so_far, budget = self.purse.spend(), self.config.budget
        opened = " more" if (self.files.folder / SEALED).is_dir() else ""
        for option, allowed, spent, more in (
            ("lm_calls", budget.lm_calls, so_far.lm_calls, needed.lm_calls),
            ("tokens", budget.tokens, so_far.tokens, needed.tokens),
            ("usd", budget.usd, so_far.cost_usd, needed.cost_usd),
            ("seconds", budget.seconds, so_far.seconds, needed.seconds),
        ):
            if allowed is not None and spent + more > allowed:
                raise EndedError(
                    "budget",
                    f"the sealed test will take about {_amount(option, more)}{opened}, and {_amount(option, spent)} of "
                    f"budget.{option}={allowed} are spent; it was not {'gone on with' if opened else 'opened'}",
                )

    # What is kept

    def prompts_of(self, candidate_id: str) -> PromptSet:
        system = self.config.base.system
        return self.files.candidate(candidate_id, system.agent_names, system.name)

    def leaks_of(self, prompts: PromptSet) -> LeakReport:
        return self._leak_index.check(prompts, self.parent.prompts, system_words(self._program))

    @functools.cached_property
    def _leak_index(self) -> LeakIndex:
        return LeakIndex.of(self.splits.train, self.splits.val, self.splits.sealed)

    @property
    def configuration(self) -> str:
        """As the run's folder may keep it, YAML."""
        text = yaml.safe_dump(self.resolved, sort_keys=False, allow_unicode=True)
        return self.config.redact(without_passwords(text))

    @property
    def scorer_settings(self) -> Any:
        return yaml.safe_load(self.configuration).get("scorer")

    def note(self, phase: str, **facts: Any) -> None:
        """Where the run stands, for whoever looks into its folder."""
        self.files.update(phase=phase, spend=self.purse.spend().to_dict(), **facts)

    def show_proposal(self, proposal: Proposal) -> None:
        score = "" if proposal.val_score is None else f", {proposal.val_score:.1%} on validation"
        candidate, decision = proposal.candidate, proposal.decision.replace("_", " ")
        self.show(f"  {candidate.id} ({made_of(candidate)}): {decision}{score}; {proposal.reason}")

    def show_leaks(self, candidate_id: str, report: LeakReport) -> None:
        if report.hits:
            self.show(f"  {candidate_id}: {'blocked: ' if report.blocked else ''}{report.summary()}")

    def show(self, line: str) -> None:
        self.console.print(self.config.redact(line), markup=False, highlight=False, soft_wrap=True)

    # Opening

    def _spent_before(self) -> Spend:
        """The answers of a search that is over are not scored again; of any other they are, and counted then."""
        searched = self.files.read("search") or {}
        return replace(spent_before(self.call_log, self._seconds_before), metric_calls=searched.get("metric_calls", 0))

    def _begin(self) -> None:
        files, now = self.files, datetime.now(UTC).isoformat()
        before = files.read("tuning") or {}
        self._seconds_before = _seconds_of(before, self.files.folder)
        config = self.config
        if before:
            check_unchanged(files.folder, yaml.safe_load(self.configuration))
            self.splits.check_same(files.read("splits"))
            files.remove("verdict")  # that a budget was used up: it may be a larger one now
        else:
            files.write_text("config.yaml", self.configuration)
            files.write("splits", self.splits.to_dict())
            files.keep(Candidate(PARENT, self.request.prompts))
        files.write("command", of_the_run(self.request.command, self.config.redact))
        files.update(
            run_id=before.get("run_id") or uuid.uuid4().hex[:12],
            name=config.name,
            system=config.base.system.name,
            model=config.base.model_name,
            reflection_model=config.reflection_model or config.base.model_name,
            optimizer=config.optimizer.name,
            simulated=config.base.simulated,
            seed=config.seed,
            started_at=before.get("started_at") or now,
            session_started_at=now,
            session_seconds_before=self._seconds_before,
            ended_at=None,
            phase=before.get("phase", "preflight"),
            split_digest=self.splits.digest,
            sealed_digest=self.splits.sealed_digest,
            parent_set=before.get("parent_set") or self.request.prompts.name,
            origin=self.origin,
        )


@contextmanager
def opened(request: Request, splits: Splits, folder: Path, console: Console) -> Iterator[TuningRun]:
    """
    Raises:
        UserError: another process is at work in the folder, or the run was started with other options.
    """
    lock = RunLock(folder / MARKER)
    try:
        lock.take()
    except RunInUseError as error:
        raise UserError(f"another process is at work on {shown(folder)}; wait for it, or start a new run.") from error
    try:
        with ExitStack() as stack:
            yield TuningRun(request, splits, folder, console, stack)
    finally:
        lock.release()


def _amount(option: str, amount: float) -> str:
    return f"${amount:,.4f}" if option == "usd" else f"{amount:,.0f} {_UNITS.get(option, option)}"


def _seconds_of(before: dict[str, Any], folder: Path) -> float:
    """Wall time of the sessions before; one that was killed took until its last reply, as far as anybody knows."""
    if not before:
        return 0.0
    if before["ended_at"]:
        return float(before["spend"]["seconds"])
    written = max((each.stat().st_mtime for each in folder.glob("*.db*")), default=0.0)
    began = datetime.fromisoformat(before["session_started_at"]).timestamp()
    return float(before["session_seconds_before"]) + max(0.0, written - began)
