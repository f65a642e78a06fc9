"""Whole tuning runs, as tests have them: in this process, or the real command in one of its own, which may be killed.

    with simulated_server(latency_seconds=0.02) as server:
        run = TunedRun(folder, over_http(server), environment, server)
        run.session(Moment(requests=30))         # None: killed, once the server has had 30 requests in all
        run.session()                            # 0: resumed, and gone on to its verdict
        run.verdict["published"], len(server.requests())

The model behind the server is the simulated one: its replies are a function of the request alone, so that a run that
is left alone and one that is killed come to the same. What a run publishes, and its note that a sealed set was opened,
stay beside its folder.

    python tests/optimize/tuned.py SHELF OUTPUTS [option=value …]      # optimize/run.py with other places
"""

import functools
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.runs.store import read_run_info
from tests.command import read_proposals, read_result, read_side
from tests.servers.fault_replies import FAULTS, OK_REPLY, Fault
from tests.servers.faults import FaultServer

SCRIPT = Path(__file__)
SESSION_SECONDS = 240.0  # a session that takes longer hangs
MODEL, REFLECTION = "normal-0", "reflection/normal-0"
DIES, DIES_AFTER = "TUNED_DIES", "after"  # variable of the environment: "before MODULE NAME" or "after MODULE NAME"
PRICE = "{input_usd_per_million: 1.0, output_usd_per_million: 2.0}"
SMALL = (
    *("system=toy", "data=toy", "data.n_train=12", "data.n_val=12", "data.n_test=30", "yes=true", "tracking=off"),
    *("shortlist.size=2", "shortlist.epochs=1", "gate.epochs=1", "budget.metric_calls=100", "name=w", "seed=0"),
)
MINI = (  # about 300 requests, the sealed test among them; nothing is published
    *("data.n_train=8", "data.n_val=8", "data.n_test=16", "gate.looks=1", "budget.metric_calls=60", "shortlist.size=1"),
)
MINI_GEPA = (*MINI, "seed=5")
MINI_BOOTSTRAP = (*MINI, "optimizer=bootstrap", "optimizer.candidates=3", "seed=5")


# ---------------------------------------------------------------- the model


class SimulatedServer(FaultServer):
    """The simulated model over HTTP; `reflection/normal-0` is its reflection. It fails as its schedule says."""

    def __init__(self, latency_seconds: float, schedule: Any = None) -> None:
        super().__init__(schedule)
        self.latency_seconds = latency_seconds
        self.counted: Counter[bytes] = Counter()  # requests by their bodies
        self._counting = threading.Lock()
        self.always_fails: Callable[[list[dict[str, Any]]], bool] = lambda messages: False

    def next_fault(self, body: bytes) -> Fault:
        fault = super().next_fault(body)
        with self._counting:
            self.counted[body] += 1
        time.sleep(self.latency_seconds)
        if self.always_fails(json.loads(body)["messages"]):
            return FAULTS["500"]
        return Fault(completion) if fault is OK_REPLY else fault

    @property
    def asked(self) -> int:
        """Requests so far."""
        with self._counting:
            return self.counted.total()


def completion(body: bytes) -> bytes:
    """The reply to a chat request, as OpenAI's API has it."""
    from dspy.lm15 import Message, Request

    from mas.simulation import answer_request, propose_prompt

    asked = json.loads(body)
    system = "".join(each["content"] for each in asked["messages"] if each["role"] == "system")
    turns = [Message(each["role"], (_text(each),)) for each in asked["messages"] if each["role"] != "system"]
    request = Request(asked["model"], tuple(turns), system)
    response = (propose_prompt if asked["model"] == REFLECTION else answer_request)(request)
    text = "".join(getattr(part, "text", "") for part in response.message.parts)
    message, usage = {"role": "assistant", "content": text}, response.usage
    counts = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {"id": "c", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [choice]}
    return json.dumps({**whole, "usage": {**counts, "total_tokens": sum(map(int, counts.values()))}}).encode()


def _text(message: Mapping[str, Any]) -> Any:
    from dspy.lm15 import TextPart

    content = message["content"]
    return TextPart(content if isinstance(content, str) else "".join(part["text"] for part in content))


@contextmanager
def simulated_server(latency_seconds: float = 0.0, schedule: Any = None) -> Iterator[SimulatedServer]:
    """A server of this process on a free loopback port."""
    with SimulatedServer(latency_seconds, schedule) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()


def over_http(server: FaultServer, *more: str) -> list[str]:
    """A small tuning run with that model, whose price is known; what comes twice, counts last."""
    prices = f"++model.prices={{{MODEL}: {PRICE}, {REFLECTION}: {PRICE}}}"
    model = ["model=openai_compatible", f"model.base_url={server.base_url}", f"model.name={MODEL}", prices]
    return last_of_each(
        [*SMALL, *model, f"reflection_model={REFLECTION}", "model.retry_base_seconds=0", "run.concurrency=8", *more]
    )


def last_of_each(options: Sequence[str]) -> list[str]:
    return list({option.partition("=")[0].lstrip("+"): option for option in options}.values())


# ---------------------------------------------------------------- a run's folder


class TunedFolder:
    """What a tuning run has left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> Any:
        """A result; None: there is none yet."""
        return read_result(self.folder, name) if (self.folder / "splits.json").is_file() else None

    @property
    def verdict(self) -> dict[str, Any]:
        return cast(dict[str, Any], self.read("verdict"))

    @property
    def phase(self) -> str | None:
        """By the copy of the run's facts: it is asked for every few milliseconds."""
        try:
            facts = json.loads((self.folder / "run.jsonl").read_text("ascii").partition("\n")[0])
            return str(json.loads(facts["state"])["phase"]) or None
        except (OSError, KeyError):
            return None

    def proposals(self) -> list[dict[str, Any]]:
        return read_proposals(self.folder) if (self.folder / "splits.json").is_file() else []

    def candidates(self) -> dict[str, str]:
        """Id → digest of its prompts."""
        if not (self.folder / "splits.json").is_file():
            return {}
        parent = {"parent": read_run_info(self.folder).prompts_sha256}
        return {**parent, **{each["candidate_id"]: each["prompts_sha256"] for each in self.proposals()}}

    def paid(self) -> int:
        """Requests, by the run's own ledger."""
        if not (self.folder / "calls.db").is_file():
            return 0
        with closing(sqlite3.connect(self.folder / "calls.db")) as database:
            return int(database.execute("SELECT total(lm_calls) FROM payments").fetchone()[0])

    def sealed_rows(self) -> int:
        """Answers to sealed questions that are kept, of both sides."""
        return sum(len(read_side(self.folder, side)) for side in ("parent", "winner"))


@dataclass(frozen=True)
class Moment:
    """When a session is killed: so many seconds after its start, or after the server's having had so many requests."""

    then_seconds: float = 0.0
    requests: int | None = None  # in all, not of this session alone
    phase: str | None = None  # not before the run is in it


@dataclass
class TunedRun(TunedFolder):
    """One run's folder, and the command that works on it."""

    folder: Path
    options: Sequence[str]
    environment: dict[str, str]
    server: SimulatedServer
    printed: list[str] = field(default_factory=list)  # by each session

    @property
    def shelf(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-shelf")

    @property
    def outputs(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-outputs")

    def openings(self) -> int:
        """Sealed tests in the log."""
        path = self.outputs / "sealed_tests.jsonl"
        return path.read_text("utf-8").count('{"begun":') if path.is_file() else 0

    def session(self, moment: Moment | None = None, *more: str, dies: str | None = None) -> int | None:
        """Start the run or go on with it; the exit code, or None if it was killed at that moment.

        Args:
            moment: None: it is left alone.
            more: options of this session.
            dies: it kills itself: "before MODULE NAME", as that function is called, or "after MODULE NAME".
        """
        with self.started(*more, dies=dies) as process:
            if moment is not None and self.wait(process, moment):
                process.kill()
        return None if process.returncode == -signal.SIGKILL else process.returncode

    @contextmanager
    def started(self, *more: str, dies: str | None = None) -> Iterator["subprocess.Popen[bytes]"]:
        """The command at work; waited for at the end, with what it prints in `printed`."""
        environment = {**self.environment, **({DIES: dies} if dies else {})}
        output = self.folder.with_suffix(".out")
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(self.shelf), str(self.outputs), *self._arguments(), *more],
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield process
                process.wait(SESSION_SECONDS)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.printed.append(output.read_text("utf-8"))
        assert "Traceback" not in self.printed[-1], self.printed[-1]

    def _arguments(self) -> list[str]:
        if (self.folder / "splits.json").is_file():
            return [f"resume={self.folder}"]
        return [*self.options, f"run.dir={self.folder}"]

    def wait(self, process: "subprocess.Popen[bytes]", moment: Moment) -> bool:
        """Until the moment has come; False: the process has ended before."""
        over = time.monotonic() + SESSION_SECONDS
        while not self._has_come(moment):
            if process.poll() is not None:
                return False
            assert time.monotonic() < over, self.folder.with_suffix(".out").read_text("utf-8")
            time.sleep(0.002)
        time.sleep(moment.then_seconds)
        return process.poll() is None

    def _has_come(self, moment: Moment) -> bool:
        return (moment.requests is None or self.server.asked >= moment.requests) and (
            moment.phase is None or self.phase == moment.phase
        )

    def published(self) -> dict[str, str]:
        """The files of the set on the shelf, but for what says when and at what cost it was made."""
        return {
            str(path.relative_to(self.shelf)): path.read_text("utf-8")
            for path in sorted(self.shelf.rglob("*"))
            if path.is_file() and path.name not in ("provenance.yaml", "set.yaml")
        }


# ---------------------------------------------------------------- in this process


def tuned_here(folder: Path, options: Sequence[str], shelf: Path) -> int:
    """The exit code of a tuning run in this process: a new one, or gone on with if there is one in the folder.

    What comes twice among the options, counts last.

    Raises:
        what the command turns into a sentence.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from eval.cli.paths import OUTPUTS, PROJECT_ROOT
    from optimize.pipeline.tuning import tune
    from optimize.session.config import read_config
    from optimize.session.tuning_store import find_parent_set

    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    here = f"resume={folder}" if (folder / "splits.json").is_file() else f"run.dir={folder}"
    given = [*last_of_each(options), here]
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base=None):
        composed = compose("optimize", given)
    config = read_config(composed, given, shelf)
    if config.resume:
        config.base.prompts = find_parent_set(config.resume)
    config.check()
    return tune(config)


# ---------------------------------------------------------------- as a command


def main() -> None:
    shelf, outputs = map(Path, sys.argv[1:3])
    sys.argv[1:3] = []
    from eval.cli import paths

    paths.OUTPUTS = outputs
    sealed_log = importlib.import_module("optimize.gate.sealed_log")
    sealed_log.find_log = lambda: outputs / "sealed_tests.jsonl"  # type: ignore[attr-defined]
    from eval.cli.command import exit_now

    run = importlib.import_module("optimize.run")
    run.read_config = functools.partial(run.read_config, shelf=shelf)  # type: ignore[attr-defined]
    if dies := os.environ.get(DIES):
        _dying(*dies.split())
    exit_now(run.main())


def _dying(when: str, module: str, name: str) -> None:
    """Put in place of a function of that module one in which the process is killed."""
    place: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for each in path:
        place = getattr(place, each)
    whole: Callable[..., Any] = getattr(place, last)

    @functools.wraps(whole)
    def dying(*args: Any, **kwargs: Any) -> Any:
        if when == DIES_AFTER:
            whole(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(place, last, dying)


if __name__ == "__main__":
    main()
