"""Base of the systems around programs that are not ours: no tools, models, secrets or prompts of ours."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from mas.agents.spec import AgentSpec
from mas.system import Resources
from mas.tools.settings import ToolSettings


class ExternalSystem:
    """Answers of `mas.system.System` that hold for each of them; a subclass is a dataclass of its settings."""

    @property
    def agent_specs(self) -> Sequence[AgentSpec]:
        return ()

    def secrets(self) -> Sequence[str]:
        return ()  # the program keeps its own

    def model_names(self) -> Sequence[str]:
        return ()

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return nullcontext(Resources(settings))
