"""The system: its settings with the models and the service, and how its program is made from them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, cast, get_args

from mas.agents.spec import ModelSettings, Toolboxes
from mas.runtime.errors import UserError
from mas.runtime.text import is_web_address
from mas.system import Program, Resources, Service, ServiceOptions
from mas.systems.agent_system import AgentSystem
from mas.systems.bos.agents import API, REGISTRY, SPECS, SQL
from mas.systems.bos.contracts import AgentFailureError, AgentName, Clock, read_clock
from mas.systems.bos.settings import (
    ApiSettings,
    Method,
    ServiceSettings,
    SqlSettings,
    check,
    check_choice,
    find_files,
    list_api_secrets,
)
from mas.tools.catalogue import list_broken_tools
from mas.tools.settings import ToolSettings


@dataclass
class BosSystem(AgentSystem):
    """Its fields are the keys of `conf/system/bos.yaml`."""

    agent_specs: ClassVar = SPECS

    name: str = "bos"
    default_prompts: str | None = "bos_baseline"
    agents: dict[str, ModelSettings] = field(default_factory=dict)
    share_results: bool = False  # true: an agent sees what earlier ones found
    current_time: str | None = None  # in all requests, with its UTC offset; None: when each began
    api: ApiSettings = field(default_factory=ApiSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)

    def check(self) -> None:
        super().check()
        api, service, retries = self.api, self.service, self.sql.max_retries
        self.read_clock()
        check_choice("api.methods", [method.upper() for method in api.methods], get_args(Method))
        check("sql.max_retries", retries, 0 <= retries <= 10, "0 to 10")
        check("api.timeout_seconds", api.timeout_seconds, api.timeout_seconds > 0, "more than 0")
        check("api.top_k", api.top_k, api.top_k > 0, "1 or more")
        check("service.port", service.port, 0 <= service.port <= 65535, "0 to 65535")
        check("service.max_requests", service.max_requests, service.max_requests > 0, "1 or more")
        check("service.request_seconds", service.request_seconds, service.request_seconds > 0, "more than 0")
        is_address = api.base_url is None or is_web_address(api.base_url)
        check("api.base_url", api.base_url, is_address, "an address such as https://api.example.org")
        self._check_databases()
        if api.documentation is not None:
            from mas.systems.bos.api.catalogue import load_catalogue

            try:
                load_catalogue(Path(api.documentation))
            except AgentFailureError as failure:
                raise UserError(f"system.api.documentation={api.documentation}: {failure}.") from failure

    def _check_databases(self) -> None:
        folder, databases = self.sql.folder, self.sql.list_databases()
        if folder is not None:
            has_file = bool(find_files(Path(folder)))
            check("sql.folder", folder, has_file, "a folder with a SQLite file, NAME.sqlite or NAME/NAME.sqlite")
            check_choice("sql.folder_tables", self.sql.folder_tables, list(databases))
        for name, database in databases.items():
            if not database.tables:
                raise UserError(
                    f"system.sql.databases.{name} lists no tables; name those that may be read, or '*' for all."
                )
            if bool(database.path) == bool(database.url_env):
                raise UserError(f"system.sql.databases.{name} needs either a path (SQLite) or url_env (PostgreSQL).")

    def read_clock(self) -> Clock:
        """Return the clock of all requests: one that always shows `current_time` if that is given."""
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
        return {name: reason for name, entry in REGISTRY.items() if (reason := entry.find_gap(self.api, self.sql))}

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        from mas.systems.bos.program import BosProgram, SharedObjects

        return BosProgram(SharedObjects(self.share_results, self.find_gaps(), resources, self.read_clock()))

    def check_service(self) -> None:
        if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
            raise UserError(f"The package {missing[0]} is missing; install the extra: pip install -e '.[service]'.")
        self.service.check_token()

    def serve_application(self, program: Program, options: ServiceOptions) -> Service:
        from mas.systems.bos.http_service import make_application
        from mas.systems.bos.program import BosProgram

        application = make_application(cast(BosProgram, program), self.service, options)
        return Service(application, self.service.host, self.service.port)
