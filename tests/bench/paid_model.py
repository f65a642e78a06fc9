"""The simulated model, with its requests counted: the same one again is free, as DSPy's cache and our call log have it.

model = PaidModel(world="normal", seed=0)
…                              # a program with model.lm(…), a reflection with model.reflection_lm()
model.paid.requests            # 1801
"""

from dataclasses import dataclass, field
from typing import Any

from mas.simulation.model import OfflineModel


@dataclass
class Paid:
    """Requests that were paid for: the same one again is answered from memory. Copies of a program share it."""

    requests: int = 0
    replies: dict[str, Any] = field(default_factory=dict)

    def __deepcopy__(self, memo: Any) -> "Paid":
        return self


@dataclass
class PaidEngine:
    """Of the agents' loop, on which one request is answered after the other."""

    engine: Any
    paid: Paid

    async def complete(self, request: Any) -> Any:
        key = repr(request)
        if key not in self.paid.replies:
            self.paid.requests += 1
            self.paid.replies[key] = await self.engine.complete(request)
        return self.paid.replies[key]

    async def aclose(self) -> None:
        """Nothing is held open."""


@dataclass
class PaidModel(OfflineModel):
    paid: Paid = field(default_factory=Paid)

    def _lm(self, engine: Any, async_engine: Any, temperature: float | None) -> Any:
        return super()._lm(engine, PaidEngine(async_engine, self.paid), temperature)
