"""Trials of a tuning run in workers (`executor=ray`).

Trials(..., workers=TrialWorkers(config, resolved, parent, info, hooks, stop, cluster))
"""

import asyncio
import pickle
from collections.abc import Callable, Mapping

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.cluster.connection import RunCluster
from eval.execution.executors.cluster.ray_executor import Job, Workers, describe_start, list_profiles
from eval.execution.executors.contract import SampleHooks
from eval.execution.termination import StopController
from eval.execution.traced_program import AnsweredTrial
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, read_applied_prompts
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program


class TrialWorkers:
    """Workers of `Trials`, started with the first question. Used on the agents' event loop."""

    def __init__(
        self,
        config: EvalConfig,
        resolved: Mapping[str, object],
        parent: PromptSet,
        info: RunInfo,
        hooks: SampleHooks,
        stop: StopController,
        cluster: RunCluster,
    ) -> None:
        """Take over the trials of a session.

        Args:
            config: that of an evaluation.
            resolved: the same as plain dictionaries, from which workers build the program.
            parent: prompts that the run starts from.
            info: of the run: its id, and the labels of its questions.
            hooks: of the session: its folder, its notes, and the kept replies.
            stop: ends the session if no worker can be started.
            cluster: where the workers run.
        """
        resolved = {**resolved, "cache": {"tools": "off"}}  # results are kept among the replies
        self._start, self._parent, self._hooks = describe_start(resolved, parent, info, hooks), parent, hooks
        self._config = config
        self._stop, self._cluster = stop, cluster
        self._workers: Workers | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._waiting: set[asyncio.Future[AnsweredTrial]] = set()

    async def answer(
        self,
        program: Program,
        sample: Sample,
        sample_key: SampleKey,
        open_context: Callable[[SampleKey], SampleContext],
    ) -> AnsweredTrial:
        """Answer a question with the prompts that the program has now.

        Raises:
            asyncio.CancelledError: this call was cancelled, or all workers were closed.
        """
        waiting: asyncio.Future[AnsweredTrial] = asyncio.get_running_loop().create_future()

        def open_begun(key: SampleKey) -> SampleContext:
            context = open_context(key)
            context.read_start_time()  # kept with the replies: the same one in every worker
            return context

        def finish(record: Record, calls: bytes) -> None:
            if not waiting.done():
                waiting.set_result(AnsweredTrial(record, pickle.loads(calls) if calls else []))

        prompts, workers = read_applied_prompts(program, self._parent), self._open()
        self._waiting.add(waiting)
        workers.submit(Job(sample, sample_key, open_begun, self._hooks.read_replies, finish, prompts))
        try:
            return await waiting
        except asyncio.CancelledError:
            await self.close()  # the whole session ends: single trials are not cancelled
            raise
        finally:
            self._waiting.discard(waiting)

    async def close(self) -> None:
        """End all workers, and count what their requests in flight have cost. They are started again if needed."""
        keepers, self._keepers, self._workers = self._keepers, [], None
        for task in keepers:
            task.cancel()
        if keepers:
            await asyncio.wait(keepers)
        for waiting in self._waiting:
            waiting.cancel()

    def _open(self) -> Workers:
        if self._workers is None:
            profiles = list_profiles(self._config)
            self._workers = Workers(self._cluster, self._start, profiles, self._hooks, self._stop, takes_more=True)
            self._keepers = self._workers.open(self._config.run.concurrency, self._cluster.n_workers)
            for task in self._keepers:
                task.add_done_callback(self._note_end)
        return self._workers

    def _note_end(self, keeper: "asyncio.Task[None]") -> None:
        if keeper.cancelled():
            return
        if (error := keeper.exception()) is not None:
            self._stop.stop_now(f"workers cannot be kept: {error}", "errors")
        for waiting in self._waiting:
            waiting.cancel()
