"""Actor of `executor=ray`: hosts a worker on a machine of the cluster, and hands its messages on.

The worker (`worker.py`) runs in a thread with a socket, as it would in a process of its own; the actor's methods move
the bytes between that socket and `ray_bridge.py`.
"""

import eval.cli.start  # noqa: F401, I001

import asyncio
import socket
import threading
import traceback

from eval.execution.executors.worker import run_worker

CHUNK_BYTES = 64 * 1024  # Ray sends so much within a call; more would go through its object store


class WorkerActor:
    """Host of one worker. All methods run on the event loop of the actor; each is called again when it has returned."""

    async def open(self) -> None:
        """Start the worker."""
        ours, theirs = socket.socketpair()
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._failure = ""
        threading.Thread(target=self._work, args=(theirs,), name="worker", daemon=True).start()

    def _work(self, end: socket.socket) -> None:
        with end:
            try:
                run_worker(end)
            except Exception:  # noqa: BLE001  # the run's process reports it
                self._failure = traceback.format_exc(limit=-3)

    async def deliver(self, data: bytes) -> None:
        """Hand on what the run's process has sent."""
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:  # the worker has ended: `collect` says so
            return

    async def collect(self) -> bytes:
        """Wait for what the worker sends; empty when it has ended.

        Raises:
            RuntimeError: it ended with an error.
        """
        try:
            data = await self._reader.read(CHUNK_BYTES)
        except ConnectionError:
            data = b""
        if not data and self._failure:
            raise RuntimeError(self._failure)
        return data

    async def close(self) -> None:
        """Let the worker end: the run's process has nothing more for it, or has ended."""
        self._writer.write_eof()
