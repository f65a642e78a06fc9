"""Anyone's own agent behind an address, as a system: `python eval/run.py system=http system.url=http://host/answer`."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from mas.llm.profiles.model import Model
from mas.llm.profiles.reachable import check_reachable
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.security.redaction import MIN_SECRET_CHARS
from mas.system import Program, Resources
from mas.systems.agent_system import ExternalSystem
from mas.tools.settings import ToolSettings

if TYPE_CHECKING:
    import httpx

EXAMPLE_URL = "http://127.0.0.1:8080/answer"
CLIENT = "http_client"  # of the resources: the run's connections


@dataclass
class HttpSystem(ExternalSystem):
    """Its fields are the keys of `conf/system/http.yaml`."""

    needs_model: ClassVar[bool] = False

    url: str
    name: str = "http"
    default_prompts: str | None = None
    timeout_seconds: float = 600.0  # one question, from the request to the whole answer
    headers_env: str | None = None  # name of the environment variable with the Authorization header's value

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

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        """Build the program; the model is the agent's own choice."""
        from mas.systems.external.program import HttpProgram

        client = cast("httpx.AsyncClient", resources.services[CLIENT])
        program = HttpProgram(self.name, self.url, self.timeout_seconds, client)
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program
