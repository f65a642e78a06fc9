"""`eval/view.py`: the real server and a real browser: live runs, the queue, hostile texts, other origins, Ctrl-C."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from eval.analysis.human_review.labels import read_labels
from eval.analysis.summary.summary import read_summary
from eval.cli.command import USER_ERROR, run_cli
from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.store import RunStore
from eval.view import task
from tests.command import RunFolder
from tests.eval.stored_run import CONFIG, answered, question, stored_run
from tests.pages.browser import (
    VIEWS,
    browser,
    check_accessibility,
    collect_errors,
    find_pictures,
    picture,
    set_view,
    small_picture,
    why_not,
)
from tests.patience import PATIENCE_SECONDS
from tests.process import Running, finish, started

DATA = "d" * 64
EVIL = "</script><img src=x onerror=alert(1)><svg onload=alert(2)><script>alert(3)</script>'\"&{{7*7}}"
CUT_TABLES = "[...document.querySelectorAll('.box')].filter((each) => each.scrollWidth > each.clientWidth).length"
needs_browser = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["port=x"], "port=x is out of range"),
        (["colour=red"], "colour is not an option here"),
        (["a", "b"], "2 folders are given"),
        (["/nowhere"], "/nowhere is no folder"),
    ],
)
def test_a_mistake_ends_in_a_sentence(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(lambda: task(arguments)) == USER_ERROR
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_cli(lambda: task([str(tmp_path), f"port={port}"])) == USER_ERROR
    assert f"127.0.0.1 port {port} cannot be used" in capsys.readouterr().err


@dataclass
class RunningViewer:
    url: str  # with its token
    running: Running

    @property
    def base(self) -> str:
        return self.url.partition("/open")[0]

    @contextmanager
    def connect(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.base, timeout=PATIENCE_SECONDS) as client:
            client.get(self.url)
            yield client


@contextmanager
def running_viewer(folder: Path, *options: str) -> Iterator[RunningViewer]:
    with started(folder, folder, "port=0", *options, script="eval/view.py") as running:
        yield RunningViewer(running.address(), running)


@contextmanager
def live_run(folder: Path, n: int = 20) -> Iterator[RunStore]:
    """A run that goes on: its store is locked by this process."""
    began = datetime.now(UTC).isoformat()
    with RunStore(folder / "run.db") as store:
        store.write_plan([question(f"q{number}", None) for number in range(n)])
        store.write_info(RunInfo(run_id="r", config=CONFIG, system="toy", model="small", started_at=began))
        store.write_state(RunState(sessions=[SessionInfo(began)], finished=False))
        yield store


def log_step(folder: Path, **fields: object) -> None:
    (folder / "logs").mkdir(exist_ok=True)
    line = {"epoch": 1, "attempt": 1, "timestamp": datetime.now(UTC).isoformat(), **fields}
    with (folder / "logs" / "multi_agent_system.log").open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.slow
def test_ctrl_c_ends_the_viewer(tmp_path: Path) -> None:
    with live_run(tmp_path / "eval" / "live"), running_viewer(tmp_path) as viewer, viewer.connect() as client:
        assert client.get("/runs/eval~live/state").json()["title"] == "0/20 live"
        assert viewer.running.end(signal.SIGINT).code == 0


@pytest.mark.slow
@needs_browser
def test_a_live_run_is_followed_by_several_browsers(tmp_path: Path) -> None:
    run = tmp_path / "eval" / "live"
    with live_run(run) as store, running_viewer(tmp_path) as viewer, browser(width=1440) as page:
        page.goto(viewer.url)
        page.wait_for_selector("a.row")
        assert "running" in page.inner_text(".rows")
        others = [page.context.browser.new_context().new_page() for _ in range(2)]
        for each in (page, *others):
            each.goto(viewer.url)
            each.goto(f"{viewer.base}/runs/eval~live")
        now = datetime.now(UTC).isoformat()
        for number in range(8):
            store.write(answered(f"q{number}", "17" if number % 3 else "x", started_at=now))
        tool = {"task_id": "q9", "event": "tool finished", "component": "calculator"}
        log_step(run, **tool, message="Calculator result: 4")
        for each in (page, *others):
            each.wait_for_function("() => document.body.innerText.includes('8 of 20')")
            each.wait_for_function("() => document.body.innerText.includes('Calculator result')")
        small_picture(page, find_pictures(tmp_path), "viewer-live")
        errors = collect_errors(page)
        log_step(run, **tool, message=EVIL)
        page.wait_for_function("evil => document.body.innerText.includes(evil)", arg=EVIL)
        for width, theme in VIEWS:
            set_view(page, width, theme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CUT_TABLES) == 0
            assert check_accessibility(page) == []
            picture(page, tmp_path, f"live-{width}-{theme}", whole=True)
        for number in range(8, 20):
            store.write(answered(f"q{number}", "17", started_at=now))
        state = store.read_state()
        store.write_state(replace(state, sessions=[replace(state.sessions[-1], ended_at=now)], finished=True))
        page.wait_for_function("() => document.body.innerText.includes('20 of 20')")
        store.close()
        page.wait_for_function("() => document.body.innerText.includes('The run has ended')")
        assert [each for each in errors if not each.startswith(viewer.base)] == []


@pytest.mark.slow
@needs_browser
def test_twenty_failures_are_reviewed_in_the_browser_and_runs_scored_again(tmp_path: Path) -> None:
    ids = [f"q{n:02}" for n in range(20)]
    wrong = [answered(each, "18") for each in ids]
    good = [answered(f"r{n:02}", "17") for n in range(20)]
    runs = tmp_path / "eval"
    for name, epoch_answers in (("first", "18"), ("second", "18"), ("third", "19")):
        records = [replace(each, run_id=name, answer=epoch_answers) for each in wrong] + good
        stored_run(runs / name, records, dataset_sha256=DATA, run_id=name)
    with running_viewer(tmp_path, "user=ada") as viewer, browser(width=1440) as page:
        errors = collect_errors(page)

        def press(*keys: str) -> None:
            for key in keys:
                page.keyboard.press(key)

        page.goto(viewer.url)
        page.goto(f"{viewer.base}/runs/eval~first/review")
        for number in range(20):
            page.wait_for_function(
                "n => document.querySelector('#count').textContent.startsWith(n + ' of')"
                " && document.querySelector('#answer .facts')",
                arg=str(number),
            )
            if number < 8:
                press("g", "Enter")  # the answer is the right gold: 18
            elif number < 12:
                press("r")
            elif number < 16:
                press("w")
            elif number < 18:
                press("n", *"year", "Enter", "a")
            else:
                press("b")
        page.wait_for_function("() => document.querySelector('#count').textContent.startsWith('20 of')")
        press("u")
        page.wait_for_function(
            "() => document.querySelector('#count').textContent.startsWith('19 of')"
            " && document.querySelector('#answer .facts')"
        )
        press("b")
        page.wait_for_function("() => document.querySelector('#count').textContent.startsWith('20 of')")
        assert [each for each in errors if not each.startswith("http")] == []
    for name, score in (("first", "80.0%"), ("second", "80.0%"), ("third", "50.0%")):
        given = f"gold={tmp_path / 'gold'}", f"run.dir={runs / name}_rescored"
        said = finish(tmp_path, runs / name, *given, script="eval/rescore.py").out
        assert "8 wrong gold" in said and score in said
    book = read_labels(tmp_path / "gold")
    assert len(book.labels) == 20
    again = runs / "first_rescored"
    review = read_summary(again / "summary.json").human_review
    assert review is not None
    assert [review.labels[name] for name in ("wrong_gold", "ambiguous", "bad_question")] == [8, 2, 2]
    report = RunFolder(again).write_report()
    assert "8 wrong gold" in report.read_text("utf-8")
    with browser(width=1440) as page:
        page.goto(report.as_uri() + "#q00")
        page.wait_for_function("() => document.body.innerText.includes('ada')")
        shown = " ".join(page.inner_text("details.row[open]").split())
    assert "wrong gold: ada" in shown and "who saw it in first; gold answer '17' corrected to '18'" in shown


@pytest.mark.slow
@needs_browser
def test_hostile_texts_execute_nothing_and_other_origins_read_nothing(tmp_path: Path) -> None:
    span = {"id": 0, "kind": "tool", "name": EVIL, "start_seconds": 0.0, "end_seconds": 1.0, "error": EVIL}
    steps = [{**span, "inputs": {EVIL: EVIL}, "outputs": {"observation": EVIL}}]
    hostile = answered(f"q{EVIL}", EVIL, gold=EVIL + "x", explanation=EVIL, reasoning_trace=EVIL, file=EVIL, level=EVIL)
    hostile = replace(hostile, question=EVIL, trajectory=steps)
    run = stored_run(tmp_path / "eval" / "night", [hostile], dataset_sha256=DATA, system=EVIL, model=EVIL)
    (run / "report.html").write_text(
        f"<h1>theirs</h1><script>fetch('/')</script>{EVIL}<script>document.title='evil'</script>"
    )
    with running_viewer(tmp_path, f"user={EVIL[:90]}") as viewer, browser(width=1440) as page:
        errors = collect_errors(page)
        page.goto(viewer.url)
        page.wait_for_selector("a.row")
        page.goto(f"{viewer.base}/runs/eval~night")
        page.wait_for_function("() => document.body.innerText.includes('1 of 1')")
        page.goto(f"{viewer.base}/runs/eval~night/review")
        page.wait_for_selector("#answer .facts")
        page.keyboard.press("g")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('#count').textContent.startsWith('1 of')")
        page.reload()
        page.wait_for_selector("#answer .facts")
        assert EVIL in page.inner_text("#answer")
        assert check_accessibility(page) == []
        assert page.locator("#answer img, #answer script, #answer svg").count() == 0
        addresses = [each for each in errors if each.startswith("http")]
        assert all(each.startswith(viewer.base) for each in addresses)
        assert [each for each in errors if not each.startswith("http")] == []
        page.goto(f"{viewer.base}/runs/eval~night/report.html")
        assert page.inner_text("h1") == "theirs"
        page.wait_for_timeout(300)
        assert page.title() != "evil"
        assert not any(each.startswith("dialog") for each in errors)
        refused = [each for each in errors if "Content Security Policy" in each or "violates" in each]
        assert refused, "the browser says that it has refused the page's scripts"

        origin = tmp_path / "other.html"
        origin.write_text("<h1>other</h1>")
        page.goto(origin.as_uri())
        read = "async address => { try { return await (await fetch(address)).text(); } catch { return 'refused'; } }"
        assert page.evaluate(read, f"{viewer.base}/runs/eval~night/answers/1") == "refused"
        write = """async address => { try {
            await fetch(address, {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"row": 1}'});
        } catch {} }"""
        page.evaluate(write, f"{viewer.base}/runs/eval~night/labels")
        assert [each.label for each in read_labels(tmp_path / "gold").labels] == ["wrong_gold"]
