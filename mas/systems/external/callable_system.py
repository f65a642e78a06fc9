"""Anyone's own agent in Python, as a system: `python eval/run.py system=callable system.target=my_agent:answer`."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mas.agents.spec import AgentSpec
from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.errors import UserError
from mas.system import Program, Resources
from mas.systems.external.target import Agent, load_agent
from mas.tools.settings import ToolSettings

if TYPE_CHECKING:
    import dspy


@dataclass
class CallableSystem:
    """Its fields are the keys of `conf/system/callable.yaml`."""

    target: str  # package.module:function
    name: str = "callable"
    default_prompts: str | None = None
    needs_model: bool = False  # true: dspy inside the agent gets the run's model

    @property
    def agent_specs(self) -> Sequence[AgentSpec]:
        """The module's own predictors under its own names; loads the target."""
        return [AgentSpec(name) for name, _ in self._predictors]

    def check(self) -> None:
        """Check the target by loading it: a mistake in it would fail every question."""
        without = [name for name, predictor in self._predictors if predictor.lm is None]
        if without and not self.needs_model and sys.modules["dspy"].settings.lm is None:
            raise UserError(
                f"system.target={self.target} is a dspy.Module whose predictors have no language model "
                f"({', '.join(without)}); give them the run's with system.needs_model=true, or one of their own."
            )

    def secrets(self) -> Sequence[str]:
        return ()  # the agent keeps its own

    def model_names(self) -> Sequence[str]:
        return ()

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return nullcontext(Resources(settings))

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        """Build the program; the resources are for systems whose tools are ours."""
        from mas.systems.external.python_programs import FunctionProgram, ModuleProgram

        def create_lm(name: str) -> "dspy.LM":
            return model.create_lm(AgentModel(agent=name))

        make = ModuleProgram if self._agent.is_module else FunctionProgram
        program = make(self._agent, create_lm if self.needs_model else None)
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program

    @cached_property
    def _agent(self) -> Agent:
        return load_agent(self.target)

    @property
    def _predictors(self) -> "list[tuple[str, dspy.Predict]]":
        return list(self._agent.value.named_predictors()) if self._agent.is_module else []
