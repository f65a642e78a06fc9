"""Effects of prompts in the learnable worlds (`effects.yaml`): of different size, saturating, interacting.

EFFECTS["learnable"].weigh("toy_solve", "use_the_calculator", "Use the calculator.")      # 2.5 logits
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from mas.simulation.skills.lexicon import count_votes
from mas.simulation.skills.skills import SKILLS


@dataclass(frozen=True)
class Effects:
    """Effects of one world; `effects.yaml` describes the fields."""

    weights: Mapping[str, float]
    together: Sequence[tuple[str, str, float]] = field(default_factory=tuple)
    only_loses: bool = False
    rest: float = 0.5
    serves: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def weigh(self, role: str, skill: str, prompt: str) -> float:
        """Return the logits that an agent's prompt adds to the chance of a skill."""
        votes = count_votes(prompt)
        strength = self._measure(role, skill, votes)
        total = self.weights.get(skill, self.weights["default"]) * strength
        for first, second, logits in self.together:
            if skill in (first, second):
                other = self._measure(role, second if skill == first else first, votes)
                total += logits * max(strength, 0.0) * max(other, 0.0)
        return total

    def _measure(self, role: str, skill: str, votes: Mapping[str, int]) -> float:
        """Return how strongly a prompt asks for a skill, -1 to 1: each sentence adds a part of the rest."""
        served = (each for each, own in self.serves.get(role, {}).items() if own == skill)
        asked = votes.get(skill, 0) + sum(max(votes.get(each, 0), 0) for each in served)
        strength = (1 - self.rest ** abs(asked)) * (1 if asked > 0 else -1)
        return min(strength, (1 - self.rest) * (role in SKILLS[skill].baseline)) if self.only_loses else strength


_DATA = yaml.safe_load(Path(__file__).with_name("effects.yaml").read_text(encoding="utf-8"))
EFFECTS = {name: Effects(**fields) for name, fields in _DATA.items()}
