"""Block list of pages that publish the benchmark's questions with their answers.

GAIA's validation set is public, and a search for a question's own words finds copies. They are refused before anything
is sent, dropped from search results, and each is an event in the record. An entry may occur anywhere in the decoded
URL, in upper or lower case; `*` matches any characters but `?` and `#`. That is coarse on purpose: a mirror's address
contains the original one.
"""

import functools
import re
from collections.abc import Iterable
from urllib.parse import unquote

from mas.runtime.trace import event
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings

BLOCKED_PAGE = "blocked page"  # name of the event
BLOCKED_SITES = (
    *("gaia-benchmark", "gaia_benchmark"),  # the benchmark's own organisation, and most of the repositories about it
    # Dozens of copies and of agents' answer files under any name; no question needs a dataset or a demo from there.
    *("huggingface.co/datasets", "huggingface.co/spaces", "hf.co/datasets", "hf.co/spaces", "hf-mirror.com/"),
    *(".hf.space", "datasets/*/gaia", "spaces/*/gaia"),  # the last: mirrors on hosts of their own keep the hub's paths
    # A course whose final assignment is twenty questions of the validation set.
    *("agents-course", "agent-course", "github.com/*final*assignment", "deepwiki.com/*final*assignment"),
    # Agents, with the questions, gold answers and transcripts as fixtures; pages generated from such repositories.
    *("github.com/*gaia", "githubusercontent.com/*gaia", "github.io/*gaia", "gitlab.com/*gaia", "deepwiki.com/*gaia"),
    *("jsdelivr.net/gh/*gaia", "kaggle.com/*gaia"),
    # Files with an agent's answers, in repositories whose names do not say so (eax6/smolagents and other copies).
    *("github.com/*output/validation", "githubusercontent.com/*output/validation"),
    "jsdelivr.net/gh/*output/validation",
    "hal.cs.princeton.edu/gaia",  # leaderboard with transcripts
    "2311.12983",  # the paper prints questions with answers; its number is in the address of every copy
    "fibxvahvs3",  # the same paper on OpenReview
    "paperswithcode.com/dataset/gaia",
)
_UP = re.compile(r"/(?!\.\./)[^/?#]+/\.\./")
_MAX_UNQUOTING = 3  # a URL inside a URL inside a URL


class BlockedPageError(ToolError):
    """The page is on the block list."""


def list_blocked(settings: WebSettings) -> tuple[str, ...]:
    """Return the addresses, or parts of addresses, that are refused in a run."""
    return (*BLOCKED_SITES, *settings.more_blocked_sites)


def find_blocked_site(url: str, patterns: Iterable[str]) -> str | None:
    text = _decode(url)
    return next((each for each in patterns if _compile(each).search(text)), None)


def refuse_blocked(url: str, patterns: Iterable[str]) -> None:
    """Refuse a URL that is on the list, and note it in the record."""
    if (pattern := find_blocked_site(url, patterns)) is not None:
        event(BLOCKED_PAGE, level="warning", url=url[:500], pattern=pattern)
        raise BlockedPageError(
            "This page is blocked: its address is one of those that publish this benchmark's answers "
            f"({pattern}). Find the facts in another source."
        )


def _decode(url: str) -> str:
    """Return a URL as a server reads it: unquoted, without double slashes, `.` segments and a host's trailing dot."""
    text = url
    for _ in range(_MAX_UNQUOTING):
        text = unquote(text)
    text = text.replace("\\", "/").casefold()
    text = re.sub(r"(?<=[a-z0-9])\.(?=[/:?#]|$)", "", text)
    text = re.sub(r":(?:80|443)(?=[/?#]|$)", "", text)
    text = re.sub(r"/(?:\./|/)+", "/", text)
    while (shorter := _UP.sub("/", text)) != text:
        text = shorter
    return re.sub(r"([a-z0-9])-co\.translate\.goog", r"\1.co", text).replace("-com.translate.goog", ".com")


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile("[^?#]*".join(re.escape(part) for part in pattern.casefold().split("*")))
