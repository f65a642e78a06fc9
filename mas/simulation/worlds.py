"""Worlds of the simulated model: what prompts do to the task model, and what the reflection makes of feedback.

parse_world("offline/null-3")              # World("null", 3)
World("null", 3).rules.prompts_matter      # False
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Rules:
    """Parameters of a world; `worlds.yaml` describes them."""

    prompts_matter: bool = True
    weights: Mapping[str, float] = field(default_factory=dict)
    rest: float = 0.5
    together: Sequence[tuple[str, str, float]] = ()
    only_loses: bool = False
    serves: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    helps: float = 0.5
    harms: float = 0.5
    copies_answers: bool = False
    diagnoses: bool = False
    shuffles: bool = False


WORLDS: dict[str, Rules] = {
    name: Rules(**rules)
    for name, rules in yaml.safe_load(Path(__file__).with_name("worlds.yaml").read_text(encoding="utf-8")).items()
}


@dataclass(frozen=True)
class World:
    kind: str = "normal"
    seed: int = 0

    @property
    def rules(self) -> Rules:
        return WORLDS.get(self.kind, WORLDS["normal"])


def parse_world(model: str) -> World:
    """Return the world and seed in a model's name (`null-3`); the normal world with seed 0 for other names."""
    found = re.search(r"(?:^|/)([a-z]+)-(\d+)$", model)
    return World(found[1], int(found[2])) if found else World()
