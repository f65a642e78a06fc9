"""The viewer's addresses and their protection, without a server."""

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from eval.analysis.human_review.labels import read_labels
from eval.cli.paths import PROJECT_ROOT
from eval.runs.folder import RunLock
from eval.viewer import application
from eval.viewer.application import Desk, Watched, make_application, stream_events
from eval.viewer.catalogue import Catalogue
from eval.viewer.protection import WRITE_HEADER, Access, Guard
from mas.simulation import SIMULATED_NOTICE
from tests.eval.stored_run import answered, stored_run
from tests.eval.viewer.test_live_tuning import make_tuning

PORT = 8770
DATA = "d" * 64
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    run = tmp_path / "outputs" / "eval" / "night"
    stored_run(run, [answered("q1", EVIL), answered("q2", "17")], dataset_sha256=DATA, system="toy", model="small")
    (run / "report.html").write_text("<script>alert(1)</script>")
    return tmp_path / "outputs"


@pytest.fixture
def access() -> Access:
    return Access.make(PORT)


@pytest.fixture
def stranger(outputs: Path, access: Access) -> Iterator[TestClient]:
    """A client of this machine that does not know the token."""
    desk = Desk(Catalogue(outputs), access, "ada")
    guarded = Guard(make_application(desk), access)
    with TestClient(guarded, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False) as client:
        yield client
    for queue in desk.queues.values():
        queue.close()


@pytest.fixture
def client(stranger: TestClient, access: Access) -> TestClient:
    assert stranger.get(access.url).headers["location"] == "/"
    return stranger


@pytest.fixture
def writing(access: Access) -> dict[str, str]:
    return {"Origin": f"http://127.0.0.1:{PORT}", WRITE_HEADER: access.write_token}


LABEL = {"row": 1, "label": "ambiguous", "note": "which year?"}


def test_only_the_printed_address_opens_the_viewer(stranger: TestClient, access: Access) -> None:
    for path in (
        "/",
        "/runs/eval~night",
        "/runs/eval~night/answers/1",
        "/runs/eval~night/pages/report.html",
        "/open?token=x",
        "/open",
    ):
        answer = stranger.get(path)
        assert (answer.status_code, "night" in answer.text) == (401, False), path
    opened = stranger.get(access.url)
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200
    assert access.token not in stranger.get("/").text


def test_another_host_name_is_refused_also_with_the_cookie(client: TestClient) -> None:
    for host in ("evil.example:8770", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8770", ""):
        assert client.get("/", headers={"Host": host}).status_code == 421, host


def test_another_origin_is_refused_also_with_the_cookie(client: TestClient) -> None:
    origins = [{"Origin": each} for each in ("http://evil.example", "null", "http://127.0.0.1:9999")]
    for headers in (*origins, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert client.get("/runs/eval~night/answers/1", headers=headers).status_code == 403, headers


def test_a_write_needs_the_origin_the_token_of_our_pages_and_json(
    client: TestClient, writing: dict[str, str], outputs: Path
) -> None:
    path = "/runs/eval~night/labels"
    for headers in (
        {},
        {"Origin": writing["Origin"]},
        {WRITE_HEADER: writing[WRITE_HEADER]},
        {**writing, WRITE_HEADER: "x"},
    ):
        assert client.post(path, json=LABEL, headers=headers).status_code == 403
    form = {**writing, "Content-Type": "text/plain"}
    assert client.post(path, content=json.dumps(LABEL), headers=form).status_code == 403
    assert client.put(path, json=LABEL, headers=writing).status_code == 405
    assert not (outputs / "gold").exists()
    saved = client.post(path, json=LABEL, headers=writing)
    assert saved.status_code == 200
    (label,) = read_labels(outputs / "gold").labels
    assert (label.label, label.note, label.who, label.run) == ("ambiguous", "which year?", "ada", "night")
    assert client.post("/runs/eval~night/withdrawals", json={"id": label.id}, headers=writing).status_code == 200
    assert read_labels(outputs / "gold").labels == []


def test_a_wrong_write_is_refused_with_a_sentence(client: TestClient, writing: dict[str, str], outputs: Path) -> None:
    wrong: list[tuple[object, int]] = [
        ({}, 400), ({"row": True}, 400), ({"row": 1, "label": "great"}, 409), ({"row": 99, "label": "wrong"}, 409),
        ({"row": 1, "label": "wrong_gold"}, 409), ([], 400), ({"row": 1, "target": ["x"]}, 400),
        ({"row": 1, "label": "wrong", "note": "x" * 300_000}, 413),
    ]  # fmt: skip
    for body, status in wrong:
        answer = client.post("/runs/eval~night/labels", json=body, headers=writing)
        assert (answer.status_code, answer.json()["error"][-1]) == (status, "."), str(body)[:80]
    assert not (outputs / "gold").exists()


def test_nothing_outside_of_the_runs_pages_is_served(client: TestClient, outputs: Path, tmp_path: Path) -> None:
    stored_run(tmp_path / "outside", [answered("q9", "secret")])
    (outputs / "eval" / "linked").symlink_to(tmp_path / "outside")
    for path in (
        *("/runs/%2e%2e/pages/run.db", "/runs/eval~night/pages/run.db", "/runs/eval~night/pages/..%2freport.html"),
        *(
            "/runs/eval~night/pages/.report.html",
            "/runs/outside",
            "/runs/eval%2fnight",
            "/runs/eval~linked",
            "/etc/passwd",
        ),
    ):
        assert client.get(path).status_code == 404, path


def test_a_page_that_is_a_link_is_not_followed(client: TestClient, outputs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    (outputs / "eval" / "night" / "linked.html").symlink_to(tmp_path / "secret.html")
    assert client.get("/runs/eval~night/pages/linked.html").status_code == 404


def test_pages_of_a_run_get_a_sandbox_in_which_only_our_own_scripts_run(client: TestClient) -> None:
    answer = client.get("/runs/eval~night/pages/report.html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts allow-downloads; default-src 'none'")
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert "'sha256-" in policy and "allow-same-origin" not in policy


def test_every_answer_forbids_frames_sniffing_and_caches(client: TestClient, stranger: TestClient) -> None:
    for path in ("/", "/runs/eval~night/review", "/runs/eval~night/pages/report.html", "/missing"):
        headers = client.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_texts_of_others_are_data_in_our_pages(client: TestClient) -> None:
    page = client.get("/runs/eval~night/review").text
    assert EVIL not in page
    assert client.get("/runs/eval~night/answers/1").json()["answer"] == EVIL


def test_a_run_that_was_scored_again_is_not_reviewed(
    client: TestClient, outputs: Path, writing: dict[str, str]
) -> None:
    stored_run(outputs / "eval" / "again", [answered("q1", "x")], rescored_from="night", dataset_sha256=DATA)
    assert "review the answers of that run" in client.get("/runs/eval~again/review").text
    answer = client.post("/runs/eval~again/labels", json=LABEL, headers=writing)
    assert (answer.status_code, "night" in answer.json()["error"]) == (409, True)


def test_a_damaged_or_hostile_run_is_a_row_of_the_list_and_a_sentence(client: TestClient, outputs: Path) -> None:
    (outputs / "eval" / "broken").mkdir()
    (outputs / "eval" / "broken" / "run.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    page = client.get("/").text
    assert "broken" in page and "refused" in page and "night" in page
    assert client.get("/runs/eval~broken/review").status_code == 409
    events = client.get("/runs/eval~broken/events").text
    assert events.startswith("event: failed\ndata: {")


def test_the_events_of_a_run_that_has_ended_are_its_last_state(client: TestClient) -> None:
    event, data = client.get("/runs/eval~night/events").text.strip().split("\n")
    state = json.loads(data.removeprefix("data: "))
    assert event == "event: state"
    assert (state["state"], state["done"], state["total"], state["correct"]) == ("ended", 2, 2, 1)


def test_lines_of_the_labels_that_cannot_be_read_are_named_above_the_queue(client: TestClient, outputs: Path) -> None:
    (outputs / "gold").mkdir()
    (outputs / "gold" / f"{DATA}.jsonl").write_text("no label\n")
    assert "1 line of the labels cannot be read" in client.get("/runs/eval~night/review").text


def test_a_page_that_is_of_no_run_is_served_by_its_name_and_in_the_same_sandbox(
    client: TestClient, outputs: Path, tmp_path: Path
) -> None:
    (outputs / "comparisons").mkdir()
    (outputs / "comparisons" / "a-b.html").write_text("compared")
    (tmp_path / "secret.html").write_text("secret")
    (outputs / "comparisons" / "link.html").symlink_to(tmp_path / "secret.html")
    assert "/pages/comparisons~a-b.html" in client.get("/").text
    answer = client.get("/pages/comparisons~a-b.html")
    assert (answer.text, answer.headers["content-security-policy"][:7]) == ("compared", "sandbox")
    for page in ("comparisons~link.html", "..~secret.html", "eval~night~report.html", "comparisons~none.html"):
        assert client.get(f"/pages/{page}").status_code == 404, page


def test_a_simulated_model_and_a_proof_are_named_above_the_numbers(client: TestClient, outputs: Path) -> None:
    make_tuning(outputs / "optimize" / "night")
    facts = {"simulated": True, "gold_informed": "expert", "dataset_sha256": DATA}
    stored_run(outputs / "attribution" / "night" / "expert", [answered("q1", "x")], **facts)  # type: ignore[arg-type]
    stored_run(outputs / "eval" / "made", [answered("q1", "x")], simulated=True, dataset_sha256=DATA)
    for path in ("attribution~night~expert", "eval~made", "eval~made/review", "optimize~night"):
        page = client.get(f"/runs/{path}").text
        assert 0 < page.find(SIMULATED_NOTICE) < page.index("<h1>"), path
        assert ("No measurement: it gave expert the right" in page) is (path == "attribution~night~expert"), path
    assert client.get("/runs/attribution~night~expert/review").text.count("No measurement: ") == 1
    for path in ("eval~night", "eval~night/review"):
        page = client.get(f"/runs/{path}").text
        assert SIMULATED_NOTICE not in page and "No measurement" not in page, path
    assert "is no measurement" in client.get("/").text


def test_only_so_many_queues_are_open_and_the_one_used_longest_ago_is_closed(outputs: Path, access: Access) -> None:
    desk = Desk(Catalogue(outputs), access, "ada")
    folders = [outputs / "eval" / f"r{n}" for n in range(5)]
    first, second, *_ = [desk.open_queue(folder) for folder in folders[:4]]
    assert desk.open_queue(folders[0]) is first and len(desk.queues) == 4
    desk.open_queue(folders[4])
    assert list(desk.queues) == [folders[2], folders[3], folders[0], folders[4]]
    assert desk.open_queue(folders[1]) is not second


def test_a_body_of_exactly_the_limit_is_read(
    client: TestClient, writing: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {**writing, "Content-Type": "application/json"}
    for n, status in ((100, 400), (101, 413)):
        monkeypatch.setattr(application, "_MAX_BODY_BYTES", 100)
        body = b'{"row": "x"}'.ljust(n)
        assert client.post("/runs/eval~night/labels", content=body, headers=headers).status_code == status
    answer = client.post("/runs/eval~night/labels", content=b"{", headers=headers)
    assert (answer.status_code, answer.json()) == (400, {"error": "The body is no JSON."})
    answer = client.post("/runs/eval~night/labels", content=b"[]", headers=headers)
    assert answer.json() == {"error": "The body must be a JSON object."}


def test_a_page_without_a_live_run_has_no_events_and_one_that_is_not_there_is_a_sentence(
    client: TestClient, outputs: Path
) -> None:
    assert client.get("/runs/eval~none/events").json() == {"error": "There is no such run; go back to the list."}
    assert client.get("/runs/eval~night/pages/none.html").json() == {
        "error": "There is no such page; go back to the list."
    }
    make_tuning(outputs / "optimize" / "night")
    events = client.get("/runs/optimize~night/events").text
    assert events.startswith('event: state\ndata: {"state":"ended"') and events.endswith("\n\n")
    assert events.count("event:") == 1


class Followed:
    """A run of which each reading is the next of these; a class of errors is raised."""

    def __init__(self, *readings: dict[str, object] | type[Exception]) -> None:
        self.readings = list(readings)
        self.n_closed = 0

    def read(self) -> dict[str, object]:
        found = self.readings.pop(0)
        if isinstance(found, dict):
            return found
        raise found("it is odd")

    def close(self) -> None:
        self.n_closed += 1


def streams(desk: Desk, *names: str) -> list[Any]:
    """Return the events of runs, as browsers that open them one after another get them."""

    async def open_all() -> list[Any]:
        requests = [SimpleNamespace(path_params={"run_id": name}) for name in names]
        return [(await stream_events(desk, each)).body_iterator for each in requests]  # type: ignore[arg-type,attr-defined]

    return asyncio.run(open_all())


def test_a_state_is_sent_when_it_has_changed_until_the_run_has_ended(
    outputs: Path, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def wait_for(stopping: Coroutine[Any, Any, bool], seconds: float) -> None:
        stopping.close()
        waited.append(seconds)
        raise TimeoutError

    monkeypatch.setattr(application, "asyncio", SimpleNamespace(wait_for=wait_for))
    going, more, ended = {"state": "running", "done": 1}, {"state": "running", "done": 2}, {"state": "ended"}
    desk, followed = Desk(Catalogue(outputs), access, "ada"), Followed(going, going, more, ended, going)
    folder = outputs / "eval" / "night"
    desk.watched[folder] = Watched(followed)  # type: ignore[arg-type]

    async def read() -> list[str]:
        (events,) = streams_of
        return [each async for each in events]

    streams_of = streams(desk, "eval~night")
    assert asyncio.run(asyncio.wait_for(read(), 5)) == [
        'event: state\ndata: {"state":"running","done":1}\n\n',
        'event: state\ndata: {"state":"running","done":2}\n\n',
        'event: state\ndata: {"state":"ended"}\n\n',
    ]
    assert (desk.watched, followed.n_closed, len(followed.readings)) == ({}, 1, 1)
    assert waited == [1.0] * 3, "once after each reading but the last"


@pytest.mark.parametrize("error", [ValueError, TypeError, LookupError, AttributeError])
def test_a_run_that_cannot_be_read_is_one_last_event(error: type[Exception], outputs: Path, access: Access) -> None:
    desk, followed = Desk(Catalogue(outputs), access, "ada"), Followed(error)
    desk.watched[outputs / "eval" / "night"] = Watched(followed)  # type: ignore[arg-type]

    async def read() -> list[str]:
        (events,) = streams_of
        return [each async for each in events]

    streams_of = streams(desk, "eval~night")
    assert asyncio.run(asyncio.wait_for(read(), 5)) == [
        'event: failed\ndata: {"error":"The run cannot be read: it is odd"}\n\n'
    ]
    assert (desk.watched, followed.n_closed) == ({}, 1)


def test_browsers_share_one_reader_which_the_last_of_them_closes_and_all_end_with_the_viewer(
    outputs: Path, access: Access
) -> None:
    desk = Desk(Catalogue(outputs), access, "ada")
    going: dict[str, object] = {"state": "running"}
    followed = Followed(*[going] * 9)
    folder = outputs / "eval" / "night"
    desk.watched[folder] = watched = Watched(followed)  # type: ignore[arg-type]

    async def read() -> None:
        first, second, third = streams_of
        assert await anext(first) == await anext(second) == await anext(third)
        assert (watched.n_browsers, len(followed.readings)) == (3, 6)
        await first.aclose()
        assert (watched.n_browsers, followed.n_closed, list(desk.watched)) == (2, 0, [folder])
        waiting = asyncio.ensure_future(anext(second, None))
        await asyncio.sleep(0)
        desk.stopping.set()
        assert await waiting is None and await anext(third, None) is None
        assert (watched.n_browsers, followed.n_closed, desk.watched) == (0, 1, {})

    streams_of = streams(desk, *["eval~night"] * 3)
    asyncio.run(asyncio.wait_for(read(), 5))


class Process:
    """The process that scores runs again."""

    def __init__(self, output: bytes, is_cut_off: bool = False) -> None:
        self.output, self.is_cut_off = output, is_cut_off
        self.returncode: int | None = None
        self.n_terminated = 0

    async def communicate(self) -> tuple[bytes, None]:
        if self.is_cut_off:
            raise ConnectionError
        self.returncode = 3
        return self.output, None

    def terminate(self) -> None:
        self.n_terminated += 1


def started(process: Process, monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    async def start(*command: str, **options: Any) -> Process:
        calls.append((command, options))
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    return calls


def test_runs_are_scored_again_by_the_users_own_command_of_which_the_last_lines_are_shown(
    client: TestClient, writing: dict[str, str], outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCORER_SETTING", "kept")
    process = Process(b"".join(b"line %d\n" % n for n in range(201)) + b"\xff")
    calls = started(process, monkeypatch)
    answer = client.post("/rescore", json={}, headers=writing)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {"code": 3, "lines": [*(f"line {n}" for n in range(2, 201)), "\ufffd"]}
    ((command, options),) = calls
    script = str(PROJECT_ROOT / "eval" / "rescore.py")
    assert command == (sys.executable, script, str(outputs), f"gold={outputs / 'gold'}")
    assert options["env"]["SCORER_SETTING"] == "kept" and process.n_terminated == 0
    pipes = (asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT)
    assert (options["stdin"], options["stdout"], options["stderr"]) == pipes


def test_only_one_process_scores_runs_again_and_one_that_is_given_up_is_ended(
    outputs: Path, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, process = Desk(Catalogue(outputs), access, "ada"), Process(b"", is_cut_off=True)
    calls = started(process, monkeypatch)

    async def ask() -> None:
        async with desk.rescoring:
            with pytest.raises(application.HTTPException) as refused:
                await application.rescore(desk, None)  # type: ignore[arg-type]
        assert (refused.value.status_code, refused.value.detail) == (
            409, "Runs are being scored again just now; wait for it.",
        )  # fmt: skip
        assert calls == []
        with pytest.raises(ConnectionError):
            await application.rescore(desk, None)  # type: ignore[arg-type]

    asyncio.run(ask())
    assert (process.n_terminated, desk.rescoring.locked(), len(calls)) == (1, False, 1)


def test_a_number_of_a_row_and_a_label_are_read_as_they_are_meant(
    client: TestClient, writing: dict[str, str], outputs: Path
) -> None:
    path = "/runs/eval~night/labels"
    for body in ({"row": "1"}, {"row": True}, {"row": None}, {"row": 1.5}, {"row": 1, "target": 7}):
        answer = client.post(path, json=body, headers=writing)
        assert (answer.status_code, answer.json()) == (400, {"error": "row must be a number, and target a text."})
    corrected = {"row": 1, "label": "wrong_gold", "target": "18"}
    assert client.post(path, json=corrected, headers=writing).status_code == 200
    (label,) = read_labels(outputs / "gold").labels
    assert (label.label, label.target, label.note) == ("wrong_gold", "18", "")
    assert client.post("/runs/eval~night/withdrawals", json={}, headers=writing).status_code == 409
    taken_back = client.post("/runs/eval~night/withdrawals", json={"id": label.id}, headers=writing)
    assert (taken_back.status_code, taken_back.json()) == (200, {})


def test_a_page_of_a_run_says_whether_it_goes_on(client: TestClient, outputs: Path) -> None:
    ended = client.get("/runs/eval~night").text
    lock = RunLock(outputs / "eval" / "night" / "run.db")
    lock.take(wait_seconds=0)
    try:
        running = client.get("/runs/eval~night").text
    finally:
        lock.release()
    assert ended != running and client.get("/runs/eval~night").text == ended
    assert '"id":"eval~night"' in ended and '"live":true' in ended and "report.html" in ended
