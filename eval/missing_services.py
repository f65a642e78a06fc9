"""How a run says which services its tools do without.

missing = MissingServices(config)
with config.system.open_resources(config.tools, missing.note): …
missing.tell()      # "note: TAVILY_API_KEY is not set: …", once nothing is left that could be the user's mistake
"""

import sys

from eval.config import EvalConfig


class MissingServices:
    """Keeps the sentences until the first question is asked; before that a mistake shall stand alone.

    With a simulated model, which asks no service, nothing is told.
    """

    def __init__(self, config: EvalConfig) -> None:
        self._silent = config.simulated
        self._sentences: list[str] = []

    def note(self, sentence: str) -> None:
        self._sentences.append(sentence)

    def tell(self) -> None:
        for sentence in [] if self._silent else self._sentences:
            print(f"note: {sentence}", file=sys.stderr)
        self._sentences.clear()
