"""Replies that a question has already been given: in its own run's call log, or in the cache that runs share.

A reply is found again by everything that it depends on: the endpoint, the request with its media, the epoch, and how
often the question has sent that very request before (a critic that is asked the same twice has been asked two
questions). In the call log the attempt counts as well: a question that is tried again draws anew. Kept is what the
server sent, before it is judged, so that a truncated reply is truncated again; failures are not kept.

    replies = KeptReplies(context, "https://api.openai.com/v1", request_to_dict(request))
    if (found := replies.find()) is None:
        replies.keep(response)
"""

import hashlib
import json
from typing import Any, Literal

from dspy._vendor.lm15.serde import response_from_dict, response_to_dict
from dspy.lm15 import Response

from mas.runtime.sample_context import ReplyLog, SampleContext

Source = Literal["replayed", "cached"]  # from the call log: paid for by this run; from the shared cache: by another


class StoredReplies:
    """Those to one request of one question; without a log and a cache there are none, and nothing is computed."""

    def __init__(self, context: SampleContext, url: str, request: dict[str, Any]) -> None:
        self._places: list[tuple[Source, ReplyLog, str]] = []
        if context.call_log is None and context.shared_cache is None:
            return
        sample_key = context.key
        digest = _sha256(url, request)
        occurrence = context.request_counts[digest] = context.request_counts.get(digest, 0) + 1
        if context.call_log is not None:
            key = _sha256(digest, sample_key.epoch, sample_key.attempt, occurrence)
            self._places.append(("replayed", context.call_log, key))
        if context.shared_cache is not None:
            self._places.append(("cached", context.shared_cache, _sha256(digest, sample_key.epoch, occurrence)))

    def find(self) -> tuple[Response, Source] | None:
        for source, replies, key in self._places:
            if (kept := replies.get(key)) is not None:
                return response_from_dict(json.loads(kept)), source
        return None

    def keep(self, response: Response) -> None:
        if self._places:
            text = json.dumps(response_to_dict(response))
            for _, replies, key in self._places:
                replies.put(key, text)


def _sha256(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
