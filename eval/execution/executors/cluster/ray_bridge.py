"""Process between a run and a Ray cluster: starts an actor for each worker, and moves its messages.

    python -m eval.execution.executors.cluster.ray_bridge 7 '{"address": null, …}'    # 7: its socket (`connection.py`)

It is a process of its own, because Ray takes over signals, writes the command line into its records, and ends the
process whose cluster has ended. The run's process sends the end of a socket for each worker. A Ray that this process
has started ends with it, and the run's process ends this one by ending.
"""

import asyncio
import json
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError

from eval.execution.executors.channel import Lost, pack
from eval.execution.executors.cluster.connection import BridgeSettings
from eval.execution.executors.cluster.ray_actor import CHUNK_BYTES, WorkerActor

START_SECONDS = 120.0  # for a node of the cluster to have a free CPU, and to start the actor
CLOSE_SECONDS = 12.0  # for workers to end; a little more than they take by themselves
_STORE_BYTES = 80 * 2**20  # the least that Ray takes; messages do not go through its object store


def connect(settings: BridgeSettings) -> float:
    """Connect to the cluster, or start one; return its number of CPUs."""
    if settings.address is None:
        ray.init(
            address="local",
            num_cpus=settings.n_workers,
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            configure_logging=False,
            _temp_dir=f"{settings.folder}/ray",  # Ray lets everybody into this folder, but not into the one around it
            # Ray would replace 127.0.0.1 by an address that others can reach
            _node_ip_address="127.0.0.2" if sys.platform == "linux" else "127.0.0.1",
        )
    else:
        files = {"working_dir": settings.package} if settings.package else None
        ray.init(address=settings.address, runtime_env=files, log_to_driver=False, configure_logging=False)
    return float(ray.cluster_resources().get("CPU", 0.0))


async def _serve(control: socket.socket) -> None:
    """Start a worker for each socket that comes, until the run's process has ended."""
    relays: set[asyncio.Task[None]] = set()
    while True:
        _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, control, 1, 1)
        if not descriptors:
            break
        task = asyncio.create_task(_relay(socket.socket(fileno=descriptors[0])))
        relays.add(task)
        task.add_done_callback(relays.discard)
    if relays:
        await asyncio.wait(relays, timeout=CLOSE_SECONDS)


async def _relay(end: socket.socket) -> None:
    """Keep an actor until its worker has ended, or the run's process has closed the socket."""
    reader, writer = await asyncio.open_connection(sock=end)
    actor = ray.remote(WorkerActor).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD").remote()
    tasks: list[asyncio.Task[None]] = []
    try:
        await _open(actor)
        tasks += [asyncio.create_task(_deliver(reader, actor)), asyncio.create_task(_collect(actor, writer))]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
        await asyncio.wait_for(tasks[1], CLOSE_SECONDS)
    except Exception as error:  # noqa: BLE001  # whatever it is, the worker is no longer there
        writer.write(pack([Lost(_shorten(error))]))
    finally:
        with suppress(RayError):
            ray.kill(actor)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _open(actor: "ActorHandle[WorkerActor]") -> None:
    try:
        await asyncio.wait_for(asyncio.wrap_future(actor.open.remote().future()), START_SECONDS)
    except TimeoutError:
        raise OSError(f"no node of the cluster has had a free CPU for {START_SECONDS:g} s") from None


async def _deliver(reader: asyncio.StreamReader, actor: "ActorHandle[WorkerActor]") -> None:
    while data := await reader.read(CHUNK_BYTES):
        await actor.deliver.remote(data)
    await actor.close.remote()


async def _collect(actor: "ActorHandle[WorkerActor]", writer: asyncio.StreamWriter) -> None:
    while data := await actor.collect.remote():
        writer.write(data)
        await writer.drain()


def _shorten(error: BaseException) -> str:
    """Return the first line of what Ray says, or the last one of an actor's traceback."""
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
    if isinstance(error, RayTaskError) and lines:
        return lines[-1][:300]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def run_bridge(control: socket.socket, settings: BridgeSettings) -> None:
    """Serve the run's process until it ends, or closes the socket."""
    try:
        try:
            answer: dict[str, object] = {"cpus": connect(settings)}
        except (Exception, SystemExit) as error:  # noqa: BLE001  # Ray raises all kinds
            answer = {"error": _shorten(error)}
        control.sendall(json.dumps(answer).encode() + b"\n")
        if "cpus" in answer:
            asyncio.run(_serve(control))
    finally:
        ray.shutdown()
        shutil.rmtree(settings.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.argv[0] = str(Path(sys.argv[0]).parents[4])  # Ray puts its folder on the path of all workers
    with socket.socket(fileno=int(sys.argv[1])) as given, suppress(OSError):
        run_bridge(given, BridgeSettings(**json.loads(sys.argv[2])))
