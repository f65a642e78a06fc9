"""What a program must offer to be evaluated and tuned.

A system is a dataclass whose fields are the keys of its file in `conf/system/`; it loads nothing heavy before `build`.
Neither `eval/` nor `optimize/` knows which one runs.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from mas.llm.profiles.model import Model
from mas.prompt_sets.prompt_set import PromptSet
from mas.tools.settings import ToolSettings


class System(Protocol):
    """A program under test."""

    name: str
    default_prompts: str | None  # folder under `prompts/`; None: the system has no prompts of ours

    @property
    def needs_model(self) -> bool:
        """Whether the run's model is used at all. If not, it is neither checked nor named in the results."""
        ...

    @property
    def agent_names(self) -> Sequence[str]:
        """Names of the prompts that can be tuned: one file each in a prompt set, one predictor each in the program."""
        ...

    def check(self) -> None:
        """See that the settings make sense, before anything is loaded.

        Raises:
            UserError: they do not.
        """
        ...

    def secrets(self) -> Collection[str]:
        """The values that no log, record or report may ever show."""
        ...

    def open_resources(self, tools: ToolSettings, say: Callable[[str], None]) -> AbstractContextManager[Any]:
        """Servers, pools and sandboxes that live as long as a run; entered before `build`.

        Args:
            tools: settings of the run.
            say: told once of each service that is missing; the run goes on without it.
        """
        ...

    def build(self, model: Model, prompts: PromptSet | None, tools: ToolSettings, resources: Any) -> Any:
        """The program: a `dspy.Module` called with `question` and `file` (a path, or None).

        Its prediction has `final_answer`, `final_reasoning_trace` and `state`. `named_predictors()` has the names in
        `agent_names`.
        """
        ...
