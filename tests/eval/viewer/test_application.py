"""The viewer's addresses and their protection, without a server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from eval.analysis.human_review.labels import read_labels
from eval.runs.store import RunStore
from eval.viewer.application import Desk, Guard, make_application
from mas.simulation import SIMULATED_NOTICE
from tests.eval.stored_run import answered, stored_run
from tests.eval.stored_tuning import make_tuning
from tests.report_file import read_rows

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
def desk(outputs: Path) -> Desk:
    return Desk(outputs, "ada")


@pytest.fixture
def guard() -> Guard:
    return Guard(PORT)


@pytest.fixture
def stranger(desk: Desk, guard: Guard) -> Iterator[TestClient]:
    """A client of this machine that does not know the token."""
    application = make_application(desk, guard)
    with TestClient(application, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False) as client:
        yield client
    for each in (*desk.queues.values(), *desk.watched.values()):
        if "store" in vars(each):
            each.store.close()


@pytest.fixture
def client(stranger: TestClient, guard: Guard) -> TestClient:
    assert stranger.get(guard.url).headers["location"] == "/"
    return stranger


@pytest.fixture
def writing() -> dict[str, str]:
    return {"Origin": f"http://127.0.0.1:{PORT}"}


LABEL = {"row": 1, "label": "ambiguous", "note": "which year?"}


def test_only_the_printed_address_opens_the_viewer(stranger: TestClient, guard: Guard) -> None:
    for path in (
        "/",
        "/runs/eval~night",
        "/runs/eval~night/answers/1",
        "/runs/eval~night/report.html",
        "/open?token=x",
        "/open",
    ):
        answer = stranger.get(path)
        assert (answer.status_code, "night" in answer.text) == (401, False), path
    opened = stranger.get(guard.url)
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200
    assert guard.token not in stranger.get("/").text


def test_another_host_name_is_refused_also_with_the_cookie(client: TestClient) -> None:
    for host in ("evil.example:8770", "127.0.0.1.evil.example:8770", ""):
        assert client.get("/", headers={"Host": host}).status_code == 400, host


def test_another_origin_is_refused_also_with_the_cookie(client: TestClient) -> None:
    origins = [{"Origin": each} for each in ("http://evil.example", "null", "http://127.0.0.1:9999")]
    for headers in origins:
        assert client.get("/runs/eval~night/answers/1", headers=headers).status_code == 403, headers


def test_a_write_needs_the_origin_of_our_pages_and_json(
    client: TestClient, writing: dict[str, str], outputs: Path
) -> None:
    path = "/runs/eval~night/labels"
    for headers in ({}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:9999"}):
        assert client.post(path, json=LABEL, headers=headers).status_code == 403
    form = {**writing, "Content-Type": "text/plain"}
    assert client.post(path, content=json.dumps(LABEL), headers=form).status_code == 403
    assert client.put(path, json=LABEL, headers=writing).status_code == 405
    assert not (outputs / "gold").exists()
    saved = client.post(path, json=LABEL, headers=writing)
    assert saved.status_code == 200
    (label,) = read_labels(outputs / "gold").labels
    assert (label.label, label.note, label.who, label.run) == ("ambiguous", "which year?", "ada", "night")
    assert client.post(path, json={"row": 1, "withdraws": label.id}, headers=writing).status_code == 200
    assert read_labels(outputs / "gold").labels == []


def test_a_wrong_write_is_refused_with_a_sentence(client: TestClient, writing: dict[str, str], outputs: Path) -> None:
    wrong: list[tuple[object, int]] = [
        ({}, 400), ({"row": True}, 400), ({"row": 1, "label": "great"}, 409), ({"row": 99, "label": "wrong"}, 409),
        ({"row": 1, "label": "wrong_gold"}, 409), ([], 400), ({"row": 1, "target": ["x"]}, 400),
    ]  # fmt: skip
    for body, status in wrong:
        answer = client.post("/runs/eval~night/labels", json=body, headers=writing)
        assert (answer.status_code, answer.json()["error"][-1]) == (status, "."), str(body)[:80]
    assert not (outputs / "gold").exists()


def test_nothing_outside_of_the_runs_pages_is_served_and_no_link_is_followed(
    client: TestClient, outputs: Path, tmp_path: Path
) -> None:
    stored_run(tmp_path / "outside", [answered("q9", "secret")])
    (outputs / "eval" / "linked").symlink_to(tmp_path / "outside")
    (outputs / "eval" / "night" / "other.html").write_text("secret")
    for path in (
        *("/runs/%2e%2e/run.db", "/runs/eval~night/run.db", "/runs/eval~night/..%2freport.html"),
        *("/runs/eval~night/other.html", "/runs/outside"),
        *("/runs/eval%2fnight", "/runs/eval~linked", "/etc/passwd"),
    ):
        assert client.get(path).status_code == 404, path


def test_a_report_is_written_when_it_is_opened_and_again_after_another_answer(
    client: TestClient, outputs: Path
) -> None:
    folder = stored_run(outputs / "eval" / "fresh", [answered("q1", EVIL)], planned=["q1", "q2"])
    path, report = "/runs/eval~fresh/report.html", folder / "report.html"
    assert path in client.get("/runs/eval~fresh").text and not report.exists()
    assert "50.0%" not in client.get(path).text and report.is_file()
    written = report.stat().st_mtime_ns
    assert client.get(path).status_code == 200 and report.stat().st_mtime_ns == written
    with RunStore(folder / "run.db") as store:
        store.write(answered("q2", "17"))
    assert "50.0%" in client.get(path).text
    report.unlink()
    report.symlink_to(outputs / "eval" / "night" / "report.html")
    assert client.get(path).status_code in (404, 409), "nothing in a run's folder may be a link"


def test_pages_of_a_run_get_a_sandbox_in_which_only_our_own_scripts_run(client: TestClient) -> None:
    answer = client.get("/runs/eval~night/report.html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts allow-downloads; default-src 'none'")
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert "'sha256-" in policy and "allow-same-origin" not in policy


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


def test_no_answer_of_a_tuning_run_is_shown_or_labelled(
    client: TestClient, outputs: Path, writing: dict[str, str]
) -> None:
    tuned = make_tuning(outputs / "optimize" / "tuned")
    with RunStore(tuned / "run.db") as store:
        store.write(answered("q1", "secret", variant="ab"))
    place = "/runs/optimize~tuned"
    for answer in (
        client.get(f"{place}/review"),
        client.get(f"{place}/answers/1"),
        client.post(f"{place}/labels", json=LABEL, headers=writing),
    ):
        assert (answer.status_code, "is a tuning run" in answer.json()["error"]) == (409, True)
        assert "secret" not in answer.text and "q1" not in answer.text
    assert not (outputs / "gold").exists()


def test_a_damaged_or_hostile_run_is_a_row_of_the_list_and_a_sentence(client: TestClient, outputs: Path) -> None:
    (outputs / "eval" / "broken").mkdir()
    (outputs / "eval" / "broken" / "run.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    states = {row["name"]: row["state"] for row in read_rows(client.get("/").text)}
    assert (states["broken"], "night" in states) == ("refused", True)
    assert client.get("/runs/eval~broken/review").status_code == 409
    state = client.get("/runs/eval~broken/state")
    assert (state.status_code, "is damaged" in state.json()["error"]) == (409, True)


def test_the_state_of_a_run_that_has_ended_is_its_last(client: TestClient, outputs: Path) -> None:
    state = client.get("/runs/eval~night/state").json()
    assert (state["ended"], state["title"]) == (True, "2/2 night")
    assert "2 of 2" in state["html"] and "1 · 1 · 0" in state["html"] and "The run has ended" in state["html"]
    assert "toy · small" in state["html"] and EVIL not in state["html"]
    make_tuning(outputs / "optimize" / "tuned")
    assert client.get("/runs/optimize~tuned/state").status_code == 404
    assert "optimize/report.py tuned" in client.get("/runs/optimize~tuned").text


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
