"""A whole search over the toy system and the simulated model, with everything that a tuning run would have open.

with toy_search(tmp_path) as toy:
    toy.run(GepaOptimizer())
    toy.proposals[0].decision           # "accepted"
    toy.model.sent                      # requests that reached the simulated model
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from eval.cli.paths import PROJECT_ROOT
from eval.execution.budget import REFLECTION_KEY, Account, Budget, BudgetSettings
from eval.execution.executors.local import LocalAnswering
from eval.execution.runner import SampleRunner
from eval.execution.termination import StopController
from eval.runs.call_log import CallLog
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.scorers.gaia import GaiaScorer
from mas.llm.agent_lm import AgentLM
from mas.llm.engine import CallPolicy
from mas.llm.prices import FREE
from mas.prompt_sets.prompt_set import PromptSet, read_prompt_set
from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, use_context
from mas.simulation import SimulatedModel
from mas.simulation.reflection import propose_prompt
from mas.simulation.task_model import answer_request
from mas.system import agent_names
from mas.tools.settings import Resources
from optimize.search.optimizer import Optimizer, Proposal, SearchOutcome, SearchTask
from optimize.search.student import Objective, Student
from optimize.search.trials import Trials


@cache
def toy() -> tuple[Any, dict[str, list[Any]], PromptSet]:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base=None):
        config = compose("eval", ["system=toy", "data=toy", "model=offline"])
        system, data = instantiate(config.system), instantiate(config.data)
    prompts = read_prompt_set(system.default_prompts, agent_names(system), system.name, PROJECT_ROOT)
    return system, {split: list(data.load(split).samples) for split in ("train", "val")}, prompts


class CountedModel(SimulatedModel):
    """The simulated model, which counts the requests that reach it."""

    def __init__(self, before: Any = None, reflection: Any = None, **settings: Any) -> None:
        """
        Args:
            before: a coroutine function of the request, awaited before the reply.
            reflection: request → response, in place of the simulated reflection.
        """
        super().__init__(**settings)
        self.before, self.reflection, self.sent = before, reflection, 0

    def create_lm(self, agent: Any) -> Any:
        return self._counted(answer_request, agent.temperature)

    def create_reflection_lm(self, name: str | None = None) -> Any:
        return self._counted(self.reflection or propose_prompt, None)

    def _counted(self, reply: Any, temperature: float | None) -> Any:
        return AgentLM(
            f"offline/{self.world}-{self.seed}",
            _Counted(reply, self),
            CallPolicy("offline", price=FREE),
            temperature=temperature,
            cache=False,
        )


class _Counted:
    def __init__(self, reply: Any, model: CountedModel) -> None:
        self._reply, self._model = reply, model

    async def complete(self, request: Any) -> Any:
        self._model.sent += 1
        if self._model.before:
            await self._model.before(request)
        return self._reply(request)


class ByScore(Objective):
    """Stands in for the objective: the record's score, and half a sentence."""

    def __call__(
        self, gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        score = pred.trial.record.score or 0.0
        if pred_name is None:
            return score
        told = pred.trial.record.error or pred.trial.record.explanation
        return dspy.Prediction(score=score, feedback=f"{told}. Check the calculation and the form of the answer.")


@dataclass
class ToySearch:
    model: Any
    trials: Trials
    student: Student
    budget: Budget
    call_log: CallLog
    reflection_lm: Any
    seed: int
    threads: int
    n_train: int
    n_val: int
    max_metric_calls: int
    stopped: Callable[[], str | None]
    proposals: list[Proposal] = field(default_factory=list)
    proposed: Any = None

    @property
    def train_ids(self) -> list[str]:
        return [each.id for each in toy()[1]["train"][: self.n_train]]

    @property
    def val_ids(self) -> list[str]:
        return [each.id for each in toy()[1]["val"][: self.n_val]]

    @property
    def objective(self) -> Objective:
        samples = toy()[1]
        return ByScore(samples["train"][: self.n_train], samples["val"][: self.n_val])

    @property
    def task(self) -> SearchTask:
        report = self.proposed or self.proposals.append
        limits = (self.max_metric_calls, self.threads, self.seed, self.reflection_lm)
        return SearchTask(self.student, self.objective, *limits, self.stopped, report)

    def run(self, optimizer: Optimizer) -> SearchOutcome:
        question = SampleContext(
            REFLECTION_KEY,
            call_log=self.call_log.for_sample(REFLECTION_KEY),
            budget=Account(self.budget, lambda payment: None, is_reflection=True),
        )
        with use_context(question):
            return optimizer.search(self.task)

    @property
    def told(self) -> list[Any]:
        """The fields of the proposals, which are the same each time."""
        return [vars(each) for each in self.proposals]


@contextmanager
def toy_search(
    folder: Path,
    *,
    model: Any = None,
    seed: int = 0,
    threads: int = 4,
    n_train: int = 12,
    n_val: int = 12,
    max_metric_calls: int = 80,
    budget: BudgetSettings | None = None,
    agents: tuple[str, ...] = (),
    stop: StopController | None = None,
    scorer: Any = None,
    program: Any = None,
    prompts: PromptSet | None = None,
) -> Iterator[ToySearch]:
    """A second one in the same folder has the replies that the first one paid for."""
    system, samples, baseline = toy()
    model, prompts = model or CountedModel(), prompts or baseline
    ledger = Budget(budget or BudgetSettings(metric_calls=max_metric_calls))
    with RunStore(folder / "run.db") as store:
        call_log = CallLog(store)

        def question(sample: SampleKey) -> SampleContext:
            log = call_log.for_sample(sample)
            return SampleContext(
                sample,
                SampleLimits(),
                call_log=log,
                tool_log=log,
                budget=Account(ledger, lambda payment: None),
            )

        built = program or system.build(model, prompts, Resources())
        runner = SampleRunner("tuning", built, scorer or GaiaScorer(), 60.0, str, question)
        known = {each.id: each for split in samples.values() for each in split}

        def stopped() -> str | None:
            return trials.stop_reason or ledger.refusal

        session = SimpleNamespace(
            open_answering=lambda: LocalAnswering(runner, prompts), open_context=question, budget=ledger, store=store,
            info=RunInfo(run_id="tuning"), config=SimpleNamespace(run=SimpleNamespace(concurrency=threads)),
            stop=stop or StopController(say=print), answers=None,
        )  # fmt: skip
        trials = Trials(cast(Any, session), known)
        with closing(trials):
            student = Student(built, prompts, trials, agents)
            yield ToySearch(
                model, trials, student, ledger, call_log, model.create_reflection_lm(), seed, threads, n_train, n_val,
                max_metric_calls, stopped,
            )  # fmt: skip
