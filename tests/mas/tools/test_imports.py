"""No tool's library is imported before the tool is used: in a process of its own, with every tool at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from scripts.sample_data.tables import xlsx_bytes

LIBRARIES = {
    *("bs4", "deno", "docx", "httpcore", "lxml", "mcp", "numpy", "openpyxl", "pandas", "pdfplumber", "pint", "pptx"),
    *("pypdf", "pytesseract", "simpleeval", "spacy", "tavily", "tiktoken", "trafilatura", "unstructured", "wikipedia"),
    *("xlrd", "youtube_transcript_api"),
}
CALL = """
import asyncio, inspect, json, sys
from mas.tools.tool_context import Resources, use_tool_context
from mas.tools.attachments import use_attachments
from mas.tools.catalogue import load_function
from mas.tools.results import ToolError
from mas.tools.settings import ToolSettings
from mas.tools.settings import WebSettings
from pathlib import Path
nobody = "http://127.0.0.1:1"
urls = dict(wikipedia_url=nobody, youtube_url=nobody, search_base_url=nobody)
web = WebSettings(allow_private_hosts=["127.0.0.1:1"], **urls)
with use_tool_context(Resources(ToolSettings(web=web))), use_attachments([Path(path) for path in sys.argv[3:]]):
    try:
        result = load_function(sys.argv[1])(**json.loads(sys.argv[2]))
        asyncio.run(result) if inspect.isawaitable(result) else None
    except ToolError as error:
        assert "cannot be reached" in str(error), error
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
WEB = {"httpcore"}
VIDEO = {"url": "https://www.youtube.com/watch?v=dQw4w9WgXcQ"}
CALLS = {
    "calculator.calculator": ({"expression": "2+3"}, {"simpleeval"}),
    "unit_converter.unit_converter": ({"quantity": "3 km", "to_unit": "m"}, {"pint", "numpy"}),
    "web.read_page.read_page": ({"url": "http://127.0.0.1:1/"}, WEB),
    "web.wikipedia_pages.wikipedia_tool": ({"query": "Rome"}, WEB | {"wikipedia", "bs4", "lxml"}),
    "web.youtube_transcript.youtube_transcript_tool": (VIDEO, WEB | {"youtube_transcript_api"}),
    "web.web_search.tavily_tool": ({"query": "Rome"}, WEB | {"tavily", "tiktoken"}),
    "read_file.read_file": ({"file": "towns.xlsx"}, set[str]()),  # read in another process
}


def output_of(program: str, *arguments: str) -> str:
    environment = os.environ | {"TAVILY_API_KEY": "tvly-of-nobody"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tools_that_are_not_called_import_no_library() -> None:
    modules = [path.rpartition(".")[0] for path in CALLS]
    program = (
        f"import importlib, json, sys\nfor module in {modules}: importlib.import_module('mas.tools.' + module)\n"
        "import mas.tools.browser.tools\nprint(json.dumps(sorted(sys.modules)))"
    )
    assert not set(json.loads(output_of(program))) & LIBRARIES


@pytest.mark.slow
@pytest.mark.parametrize("tool", CALLS)
def test_a_call_imports_what_that_tool_needs_and_no_other_tools_library(tool: str, tmp_path: Path) -> None:
    arguments, needed = CALLS[tool]
    (tmp_path / "towns.xlsx").write_bytes(xlsx_bytes({"towns": [["Rome", 4]]}))
    called = (f"mas.tools.{tool}", json.dumps(arguments), str(tmp_path / "towns.xlsx"))
    imported = set(json.loads(output_of(CALL, *called)))
    assert imported & LIBRARIES == needed
