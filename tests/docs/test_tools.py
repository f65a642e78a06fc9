"""The pages on tools: their tools, settings, kinds and sentences are those of `conf/` and of the code."""

import asyncio
import re
import shlex
import socket
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import read_config
from mas.runtime.untrusted import enclose_data, is_untrusted
from mas.tools.browser.session import BrowserSession, check_public
from mas.tools.browser.session import describe_missing_browser as missing_browser
from mas.tools.browser.settings import EXAMPLE_URL, BrowserSettings
from mas.tools.browser.tools import ALLOWED, build_browser_tools
from mas.tools.catalogue import BROWSER, NO_CONTACT, load_function
from mas.tools.files import kinds, ocr
from mas.tools.files.readers import converted, media
from mas.tools.http.settings import WebSettings
from mas.tools.http.url_policy import resolve_public_host
from mas.tools.mcp.connection import Offer
from mas.tools.python_code import python
from mas.tools.read_only import is_read_only
from mas.tools.results import ToolError
from mas.tools.sandbox import selection as choosing
from mas.tools.settings import ToolSettings
from mas.tools.web.read_page import read_page
from mas.tools.web.tavily_search import describe_missing_key
from mas.tools.web.web_search import describe_missing_search as missing_search

PAGES = ("how-to/tools.md", "reference/tools.md", "explanation/safety.md")
PAGE = "\n".join((PROJECT_ROOT / "docs" / page).read_text("utf-8") for page in PAGES)
REFERENCE = (PROJECT_ROOT / "docs/reference/tools.md").read_text("utf-8")
ONE_LINE = " ".join(PAGE.split())


def conf(name: str) -> Any:
    return yaml.safe_load((PROJECT_ROOT / "conf" / f"{name}.yaml").read_text("utf-8"))


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of the first table, without its head."""
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table, "no table"
    lines = table[0].splitlines()
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


def dotted(settings: object, prefix: str = "tools") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(settings):  # type: ignore[arg-type]
        value, name = getattr(settings, field.name), f"{prefix}.{field.name}"
        found |= dotted(value, name) if is_dataclass(value) else {name: value}
    return found


def test_the_table_of_tools_is_that_of_the_systems() -> None:
    told = {name.strip("`"): (agent, replayed) for name, _, _, agent, replayed in rows(REFERENCE)}
    for system in ("gaia", "single_agent"):
        assert told.keys() == conf(f"system/{system}")["tools"].keys() | {BROWSER}
    agents = conf("system/gaia")["agents"]
    assert {name: agent for name, (agent, _) in told.items()} == {
        name: agent for agent in agents for name in agents[agent].get("tools", [])
    }
    assert told.keys() == set(conf("system/single_agent")["agents"]["agent"]["tools"])
    replayed = {name for name, (_, each) in told.items() if each == "yes"}
    assert replayed == {
        name for name, path in conf("system/gaia")["tools"].items() if is_read_only(load_function(path))
    }


def test_the_tools_of_the_browser_are_those_handed_on() -> None:
    assert tuple(re.findall(r"`(browser_\w+)`", REFERENCE.split("## ")[0])) == ALLOWED
    assert f"{len(ALLOWED)} tools: " in REFERENCE


def test_every_setting_named_exists_and_every_web_and_browser_setting_is_named() -> None:
    known = dotted(ToolSettings())
    parts = r"tools\.(?:web|files|browser|sandbox|transcription)\.\w+"
    named = set(re.findall(rf"{parts}|tools\.(?:fail_fast|max_output_chars)", PAGE))
    assert named <= known.keys()
    assert {name for name in known if not name.startswith("tools.sandbox.")} <= named
    assert "tools.sandbox.kind" in named


def test_the_limits_are_those_in_conf() -> None:
    standard = conf("tools/standard")
    told = {name.strip("`"): default for name, default, _ in rows(section("Limits"))}
    for name, default in told.items():
        value = standard
        for key in name.split(".")[1:]:
            value = value[key]
        assert default == str(value), name


def test_the_kinds_of_attachments_are_those_that_are_read_and_refused() -> None:
    text = section("Attachments")
    told = {kind for cells in rows(text) for kind in re.findall(r"`(\.\w+)`", cells[0])}
    assert told - {".txt", ".md", ".py", ".pdb"} == set(kinds.READERS)
    refused = set(re.findall(r"`(\.\w+)`", text.split("Refused with")[1]))
    assert refused == set(kinds.BINARY_KINDS) - {".ole", ".protected"}


def test_what_comes_from_outside_is_marked_as_the_page_says() -> None:
    import dspy

    tools = {name: dspy.Tool(load_function(path), name=name) for name, path in conf("system/gaia")["tools"].items()}
    plain = {name for name, tool in tools.items() if not is_untrusted(tool.func)}
    assert plain == {"calculator", "unit_converter"}
    session = BrowserSession(BrowserSettings(), EXAMPLE_URL, [Offer(ALLOWED[0], "", {})], check_public)
    assert is_untrusted(build_browser_tools(session)[ALLOWED[0]].func)
    head, _, tail = enclose_data("read_page", "")
    digits = re.findall("[0-9a-f]{16}", PAGE)
    assert len(digits) == 2 and len(set(digits)) == 1
    mark = tail.removeprefix("\n[end of data ").removesuffix("]")
    assert all(each.strip().replace(mark, digits[0]) in PAGE for each in (head, tail))


def test_the_sentences_about_what_is_missing_are_those_that_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    monkeypatch.setattr(ocr, "list_installed_languages", lambda: ("eng", "osd"))
    settings = WebSettings()
    with socket.socket() as held:  # bound, and nothing listens
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
        no_browser = missing_browser(BrowserSettings(url)).replace(url, EXAMPLE_URL)
    said = [
        *(
            missing_search(settings),
            missing_search(WebSettings(fall_back_to_wikipedia=False)),
            describe_missing_key(settings),
        ),
        converted.MISSING.format(name="talk.ppt", kind=converted.read_ppt.description, package="libreoffice-impress"),
        *(
            no_browser,
            converted.RTF_MISSING,
            ocr.MISSING,
            ocr.explain_missing_languages("eng+deu"),
            media.CANNOT_LISTEN,
            NO_CONTACT,
        ),
    ]
    for sentence in said:
        assert sentence and sentence in ONE_LINE


def test_the_refusals_of_addresses_are_those_that_are_said() -> None:
    with pytest.raises(ToolError) as private:
        asyncio.run(read_page("http://169.254.169.254/"))
    with pytest.raises(ToolError) as unknown:
        asyncio.run(resolve_public_host("nothing.invalid", 443))
    assert str(private.value) in ONE_LINE
    assert str(unknown.value).replace("nothing.invalid", "example.org") in ONE_LINE


def test_the_refusal_of_python_is_what_a_machine_without_a_sandbox_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("deno")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("DENO_DIR", str(tmp_path))
    choosing._chosen.cache_clear()
    try:
        with pytest.raises(ToolError) as refused:
            asyncio.run(python("1"))
    finally:
        choosing._chosen.cache_clear()
    assert str(refused.value) in ONE_LINE


def commands() -> list[str]:
    lines = section("Which agent has which").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("python eval/run.py")]


@pytest.mark.parametrize("command", commands())
def test_the_commands_choose_tools_that_there_are(command: str) -> None:
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base=None):
        config = read_config(compose("eval", ["experiment=offline", *shlex.split(command)[2:]]))
    config.check_system()


def test_the_example_gives_the_browser_to_the_expert_and_takes_nothing_away() -> None:
    [found] = re.findall(r"agents\.expert\.tools=\[([\w,]+,browser)\]", PAGE)
    assert found.split(",") == [*conf("system/gaia")["agents"]["expert"]["tools"], BROWSER]
