"""The viewer on a loopback port, until Ctrl-C, which ends it at once, open event streams too.

serve_viewer(Catalogue(OUTPUTS), port=8770, user="ada")
"""

import os
from contextlib import closing, suppress

from eval.cli.command import FINISHED, handle_signals
from eval.runs.folder import format_path
from eval.viewer.application import Desk, make_application
from eval.viewer.catalogue import Catalogue
from eval.viewer.protection import HOST, Access, Guard
from eval.workflows.service import open_listener
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.terminal import print_line

_NICENESS = 5
_LAST_SECONDS = 1  # for connections at the end


def serve_viewer(catalogue: Catalogue, port: int, user: str) -> int:
    """Serve the pages until a signal ends it; return the exit code.

    Raises:
        UserError: the port is in use.
    """
    import uvicorn

    with suppress(OSError):
        os.nice(_NICENESS)  # a run on this machine comes first
    with closing(open_listener(HOST, port, "port")) as listener:
        access = Access.make(listener.getsockname()[1])
        desk = Desk(catalogue, access, user)
        server = uvicorn.Server(
            uvicorn.Config(
                Guard(make_application(desk), access),
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=_LAST_SECONDS,
            )
        )

        def stop(name: str) -> None:
            server.force_exit, server.should_exit = server.should_exit, True
            background_loop().call_soon_threadsafe(desk.stopping.set)

        with handle_signals(stop):
            print_line(f"{format_path(catalogue.folder)} at {access.url} (for you alone; Ctrl-C ends it)")
            run_blocking(server.serve([listener]))
    return FINISHED
