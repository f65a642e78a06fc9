"""Contracts of a program under test: `System` (settings), `Resources` (during a run), `Program` (answers).

`eval/` and `optimize/` know these types only, never a concrete system. Importing this module does not import dspy.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeGuard

from mas.agents.spec import AgentSpec, Toolboxes
from mas.llm.profiles.model import Model
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import SampleLimits
from mas.runtime.security.redaction import Redact
from mas.tools.settings import Resources as Resources  # re-exported
from mas.tools.settings import ToolSettings

if TYPE_CHECKING:
    import dspy


class Answerer(Protocol):
    """Anything that answers a sample."""

    async def acall(
        self, *, question: str, file: str | Path | None, inputs: Mapping[str, str] | None = None
    ) -> "dspy.Prediction":
        """Return `final_answer`, `final_reasoning_trace` and `state` (the complete final state).

        Named `inputs` are fields of the sample, of which `question` is the readable text; some systems ignore them.
        """


class Program(Answerer, Protocol):
    """A `dspy.Module` as evaluating and tuning use it."""

    toolboxes: Toolboxes

    def __call__(
        self, *, question: str, file: str | Path | None, inputs: Mapping[str, str] | None = None
    ) -> "dspy.Prediction":
        """Do the same as `acall` for synchronous callers, such as DSPy's optimizers."""

    def named_predictors(self) -> "Iterable[tuple[str, dspy.Predict]]":
        """Return the predictors by name, one for each of `System.agent_specs`."""

    def named_sub_modules(self) -> "Iterable[tuple[str, dspy.Module]]":
        """Return this module and every module in it."""

    def deepcopy(self) -> Self:
        """Return a copy with predictors of its own, which can be given other prompts."""


class System(Protocol):
    """A dataclass with the keys of its file in `conf/system/`; it imports nothing heavy before `build`.

    A system whose program runs in this process also has `source_sha256`, the digest of that program's source.
    """

    name: str
    default_prompts: str | None  # folder under `prompts/`; None: the system has no prompts of ours

    @property
    def needs_model(self) -> bool:
        """False if the system never uses the run's model, which is then neither checked nor named."""

    @property
    def agent_specs(self) -> Sequence[AgentSpec]:
        """The agents whose prompts can be tuned: each has a prompt file and a predictor."""

    def check(self) -> None:
        """Check the settings before anything is loaded; UserError: one is unknown or out of range."""

    def secrets(self) -> Collection[str]:
        """Return the values that no log, record or report may show."""

    def model_names(self) -> Collection[str]:
        """Return the names of the models that agents use instead of the run's."""

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        """Open the servers, pools and sandboxes that last as long as a run; entered before `build`.

        `report_missing` is called once for each service that is missing; the run continues without it.
        """

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        """Build the program, with the prompts applied."""


def read_program_digest(system: System) -> str:
    """Return the digest of the program's source; empty for a program behind an address."""
    return str(getattr(system, "source_sha256", ""))


class OwnProgramSystem(System, Protocol):
    """A system around a user's own program, which brings its prompts with it."""

    def derive_prompts(self) -> PromptSet:
        """Return the program's own prompts, which count if no set is named."""

    def save_state(self, prompts: PromptSet, path: Path) -> None:
        """Write the program with these prompts in its own format."""


def can_derive_prompts(system: System) -> TypeGuard[OwnProgramSystem]:
    return hasattr(system, "derive_prompts")


@dataclass(frozen=True)
class ServiceOptions:
    """Inputs of a service from the configuration of its command."""

    limits: SampleLimits  # of each request
    redact: Redact  # removes the secrets of the configuration
    report: Callable[[str], None]  # called with each line of the log


@dataclass(frozen=True)
class Service:
    """HTTP application of a system, and how it is to be served."""

    application: object  # ASGI
    host: str
    port: int


class ServedSystem(System, Protocol):
    """A system with an HTTP service of its own."""

    def check_service(self) -> None:
        """Check what serving needs, without heavy imports; UserError: a package or token is missing."""

    def serve_application(self, program: Program, options: ServiceOptions) -> Service:
        """Return the application that answers requests with the program."""


def can_be_served(system: System) -> TypeGuard[ServedSystem]:
    return hasattr(system, "serve_application")


def list_critics(system: System) -> list[str]:
    """Return the names of the agents that review others' work."""
    return sorted({spec.critic for spec in system.agent_specs if spec.critic})


def agent_names(system: System) -> list[str]:
    return [spec.name for spec in system.agent_specs]
