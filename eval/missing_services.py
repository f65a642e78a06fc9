"""How a run says which services its tools do without.

missing = MissingServices(config)
with config.system.open_resources(config.tools, missing.note): …
missing.tell()      # "note: TAVILY_API_KEY is not set: …", once nothing is left that could be the user's mistake
"""

import sys
from collections.abc import Callable

from eval.config import EvalConfig


class MissingServices:
    """Keeps the sentences until the first question is asked; before that a mistake shall stand alone."""

    def __init__(self, config: EvalConfig) -> None:
        self._tell = missing_service(config)
        self._sentences: list[str] = []

    def note(self, sentence: str) -> None:
        self._sentences.append(sentence)

    def tell(self) -> None:
        for sentence in self._sentences:
            self._tell(sentence)
        self._sentences.clear()


def missing_service(config: EvalConfig) -> Callable[[str], None]:
    """Tells one sentence at once; nothing with a simulated model, which asks no service."""

    def say(sentence: str) -> None:
        if not config.simulated:
            print(f"note: {sentence}", file=sys.stderr)

    return say
