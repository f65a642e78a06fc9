"""The doctor's checks of a configuration and of this machine. They return findings and raise nothing.

Each part checks itself (`check()` raises UserError), and its message is reported. Only what needs a look at environment
variables, servers and programs is checked here. Values of environment variables are never shown.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlsplit

from eval.benchmarks.dataset import Dataset
from eval.benchmarks.hub import TOKEN, has_token
from eval.benchmarks.selection import select_samples
from eval.cli.hydra_compat import MISTAKES, compose_config, describe_mistake, is_mistake
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import PARTS, EvalConfig, read_config
from eval.config.tracking import LocalTracking
from eval.runs.folder import format_path
from eval.runs.store import check_free
from eval.workflows.installation import MISSING, OK, WARNING, Finding
from mas.llm.profiles.model import Model
from mas.llm.profiles.openai_chat import OPENAI_URL, OpenAIChatModel
from mas.runtime.errors import UserError
from mas.tools.browser.session import describe_missing_browser
from mas.tools.catalogue import BROWSER, describe_missing_contact
from mas.tools.files import ocr
from mas.tools.files.readers import converted
from mas.tools.sandbox.repl import try_isolations
from mas.tools.settings import AUTO, BUBBLEWRAP, SEARCH_KEY_ENV, describe_missing_search
from mas.tools.transcription import describe_missing_key

TIMEOUT_SECONDS = 5.0
MAX_NAMES = 8  # of the models that a server has
MIN_FREE_BYTES = 1_000_000_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def check_configuration(overrides: list[str]) -> Iterator[Finding]:
    """Check what the chosen system, model and data need."""
    try:
        config = read_config(compose_config(overrides))
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        yield Finding("configuration", MISSING, describe_mistake(error))
        return
    chosen = ", ".join(f"{part}={getattr(config, part).name}" for part in ("system", "model", "data"))
    yield Finding("configuration", OK, chosen)
    is_missing = False
    for finding in _check_parts(config):
        is_missing |= finding.state == MISSING
        yield finding
    if not is_missing:
        yield _run_check("run", lambda: _check_run(config), "the configuration can run")


def check_machine() -> Iterator[Finding]:
    """Check the programs that tools may use; a run can do without any of them."""
    if not ocr.is_installed():
        what = "no tesseract: of pictures and scanned PDF pages nothing but the size is read"
        yield Finding("files", WARNING, what, "apt-get install tesseract-ocr")
    if not converted.is_installed():
        packages = " ".join(sorted(converted.PACKAGES.values()))
        what = "no LibreOffice: .doc, .ppt, .odt, .ods and .rtf are not read"
        yield Finding("files", WARNING, what, f"apt-get install {packages}")
    yield check_isolation()
    if path := next(filter(None, map(shutil.which, BROWSERS)), None):
        yield Finding("browser", OK, path)
    else:
        yield Finding("browser", WARNING, "no Chromium or Chrome: `make browser` needs one", "apt-get install chromium")


def check_isolation() -> Finding:
    """Check which isolation `tools.sandbox.kind=auto` chooses here, and why not a better one."""
    choice = try_isolations(AUTO)
    why = " ".join(choice.refused)
    if choice.isolation is None:
        return Finding("isolation", WARNING, "the tool python_repl_tool refuses: code cannot be shut in here", why)
    if choice.isolation.name == BUBBLEWRAP:
        return Finding("isolation", OK, choice.probe_result)
    return Finding("isolation", WARNING, f"the second choice: {choice.probe_result}", why)


def _check_run(config: EvalConfig) -> None:
    """Check what a run itself checks first."""
    if config.run.dir and not config.run.resume:
        check_free(Path(config.run.dir))
    config.check()


def _check_parts(config: EvalConfig) -> Iterator[Finding]:
    yield _run_check("system", config.check_system, f"{config.system.name}, prompts {config.prompts or 'of its own'}")
    yield from _check_keys(config)
    if config.needs_model:
        yield _check_model("model", config.model, config.system.model_names(), config.check_model, config.redact)
    else:
        yield Finding("model", OK, f"not needed by system={config.system.name}")
    for key, judge in config.judges.items():
        scorer = config.extra_scorers.get(key.partition(".")[2], config.scorer)
        yield _check_model("judge", judge, [], scorer.check, config.redact)
    yield _check_dataset(config)
    yield from _check_tools(config)
    yield _check_disk(Path(config.run.dir) if config.run.dir else OUTPUTS)
    if isinstance(config.tracking, LocalTracking):
        yield _check_mlflow_store(config.tracking.path() / "mlflow.db")


def _run_check(name: str, check: Callable[[], object], success: str) -> Finding:
    try:
        check()
    except UserError as error:
        return Finding(name, MISSING, str(error))
    return Finding(name, OK, success)


def _check_keys(config: EvalConfig) -> Iterator[Finding]:
    """Check each `..._env` of the parts, and the token for data that are fetched."""
    parts = {part: getattr(config, part) for part in PARTS if part != "model" or config.needs_model}
    parts |= {f"{key}.judge": judge for key, judge in config.judges.items()}
    for part, holder in parts.items():
        for field, variable in vars(holder).items():
            if not field.endswith("_env") or not isinstance(variable, str):
                continue
            if os.environ.get(variable, "").strip():
                yield Finding("key", OK, f"{variable} is set ({part}.{field})")
            else:
                yield Finding("key", MISSING, f"{variable} is not set ({part}.{field})", f"put {variable}=… into .env")
    if _is_fetched(config.data) and not has_token():
        yield Finding("key", WARNING, f"{TOKEN} is not set (gated or private data)", f"put {TOKEN}=… into .env")


def _check_model(
    name: str, model: Model, others: Collection[str], check: Callable[[], None], redact: Callable[[str], str]
) -> Finding:
    """Check a model's settings and its endpoint; `others` are models that agents use besides."""
    checked = _run_check(name, check, "")
    if checked.state == MISSING:
        return checked
    if model.simulated:
        return Finding(name, OK, f"{model.name}: simulated, part of the package")
    base_url = getattr(model, "base_url", None) or (OPENAI_URL if isinstance(model, OpenAIChatModel) else None)
    if base_url is None:
        return Finding(name, OK, f"{model.name}: settings fine; its endpoint is not known here, so not asked")
    key = os.environ.get(getattr(model, "api_key_env", None) or "") or "none"
    wanted = sorted({*getattr(model, "local_names", [model.name]), *others})
    return Finding(name, *_ask_endpoint(base_url, key, wanted, redact))


def _ask_endpoint(base_url: str, key: str, wanted: list[str], redact: Callable[[str], str]) -> tuple[str, ...]:
    """List the endpoint's models; return state, result and remedy."""
    import openai  # half a second

    url = urlsplit(base_url)
    place = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"  # without a password
    client = openai.OpenAI(base_url=base_url, api_key=key, timeout=TIMEOUT_SECONDS, max_retries=0)
    try:
        there = [each.id for each in client.models.list().data]
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        return MISSING, f"{place} refuses the key (HTTP {error.status_code})", "check the key"
    except openai.APIConnectionError as error:
        cause = redact(str(error.__cause__ or error))
        return MISSING, f"{place} does not answer: {cause}", "start it, be online, or correct the address"
    except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
        return WARNING, f"{place} answers, but does not list its models ({type(error).__name__})"
    absent = [name for name in wanted if name not in there]
    if not absent:
        return OK, f"{place} has {', '.join(wanted)}"
    shown = ", ".join(there[:MAX_NAMES]) + (f" and {len(there) - MAX_NAMES} more" if len(there) > MAX_NAMES else "")
    what = f"{place} does not list {', '.join(absent)}; it has {shown or 'none'}"
    return WARNING, what, "give one of those as model.name=…, unless the server takes any name"


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
    """Return whether the data are in a repository of Hugging Face."""
    repo, path = getattr(data, "repo", None), getattr(data, "path", None)
    return bool(repo) and not path and not Path(str(repo)).is_dir()


def _check_tools(config: EvalConfig) -> Iterator[Finding]:
    """Check what the tools of the system's agents need, as a run does; it goes on without any of it."""
    tools = config.tools
    names = {name for agent in getattr(config.system, "agents", {}).values() for name in getattr(agent, "tools", ())}
    if "tavily_tool" in names:
        sentence = describe_missing_search(tools.web)
        remedy = f"put {SEARCH_KEY_ENV}=… into .env" if sentence else ""
        yield Finding("search", WARNING if sentence else OK, sentence or f"{SEARCH_KEY_ENV} is set", remedy)
    if sentence := describe_missing_contact(tools.web, names):
        yield Finding("wikipedia", WARNING, sentence)
    if BROWSER in names and tools.browser.url is not None:
        sentence = describe_missing_browser(tools.browser)
        yield Finding("browser", WARNING if sentence else OK, sentence or f"{tools.browser.url} is an MCP server")
    if "read_file" in names and (sentence := describe_missing_key(tools.transcription)):
        yield Finding("sounds", WARNING, sentence, f"put {tools.transcription.api_key_env}=… into .env")


def _check_disk(folder: Path) -> Finding:
    """Check that a folder, or the part of its path that exists, can be written and has free space."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        remedy = "free space, correct its permissions, or give another folder: run.dir=FOLDER"
        return Finding("disk", MISSING, f"{format_path(existing)} cannot be written: {error.strerror or error}", remedy)
    free = shutil.disk_usage(existing).free
    what = f"{free / 1e9:,.1f} GB free in {format_path(existing)}"
    return Finding("disk", OK, what) if free >= MIN_FREE_BYTES else Finding("disk", WARNING, what, "free 1 GB at least")


def _check_mlflow_store(file: Path) -> Finding:
    if not file.exists():
        return Finding("mlflow", OK, f"{format_path(file)}: not there yet, the first run makes it")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection:
            connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        what = f"{format_path(file)} is no MLflow store: {error}"
        return Finding("mlflow", WARNING, what, "move it away, or tracking=off")
    return Finding("mlflow", OK, f"{format_path(file)}, {file.stat().st_size / 1e6:,.1f} MB")
