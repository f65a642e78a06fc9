"""How a run says which services its tools do without.

with config.system.open_resources(config.tools, missing_service(config)): …      # "note: there is no key in …"
"""

import sys
from collections.abc import Callable

from eval.config import EvalConfig


def missing_service(config: EvalConfig) -> Callable[[str], None]:
    """Tells one sentence; nothing with a simulated model, which asks no service."""

    def say(sentence: str) -> None:
        if not config.simulated:
            print(f"note: {sentence}", file=sys.stderr)

    return say
