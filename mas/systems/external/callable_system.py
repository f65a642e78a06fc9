"""Anyone's own function as a system: `python eval/run.py system=callable system.target=my_agent:answer`."""

from dataclasses import dataclass
from functools import cached_property

from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.system import Program, Resources
from mas.systems.agent_system import ExternalSystem
from mas.systems.external.target import Agent, compute_source_digest, load_agent


@dataclass
class CallableSystem(ExternalSystem):
    """Its fields are the keys of `conf/system/callable.yaml`."""

    target: str  # package.module:function
    name: str = "callable"
    default_prompts: str | None = None
    needs_model: bool = False  # true: dspy inside the agent gets the run's model

    def check(self) -> None:
        """Check the target by loading it: a mistake in it would fail every question."""
        _ = self._agent

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        """Build the program; the resources are for systems whose tools are ours."""
        from mas.systems.external.program import FunctionProgram

        program = FunctionProgram(self._agent, model.create_lm(AgentModel()) if self.needs_model else None)
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program

    @property
    def source_sha256(self) -> str:
        """Digest of the function's source: a resumed run must have the same."""
        return compute_source_digest(self._agent.target)

    @cached_property
    def _agent(self) -> Agent:
        return load_agent(self.target)
