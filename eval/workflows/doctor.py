"""The doctor's checks of a configuration and of this machine. They return findings and raise nothing.

Each part checks itself (`check()` raises UserError), and its message is reported; what a run can do without is a
warning. Values of environment variables are never shown.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from eval.benchmarks.dataset import Dataset
from eval.benchmarks.selection import select_samples
from eval.cli.hydra_compat import MISTAKES, compose_config
from eval.cli.mistakes import describe_mistake, is_mistake
from eval.config.evaluation import EvalConfig, read_config
from eval.runs.store import check_free
from eval.workflows.installation import MISSING, OK, WARNING, Finding
from mas.runtime.errors import UserError
from mas.tools.browser.session import find_offers
from mas.tools.catalogue import BROWSER, describe_missing_contact
from mas.tools.files.readers import converted
from mas.tools.files.readers.media import has_tesseract
from mas.tools.sandbox.repl import try_isolations
from mas.tools.settings import AUTO, BUBBLEWRAP, SEARCH_KEY_ENV, describe_missing_key, describe_missing_search

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def check_configuration(overrides: list[str]) -> Iterator[Finding]:
    try:
        config = read_config(compose_config(overrides))
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        yield Finding("configuration", MISSING, describe_mistake(error))
        return
    chosen = ", ".join(f"{part}={getattr(config, part).name}" for part in ("system", "model", "data"))
    yield Finding("configuration", OK, chosen)
    parts = [
        _run_check("system", config.check_system, f"{config.system.name}, prompts {config.prompts or 'of its own'}"),
        _run_check("model", config.check_model, _describe_model(config)),
        _run_check("scorer", config.check_scorers, type(config.scorer).__name__),
        _check_dataset(config),
        _run_check("tracking", config.tracking.check, type(config.tracking).__name__),
    ]
    yield from parts
    yield from _check_tools(config)
    if all(each.state != MISSING for each in parts):
        yield _run_check("run", lambda: _check_run(config), "the configuration can run")


def check_machine() -> Iterator[Finding]:
    """Check the programs that tools may use; a run can do without any of them."""
    if not has_tesseract():
        what = "no tesseract: of pictures and scanned PDF pages nothing but the size is read"
        yield Finding("files", WARNING, what, "apt-get install tesseract-ocr")
    if not converted.is_installed():
        what = "no LibreOffice: .doc, .ppt, .odt, .ods and .rtf are not read"
        yield Finding("files", WARNING, what, f"apt-get install {converted.PACKAGES}")
    yield check_isolation()
    if path := next(filter(None, map(shutil.which, BROWSERS)), None):
        yield Finding("browser", OK, path)
    else:
        yield Finding("browser", WARNING, "no Chromium or Chrome: `make browser` needs one", "apt-get install chromium")


def check_isolation() -> Finding:
    """Check which isolation `tools.sandbox.kind=auto` chooses here, and why not a better one."""
    isolation, refused = try_isolations(AUTO)
    why = " ".join(refused)
    if isolation is None:
        return Finding("isolation", WARNING, "the tool python_repl_tool refuses: code cannot be shut in here", why)
    if isolation.name == BUBBLEWRAP:
        return Finding("isolation", OK, isolation.description)
    return Finding("isolation", WARNING, f"the second choice: {isolation.description}", why)


def _check_run(config: EvalConfig) -> None:
    if config.run.dir and not config.run.resume:
        check_free(Path(config.run.dir))
    config.check()


def _run_check(name: str, check: Callable[[], object], success: str) -> Finding:
    try:
        check()
    except UserError as error:
        return Finding(name, MISSING, str(error))
    return Finding(name, OK, success)


def _describe_model(config: EvalConfig) -> str:
    if not config.needs_model:
        return f"not needed by system={config.system.name}"
    return f"{config.model.name}{': simulated, part of the package' if config.model.simulated else ''}"


def _check_dataset(config: EvalConfig) -> Finding:
    """Read and count local questions; those of a repository are fetched by the first run."""
    try:
        config.data.check()
        if _is_fetched(config.data):
            what = f"{config.data.name}, split {config.split}: fetched at the first run, access not tried"
            return Finding("data", OK, what)
        split = config.data.load(config.split)
        n_chosen = len(select_samples(split.samples, config.selection))
    except UserError as error:
        return Finding("data", MISSING, str(error))
    counts = f"{config.data.name}, split {config.split}: {len(split.samples)} questions, {n_chosen} selected"
    what = "; ".join((counts, *split.notes))
    if split.bad_rows:
        return Finding("data", WARNING, f"{what}, {len(split.bad_rows)} bad rows skipped: {split.bad_rows[0]}")
    return Finding("data", OK, what)


def _is_fetched(data: Dataset) -> bool:
    repo, path = getattr(data, "repo", None), getattr(data, "path", None)
    return bool(repo) and not path and not Path(str(repo)).is_dir()


def _check_tools(config: EvalConfig) -> Iterator[Finding]:
    tools = config.tools
    names = {name for agent in getattr(config.system, "agents", {}).values() for name in getattr(agent, "tools", ())}
    if "tavily_tool" in names:
        sentence = describe_missing_search(tools.web)
        remedy = f"put {SEARCH_KEY_ENV}=… into .env" if sentence else ""
        yield Finding("search", WARNING if sentence else OK, sentence or f"{SEARCH_KEY_ENV} is set", remedy)
    if sentence := describe_missing_contact(tools.web, names):
        yield Finding("wikipedia", WARNING, sentence)
    if BROWSER in names and tools.browser.url is not None:
        _, sentence = find_offers(tools.browser.url)
        yield Finding("browser", WARNING if sentence else OK, sentence or f"{tools.browser.url} is an MCP server")
    if "read_file" in names and (sentence := describe_missing_key(tools.transcription)):
        yield Finding("sounds", WARNING, sentence, f"put {tools.transcription.api_key_env}=… into .env")
