"""The doctor's checks of a configuration: keys, system, model, data, tools, and whether a run could begin.

Each part checks itself (`check()` raises UserError), and its message is reported. Only what needs a look at environment
variables, servers and files is checked here. Values of environment variables are never shown.
"""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from eval.benchmarks.selection import select_samples
from eval.cli.hydra_compat import MISTAKES, compose_config, describe_mistake, is_mistake
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import PARTS, EvalConfig, read_config
from eval.runs.store import check_free
from eval.workflows.checks.installation import MISSING, OK, WARNING, Finding
from eval.workflows.checks.machine import check_disk, check_mlflow_store
from eval.workflows.checks.tools import check_tools, hide_credentials
from mas.llm.profiles.model import Model
from mas.llm.profiles.openai_chat import OPENAI_URL, OpenAIChatModel
from mas.runtime.errors import UserError

HUB = "https://huggingface.co"
TIMEOUT_SECONDS = 5.0
MAX_NAMES = 8  # of the models that a server has
_NAMED = ("system", "model", "data")  # the parts that have a name


def check_configuration(overrides: list[str], deep: bool = False) -> Iterator[Finding]:
    """Check what the chosen system, model and data need; `deep`: call the tools' services, too."""
    try:
        config = read_config(compose_config(overrides))
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        yield Finding("configuration", MISSING, describe_mistake(error))
        return
    yield Finding("configuration", OK, ", ".join(f"{part}={getattr(config, part).name}" for part in _NAMED))
    is_missing = False
    for finding in _check_parts(config, deep):
        is_missing |= finding.state == MISSING
        yield finding
    if not is_missing:
        yield _run_check("run", lambda: _check_run(config), "the configuration can run")


def _check_run(config: EvalConfig) -> None:
    """Check what a run itself checks first."""
    if config.run.dir and not config.run.resume:
        check_free(Path(config.run.dir))
    config.check()


def _check_parts(config: EvalConfig, deep: bool) -> Iterator[Finding]:
    yield _check_system(config)
    yield from _check_keys(config)
    yield from _check_models(config)
    yield from _check_dataset(config)
    yield from check_tools(config, deep)
    yield check_disk(Path(config.run.dir) if config.run.dir else OUTPUTS)
    yield check_mlflow_store(config.tracking)


def _run_check(name: str, check: Callable[[], object], success: str) -> Finding:
    try:
        check()
    except UserError as error:
        return Finding(name, MISSING, str(error))
    return Finding(name, OK, success)


def _check_system(config: EvalConfig) -> Finding:
    try:
        prompts = config.check_system()
    except UserError as error:
        return Finding("system", MISSING, str(error))
    texts = f"prompts {prompts.name}" if prompts else "no prompts of ours"
    return Finding("system", OK, f"{config.system.name}, {texts}")


def _check_keys(config: EvalConfig) -> Iterator[Finding]:
    """Check each `..._env` of the parts; a token file may replace that of the data."""
    parts = {part: getattr(config, part) for part in PARTS if part != "model" or config.needs_model}
    parts |= {f"{key}.judge": judge for key, judge in config.judges.items()}
    for part, holder in parts.items():
        for field, variable in vars(holder).items():
            if not field.endswith("_env") or not isinstance(variable, str):
                continue
            if os.environ.get(variable, "").strip():
                yield Finding("key", OK, f"{variable} is set ({part}.{field})")
            else:
                state = WARNING if part == "data" else MISSING
                yield Finding("key", state, f"{variable} is not set ({part}.{field})", f"put {variable}=… into .env")


def _check_models(config: EvalConfig) -> Iterator[Finding]:
    """Check the system's model, and the judge's if the scorer has one."""
    if config.needs_model:
        yield _check_model("model", config.model, config.system.model_names(), config.check_model, config.redact)
    else:
        yield Finding("model", OK, f"not needed by system={config.system.name}")
    for key, judge in config.judges.items():
        scorer = config.extra_scorers.get(key.partition(".")[2], config.scorer)
        yield _check_model("judge", judge, [], scorer.check, config.redact)


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

    place = hide_credentials(base_url)
    client = openai.OpenAI(base_url=base_url, api_key=key, timeout=TIMEOUT_SECONDS, max_retries=0)
    try:
        there = [each.id for each in client.models.list().data]
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        return MISSING, f"{place} refuses the key (HTTP {error.status_code})", "check the key"
    except openai.APIConnectionError as error:
        cause = redact(str(error.__cause__ or error))
        return MISSING, f"{place} does not answer: {cause}", "start it, be online, or correct the address"
    except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
        cause = f"HTTP {error.status_code}" if isinstance(error, openai.APIStatusError) else type(error).__name__
        return WARNING, f"{place} answers, but does not list its models ({cause})"
    absent = [name for name in wanted if name not in there]
    if not absent:
        return OK, f"{place} has {', '.join(wanted)}"
    shown = ", ".join(there[:MAX_NAMES]) + (f" and {len(there) - MAX_NAMES} more" if len(there) > MAX_NAMES else "")
    what = f"{place} does not list {', '.join(absent)}; it has {shown or 'none'}"
    return WARNING, what, "give one of those as model.name=…, unless the server takes any name"


def _check_dataset(config: EvalConfig) -> Iterator[Finding]:
    repo, path = getattr(config.data, "repo", None), getattr(config.data, "path", None)
    try:
        config.data.check()
        if repo and not path and not Path(str(repo)).is_dir():
            yield Finding("data", OK, f"{repo}, split {config.split}: fetched at the first run, access not tried")
            yield _check_hub()
        else:
            yield _load_samples(config)
    except UserError as error:
        yield Finding("data", MISSING, str(error))


def _load_samples(config: EvalConfig) -> Finding:
    """
    Raises:
        UserError: the samples cannot be read, or none is selected.
    """
    split = config.data.load(config.split)
    chosen = select_samples(split.samples, config.selection)
    counts = f"{config.data.name}, split {config.split}: {len(split.samples)} questions, {len(chosen)} selected"
    what = "; ".join((counts, *split.notes))
    if split.bad_rows:
        return Finding("data", WARNING, f"{what}, {len(split.bad_rows)} bad rows skipped: {split.bad_rows[0]}")
    return Finding("data", OK, what)


def _check_hub() -> Finding:
    import httpx

    hub = os.environ.get("HF_ENDPOINT") or HUB
    try:
        httpx.head(hub, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL, ImportError, OSError, ValueError) as error:  # also of a proxy
        what = f"{hub} does not answer ({error}): only what was fetched earlier can be used"
        return Finding("network", WARNING, what, "be online, or have the files: data.path=FOLDER, or data=sample")
    return Finding("network", OK, f"{hub} answers")
