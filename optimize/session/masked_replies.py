"""Kept replies without the run's secrets, which a server may have repeated, and with them again for whoever asks.

A reply has to come back as it was: the requests that follow it, and their keys, are made of it.

    replies = Veiled(call_log.for_sample(sample), config.secrets)
    replies.put("k", "your key sk-123 is fine")      # on the disk: "your key \\x00secret 0\\x00 is fine"
    replies.get("k")                                 # "your key sk-123 is fine"
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mas.runtime.sample_context import ReplyLog


@dataclass(frozen=True)
class MaskedReplies:
    """With another secret than when it was kept, a reply comes back with that one."""

    replies: ReplyLog
    secrets: Callable[[], Sequence[str]]

    def get(self, key: str) -> str | None:
        reply = self.replies.get(key)
        if reply is None or "\x00" not in reply:
            return reply
        for number, secret in enumerate(self.secrets()):
            reply = reply.replace(_veil(number), secret)
        return reply

    def put(self, key: str, reply: str) -> None:
        for number, secret in enumerate(self.secrets()):
            reply = reply.replace(secret, _veil(number))
        self.replies.put(key, reply)


def _veil(number: int) -> str:
    return f"\x00secret {number}\x00"
