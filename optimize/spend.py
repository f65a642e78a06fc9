"""What a tuning run has spent: scored answers, requests, tokens, money, time."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Spend:
    """Replayed requests are not in it: they were paid for before."""

    metric_calls: int = 0  # answers scored in baseline and search, not those of shortlist and sealed test
    lm_calls: int = 0  # requests sent, of the system and of the reflection, retries included
    reflection_calls: int = 0  # of these
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0  # of the requests whose cost is known
    unknown_cost_calls: int = 0  # of the others
    seconds: float = 0.0  # wall time, of all sessions

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def plus(self, other: "Spend") -> "Spend":
        return Spend(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def minus(self, earlier: "Spend") -> "Spend":
        """What came since."""
        return Spend(**{name: value - getattr(earlier, name) for name, value in asdict(self).items()})
