"""Anyone's DSPy program as a system: `python eval/run.py system=dspy system.target=my_program:Program`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mas.agents.spec import AgentSpec
from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.module_prompts import apply_prompts, derive_prompt_set, write_state
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.errors import UserError
from mas.system import Program, Resources
from mas.systems.agent_system import ExternalSystem
from mas.systems.external.dspy_target import (
    LoadedModule,
    check_inputs,
    choose_answer_field,
    describe_answer_choice,
    load_module,
)
from mas.systems.external.target import compute_source_digest

if TYPE_CHECKING:
    import dspy


@dataclass
class DspySystem(ExternalSystem):
    """Its fields are the keys of `conf/system/dspy.yaml`."""

    target: str  # package.module:Program
    state: str | None = None  # JSON of `program.save`
    answer_field: str | None = None
    needs_model: bool = True  # false: its predictors have their models
    name: str = "dspy"
    default_prompts: str | None = None
    data_inputs: Any = None  # data.inputs
    target_column: str | None = None  # of the data

    @property
    def agent_specs(self) -> Sequence[AgentSpec]:
        """The module's own predictors under their names; loads the target."""
        return [AgentSpec(name) for name in self.loaded.predictors]

    def check(self) -> None:
        """Check the target by loading it: a mistake in it would fail every sample."""
        loaded, given = self.loaded, self.data_inputs
        if given is None or isinstance(given, str | Mapping | list):  # else the data's own check says what is wrong
            check_inputs(loaded, [given] if isinstance(given, str) else given)
        if loaded.outputs is not None and choose_answer_field(loaded.outputs, *self._answer) is None:
            raise UserError(describe_answer_choice(f"system.target={self.target}", loaded.outputs, self.answer_field))
        without = [name for name, predictor in loaded.predictors.items() if predictor.lm is None]
        if without and not self.needs_model and sys.modules["dspy"].settings.lm is None:
            raise UserError(
                f"system.target={self.target} has predictors without a language model ({', '.join(without)}); leave "
                "out system.needs_model=false, so that they get the run's, or give each of them one."
            )

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        """Build the program; the resources are for systems whose tools are ours."""
        from mas.systems.external.dspy_program import DspyProgram

        def create_lm(name: str) -> "dspy.BaseLM":
            return model.create_lm(AgentModel(agent=name))

        program = DspyProgram(self.loaded, self._answer, create_lm if self.needs_model else None)
        if prompts is not None and prompts is not self._own_prompts:  # its own stay exactly as they are
            apply_prompt_set(program, prompts)
        return program

    def derive_prompts(self) -> PromptSet:
        """Return the module's own instructions and demos, which count if no set is named."""
        return self._own_prompts

    @cached_property
    def _own_prompts(self) -> PromptSet:
        return derive_prompt_set(self.loaded.module, self.name, self.target)

    def save_state(self, prompts: PromptSet, path: Path) -> None:
        """Write the user's module with these prompts as the state that `program.load` of plain DSPy reads.

        Raises:
            UserError: the prompts are for other predictors, or the file cannot be written.
        """
        module = self.loaded.module.deepcopy()
        apply_prompts(module, prompts)
        write_state(module, path)

    @cached_property
    def loaded(self) -> LoadedModule:
        return load_module(self.target, self.state)

    @property
    def source_sha256(self) -> str:
        """Digest of the program's source and state: a resumed run must have the same."""
        return compute_source_digest(self.loaded.target, self.state)

    @property
    def _answer(self) -> tuple[str | None, str | None]:
        return self.answer_field, self.target_column
