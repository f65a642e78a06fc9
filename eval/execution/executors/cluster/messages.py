"""Calls between a run's process and its workers, which are actors of a Ray cluster.

A call is sent as the name of a method and its arguments, together with others, and returns nothing. `lease` is the
number of a sample that a worker was given, `number` that of a question that a worker asks.

    run = cast(RunSide, Calls(outbox.put))
    run.pay(17, Payment(100, 0, 20))             # puts ("pay", (17, Payment(…)))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from eval.benchmarks.dataset import Sample
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.openai_chat import Server
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import Payment, SampleKey

Call = tuple[str, tuple[Any, ...]]


class Calls:
    """Sends the calls of all its methods."""

    def __init__(self, send: Callable[[Call], None]) -> None:
        self._send = send

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self._send((name, arguments))


@dataclass(frozen=True)
class Start:
    """What a worker builds the program from."""

    config: Mapping[str, object]  # resolved; secrets are in the environment
    prompts: PromptSet | None
    run_info: RunInfo
    folder: str  # of the run
    path: tuple[str, ...]  # where modules are found; empty: the worker is elsewhere, with files that came with the run
    is_search: bool  # as in `SampleHooks`


class WorkerSide(Protocol):
    """Calls to a worker."""

    def answer(
        self, lease: int, sample: Sample, key: SampleKey, replies: Mapping[str, str], prompts: PromptSet | None
    ) -> None:
        """Answer a sample, with the replies that were paid for earlier; `prompts`: None for those of `Start`."""

    def grant(self, number: int, limit: tuple[str, str] | None = None, pause_seconds: float | None = None) -> None:
        """Let a request be sent, unless a limit (its name, and a sentence) or the server's pause refuses it."""

    def cancel(self) -> None:
        """Break off what is in flight, report what it has cost, and end."""


class RunSide(Protocol):
    """Calls of a worker to the run's process."""

    def begin(self, pid: int, host: str) -> None:
        """Note that the program is built."""

    def fail(self, message: str) -> None:
        """Stop the run: this worker cannot answer, and no other could."""

    def ask_turn(self, number: int, model: str, server: Server, tokens: int, patience_seconds: float) -> None:
        """Let a request wait for its turn at a server; `model`: empty for the run's own, else the key of a judge."""

    def end_request(self, number: int, outcome: str | None = None, *arguments: float | None) -> None:
        """End a request that waited or was sent; `outcome`: method of its `Permit`, None if it tells nothing."""

    def reserve(self, number: int, lease: int) -> None:
        """Reserve a request of a sample in the run's budget."""

    def pay(self, lease: int, payment: Payment | None) -> None:
        """Record the cost of a request of a sample; None if it was reserved and never sent."""

    def keep_reply(self, lease: int, request: str, reply: str) -> None:
        """Keep a reply until the sample's record is stored."""

    def finish(self, lease: int, record: Record, calls: bytes) -> None:
        """Take the record of a sample, and its `NamedCall`s, pickled where their classes are known."""

    def log(self, name: str, text: str) -> None:
        """Add lines to one of the run's logs."""
