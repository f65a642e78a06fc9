"""Connection to a Ray cluster, and to a worker in an actor there. Imported once the environment for Ray is set.

with connect("Ray", address="auto"):
    channel = ActorChannel()
    await channel.open(start)
    channel.send(Answer(…))
    while messages := await channel.receive(): ...      # ends when the worker has ended
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import ray
from ray.exceptions import RayError

from eval.cli.command import STOP_SIGNALS
from eval.execution.executors.cluster.messages import FromWorker, Start, ToWorker
from eval.execution.executors.cluster.worker import WorkerActor
from mas.runtime.errors import UserError

START_SECONDS = 120.0  # for a node of the cluster to have a free CPU, and to start the actor


@contextmanager
def connect(what: str, hint: str = "", **options: object) -> Iterator[float]:
    """Connect this process to a cluster, and disconnect after the block.

    Signals of the terminal reach no process that is started here, and this process keeps its own handlers.

    Args:
        what: subject of the message if it cannot be used.
        hint: end of that message.
        options: of `ray.init`.

    Yields:
        The CPUs of the cluster.

    Raises:
        UserError: it cannot be used.
    """
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # what fails is in the run's own messages
    handler, masked = signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        ray.init(log_to_driver=False, configure_logging=False, **options)
    except (Exception, SystemExit) as error:  # Ray raises all kinds
        first = next(iter(str(error).strip().splitlines()), "")
        raise UserError(f"{what} cannot be used: {type(error).__name__}: {first[:300]}{hint}.") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    try:
        yield float(ray.cluster_resources().get("CPU", 0.0))
    finally:
        ray.shutdown()


class ActorChannel:
    """A worker in a new actor, and the messages from and to it. Used on one event loop."""

    def __init__(self) -> None:
        options = {"num_cpus": 1, "max_restarts": 0, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(WorkerActor).options(**options).remote()
        self._unsent: list[ToWorker] = []
        self._sending: asyncio.Task[None] | None = None
        self._collecting: ray.ObjectRef[list[FromWorker]] | None = None
        self.how_it_ended = "the worker has ended"

    async def open(self, start: Start) -> bool:
        """Wait until the actor has started; return False if it cannot."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._actor.open.remote(start)
        except TimeoutError:
            self.how_it_ended = f"no node of the cluster has had a free CPU for {START_SECONDS:g} s"
        except RayError as error:
            self.how_it_ended = _shorten(error)
        else:
            return True
        return False

    def send(self, message: ToWorker) -> None:
        """Send a message, together with others that are sent until the last ones have arrived."""
        self._unsent.append(message)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        with suppress(RayError):  # the worker has ended: `receive` says so
            while self._unsent:
                messages, self._unsent = self._unsent, []
                await self._actor.deliver.remote(messages)

    async def receive(self) -> list[FromWorker]:
        """Return what the worker has sent; nothing: it has ended. Nothing is lost if this is cancelled."""
        if self._collecting is None:
            self._collecting = self._actor.collect.remote()
        try:
            messages: list[FromWorker] = await self._collecting
        except RayError as error:
            self.how_it_ended = _shorten(error)
            return []
        self._collecting = None
        return messages

    def kill(self) -> None:
        """End the actor."""
        if self._sending is not None:
            self._sending.cancel()
        with suppress(RayError):
            ray.kill(self._actor)


def _shorten(error: RayError) -> str:
    """Return the first line of what Ray says."""
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
