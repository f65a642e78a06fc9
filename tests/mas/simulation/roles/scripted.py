"""Agents that forget exactly the skills that a test names, and requests as they are read.

behaviour = scripted("What is 17 * 23?", "use_the_calculator")
solve_task("What is 17 * 23?", "", read("expert", "…"), behaviour)      # ("401", "A sum stated in the question.")
behaviour.asked["use_the_calculator"]      # [0.0]: how much harder than usual it was, each time
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mas.simulation.chat import Chat, Role, ToolResult, Turn
from mas.simulation.skills.behaviour import Behaviour, World


@dataclass(frozen=True)
class Scripted(Behaviour):
    """Follows every skill but those that are forgotten, and makes the error of this number."""

    forgotten: frozenset[str] = frozenset()
    picked: int = 0
    drawn: float = 0.5
    asked: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # skill → handicaps
    kinds: dict[str, int] = field(default_factory=dict)  # what was picked → number of kinds

    def follows(self, skill: str, handicap: float = 0.0) -> bool:
        self.asked[skill].append(handicap)
        return skill not in self.forgotten

    def pick(self, kinds: int, of: str) -> int:
        self.kinds[of] = kinds
        return self.picked

    def draw(self, skill: str) -> float:
        return self.drawn


def scripted(question: str, *forgotten: str, picked: int = 0, world: str = "normal", drawn: float = 0.5) -> Scripted:
    return Scripted(
        World(world), "", "", {}, question=question, decision_key=question, forgotten=frozenset(forgotten),
        picked=picked, drawn=drawn,
    )  # fmt: skip


def read(
    role: Role,
    *requests: dict[str, str],
    tools: Sequence[str] = (),
    results: Sequence[ToolResult] = (),
    **others: Any,
) -> Chat:
    """Return a conversation of these requests; the results are those of the last one."""
    turns = tuple(Turn(dict(each)) for each in requests)
    turns[-1].results.extend(results)
    given = {"outputs": {}, "wants_json": False, "prompt": "", "demos": (), "seed": None, **others}
    return Chat(role=role, tools=frozenset(tools), native_tools=True, turns=turns, **given)
