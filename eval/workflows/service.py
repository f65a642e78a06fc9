"""A system behind an HTTP server, on the event loop that its connections and sessions belong to."""

import socket

from eval.cli.command import FINISHED, handle_signals
from eval.config.evaluation import EvalConfig
from eval.execution.console import open_resources, print_notes
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import print_line
from mas.simulation import SIMULATED_NOTICE
from mas.system import ServedSystem, ServiceOptions

MAX_CONNECTIONS = 1_000  # further ones are refused with 503
DRAIN_SECONDS = 30  # for requests in flight when the service is stopped


def serve(system: ServedSystem, config: EvalConfig, prompts: PromptSet | None) -> int:
    """Serve the system until a signal ends it; a second signal ends it at once. Return the exit code."""
    import uvicorn

    if config.needs_model and config.model.simulated:
        print_line(SIMULATED_NOTICE)
    options = ServiceOptions(config.limits, config.redact, lambda line: print_line(config.redact(line), error=True))
    with open_resources(config) as (resources, notes):
        service = system.serve_application(system.build(config.model, prompts, resources), options)
        print_notes(notes)
        server = uvicorn.Server(
            uvicorn.Config(
                service.application,  # type: ignore[arg-type]
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
            )
        )

        def stop(name: str) -> None:
            print_line(f"stopped by {name}: requests have {DRAIN_SECONDS} s; once more: stop now.", error=True)
            server.force_exit, server.should_exit = server.should_exit, True

        with open_listener(service.host, service.port, "system.service.port") as listener, handle_signals(stop):
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            print_line(f"{config.system.name} is served at http://{name}:{port} (Ctrl-C ends it).")
            run_blocking(server.serve([listener]))
    return FINISHED


def open_listener(host: str, port: int, option: str) -> socket.socket:
    """Return a socket that listens; UserError: the address is in use; `option`: with which another is chosen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise UserError(
            f"{host} port {port} cannot be used ({error.strerror}); choose another {option}, or 0 for any that is free."
        ) from error
