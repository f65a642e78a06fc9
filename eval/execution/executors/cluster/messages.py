"""Messages between a run's process and its workers, which are actors of a Ray cluster."""

from collections.abc import Mapping
from dataclasses import dataclass

from eval.benchmarks.dataset import Sample
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import Server
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import Payment, SampleKey


@dataclass(frozen=True)
class Start:
    """To a new worker: what it builds the program from."""

    config: Mapping[str, object]  # resolved; secrets are in the environment
    prompts: PromptSet | None
    run_info: RunInfo
    folder: str | None  # of the run; None: the worker is on another machine
    path: tuple[str, ...] = ()  # where modules of the user are found; empty: in the files that came with the program
    asks_budget: bool = False  # before each request: the run's budget may refuse it
    name: str = "run"  # of the run's folder: lines of the log have it


@dataclass(frozen=True)
class Answer:
    """To a worker: answer a sample."""

    lease: int  # number of this message among those of all workers
    sample: Sample
    key: SampleKey
    replies: Mapping[str, str]  # that earlier sessions, or a worker that died, have paid for
    prompts: PromptSet | None = None  # it is a trial of a tuning run; None: the prompts of `Start`


@dataclass(frozen=True)
class Granted:
    """To a worker: the outcome of `AskTurn` or `Reserve`. Without a limit or a pause the request may be sent."""

    number: int
    limit: str | None = None  # that refuses the request
    message: str = ""
    pause_seconds: float | None = None  # that the server demands, and the request cannot wait for


@dataclass(frozen=True)
class Cancel:
    """To a worker: break off what is in flight, report what it has cost, and end."""


@dataclass(frozen=True)
class Ready:
    """From a worker: it has built the program."""

    pid: int
    host: str


@dataclass(frozen=True)
class Failed:
    """From a worker: it cannot answer, and no other worker could."""

    message: str


@dataclass(frozen=True)
class AskTurn:
    """From a worker: a request waits for its turn at a server."""

    number: int  # of the question in this worker
    model: str  # whose rate limiter is asked: empty for the run's own model, else the key of a judge
    server: Server
    tokens: int
    patience_seconds: float


@dataclass(frozen=True)
class Reserve:
    """From a worker: a request of a sample asks the run's budget."""

    number: int  # of the question in this worker
    lease: int


@dataclass(frozen=True)
class Ended:
    """From a worker: a request that asked for its turn has ended, or no longer waits."""

    number: int
    outcome: str | None = None  # success, rate_limit, server_error; None: it tells nothing about the server
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Paid:
    """From a worker: the cost of a request of a sample; None if it was reserved and never sent."""

    lease: int
    payment: Payment | None


@dataclass(frozen=True)
class Replied:
    """From a worker: a reply to be kept until the sample's record is stored."""

    lease: int
    request: str
    reply: str


@dataclass(frozen=True)
class Answered:
    """From a worker: a sample has its record."""

    lease: int
    record: Record
    calls: bytes = b""  # of a trial: its `NamedCall`s, pickled where their classes are known


@dataclass(frozen=True)
class Logged:
    """From a worker: lines of one of the run's logs."""

    name: str
    text: str


ToWorker = Answer | Granted | Cancel
FromWorker = Ready | Failed | AskTurn | Reserve | Ended | Paid | Replied | Answered | Logged
