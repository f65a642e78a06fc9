"""The viewer: its addresses, on a loopback port until Ctrl-C ends it.

serve_viewer(Catalogue(OUTPUTS), port=8770, user="ada")

| Address | Answer |
|---|---|
| `/` | all runs |
| `/runs/ID` | a live run or tuning run, or where a finished one leads |
| `/runs/ID/events` | what changes on its page, as server-sent events, once a second |
| `/runs/ID/pages/NAME` | a page that the run has written, in a sandbox |
| `/pages/ID` | a page that is of no run, such as a comparison, in a sandbox |
| `/runs/ID/review` | queue of answers to review |
| `/runs/ID/answers/ROW` | one answer as JSON |
| `/runs/ID/labels`, `/runs/ID/withdrawals`, `/rescore` | writes |
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from eval.analysis.run_list.read_runs import read_runs
from eval.cli.command import FINISHED, handle_signals
from eval.cli.paths import PROJECT_ROOT
from eval.execution.projection import format_duration
from eval.reports.formats import format_interval, format_percent
from eval.reports.html.rows import ROWS
from eval.reports.html.templates import FOLDER, Scripts, load_scripts, load_template, write_json
from eval.reports.run_list.page import render_index
from eval.runs.folder import DATABASE, TUNING_FILE, format_path
from eval.runs.store import StoreError
from eval.viewer.catalogue import Catalogue, list_notices
from eval.viewer.live_run import LiveRun
from eval.viewer.live_tuning import LiveTuning
from eval.viewer.protection import HOST, WRITE_HEADER, Access, Guard
from eval.viewer.review_queue import ReviewQueue, Verdict
from eval.workflows.service import open_listener
from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.terminal import escape_controls, print_line
from mas.runtime.text import format_count

_HERE = Path(__file__).parent
_RESCORE_LINES = 200
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
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    watched: dict[Path, "LivePage"] = field(default_factory=dict)  # live runs that are open in a browser
    queues: dict[Path, ReviewQueue] = field(default_factory=dict)  # by folder of the run, for all browsers
    rescoring: asyncio.Lock = field(default_factory=asyncio.Lock)


class LivePage:
    """What changes on the page of a live run, read once a second at most for all browsers together."""

    def __init__(self, folder: Path) -> None:
        is_tuning = (folder / TUNING_FILE).is_file()
        self.live = LiveTuning(folder) if is_tuning else LiveRun(folder)
        self.n_browsers = 0
        filters: dict[str, Callable[..., str]] = {
            "percent": format_percent,
            "interval": format_interval,
            "duration": format_duration,
            "usd": lambda usd: f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:,.4f}",
            "count": lambda n, noun: format_count(int(n), noun),
        }
        self._template = load_template(_HERE / f"live_{'tuning' if is_tuning else 'run'}.html.jinja", filters)
        self._turns = asyncio.Lock()
        self._read_at, self._newest = float("-inf"), Json()

    async def read(self) -> Json:
        """Return the newest parts: whoever comes first reads them, others within a second get the same."""
        async with self._turns:
            if time.monotonic() - self._read_at >= _POLL_SECONDS:
                self._newest = await run_in_threadpool(self._render)
                self._read_at = time.monotonic()
            return self._newest

    def _render(self) -> Json:
        state = self.live.poll()
        html = escape_controls(self._template.render(state))
        return {"html": html, "title": state["title"], "ended": state["state"] == "ended"}


def make_application(desk: Desk) -> Starlette:
    """Return the application, without its protection. What is no coroutine runs in a thread."""
    routes = [
        Route("/", show_start),
        Route("/runs/{run_id}", show_run),
        Route("/runs/{run_id}/events", stream_events),
        Route("/runs/{run_id}/pages/{name}", show_page),
        Route("/pages/{page_id}", show_other_page),
        Route("/runs/{run_id}/review", show_review),
        Route("/runs/{run_id}/answers/{row:int}", show_answer),
        Route("/runs/{run_id}/labels", save_label, methods=["POST"]),
        Route("/runs/{run_id}/withdrawals", withdraw_label, methods=["POST"]),
        Route("/rescore", rescore, methods=["POST"]),
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
    return desk.queues.setdefault(folder, ReviewQueue(folder, desk.catalogue.gold))


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
        lambda path: f"/pages/{quote(catalogue.name(path), safe='')}",
    )
    return _answer_page(page, scripts)


def show_run(request: Request) -> Response:
    folder, catalogue = _find_run(request), _get_desk(request).catalogue
    is_live = (folder / DATABASE).is_file()
    has_queue = is_live and not (folder / TUNING_FILE).is_file()
    return _render(
        "live.html.jinja",
        load_scripts(_HERE / "live.js"),
        data={"id": catalogue.name(folder), "run": folder.name, "live": is_live},
        notices=list_notices(folder),
        pages=catalogue.list_pages(folder),
        has_queue=has_queue,
    )


async def stream_events(request: Request) -> Response:
    folder = await run_in_threadpool(_find_run, request)
    if not (folder / DATABASE).is_file():
        raise HTTPException(404, "Only evaluations and tuning runs have a live page.")
    return StreamingResponse(_watch(_get_desk(request), folder), media_type="text/event-stream")


async def _watch(desk: Desk, folder: Path) -> AsyncIterator[str]:
    """Yield the parts of a live page whenever they have changed."""
    if (page := desk.watched.get(folder)) is None:
        page = desk.watched[folder] = LivePage(folder)
    page.n_browsers += 1
    last = Json()
    try:
        while not desk.stopping.is_set():
            try:
                newest = await page.read()
            except (StoreError, ValueError, TypeError, LookupError, AttributeError) as error:  # a run from elsewhere
                yield _format_event("failed", {"error": f"The run cannot be read: {error}"[:500]})
                return
            if newest != last:
                yield _format_event("state", newest)
                last = newest
            if newest["ended"]:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(desk.stopping.wait(), _POLL_SECONDS)
    finally:
        page.n_browsers -= 1
        if not page.n_browsers:
            desk.watched.pop(folder, None)
            page.live.close()


def _format_event(name: str, data: Json) -> str:
    return f"event: {name}\ndata: {write_json(data)}\n\n"


def show_page(request: Request) -> Response:
    return _serve_page(_get_desk(request).catalogue.find_page(_find_run(request), request.path_params["name"]))


def show_other_page(request: Request) -> Response:
    return _serve_page(_get_desk(request).catalogue.find_other_page(request.path_params["page_id"]))


def _serve_page(path: Path | None) -> Response:
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
        "runs": desk.catalogue.list_evaluations(),
    }
    return _render(
        "review.html.jinja",
        load_scripts(*ROWS, FOLDER / "steps.js", _HERE / "review.js"),
        data=data,
        user=desk.user,
        notices=[] if refusal else list_notices(folder),
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
    verdict = Verdict(str(body.get("label") or ""), target, str(body.get("note") or ""))
    return JSONResponse(
        await run_in_threadpool(lambda: _open_queue(request).save(row, verdict, _get_desk(request).user))
    )


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


async def rescore(request: Request) -> Response:
    """Apply all labels to all runs, in a process of its own: scorers may be programs of the user."""
    desk = _get_desk(request)
    if desk.rescoring.locked():
        raise HTTPException(409, "Runs are being scored again just now; wait for it.")
    async with desk.rescoring:
        script = PROJECT_ROOT / "eval" / "rescore.py"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(script), str(desk.catalogue.folder), f"gold={desk.catalogue.gold}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=build_child_environment("*"),  # the user's own command, whose scorers may read any variable
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.terminate()
    lines = output.decode("utf-8", "replace").splitlines()[-_RESCORE_LINES:]
    return Response(write_json({"code": process.returncode, "lines": lines}), media_type="application/json")


def serve_viewer(catalogue: Catalogue, port: int, user: str) -> int:
    """Serve the pages until a signal ends it, which ends open event streams, too; return the exit code.

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
            background_loop().call_soon_threadsafe(desk.stopping.set)

        with handle_signals(stop):
            print_line(f"{format_path(catalogue.folder)} at {access.url} (for you alone; Ctrl-C ends it)")
            run_blocking(server.serve([listener]))
    return FINISHED
