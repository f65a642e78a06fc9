"""Selection of the endpoints and snippets that a question is about.

    selection = select(catalogue, "Which orders are open?", k=8)
    format_selection(selection)                   # text for the planning prompt

The score is the number of words that a question and an endpoint share. A question may share none with the endpoint that
answers it ("Will it rain?"), so a small catalogue, or a poor match, comes with an index of all endpoints.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mas.systems.bos.api.catalogue import Catalogue, Endpoint, Snippet, format_endpoint

FEW_ENDPOINTS = 30
_MAX_INDEX = 300  # lines
_Part = TypeVar("_Part", Endpoint, Snippet)


@dataclass(frozen=True)
class Selection:
    """Parts of the documentation for one question."""

    endpoints: Sequence[Endpoint]  # best first
    snippets: Sequence[Snippet]
    index: Sequence[Endpoint]  # the others, of which only a line is shown


def select(catalogue: Catalogue, question: str, k: int) -> Selection:
    """Return the k endpoints, and the k snippets, that share most words with the question; ties keep their order."""
    words = _tokenise([question])
    endpoints = _rank(catalogue.endpoints, [_list_texts(each) for each in catalogue.endpoints], words)[:k]
    snippets = _rank(catalogue.snippets, [[each.title, each.text] for each in catalogue.snippets], words)[:k]
    needs_index = len(catalogue.endpoints) <= FEW_ENDPOINTS or len(endpoints) < k
    others = [each for each in catalogue.endpoints if each not in endpoints] if needs_index else []
    return Selection(endpoints, snippets, others[:_MAX_INDEX])


def _rank(parts: Sequence[_Part], texts: Sequence[Iterable[str]], words: set[str]) -> list[_Part]:
    scores = [len(words & _tokenise(each)) for each in texts]
    order = sorted(range(len(parts)), key=lambda index: -scores[index])  # stable
    return [parts[index] for index in order if scores[index]]


def _list_texts(endpoint: Endpoint) -> list[str]:
    names = [each.name for each in (*endpoint.path_params, *endpoint.query_params)]
    return [endpoint.path, endpoint.summary, endpoint.description, *endpoint.tags, *names]


def _tokenise(texts: Iterable[str]) -> set[str]:
    """Return the words in lower case, without a plural's "s"."""
    words = re.findall(r"[^\W_]+", " ".join(texts).lower())
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words}


def format_selection(selection: Selection) -> str:
    """Return the selected documentation for a prompt."""
    parts = [format_endpoint(each) for each in selection.endpoints]
    if selection.index:
        lines = [f"{each.method} {each.path}: {each.summary}".rstrip(": ") for each in selection.index]
        parts.append("Other endpoints:\n" + "\n".join(lines))
    parts += [f"{each.title}: {each.text}" for each in selection.snippets]
    return "\n\n".join(parts)
