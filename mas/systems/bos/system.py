"""The system's settings, and how its program is made from them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, cast

from mas.agents.spec import ModelSettings, Toolboxes
from mas.runtime.errors import UserError
from mas.system import Program, Resources, Service, ServiceOptions
from mas.systems.agent_system import AgentSystem
from mas.systems.bos.agents import API, ORDER, REGISTRY, SPECS, SQL
from mas.systems.bos.api.settings import ApiSettings, list_api_secrets
from mas.systems.bos.contracts.names import AgentName
from mas.systems.bos.serving.settings import ServiceSettings
from mas.systems.bos.settings import EXECUTIONS, ComputationSettings, PlannerSettings
from mas.systems.bos.sql.settings import SqlSettings
from mas.systems.bos.temporal import Clock, read_clock
from mas.tools.catalogue import list_broken_tools
from mas.tools.settings import ToolSettings


@dataclass
class BosSystem(AgentSystem):
    """Its fields are the keys of `conf/system/bos.yaml`."""

    agent_specs: ClassVar = SPECS

    name: str = "bos"
    default_prompts: str | None = "bos_baseline"
    execution: str = "sequential"  # sequential: one agent after another | parallel: those that need no other at once
    share_results: bool = False  # true: an agent sees what earlier ones found
    current_time: str | None = None  # in all requests, with its UTC offset; None: when each began
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    computation: ComputationSettings = field(default_factory=ComputationSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)
    agents: dict[str, ModelSettings] = field(default_factory=dict)

    def check(self) -> None:
        super().check()
        if self.execution not in EXECUTIONS:
            raise UserError(f"system.execution={self.execution} is not known; choose one of: {', '.join(EXECUTIONS)}.")
        self._read_clock()
        self.planner.check()
        self.computation.check()
        self.api.check()
        self.sql.check()
        self.service.check()
        self._check_documentation()

    def _read_clock(self) -> Clock:
        if self.current_time is None:
            return read_clock
        try:
            fixed = datetime.fromisoformat(self.current_time)
        except ValueError:
            fixed = None
        if fixed is None or fixed.tzinfo is None:
            raise UserError(
                f"system.current_time={self.current_time} is not a time with a UTC offset; expected one like "
                "2026-11-22T09:30:00+00:00, or null for the present time."
            )
        now = fixed.astimezone(UTC)
        return lambda: now

    def _check_documentation(self) -> None:
        if self.api.documentation is None:
            return
        from mas.systems.bos.api.catalogue import load_catalogue
        from mas.systems.bos.contracts.result import AgentFailureError

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
            yield replace(resources, services=services, broken=list_broken_tools(settings, ["python"]))

    def find_gaps(self) -> Mapping[AgentName, str]:
        """Return the agents that are not offered, with the reason: what they need is not configured."""
        gaps: dict[AgentName, str] = {}
        for name in ORDER:
            reason = REGISTRY[name].find_gap(self) if name in REGISTRY else "this version does not have it"
            if reason:
                gaps[name] = reason
        return gaps

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        from mas.systems.bos.program import BosProgram

        return BosProgram(self, resources, self._read_clock())

    def check_service(self) -> None:
        if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
            raise UserError(f"The package {missing[0]} is missing; install the extra: pip install -e '.[service]'.")
        self.service.check_token()

    def serve_application(self, program: Program, options: ServiceOptions) -> Service:
        from mas.systems.bos.program import BosProgram
        from mas.systems.bos.serving.application import make_application

        own, settings = cast(BosProgram, program), self.service
        application, desk = make_application(own, settings, options.limits, options.redact, options.report)
        return Service(
            application=application,
            host=settings.host,
            port=settings.port,
            max_connections=2 * settings.max_requests + 100,
            drain_seconds=settings.drain_seconds,
            begin_shutdown=desk.begin_shutdown,
        )
