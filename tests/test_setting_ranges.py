"""The range of a setting ends exactly where its message says: the edge is accepted, the next value is not."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pytest

from eval.benchmarks.toy_set import ToyDataset
from eval.execution.budget import BudgetSettings
from eval.scorers.numeric import NumericScorer
from mas.agents.spec import AgentSettings, AgentSpec, check_agents
from mas.llm.profiles.openai_chat import MIN_REASONING_TOKENS, AgentOverride, OpenAIChatModel, Price, RateSettings
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel
from mas.systems.gaia.system import GaiaSystem
from mas.tools.settings import MIN_MEMORY_MB, SandboxSettings
from optimize.gate.gate import GateSettings
from optimize.questions.splits import SplitSettings
from optimize.search.optimizers.few_shot_optimizers import BootstrapOptimizer, MiproOptimizer
from optimize.search.optimizers.gepa_optimizer import GepaOptimizer

SMALL = 1e-9


class Checked(Protocol):
    def check(self) -> object: ...


@dataclass
class Agents(AgentSettings):
    """The settings of a system's one agent, which its system checks."""

    def check(self) -> None:
        check_agents("toy", [AgentSpec("solve", uses_tools=True)], {"solve": self}, {})


def model(name: str = "gpt-4o", **values: Any) -> OpenAIChatModel:
    return OpenAIChatModel(name, **values)


def model_with_agent(**values: Any) -> OpenAIChatModel:
    return model(agents={"a": AgentOverride(**values)})


def model_with_rate(**values: Any) -> OpenAIChatModel:
    return model(rate=RateSettings(**values))


def model_with_price(**values: Any) -> OpenAIChatModel:
    return model(prices={"gpt-4o": Price(**{"input_usd_per_million": 1.0, "output_usd_per_million": 1.0, **values})})


Make = Callable[[float], Checked]
Row = tuple[str, Make, tuple[float, ...], tuple[float, ...]]  # option, object with a value, accepted, refused values
MORE_THAN_0 = ((SMALL, 1), (0, -SMALL))
FROM_0 = ((0, 1), (-SMALL,))
WHOLE_FROM_0 = ((0, 1), (-1,))
WHOLE_FROM_1 = ((1, 2), (0, -1))
FINITE_FROM_0 = ((0, 1e9), (-SMALL, math.inf))
SHARE = ((SMALL, 1 - SMALL), (0, 1))
TEMPERATURE = ((0, 2), (-SMALL, 2 + SMALL))


def list_rows(
    make: Callable[..., Checked], keys: str, values: tuple[tuple[float, ...], tuple[float, ...]], before: str = ""
) -> Iterator[Row]:
    for key in keys.split():
        yield f"{before}{key}", lambda value, key=key: make(**{key: value}), *values  # type: ignore[misc]


RANGES: list[Row] = [
    *list_rows(ToyDataset, "n_train n_val n_test", WHOLE_FROM_1, "data."),
    *list_rows(NumericScorer, "tolerance relative_tolerance", FINITE_FROM_0, "scorer."),
    *list_rows(Agents, "retry_limit max_steps max_tokens", WHOLE_FROM_1, "system.agents.solve."),
    *list_rows(Agents, "temperature", TEMPERATURE, "system.agents.solve."),
    *list_rows(SimulatedModel, "seed", WHOLE_FROM_0, "model."),
    *list_rows(model, "call_deadline_seconds attempt_timeout_seconds", MORE_THAN_0, "model."),
    *list_rows(model, "num_retries", WHOLE_FROM_0, "model."),
    *list_rows(model, "retry_base_seconds", FROM_0, "model."),
    *list_rows(model, "max_connections max_tokens context_tokens", WHOLE_FROM_1, "model."),
    *list_rows(model, "temperature", TEMPERATURE, "model."),
    *list_rows(partial(model, name="o3-mini"), "max_tokens", ((MIN_REASONING_TOKENS,), (MIN_REASONING_TOKENS - 1,))),
    *list_rows(model_with_agent, "max_tokens", WHOLE_FROM_1, "model.agents.a."),
    *list_rows(model_with_agent, "temperature", TEMPERATURE, "model.agents.a."),
    *list_rows(model_with_rate, "requests_per_minute tokens_per_minute", MORE_THAN_0, "model.rate."),
    *list_rows(
        model_with_price,
        "input_usd_per_million output_usd_per_million cached_input_usd_per_million",
        FROM_0,
        "model.prices.gpt-4o.",
    ),
    *list_rows(GaiaSystem, "max_research_steps", WHOLE_FROM_0, "system."),
    *list_rows(SandboxSettings, "seconds_per_call", MORE_THAN_0, "tools.sandbox."),
    *list_rows(SandboxSettings, "memory_mb", ((MIN_MEMORY_MB,), (MIN_MEMORY_MB - 1,)), "tools.sandbox."),
    *list_rows(GateSettings, "epochs", WHOLE_FROM_1, "gate."),
    *list_rows(SplitSettings, "seed", WHOLE_FROM_0, "splits."),
    *list_rows(partial(SplitSettings, val=SMALL), "train", SHARE, "splits."),
    *list_rows(partial(SplitSettings, train=SMALL), "val", SHARE, "splits."),
    *list_rows(partial(SplitSettings, val=0.25), "train", ((0.75,), (0.75 + SMALL,)), "splits."),
    *list_rows(BudgetSettings, "metric_calls lm_calls tokens usd seconds", MORE_THAN_0, "budget."),
    *list_rows(BootstrapOptimizer, "max_demos candidates", WHOLE_FROM_1, "optimizer."),
    *list_rows(GepaOptimizer, "minibatch_size", WHOLE_FROM_1, "optimizer."),
    *list_rows(MiproOptimizer, "trials", WHOLE_FROM_1, "optimizer."),
    *list_rows(MiproOptimizer, "max_demos", WHOLE_FROM_0, "optimizer."),
    *list_rows(MiproOptimizer, "candidates", ((2,), (1,)), "optimizer."),
]


@pytest.mark.parametrize(
    ("option", "make", "accepted", "refused"), RANGES, ids=[f"{n}-{each[0]}" for n, each in enumerate(RANGES)]
)
def test_a_range_ends_where_its_message_says(
    monkeypatch: pytest.MonkeyPatch, option: str, make: Make, accepted: tuple[float, ...], refused: tuple[float, ...]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-this-test")
    for value in accepted:
        make(value).check()
    for value in refused:
        with pytest.raises(UserError, match=rf"\b{option.rpartition('.')[2]}\b"):
            make(value).check()
