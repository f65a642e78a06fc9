"""The viewer: its addresses, on a loopback port until Ctrl-C ends it.

serve_viewer(Catalogue(OUTPUTS), port=8770, user="ada")

| Address | Answer |
|---|---|
| `/` | all runs |
| `/runs/ID` | a live evaluation; of other runs, where their pages are |
| `/runs/ID/state` | what changes on its page, as JSON; the page asks once a second |
| `/runs/ID/pages/NAME` | a page that the run has written, in a sandbox |
| `/runs/ID/review` | queue of answers to review |
| `/runs/ID/answers/ROW` | one answer as JSON |
| `/runs/ID/labels`, `/runs/ID/withdrawals` | writes |
"""

import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from eval.analysis.human_review import find_gold_folder
from eval.analysis.run_list.read_runs import EVALUATION, read_runs
from eval.cli.command import FINISHED, handle_signals
from eval.cli.paths import PROJECT_ROOT
from eval.execution.projection import format_duration
from eval.reports.formats import format_interval, format_percent
from eval.reports.html.rows import ROWS
from eval.reports.html.templates import FOLDER, Scripts, load_scripts, load_template, write_json
from eval.reports.run_list.page import render_index
from eval.runs.folder import DATABASE, TUNING_FILE, format_path
from eval.runs.store import StoreError
from eval.viewer.catalogue import Catalogue, list_notices, read_run
from eval.viewer.live_run import LiveRun
from eval.viewer.protection import HOST, WRITE_HEADER, Access, Guard
from eval.viewer.review_queue import ReviewQueue
from eval.workflows.service import open_listener
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import escape_controls, print_line
from mas.runtime.text import format_count

_HERE = Path(__file__).parent
_POLL_SECONDS = 1.0
_NICENESS = 5
_LAST_SECONDS = 1  # for connections at the end
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
# A page in a run's folder may be anybody's: it gets an origin of its own, and only scripts that are ours word for word.
_SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REFUSALS = (HTTPException, UserError, StoreError)  # are answered with their sentence
Json = dict[str, object]


@dataclass
class Desk:
    """State that all requests share."""

    catalogue: Catalogue
    access: Access
    user: str
    watched: dict[Path, "LivePage"] = field(default_factory=dict)  # live runs, by folder, for all browsers
    queues: dict[Path, ReviewQueue] = field(default_factory=dict)  # of answers to review, likewise


class LivePage:
    """What changes on the page of a live run, read once a second at most for all browsers together."""

    def __init__(self, folder: Path) -> None:
        self.live = LiveRun(folder)
        filters: dict[str, Callable[..., str]] = {
            "percent": format_percent,
            "interval": format_interval,
            "duration": format_duration,
            "usd": lambda usd: f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:,.4f}",
        }
        self._template = load_template(_HERE / "live_run.html.jinja", filters)
        self._turns = Lock()
        self._read_at, self._newest = float("-inf"), Json()

    def read(self) -> Json:
        """Return the newest parts: whoever comes first reads them, others within a second get the same."""
        with self._turns:
            if time.monotonic() - self._read_at >= _POLL_SECONDS:
                state = self.live.poll()
                html = escape_controls(self._template.render(state))
                self._newest = {"html": html, "title": state["title"], "ended": state["state"] == "ended"}
                self._read_at = time.monotonic()
            return self._newest


def make_application(desk: Desk) -> Starlette:
    """Return the application, without its protection. What is no coroutine runs in a thread."""
    routes = [
        Route("/", show_start),
        Route("/runs/{run_id}", show_run),
        Route("/runs/{run_id}/state", show_state),
        Route("/runs/{run_id}/pages/{name}", show_page),
        Route("/runs/{run_id}/review", show_review),
        Route("/runs/{run_id}/answers/{row:int}", show_answer),
        Route("/runs/{run_id}/labels", save_label, methods=["POST"]),
        Route("/runs/{run_id}/withdrawals", withdraw_label, methods=["POST"]),
    ]
    application = Starlette(routes=routes, exception_handlers=dict.fromkeys(_REFUSALS, _describe_error))
    application.state.desk = desk
    return application


def _describe_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": str(error)}, 409)


def _get_desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _find_run(request: Request) -> Path:
    folder = _get_desk(request).catalogue.find(request.path_params["run_id"])
    if folder is None:
        raise HTTPException(404, "There is no such run; go back to the list.")
    return folder


def _open_queue(request: Request) -> ReviewQueue:
    desk, folder = _get_desk(request), _find_run(request)
    return desk.queues.setdefault(folder, ReviewQueue(folder, find_gold_folder(folder)))


def _render(template: str, scripts: Scripts, **values: object) -> HTMLResponse:
    return _answer_page(load_template(_HERE / template).render(scripts=scripts, **values), scripts)


def _answer_page(text: str, scripts: Scripts) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY.format(scripts=scripts.policy)})


def show_start(request: Request) -> Response:
    catalogue = _get_desk(request).catalogue
    page, scripts = render_index(
        read_runs([catalogue.folder]),
        catalogue.folder,
        lambda run: f"/runs/{quote(catalogue.name(run.folder), safe='')}",
    )
    return _answer_page(page, scripts)


def show_run(request: Request) -> Response:
    folder, catalogue = _find_run(request), _get_desk(request).catalogue
    entry = read_run(folder)
    is_live = entry.kind == EVALUATION and (folder / DATABASE).is_file()
    command = f"python optimize/report.py {folder.name} writes its page, also while it goes on"
    return _render(
        "live.html.jinja",
        load_scripts(_HERE / "live.js"),
        data={"id": catalogue.name(folder), "run": folder.name, "live": is_live},
        notices=list_notices(entry),
        pages=catalogue.list_pages(folder),
        status="The run is read …" if is_live else "; ".join(filter(None, (entry.state, entry.remark, command))),
    )


def show_state(request: Request) -> Response:
    folder, desk = _find_run(request), _get_desk(request)
    if not (folder / DATABASE).is_file() or (folder / TUNING_FILE).is_file():
        raise HTTPException(404, "Only evaluations have a live page.")
    page = desk.watched.get(folder) or desk.watched.setdefault(folder, LivePage(folder))
    try:
        state = page.read()
    except (StoreError, ValueError, TypeError, LookupError, AttributeError) as error:  # a run from elsewhere
        desk.watched.pop(folder, None)
        raise HTTPException(409, f"The run cannot be read: {error}"[:500]) from error
    return Response(write_json(state), media_type="application/json")


def show_page(request: Request) -> Response:
    path = _get_desk(request).catalogue.find_page(_find_run(request), request.path_params["name"])
    if path is None:
        raise HTTPException(404, "There is no such page; go back to the list.")
    policy = _SANDBOX.format(scripts=list_own_scripts())
    return FileResponse(path, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": policy})


@cache
def list_own_scripts() -> str:
    """Return the digests of all scripts that pages of this program have."""
    folders = [FOLDER.parent, PROJECT_ROOT / "optimize"]
    files = sorted(path for folder in folders for path in (*folder.rglob("*.js"), *folder.rglob("*.js.jinja")))
    return load_scripts(*files).policy


def show_review(request: Request) -> Response:
    folder, desk, queue = _find_run(request), _get_desk(request), _open_queue(request)
    refusal = queue.explain_refusal()
    data = {
        "id": desk.catalogue.name(folder),
        "run": folder.name,
        "items": [] if refusal else queue.list_items(),
        "token": desk.access.write_token,
        "header": WRITE_HEADER,
    }
    return _render(
        "review.html.jinja",
        load_scripts(*ROWS, FOLDER / "steps.js", _HERE / "review.js"),
        data=data,
        user=desk.user,
        notices=[] if refusal else list_notices(read_run(folder)),
        refusal=refusal,
        unreadable=format_count(n, "line") if (n := queue.count_unreadable()) else "",
    )


def show_answer(request: Request) -> Response:
    answer = _open_queue(request).read_answer(request.path_params["row"])
    return Response(write_json(answer), media_type="application/json")


async def save_label(request: Request) -> Response:
    body = await _read_body(request)
    row, target = body.get("row"), body.get("target")
    if not isinstance(row, int) or isinstance(row, bool) or not (target is None or isinstance(target, str)):
        raise HTTPException(400, "row must be a number, and target a text.")
    label, note, who = str(body.get("label") or ""), str(body.get("note") or ""), _get_desk(request).user
    return JSONResponse(await run_in_threadpool(lambda: _open_queue(request).save(row, label, who, target, note)))


async def withdraw_label(request: Request) -> Response:
    label_id = str((await _read_body(request)).get("id") or "")
    await run_in_threadpool(lambda: _open_queue(request).withdraw(label_id, _get_desk(request).user))
    return JSONResponse({})


async def _read_body(request: Request) -> Json:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The body is no JSON.") from error
    if not isinstance(body, dict):
        raise HTTPException(400, "The body must be a JSON object.")
    return body


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
        config = uvicorn.Config(
            Guard(make_application(desk), access),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        server = uvicorn.Server(config)

        def stop(name: str) -> None:
            server.force_exit, server.should_exit = server.should_exit, True

        with handle_signals(stop):
            print_line(f"{format_path(catalogue.folder)} at {access.url} (for you alone; Ctrl-C ends it)")
            run_blocking(server.serve([listener]))
    return FINISHED
