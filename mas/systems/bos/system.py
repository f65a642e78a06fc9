"""The system: its settings with the models and the service, and how its program is made from them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, cast

from mas.agents.spec import ModelSettings, Toolboxes
from mas.runtime.errors import UserError
from mas.system import Program, Resources, Service, ServiceOptions
from mas.systems.agent_system import AgentSystem
from mas.systems.bos.agents import API, REGISTRY, SPECS, SQL
from mas.systems.bos.contracts import AgentFailureError, AgentName
from mas.systems.bos.settings import BosSettings, list_api_secrets
from mas.tools.catalogue import list_broken_tools
from mas.tools.settings import ToolSettings


@dataclass
class BosSystem(BosSettings, AgentSystem):
    """Its fields are the keys of `conf/system/bos.yaml`."""

    agent_specs: ClassVar = SPECS

    name: str = "bos"
    default_prompts: str | None = "bos_baseline"
    agents: dict[str, ModelSettings] = field(default_factory=dict)

    def check(self) -> None:
        super().check()
        self.check_values()
        if self.api.documentation is not None:
            from mas.systems.bos.api.catalogue import load_catalogue

            try:
                load_catalogue(Path(self.api.documentation))
            except AgentFailureError as failure:
                raise UserError(f"system.api.documentation={self.api.documentation}: {failure}.") from failure

    def secrets(self) -> Collection[str]:
        return [*list_api_secrets(), *self.sql.list_secrets(), *filter(None, [self.service.token])]

    @contextmanager
    def open_resources(self, settings: ToolSettings, report_missing: Callable[[str], None]) -> Iterator[Resources]:
        with super().open_resources(settings, report_missing) as resources, ExitStack() as opened:
            services = dict(resources.services)
            if self.api.documentation is not None:
                from mas.systems.bos.api.services import open_api

                services[API] = opened.enter_context(open_api(self.api))
            if self.sql.list_databases():
                from mas.systems.bos.sql.session import open_sql_session

                services[SQL] = opened.enter_context(open_sql_session(self.sql))
            yield replace(resources, services=services, broken=list_broken_tools(settings, ["python_repl_tool"]))

    def find_gaps(self) -> Mapping[AgentName, str]:
        return {name: reason for name, entry in REGISTRY.items() if (reason := entry.find_gap(self))}

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        from mas.systems.bos.program import BosProgram

        return BosProgram(self, self.find_gaps(), resources)

    def check_service(self) -> None:
        if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
            raise UserError(f"The package {missing[0]} is missing; install the extra: pip install -e '.[service]'.")
        self.service.check_token()

    def serve_application(self, program: Program, options: ServiceOptions) -> Service:
        from mas.systems.bos.http_service import make_application
        from mas.systems.bos.program import BosProgram

        application = make_application(cast(BosProgram, program), self.service, options)
        return Service(application, self.service.host, self.service.port)
