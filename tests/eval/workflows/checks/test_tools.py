"""What the doctor says of the tools' services: over their real clients, against servers on loopback."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.workflows.checks import tools as check
from eval.workflows.checks.installation import OK, WARNING, Finding
from mas.tools.catalogue import NO_CONTACT
from mas.tools.files import ocr
from tests.servers.loopback import running
from tests.servers.mediawiki import MediaWikiServer
from tests.servers.one_answer import server_that_answers
from tests.servers.playwright_mcp import running_stub
from tests.servers.tavily import KEY, TavilyServer

NO_BROWSER = "tools.browser.url=null"
NO_WIKI = "tools.web.wikipedia_url=http://127.0.0.1:9/w/api.php"  # nothing listens there


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


@pytest.fixture
def nothing_there() -> Iterator[str]:
    """An address where nothing listens, and nothing else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/mcp"


def found(*overrides: str, deep: bool = False) -> dict[str, Finding]:
    """By subject; the tesseract of this machine is no business of theirs."""
    config = read_config(compose_config(["experiment=offline", NO_BROWSER, *overrides]))
    return {each.name: each for each in check.check_tools(config, deep)}


def test_a_key_that_is_set_is_neither_shown_nor_tried_unless_asked_for() -> None:
    with running(TavilyServer()) as server:
        findings = found(f"tools.web.search_base_url={server.base_url}")
        assert server.requests == []
    assert findings.keys() == {"search", "wikipedia", "browser"}
    assert findings["search"] == Finding(
        "search", OK, "TAVILY_API_KEY is set (tools.web.search_api_key_env); --deep tries it"
    )


@pytest.mark.parametrize(
    ("fallback", "words"), [("true", "Wikipedia's search answers instead"), ("false", "only fails")]
)
def test_without_a_key_it_says_what_a_run_says_at_its_start(
    monkeypatch: pytest.MonkeyPatch, fallback: str, words: str
) -> None:
    monkeypatch.delenv("TAVILY_API_KEY")
    search = found(f"tools.web.fall_back_to_wikipedia={fallback}", NO_WIKI, deep=True)["search"]
    assert (search.state, search.remedy) == (WARNING, "put TAVILY_API_KEY=… into .env")
    assert search.what.startswith("TAVILY_API_KEY is not set: there is no web search; ") and words in search.what


@pytest.mark.parametrize(
    ("faults", "state", "words", "mend"),
    [
        ([], OK, "answers, and takes the key in TAVILY_API_KEY", ""),
        (["401"], WARNING, "Web search refuses the key in TAVILY_API_KEY (401)", "check the key and its plan"),
        (["432"], WARNING, "the plan of the key in TAVILY_API_KEY is used up (432)", "check the key and its plan"),
        (["500"], WARNING, "Web search has trouble of its own (500)", "be online, or try again later"),
        (["html"], WARNING, "something that cannot be read", "be online, or try again later"),
    ],
)
def test_a_deep_look_is_one_search(faults: list[str], state: str, words: str, mend: str) -> None:
    with running(TavilyServer(faults)) as server:
        search = found(f"tools.web.search_base_url={server.base_url}", NO_WIKI, deep=True)["search"]
        assert len(server.requests) == 1
    assert (search.state, search.remedy) == (state, mend)
    assert search.what.startswith(server.base_url) and search.what.endswith(words)
    assert KEY not in str(search)


def test_a_deep_look_asks_wikipedia(nothing_there: str) -> None:
    search = f"tools.web.search_base_url={nothing_there}"
    allowed = "tools.web.allow_private_hosts=[127.0.0.1]"
    with running(MediaWikiServer()) as server:
        wiki = f"tools.web.wikipedia_url={server.api_url}"
        nobody = found(search, allowed, wiki, deep=True)["wikipedia"]
        findings = found(search, allowed, wiki, "tools.web.contact=me@example.org", deep=True)
    assert nobody.what.endswith("(403; set tools.web.contact: it refuses user agents without one)")
    assert "tools.web.contact" in nobody.remedy
    assert findings["wikipedia"] == Finding("wikipedia", OK, f"{server.api_url} answers")
    assert findings["search"].state == WARNING, "the search has no server, and Wikipedia is no substitute here"
    gone = found(search, allowed, NO_WIKI, deep=True)["wikipedia"]
    assert (gone.state, gone.what.startswith("http://127.0.0.1:9/w/api.php: Wikipedia")) == (WARNING, True), gone


def test_a_contact_that_is_missing_is_told_without_asking_anybody() -> None:
    assert found(NO_WIKI)["wikipedia"] == Finding("wikipedia", WARNING, NO_CONTACT)
    assert "wikipedia" not in found(NO_WIKI, "tools.web.contact=me@example.org")


def test_the_browsers_server_is_looked_for(nothing_there: str) -> None:
    assert found()["browser"] == Finding("browser", OK, "off (tools.browser.url=null)")
    missing = found(f"tools.browser.url={nothing_there}")["browser"]
    assert missing.state == WARNING
    assert missing.what.startswith(f"No browser: nothing listens at {nothing_there}, so the run goes on without")
    with server_that_answers(200, {}) as base_url:
        other = found(f"tools.browser.url={base_url}/mcp")["browser"]
    assert other.state == WARNING and "does not answer as an MCP server" in other.what
    with running_stub() as server:
        there = found(f"tools.browser.url={server.url}")["browser"]
    assert there == Finding("browser", OK, f"{server.url} is an MCP server")


def test_only_what_the_systems_agents_list_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY")
    offline = ["system=single_agent", "system.agents.agent.tools=[read_file,calculator]"]
    assert found(*offline, "tools.browser.url=http://127.0.0.1:9/mcp", deep=True) == {}


@pytest.mark.skipif(not ocr.is_installed(), reason="no tesseract")
def test_languages_that_tesseract_lacks_are_named() -> None:
    assert "ocr" not in found()
    language = found("tools.files.ocr_languages=eng+no_such")["ocr"]
    assert language.state == WARNING
    assert language.what.startswith("text in pictures cannot be read here: tesseract does not have no_such, ")


def test_settings_that_are_wrong_are_told_elsewhere() -> None:
    assert found("tools.web.attempts=0", deep=True) == {}


def test_the_command_passes_the_flag_on_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from eval import doctor

    asked: list[Any] = []

    def run_checks(*given: Any) -> list[Finding]:
        asked.append(given)
        return []

    monkeypatch.setattr(doctor, "run_checks", run_checks)
    for arguments in (["--deep", "a=1", "b=2"], ["a=1", "--deep", "b=2"], ["a=1", "b=2", "--deep"]):
        assert doctor.main(arguments) == 0
    assert asked == [(["a=1", "b=2"], True)] * 3
    capsys.readouterr()
