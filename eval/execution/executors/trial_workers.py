"""Workers of a tuning run: each answers samples with prompts that come with the sample.

workers = TrialWorkers(config, start, hooks, stop, place)
answered = await workers.answer(Trial(sample, key, prompts, digest(prompts), open_context, read_replies))
answered.record.score, answered.calls
await workers.close()
"""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.channel import Start
from eval.execution.executors.contract import Place, SampleHooks
from eval.execution.executors.processes import Job, Pool, divide, list_profiles
from eval.execution.termination import StopController
from eval.execution.traced_program import AnsweredTrial
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import SampleContext, SampleKey


@dataclass(frozen=True)
class Trial:
    """A sample and the prompts to answer it with."""

    sample: Sample
    key: SampleKey
    prompts: PromptSet
    digest: str  # of the prompts
    open_context: Callable[
        [SampleKey], SampleContext
    ]  # its budget, and a call log that takes replies as workers send them
    read_replies: Callable[[SampleKey], Mapping[str, str]]  # as the call log has them


class TrialWorkers:
    """Started with the first trial; used on one event loop, that of the rate limiters."""

    def __init__(
        self, config: EvalConfig, start: Start, hooks: SampleHooks, stop: StopController, place: Place
    ) -> None:
        """Take over the trials of a session.

        Args:
            config: of the program; `run.concurrency` trials are answered at once.
            start: what workers build the program from.
            hooks: of the session, for its notes.
            stop: ends the session if no worker can be started.
            place: where the workers run.
        """
        self._config, self._start, self._hooks, self._stop, self._place = config, start, hooks, stop, place
        self._pool: Pool | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._waiting: set[asyncio.Future[AnsweredTrial]] = set()

    async def answer(self, trial: Trial) -> AnsweredTrial:
        """Return the answer.

        Raises:
            asyncio.CancelledError: this call was cancelled, or all workers were closed.
        """
        pool = self._open_pool()
        waiting: asyncio.Future[AnsweredTrial] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)

        def finish(record: Record, calls: bytes) -> None:
            if not waiting.done():
                waiting.set_result(AnsweredTrial(record, pickle.loads(calls) if calls else []))

        pool.submit(
            Job(
                (trial.sample, trial.key), trial.open_context, trial.read_replies, finish, (trial.digest, trial.prompts)
            )
        )
        try:
            return await waiting
        except asyncio.CancelledError:
            await self.close()  # the whole session ends: single trials are not cancelled
            raise
        finally:
            self._waiting.discard(waiting)

    async def close(self) -> None:
        """End all workers, and count what their requests in flight have cost. They are started again if needed."""
        keepers, self._keepers, pool, self._pool = self._keepers, [], self._pool, None
        if pool is not None:
            pool.is_open = False
        for task in keepers:
            task.cancel()
        if keepers:
            await asyncio.wait(keepers)
        for waiting in self._waiting:
            waiting.cancel()

    def _open_pool(self) -> Pool:
        if self._pool is None:
            profiles = list_profiles(self._config)
            self._pool = Pool(self._place, self._start, profiles, self._hooks, self._stop, is_open=True)
            shares = divide(self._config.run.concurrency, self._place.n_workers)
            self._keepers = [asyncio.create_task(self._pool.keep_worker(share)) for share in shares]
            for task in self._keepers:
                task.add_done_callback(self._note_end)
        return self._pool

    def _note_end(self, keeper: "asyncio.Task[None]") -> None:
        if keeper.cancelled():
            return
        if (error := keeper.exception()) is not None:
            self._stop.stop_now(f"worker processes cannot be kept: {error}", "errors")
        for waiting in self._waiting:
            with suppress(asyncio.InvalidStateError):
                waiting.cancel()
