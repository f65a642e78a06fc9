"""Addresses of the viewer.

| Address | Answer |
|---|---|
| `/` | all runs |
| `/runs/ID` | a live run or tuning run, or where a finished one leads |
| `/runs/ID/events` | its state as server-sent events, once a second |
| `/runs/ID/pages/NAME` | a page that the run has written, in a sandbox |
| `/pages/ID` | a page that is of no run, such as a comparison, in a sandbox |
| `/runs/ID/review` | queue of answers to review |
| `/runs/ID/answers/ROW` | one answer as JSON |
| `/runs/ID/labels`, `/runs/ID/withdrawals`, `/rescore` | writes |
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
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
from eval.cli.paths import PROJECT_ROOT
from eval.reports.html.rows import ROWS
from eval.reports.html.templates import FOLDER, Scripts, load_scripts, load_template, write_json
from eval.reports.run_list.page import Links, render_index
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.run_info import TUNING_FILE
from eval.runs.store import StoreError
from eval.viewer.catalogue import Catalogue, describe_parts, list_notices
from eval.viewer.live_run import POLL_SECONDS, Follower, LiveRun
from eval.viewer.live_tuning import LiveTuning
from eval.viewer.protection import WRITE_HEADER, Access
from eval.viewer.review_queue import ReviewQueue, Verdict
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.text import format_count

_HERE = Path(__file__).parent
_MAX_BODY_BYTES = 200_000
_MAX_QUEUES = 4
_RESCORE_LINES = 200
_SCRIPTS = (_HERE / "page.js",)
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
# A page in a run's folder may be anybody's: it gets an origin of its own, and only scripts that are ours word for word.
_SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Json = dict[str, object]


@dataclass
class Desk:
    """State that all requests share."""

    catalogue: Catalogue
    access: Access
    user: str
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    watched: dict[Path, "Watched"] = field(default_factory=dict)  # live runs that are open in a browser
    queues: dict[Path, ReviewQueue] = field(default_factory=dict)  # the newest last
    rescoring: asyncio.Lock = field(default_factory=asyncio.Lock)

    def open_queue(self, folder: Path) -> ReviewQueue:
        """Return the queue of a run, one for all browsers; the oldest is closed when there are several."""
        queue = self.queues.pop(folder, None) or ReviewQueue(folder, self.catalogue.gold)
        self.queues[folder] = queue  # as the newest
        while len(self.queues) > _MAX_QUEUES:
            self.queues.pop(next(iter(self.queues))).close()
        return queue

    def find_run(self, request: Request) -> Path:
        folder = self.catalogue.find(request.path_params["run_id"])
        if folder is None:
            raise HTTPException(404, "There is no such run; go back to the list.")
        return folder


@dataclass
class Watched:
    """A live run and its one reader."""

    follower: Follower
    n_browsers: int = 0
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)


def make_application(desk: Desk) -> Starlette:
    """Return the application, without its protection."""

    def route(path: str, handle: Callable[[Desk, Request], Awaitable[Response]], method: str = "GET") -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                return await handle(desk, request)
            except (UserError, StoreError) as error:
                raise HTTPException(409, str(error)) from error

        return Route(path, endpoint, methods=[method])

    return Starlette(
        routes=[
            route("/", show_start),
            route("/runs/{run_id}", show_run),
            route("/runs/{run_id}/events", stream_events),
            route("/runs/{run_id}/pages/{name}", show_page),
            route("/pages/{page_id}", show_other_page),
            route("/runs/{run_id}/review", show_review),
            route("/runs/{run_id}/answers/{row:int}", show_answer),
            route("/runs/{run_id}/labels", save_label, "POST"),
            route("/runs/{run_id}/withdrawals", withdraw_label, "POST"),
            route("/rescore", rescore, "POST"),
        ],
        exception_handlers={HTTPException: _describe_error},
    )


async def _describe_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code)


def _render(desk: Desk, template: str, scripts: Scripts, **values: object) -> HTMLResponse:
    text = load_template(_HERE / template).render(scripts=scripts, user=desk.user, **values)
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY.format(scripts=scripts.policy)})


async def show_start(desk: Desk, request: Request) -> Response:
    catalogue = desk.catalogue
    links = Links(
        lambda run: f"/runs/{quote(catalogue.name(run.folder), safe='')}",
        lambda page: f"/pages/{quote(catalogue.name(page), safe='')}",
    )
    found = await run_in_threadpool(read_runs, [catalogue.folder])
    text, scripts = await run_in_threadpool(render_index, found, catalogue.folder, links)
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY.format(scripts=scripts.policy)})


async def show_run(desk: Desk, request: Request) -> Response:
    folder = desk.find_run(request)
    is_evaluation, is_tuning = (folder / DATABASE).is_file(), (folder / TUNING_FILE).is_file()
    run_id = desk.catalogue.name(folder)
    data: Json = {"id": run_id, "run": folder.name, "live": is_evaluation}
    about = await run_in_threadpool(describe_parts, folder) if is_evaluation or is_tuning else ""
    notices = await run_in_threadpool(list_notices, folder) if about else []
    locked = folder / (TUNING_FILE if is_tuning else DATABASE)
    running = (is_evaluation or is_tuning) and await run_in_threadpool(is_in_use, locked)
    page = "live_tuning" if is_tuning else "live"
    scripts = load_scripts(*ROWS, *_SCRIPTS, _HERE / f"{page}.js")
    pages = desk.catalogue.list_pages(folder)
    return _render(
        desk,
        f"{page}.html.jinja",
        scripts,
        data=data,
        about=about,
        notices=notices,
        running=running,
        pages=pages,
        is_evaluation=is_evaluation,
    )


async def stream_events(desk: Desk, request: Request) -> Response:
    folder = desk.find_run(request)
    if not (folder / DATABASE).is_file() and not (folder / TUNING_FILE).is_file():
        raise HTTPException(404, "Only evaluations and tuning runs have a live page.")
    return StreamingResponse(_watch(desk, folder), media_type="text/event-stream")


async def _watch(desk: Desk, folder: Path) -> AsyncIterator[str]:
    """Yield the state of a run whenever it has changed. All browsers that watch the run share one reader."""
    watched, last = desk.watched.setdefault(folder, Watched(Follower(_follow(folder)))), ""
    watched.n_browsers += 1
    try:
        while not desk.stopping.is_set():
            try:
                async with watched.turns:
                    snapshot = await run_in_threadpool(watched.follower.read)
            except (StoreError, ValueError, TypeError, LookupError, AttributeError) as error:  # a run from elsewhere
                yield _format_event("failed", {"error": f"The run cannot be read: {error}"[:500]})
                return
            if (text := _format_event("state", snapshot)) != last:
                yield text
                last = text
            if snapshot["state"] == "ended":
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(desk.stopping.wait(), POLL_SECONDS)
    finally:
        watched.n_browsers -= 1
        if not watched.n_browsers:
            desk.watched.pop(folder, None)
            watched.follower.close()


def _follow(folder: Path) -> LiveRun | LiveTuning:
    return LiveTuning(folder) if (folder / TUNING_FILE).is_file() else LiveRun(folder)


def _format_event(name: str, data: Json) -> str:
    return f"event: {name}\ndata: {write_json(data)}\n\n"


async def show_page(desk: Desk, request: Request) -> Response:
    return _serve_page(desk.catalogue.find_page(desk.find_run(request), request.path_params["name"]))


async def show_other_page(desk: Desk, request: Request) -> Response:
    return _serve_page(desk.catalogue.find_other_page(request.path_params["page_id"]))


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


async def show_review(desk: Desk, request: Request) -> Response:
    folder = desk.find_run(request)
    queue = desk.open_queue(folder)
    refusal = await run_in_threadpool(queue.explain_refusal)
    items = [] if refusal else await run_in_threadpool(queue.list_items)
    unreadable = format_count(n, "line") if (n := await run_in_threadpool(queue.count_unreadable)) else ""
    data = {
        "id": desk.catalogue.name(folder),
        "run": folder.name,
        "items": items,
        "token": desk.access.write_token,
        "header": WRITE_HEADER,
        "runs": desk.catalogue.list_evaluations(),
    }
    scripts = load_scripts(*ROWS, FOLDER / "steps.js", *_SCRIPTS, _HERE / "review.js")
    notices = [] if refusal else await run_in_threadpool(list_notices, folder)
    return _render(
        desk, "review.html.jinja", scripts, data=data, notices=notices, refusal=refusal, unreadable=unreadable
    )


async def show_answer(desk: Desk, request: Request) -> Response:
    queue = desk.open_queue(desk.find_run(request))
    answer = await run_in_threadpool(queue.read_answer, request.path_params["row"])
    return Response(write_json(answer), media_type="application/json")


async def save_label(desk: Desk, request: Request) -> Response:
    queue = desk.open_queue(desk.find_run(request))
    body = await _read_body(request)
    row, target = body.get("row"), body.get("target")
    if not isinstance(row, int) or isinstance(row, bool) or not (target is None or isinstance(target, str)):
        raise HTTPException(400, "row must be a number, and target a text.")
    verdict = Verdict(str(body.get("label") or ""), target, str(body.get("note") or ""))
    return JSONResponse(await run_in_threadpool(queue.save, row, verdict, desk.user))


async def withdraw_label(desk: Desk, request: Request) -> Response:
    queue = desk.open_queue(desk.find_run(request))
    body = await _read_body(request)
    await run_in_threadpool(queue.withdraw, str(body.get("id") or ""), desk.user)
    return JSONResponse({})


async def _read_body(request: Request) -> Json:
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > _MAX_BODY_BYTES:
            raise HTTPException(413, "The request is too large.")
        parts.append(part)
    try:
        body = json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The body is no JSON.") from error
    if not isinstance(body, dict):
        raise HTTPException(400, "The body must be a JSON object.")
    return body


async def rescore(desk: Desk, request: Request) -> Response:
    """Apply all labels to all runs, in a process of its own: scorers may be programs of the user."""
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
