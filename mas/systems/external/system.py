"""Anyone's own program as a system: a Python function, a DSPy program, or an agent behind an address.

python eval/run.py system=callable system.target=my_agent:answer
python eval/run.py system=dspy system.target=my_program:Program
python eval/run.py system=http system.url=http://host/answer
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from mas.agents.spec import AgentSpec
from mas.llm.profiles.model import AgentModel, Model
from mas.llm.profiles.reachable import check_reachable
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, apply_prompts, derive_prompt_set, write_state
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.security.redaction import MIN_SECRET_CHARS
from mas.system import Program, Resources
from mas.systems.external.target import (
    Agent,
    LoadedModule,
    check_inputs,
    choose_answer_field,
    compute_source_digest,
    describe_answer_choice,
    load_agent,
    load_module,
)
from mas.tools.settings import ToolSettings

if TYPE_CHECKING:
    import httpx

EXAMPLE_URL = "http://127.0.0.1:8080/answer"
CLIENT = "http_client"  # of the resources: the run's connections


class ExternalSystem(ABC):
    """A system around a program that is not ours has no tools, secrets or named models of ours."""

    agent_specs: Sequence[AgentSpec] = ()

    @abstractmethod
    def make_program(self, model: Model, resources: Resources) -> Program:
        """Return the program with its own prompts."""

    def secrets(self) -> Sequence[str]:
        return ()  # the program keeps its own

    def model_names(self) -> Sequence[str]:
        return ()

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return nullcontext(Resources(settings))

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        program = self.make_program(model, resources)
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program


@dataclass
class CallableSystem(ExternalSystem):
    """A function. Its fields are the keys of `conf/system/callable.yaml`."""

    target: str  # package.module:function
    name: str = "callable"
    default_prompts: str | None = None
    needs_model: bool = False  # true: dspy inside the agent gets the run's model

    def check(self) -> None:
        """Check the target by loading it: a mistake in it would fail every question."""
        _ = self._agent

    def make_program(self, model: Model, resources: Resources) -> Program:
        from mas.systems.external.program import FunctionProgram

        return FunctionProgram(self.target, self._agent, model.create_lm(AgentModel()) if self.needs_model else None)

    @property
    def source_sha256(self) -> str:
        _ = self._agent  # of a target that has been loaded
        return compute_source_digest(self.target)

    @cached_property
    def _agent(self) -> Agent:
        return load_agent(self.target)


@dataclass
class DspySystem(ExternalSystem):
    """A `dspy.Module`. Its fields are the keys of `conf/system/dspy.yaml`."""

    target: str  # package.module:Program
    state: str | None = None  # JSON of `program.save`
    answer_field: str | None = None
    needs_model: bool = True  # false: its predictors have their models
    name: str = "dspy"
    default_prompts: str | None = None
    data_inputs: Any = None  # data.inputs
    target_column: str | None = None  # of the data

    @property
    def agent_specs(self) -> Sequence[AgentSpec]:  # type: ignore[override]
        """The module's own predictors under their names; loads the target."""
        return [AgentSpec(name) for name in self.loaded.predictors]

    def check(self) -> None:
        """Check the target by loading it: a mistake in it would fail every sample."""
        loaded, given = self.loaded, self.data_inputs
        if given is None or isinstance(given, str | Mapping | list):  # else the data's check reports it
            check_inputs(loaded, [given] if isinstance(given, str) else given)
        if loaded.outputs is not None and choose_answer_field(loaded.outputs, *self._answer) is None:
            raise UserError(describe_answer_choice(f"system.target={self.target}", loaded.outputs, self.answer_field))
        without = [name for name, predictor in loaded.predictors.items() if predictor.lm is None]
        if without and not self.needs_model and sys.modules["dspy"].settings.lm is None:
            raise UserError(
                f"system.target={self.target} has no language model ({', '.join(without)}): give model=…, such as "
                "model=gpt-4o-mini, without system.needs_model=false, or one of DSPy's own with dspy.configure(lm=…)."
            )

    def make_program(self, model: Model, resources: Resources) -> Program:
        from mas.systems.external.program import DspyProgram

        create_lm = (lambda name: model.create_lm(AgentModel(agent=name))) if self.needs_model else None
        return DspyProgram(self.loaded, self._answer, create_lm)

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        own = prompts is not None and prompts is self._own_prompts  # they stay exactly as they are
        return super().build(model, None if own else prompts, resources)

    def derive_prompts(self) -> PromptSet:
        return self._own_prompts

    @cached_property
    def _own_prompts(self) -> PromptSet:
        return derive_prompt_set(self.loaded.module, self.name, self.target)

    def save_state(self, prompts: PromptSet, path: Path) -> None:
        """Write the user's module with these prompts as the state that `program.load` reads."""
        module = self.loaded.module.deepcopy()
        apply_prompts(module, prompts)
        write_state(module, path)

    @cached_property
    def loaded(self) -> LoadedModule:
        return load_module(self.target, self.state)

    @property
    def source_sha256(self) -> str:
        return compute_source_digest(self.loaded.target, self.state)

    @property
    def _answer(self) -> tuple[str | None, str | None]:
        return self.answer_field, self.target_column


@dataclass
class HttpSystem(ExternalSystem):
    """An agent behind an address. Its fields are the keys of `conf/system/http.yaml`."""

    needs_model: ClassVar[bool] = False

    url: str
    name: str = "http"
    default_prompts: str | None = None
    timeout_seconds: float = 600.0  # one question, from the request to the whole answer
    headers_env: str | None = None  # environment variable with the Authorization header

    def check(self) -> None:
        if self.timeout_seconds <= 0:
            raise UserError(f"system.timeout_seconds={self.timeout_seconds} is out of range; expected more than 0.")
        value = self._authorization
        if self.headers_env is not None and not (value and value.isascii() and value.isprintable()):
            raise UserError(
                f"system.headers_env={self.headers_env} is not set or cannot be sent; put the Authorization header's "
                "value, such as 'Bearer …', into that environment variable (or into .env), as one line of ASCII."
            )
        check_reachable(self.url, "system.url", "agent", EXAMPLE_URL)

    @property
    def _authorization(self) -> str:
        return os.environ.get(self.headers_env or "", "").strip()

    def secrets(self) -> Sequence[str]:
        """Return the header's value, and the token in it without `Bearer`."""
        value = self._authorization
        return [secret for secret in (value, *value.split()[1:]) if len(secret) >= MIN_SECRET_CHARS]

    @contextmanager
    def open_resources(self, settings: ToolSettings, report_missing: Callable[[str], None]) -> Iterator[Resources]:
        """Open the run's `httpx.AsyncClient` on the event loop that the questions run on."""
        from mas.systems.external.program import open_client

        client = run_blocking(open_client(self._authorization))
        try:
            yield Resources(settings, {CLIENT: client})
        finally:
            run_blocking(client.aclose())

    def make_program(self, model: Model, resources: Resources) -> Program:
        from mas.systems.external.program import HttpProgram

        client = cast("httpx.AsyncClient", resources.services[CLIENT])
        return HttpProgram(self.name, self.url, self.timeout_seconds, client)
