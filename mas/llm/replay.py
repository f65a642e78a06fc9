"""Lookup of replies that a sample has already been given: in the run's call log, or in the cache shared by runs.

The key of a reply covers everything that it depends on: the endpoint, the request with its media, the epoch, and the
number of times the sample has sent that same request before (a critic that is asked the same twice gets two replies).
In the call log the attempt is part of the key as well, so a repeated attempt draws new replies. Stored is the
server's reply before validation, so that a truncated reply is reported as truncated again; failures are not stored.

    stored = StoredReplies(context, "https://api.openai.com/v1", request_to_dict(request))
    if (found := stored.find()) is None:
        stored.store(response)
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from dspy.lm15 import Response

from mas.llm.dspy_engine import response_from_dict, response_to_dict
from mas.runtime.sample_context import ReplyLog, SampleContext

Source = Literal["replayed", "cached"]  # "replayed": from the call log, paid by this run; "cached": paid by another run


class StoredReplies:
    """Stored replies to one request of one sample. Without call log and cache nothing is computed."""

    def __init__(self, context: SampleContext, url: str, request: Mapping[str, object]) -> None:
        self._places: list[tuple[Source, ReplyLog, str]] = []
        if context.call_log is None and context.shared_cache is None:
            return
        sample_key = context.key
        digest = _digest(url, request)
        occurrence = context.request_counts[digest] = context.request_counts.get(digest, 0) + 1
        if context.call_log is not None:
            key = _digest(digest, sample_key.epoch, sample_key.attempt, occurrence)
            self._places.append(("replayed", context.call_log, key))
        if context.shared_cache is not None:
            self._places.append(("cached", context.shared_cache, _digest(digest, sample_key.epoch, occurrence)))

    def find(self) -> tuple[Response, Source] | None:
        for source, replies, key in self._places:
            if (text := replies.get(key)) is not None:
                return response_from_dict(json.loads(text)), source
        return None

    def store(self, response: Response) -> None:
        if self._places:
            text = json.dumps(response_to_dict(response))
            for _, replies, key in self._places:
                replies.put(key, text)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
