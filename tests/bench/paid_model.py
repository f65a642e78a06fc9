"""The simulated model, with its requests counted: the same one again is free, as DSPy's cache and our call log have it.

model = PaidModel(world="normal", seed=0)
…                              # a program with model.create_lm(…), a reflection with model.create_reflection_lm()
model.paid.requests            # 1801
"""

from dataclasses import dataclass, field
from typing import Any

from mas.simulation import SimulatedModel


@dataclass
class Paid:
    """Requests that were paid for: the same one again is answered from memory. Copies of a program share it."""

    requests: int = 0
    replies: dict[str, Any] = field(default_factory=dict)

    def __deepcopy__(self, memo: Any) -> "Paid":
        return self


@dataclass
class PaidModel(SimulatedModel):
    paid: Paid = field(default_factory=Paid)

    def _create_lm(self, reply: Any, temperature: float | None) -> Any:
        def pay_once(request: Any) -> Any:
            key = repr(request)
            if key not in self.paid.replies:
                self.paid.requests += 1
                self.paid.replies[key] = reply(request)
            return self.paid.replies[key]

        return super()._create_lm(pay_once, temperature)
