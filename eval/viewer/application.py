"""The viewer: its addresses, on a loopback port until Ctrl-C ends it.

serve_viewer(Desk(OUTPUTS, user="ada"), port=8770)

Only its own pages, in the browser of the user who started it, may use it: `Guard`, and starlette's check of host names.
"""

import secrets
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel, StrictInt
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from eval.analysis.human_review.labels import find_gold_folder
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
from eval.viewer.review_queue import ReviewQueue
from eval.workflows.service import open_listener
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import print_line
from mas.simulation import SIMULATED_NOTICE

HOST = "127.0.0.1"
_HERE = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # pages bring their own
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
# A page in a run's folder may be anybody's: it gets an origin of its own, and only scripts that are ours word for word.
_SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REFUSALS = (HTTPException, UserError, StoreError, OSError)  # are answered with their sentence


class Guard:
    """Middleware that lets in whoever has the printed address, which has a token that is new at each start."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.url = f"http://{HOST}:{port}/open?token={self.token}"  # sets the cookie, then shows the start page
        self._cookie = f"viewer_{port}"  # cookies of one host are shared by all its ports

    async def __call__(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = self._answer(request) or await call_next(request)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    def _answer(self, request: Request) -> Response | None:
        """Return None for a request of a page of this server."""
        headers, origin = request.headers, request.headers.get("origin")
        is_json = headers.get("content-type", "").startswith("application/json")  # no form of another site can send it
        may_write = request.method in ("GET", "HEAD") or (origin is not None and is_json)
        if origin not in (None, f"http://{headers.get('host')}") or not may_write:
            return PlainTextResponse("Only the viewer's own pages may use it; reload the page.\n", 403)
        if request.url.path == "/open" and self._is_token(request.query_params.get("token", "")):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self.token, httponly=True, samesite="strict")
            return answer
        if self._is_token(request.cookies.get(self._cookie, "")):
            return None
        return PlainTextResponse("Open the address that python eval/view.py has printed.\n", 401)

    def _is_token(self, given: str) -> bool:
        """Compare in a time that does not depend on where they differ."""
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class NewLabel(BaseModel):
    """What a person says of an answer, or takes back."""

    row: StrictInt
    label: str = ""
    target: str | None = None
    note: str = ""
    withdraws: str = ""  # id of a label that is taken back


class Desk:
    """Answers to all requests. Runs are found by the id in their address: no address is a path."""

    def __init__(self, folder: Path, user: str) -> None:
        """`folder`: outputs/, one like outputs/eval, or a run's. Raise UserError if there is no such folder."""
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder; name one with runs, such as outputs, or the folder of a run.")
        self.folder, self.user = folder.absolute(), user
        self.watched: dict[Path, LiveRun] = {}  # live runs, by folder, for all browsers
        self.queues: dict[Path, ReviewQueue] = {}  # of answers to review, likewise

    def name(self, folder: Path) -> str:
        """Return the id of a run's folder."""
        return "~".join(folder.relative_to(self.folder).parts) or folder.name

    def find(self, run_id: str) -> Path:
        for folder in find_run_folders(self.folder):
            if self.name(folder) == run_id:
                return folder
        raise HTTPException(404, "There is no such run; go back to the list.")

    def _find_run(self, request: Request) -> Path:
        return self.find(request.path_params["run_id"])

    def _open_queue(self, folder: Path) -> ReviewQueue:
        return self.queues.setdefault(folder, ReviewQueue(folder, find_gold_folder(folder)))

    def show_start(self, request: Request) -> Response:
        runs = read_runs([self.folder])
        page = render_index(runs, self.folder, lambda run: f"/runs/{quote(self.name(run.folder), safe='')}")
        return _answer_page(*page)

    def show_run(self, request: Request) -> Response:
        folder = self._find_run(request)
        entry, is_live = read_entry(folder), is_evaluation(folder)
        command = f"python optimize/report.py {folder.name} writes its page, also while it goes on"
        return _render(
            "live.html.jinja",
            load_scripts(_HERE / "live.js"),
            data={"id": self.name(folder), "run": folder.name, "live": is_live},
            notices=list_notices(entry),
            has_report=is_live or (folder / REPORT).is_file(),
            status="The run is read …" if is_live else "; ".join(filter(None, (entry.state, entry.remark, command))),
        )

    def show_state(self, request: Request) -> Response:
        folder = self._find_run(request)
        if not is_evaluation(folder):
            raise HTTPException(404, "Only evaluations have a live page.")
        with refuse_unreadable(folder):
            state = self.watched.setdefault(folder, LiveRun(folder)).render()
        return Response(write_json(state), media_type="application/json")

    def show_report(self, request: Request) -> Response:
        """Show the page of a run; that of an evaluation is written, unless nothing was written to the run since."""
        folder = self._find_run(request)
        page = folder / REPORT
        if is_evaluation(folder) and not is_current(page):
            check_entries(folder)
            with refuse_unreadable(folder), open_run(folder) as store:
                write_reports(folder, store)
        if not page.is_file() or page.is_symlink():
            raise HTTPException(404, "There is no such page; go back to the list.")
        scripts = load_scripts(*sorted(FOLDER.parent.rglob("*.js")))  # all that pages of this program have
        headers = {"Content-Security-Policy": _SANDBOX.format(scripts=scripts.policy)}
        return FileResponse(page, media_type="text/html; charset=utf-8", headers=headers)

    def show_review(self, request: Request) -> Response:
        folder = self._find_run(request)
        queue = self._open_queue(folder)
        refusal = queue.explain_refusal()
        items = [] if refusal else queue.list_items()
        return _render(
            "review.html.jinja",
            load_scripts(*ROWS, FOLDER / "steps.js", _HERE / "review.js"),
            data={"id": self.name(folder), "run": folder.name, "items": items},
            user=self.user,
            notices=[] if refusal else list_notices(read_entry(folder)),
            refusal=refusal,
        )

    def show_answer(self, request: Request) -> Response:
        answer = self._open_queue(self._find_run(request)).read_answer(request.path_params["row"])
        return Response(write_json(answer), media_type="application/json")

    async def save_label(self, request: Request) -> Response:
        try:
            new = NewLabel.model_validate_json(await request.body())
        except ValueError as error:
            raise HTTPException(400, "The request is not one of this version's pages; reload the page.") from error
        return JSONResponse(await run_in_threadpool(self._save, self._find_run(request), new))

    def _save(self, folder: Path, new: NewLabel) -> dict[str, object]:
        queue = self._open_queue(folder)
        if not new.withdraws:
            return queue.save(new.row, new.label, self.user, new.target, new.note)
        queue.withdraw(new.withdraws, self.user)
        return {}


def is_evaluation(folder: Path) -> bool:
    return (folder / DATABASE).is_file() and not (folder / TUNING_FILE).is_file()


def list_notices(entry: RunEntry) -> list[str]:
    """Return what a reader must know before any number of a run: its model is simulated, it measures nothing."""
    no_measurement = f"No measurement: {entry.no_measurement}." if entry.no_measurement else ""
    return [each for each in (SIMULATED_NOTICE if entry.simulated else "", no_measurement) if each]


def make_application(desk: Desk, guard: Guard) -> Starlette:
    """Return the application. What is no coroutine runs in a thread."""
    routes = [
        Route("/", desk.show_start),
        Route("/runs/{run_id}", desk.show_run),  # a live evaluation; of other runs, where their pages are
        Route("/runs/{run_id}/state", desk.show_state),  # what changes there; its page asks once a second
        Route("/runs/{run_id}/report.html", desk.show_report),  # in a sandbox
        Route("/runs/{run_id}/review", desk.show_review),
        Route("/runs/{run_id}/answers/{row:int}", desk.show_answer),
        Route("/runs/{run_id}/labels", desk.save_label, methods=["POST"]),
    ]
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),  # not names of others for this machine
        Middleware(BaseHTTPMiddleware, dispatch=guard),
    ]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=dict.fromkeys(_REFUSALS, _describe_error))


def _describe_error(request: Request, error: Exception) -> Response:
    sentence, code = (error.detail, error.status_code) if isinstance(error, HTTPException) else (str(error), 409)
    return JSONResponse({"error": sentence}, code)


def _render(template: str, scripts: Scripts, **values: object) -> HTMLResponse:
    return _answer_page(load_template(_HERE / template).render(scripts=scripts, **values), scripts)


def _answer_page(text: str, scripts: Scripts) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY.format(scripts=scripts.policy)})


def serve_viewer(desk: Desk, port: int) -> int:
    """Serve the pages until a signal ends it; return the exit code. Raise UserError if the port is in use."""
    import uvicorn

    with closing(open_listener(HOST, port, "port")) as listener:
        guard = Guard(listener.getsockname()[1])
        config = uvicorn.Config(
            make_application(desk, guard),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)

        def stop(name: str) -> None:
            server.force_exit, server.should_exit = server.should_exit, True

        with handle_signals(stop):
            print_line(f"{format_path(desk.folder)} at {guard.url} (for you alone; Ctrl-C ends it)")
            run_blocking(server.serve([listener]))
    return FINISHED
