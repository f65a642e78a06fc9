"""Whole tuning runs over HTTP, as tests have them: the real command in a process of its own, which may be killed.

    with simulated_server(latency_seconds=0.02) as server:
        run = TunedRun(place / "run", over_http(server), server)
        run.session(Moment(requests=30))         # None: killed, once the server has had 30 requests in all
        run.session()                            # 0: resumed, and gone on to its verdict
        run.verdict["published"], server.asked

The model behind the server is the simulated one: its replies are a function of the request alone, so that a run that
is left alone and one that is killed come to the same. In this process: `tuning_command(place, *over_http(server))`.

    python tests/optimize/tuned.py SHELF [option=value …]      # optimize/run.py with another shelf
"""

import functools
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.killed_run import KilledRun, Moment
from tests.servers.fault_replies import FAULTS, OK_REPLY, Fault
from tests.servers.faults import FaultServer
from tests.servers.loopback import running

__all__ = ["Moment"]

SCRIPT = Path(__file__)
MODEL, REFLECTION = "normal-0", "reflection/normal-0"
DIES, DIES_AFTER = "TUNED_DIES", "after"  # variable of the environment: "before MODULE NAME" or "after MODULE NAME"
PRICE = "{input_usd_per_million: 1.0, output_usd_per_million: 2.0}"
SMALL = (
    *("system=toy", "data=toy", "data.n_train=12", "data.n_val=12", "data.n_test=30", "yes=true", "tracking=off"),
    *("shortlist.size=2", "shortlist.epochs=1", "gate.epochs=1", "budget.metric_calls=100", "seed=0"),
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
        with self._counting:
            return self.counted.total()


def completion(body: bytes) -> bytes:
    """The reply to a chat request, as OpenAI's API has it."""
    from dspy.lm15 import Message, Request

    from mas.simulation.reflection import propose_prompt
    from mas.simulation.task_model import answer_request

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
    with running(SimulatedServer(latency_seconds, schedule)) as server:
        yield server


def over_http(server: FaultServer, *more: str) -> list[str]:
    """A small tuning run with that model, whose price is known; what comes twice, counts last."""
    prices = f"++model.prices={{{MODEL}: {PRICE}, {REFLECTION}: {PRICE}}}"
    model = ["model=openai_compatible", f"model.base_url={server.base_url}", f"model.name={MODEL}", prices]
    return last_of_each(
        [*SMALL, *model, f"reflection_model={REFLECTION}", "model.retry_base_seconds=0", "run.concurrency=8", *more]
    )


def last_of_each(options: Sequence[str]) -> list[str]:
    return list({option.partition("=")[0].lstrip("+"): option for option in options}.values())


# ---------------------------------------------------------------- a run that may be killed


@dataclass
class TunedRun(KilledRun):
    """One run's folder, next to which are its shelf and its list of sealed tests, and the command that works on it."""

    server: SimulatedServer

    def arguments(self, dies: str | None) -> list[str]:
        own = [f"resume={self.folder}"] if self.is_tuning else [*self.options, "name=w", f"run.dir={self.folder}"]
        return [str(self.shelf), *own]

    def how(self, dies: str | None) -> Mapping[str, object]:
        state = {"XDG_STATE_HOME": str(self.folder.with_name("state"))}
        return {"script": SCRIPT, "environment": {**state, **({DIES: dies} if dies else {})}}

    def check(self, before: list[str]) -> None:
        """Its answers are compared by those who know the same run when it is left alone."""

    def published(self) -> dict[str, str]:
        """The files of the set on the shelf, but for what says when and at what cost it was made."""
        return {
            str(path.relative_to(self.shelf)): path.read_text("utf-8")
            for path in sorted(self.shelf.rglob("*"))
            if path.is_file() and path.name not in ("provenance.yaml", "set.yaml")
        }


# ---------------------------------------------------------------- as a command


def main() -> None:
    shelf = Path(sys.argv.pop(1))
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
