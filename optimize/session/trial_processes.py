"""Trials of a tuning run in workers (`executor=processes`, `executor=ray`).

Trials(..., workers=TrialProcesses(request, parent, info, hooks, stop, place))
"""

from collections.abc import Callable

from eval.benchmarks.dataset import Sample
from eval.execution.executors.contract import Place, SampleHooks
from eval.execution.executors.processes import describe_start
from eval.execution.executors.trial_workers import Trial, TrialWorkers
from eval.execution.termination import StopController
from eval.execution.traced_program import AnsweredTrial
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, digest, read_applied_prompts
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program
from optimize.session.config import TuningRequest


class TrialProcesses:
    """Workers of `Trials`. Used on the agents' event loop."""

    def __init__(
        self,
        request: TuningRequest,
        parent: PromptSet,
        info: RunInfo,
        hooks: SampleHooks,
        stop: StopController,
        place: Place,
    ) -> None:
        """Take over the trials of a session.

        Args:
            request: the checked command line.
            parent: prompts that the run starts from.
            info: of the run: its id, and the labels of its questions.
            hooks: of the session: its folder, its notes, and the kept replies.
            stop: ends the session if no worker can be started.
            place: where the workers run.
        """
        config = request.config.build_evaluation(1, request.config.run.concurrency)
        resolved = {**request.worker_config, "cache": {"tools": "off"}}  # results are kept among the replies
        start = describe_start(resolved, parent, info, str(hooks.folder.absolute()), asks_budget=True)
        self._workers, self._parent, self._hooks = TrialWorkers(config, start, hooks, stop, place), parent, hooks

    async def answer(
        self,
        program: Program,
        sample: Sample,
        sample_key: SampleKey,
        open_context: Callable[[SampleKey], SampleContext],
    ) -> AnsweredTrial:
        """Answer a question with the prompts that the program has now."""
        prompts = read_applied_prompts(program, self._parent)

        def open_begun(key: SampleKey) -> SampleContext:
            context = open_context(key)
            context.read_start_time()  # kept with the replies: the same one in every worker
            return context

        trial = Trial(sample, sample_key, prompts, digest(prompts), open_begun, self._hooks.read_replies)
        return await self._workers.answer(trial)

    async def close(self) -> None:
        """End all workers, until the next question."""
        await self._workers.close()
