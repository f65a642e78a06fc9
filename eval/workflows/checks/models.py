"""The language models that are asked: their profiles, and their endpoints, whose models the `openai` client lists."""

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from eval.config.evaluation import EvalConfig
from eval.workflows.checks.finding import MISSING, OK, WARNING, Finding
from mas.llm.profiles.openai_chat import OPENAI_URL, OpenAIChatModel
from mas.runtime.errors import UserError

TIMEOUT_SECONDS = 5.0
MAX_NAMES = 8  # of the models that a server has


def models(config: EvalConfig) -> Iterator[Finding]:
    """The system's model, and the judge's if the scorer has one."""
    if config.needs_model:
        agents = getattr(config.system, "agents", {}).values()
        own = [name for agent in agents if (name := getattr(agent, "model", None))]
        yield _finding("model", config.model, own, config.check_model, config.redact)
    else:
        yield Finding("model", OK, f"not needed by system={config.system.name}")
    if judge := getattr(config.scorer, "judge", None):
        yield _finding("judge", judge, [], config.scorer.check, config.redact)


def _finding(
    name: str, profile: Any, agents: list[str], check: Callable[[], None], redact: Callable[[str], str]
) -> Finding:
    """`agents`: models that agents of the system ask for beside those of the profile."""
    try:
        check()
    except UserError as error:
        return Finding(name, MISSING, str(error))
    if profile.simulated:
        return Finding(name, OK, f"{profile.name}: simulated, part of the package")
    base_url = getattr(profile, "base_url", None) or (OPENAI_URL if isinstance(profile, OpenAIChatModel) else None)
    if base_url is None:
        return Finding(name, OK, f"{profile.name}: settings fine; its endpoint is not known here, so not asked")
    key = os.environ.get(getattr(profile, "api_key_env", None) or "") or "none"
    wanted = sorted({*getattr(profile, "names", [profile.name]), *agents})
    return Finding(name, *_endpoint(base_url, key, wanted, redact))


def _endpoint(base_url: str, key: str, wanted: list[str], redact: Callable[[str], str]) -> tuple[str, ...]:
    """State, what, and how to mend it."""
    import openai  # half a second

    url = urlsplit(base_url)
    place = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
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
    return _listed(place, there, wanted)


def _listed(place: str, there: list[str], wanted: list[str]) -> tuple[str, ...]:
    absent = [name for name in wanted if name not in there]
    if not absent:
        return OK, f"{place} has {', '.join(wanted)}"
    shown = ", ".join(there[:MAX_NAMES]) + (f" and {len(there) - MAX_NAMES} more" if len(there) > MAX_NAMES else "")
    what = f"{place} does not list {', '.join(absent)}; it has {shown or 'none'}"
    return WARNING, what, "give one of those as model.name=…, unless the server takes any name"
