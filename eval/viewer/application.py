"""The viewer: its addresses, on a loopback port until Ctrl-C ends it.

serve_viewer(Catalogue(OUTPUTS), port=8770, user="ada")
"""

import os
import re
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from eval.analysis.human_review import find_gold_folder
from eval.analysis.run_list.read_runs import RunEntry, find_run_folders, is_current, read_entry, read_runs
from eval.cli.command import FINISHED, handle_signals
from eval.reports.html.page import FOLDER, ROWS, Scripts, load_scripts, load_template, write_json
from eval.reports.run_list.page import render_index
from eval.reports.run_report.page import write_reports
from eval.runs.find import check_entries
from eval.runs.folder import DATABASE, REPORT, TUNING_FILE, format_path
from eval.runs.own_runs import refuse_unreadable
from eval.runs.store import StoreError, open_run
from eval.viewer.live_run import LiveRun
from eval.viewer.protection import HOST, Guard
from eval.viewer.review_queue import ReviewQueue
from eval.workflows.service import open_listener
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import print_line
from mas.simulation import SIMULATED_NOTICE

_HERE = Path(__file__).parent
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
_PAGE = re.compile(r"[A-Za-z0-9][\w.-]*\.html")


class Catalogue:
    """Runs in outputs/, in a folder like outputs/eval, or a single one, by the id in their address.

    Only folders found here are read: no address is a path.
    """

    def __init__(self, folder: Path) -> None:
        """Raise UserError if there is no such folder."""
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder; name one with runs, such as outputs, or the folder of a run.")
        self.folder = folder.absolute()

    def find(self, run_id: str) -> Path | None:
        return next((folder for folder in find_run_folders(self.folder) if self.name(folder) == run_id), None)

    def name(self, folder: Path) -> str:
        """Return the id of a run's folder, as it stands in addresses."""
        return str(folder.relative_to(self.folder)).replace(os.sep, "~") if folder != self.folder else folder.name

    def list_pages(self, folder: Path) -> list[str]:
        return sorted(name for each in folder.glob("*.html") if self.find_page(folder, name := each.name))

    def find_page(self, folder: Path, name: str) -> Path | None:
        """Return the path of a page in a run's folder; None if there is none, or it is a link."""
        path = folder / name
        return path if _PAGE.fullmatch(name) and path.is_file() and not path.is_symlink() else None


def is_evaluation(folder: Path) -> bool:
    return (folder / DATABASE).is_file() and not (folder / TUNING_FILE).is_file()


def list_notices(entry: RunEntry) -> list[str]:
    """Return what a reader must know before any number of a run: its model is simulated, it measures nothing."""
    no_measurement = f"No measurement: {entry.no_measurement}." if entry.no_measurement else ""
    return [each for each in (SIMULATED_NOTICE if entry.simulated else "", no_measurement) if each]


def make_application(desk: "Desk") -> Starlette:
    """Return the application, without its protection. What is no coroutine runs in a thread."""
    routes = [
        Route("/", desk.show_start),
        Route("/runs/{run_id}", desk.show_run),  # a live evaluation; of other runs, where their pages are
        Route("/runs/{run_id}/state", desk.show_state),  # what changes on its page; it asks once a second
        Route("/runs/{run_id}/pages/{name}", desk.show_page),  # of the run's folder, in a sandbox
        Route("/runs/{run_id}/review", desk.show_review),
        Route("/runs/{run_id}/answers/{row:int}", desk.show_answer),
        Route("/runs/{run_id}/labels", desk.save_label, methods=["POST"]),
        Route("/runs/{run_id}/withdrawals", desk.withdraw_label, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers=dict.fromkeys(_REFUSALS, _describe_error))


def _write_report(folder: Path) -> None:
    """Write the page of an evaluation, unless there is one that nothing was written to the run since."""
    if is_current(folder / REPORT):
        return
    check_entries(folder)
    try:
        with refuse_unreadable(folder), open_run(folder) as store:
            write_reports(folder, store)
    except OSError as error:
        raise HTTPException(409, f"The report cannot be written: {error}") from error


def _describe_error(request: Request, error: Exception) -> Response:
    sentence, code = (error.detail, error.status_code) if isinstance(error, HTTPException) else (str(error), 409)
    return JSONResponse({"error": sentence}, code)


@dataclass
class Desk:
    """Answers to all requests, and what they share."""

    catalogue: Catalogue
    user: str
    watched: dict[Path, LiveRun] = field(default_factory=dict)  # live runs, by folder, for all browsers
    queues: dict[Path, ReviewQueue] = field(default_factory=dict)  # of answers to review, likewise

    def _find_run(self, request: Request) -> Path:
        folder = self.catalogue.find(request.path_params["run_id"])
        if folder is None:
            raise HTTPException(404, "There is no such run; go back to the list.")
        return folder

    def _open_queue(self, request: Request) -> ReviewQueue:
        folder = self._find_run(request)
        return self.queues.setdefault(folder, ReviewQueue(folder, find_gold_folder(folder)))

    def show_start(self, request: Request) -> Response:
        folder, name = self.catalogue.folder, self.catalogue.name
        page = render_index(read_runs([folder]), folder, lambda run: f"/runs/{quote(name(run.folder), safe='')}")
        return _answer_page(*page)

    def show_run(self, request: Request) -> Response:
        folder = self._find_run(request)
        entry, is_live = read_entry(folder), is_evaluation(folder)
        command = f"python optimize/report.py {folder.name} writes its page, also while it goes on"
        pages = self.catalogue.list_pages(folder)
        return _render(
            "live.html.jinja",
            load_scripts(_HERE / "live.js"),
            data={"id": self.catalogue.name(folder), "run": folder.name, "live": is_live},
            notices=list_notices(entry),
            pages=[REPORT, *(each for each in pages if each != REPORT)] if is_live else pages,
            status="The run is read …" if is_live else "; ".join(filter(None, (entry.state, entry.remark, command))),
        )

    def show_state(self, request: Request) -> Response:
        folder = self._find_run(request)
        if not is_evaluation(folder):
            raise HTTPException(404, "Only evaluations have a live page.")
        try:
            state = self.watched.setdefault(folder, LiveRun(folder)).render()
        except (StoreError, ValueError, TypeError, LookupError, AttributeError) as error:  # a run from elsewhere
            self.watched.pop(folder, None)
            raise HTTPException(409, f"The run cannot be read: {error}"[:500]) from error
        return Response(write_json(state), media_type="application/json")

    def show_page(self, request: Request) -> Response:
        folder, name = self._find_run(request), request.path_params["name"]
        if name == REPORT and is_evaluation(folder):
            _write_report(folder)
        path = self.catalogue.find_page(folder, name)
        if path is None:
            raise HTTPException(404, "There is no such page; go back to the list.")
        policy = _SANDBOX.format(scripts=list_own_scripts())
        return FileResponse(path, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": policy})

    def show_review(self, request: Request) -> Response:
        folder, queue = self._find_run(request), self._open_queue(request)
        refusal = queue.explain_refusal()
        items = [] if refusal else queue.list_items()
        return _render(
            "review.html.jinja",
            load_scripts(*ROWS, FOLDER / "steps.js", _HERE / "review.js"),
            data={"id": self.catalogue.name(folder), "run": folder.name, "items": items},
            user=self.user,
            notices=[] if refusal else list_notices(read_entry(folder)),
            refusal=refusal,
        )

    def show_answer(self, request: Request) -> Response:
        answer = self._open_queue(request).read_answer(request.path_params["row"])
        return Response(write_json(answer), media_type="application/json")

    async def save_label(self, request: Request) -> Response:
        body = await _read_body(request)
        row, target = body.get("row"), body.get("target")
        if not isinstance(row, int) or isinstance(row, bool) or not (target is None or isinstance(target, str)):
            raise HTTPException(400, "row must be a number, and target a text.")
        label, note = str(body.get("label") or ""), str(body.get("note") or "")
        save = lambda: self._open_queue(request).save(row, label, self.user, target, note)  # noqa: E731
        return JSONResponse(await run_in_threadpool(save))

    async def withdraw_label(self, request: Request) -> Response:
        label_id = str((await _read_body(request)).get("id") or "")
        await run_in_threadpool(lambda: self._open_queue(request).withdraw(label_id, self.user))
        return JSONResponse({})


def _render(template: str, scripts: Scripts, **values: object) -> HTMLResponse:
    return _answer_page(load_template(_HERE / template).render(scripts=scripts, **values), scripts)


def _answer_page(text: str, scripts: Scripts) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY.format(scripts=scripts.policy)})


@cache
def list_own_scripts() -> str:
    """Return the digests of all scripts that pages of this program have."""
    return load_scripts(*sorted(FOLDER.parent.rglob("*.js"))).policy


async def _read_body(request: Request) -> Json:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The body is no JSON.") from error
    if not isinstance(body, dict):
        raise HTTPException(400, "The body must be a JSON object.")
    return body


def serve_viewer(catalogue: Catalogue, port: int, user: str) -> int:
    """Serve the pages until a signal ends it; return the exit code. Raise UserError if the port is in use."""
    import uvicorn

    with suppress(OSError):
        os.nice(_NICENESS)  # a run on this machine comes first
    with closing(open_listener(HOST, port, "port")) as listener:
        guard = Guard(make_application(Desk(catalogue, user)), listener.getsockname()[1])
        config = uvicorn.Config(
            guard,
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
            print_line(f"{format_path(catalogue.folder)} at {guard.url} (for you alone; Ctrl-C ends it)")
            run_blocking(server.serve([listener]))
    return FINISHED
