"""Worlds of the simulated model: what prompts do to the task model, and what the reflection makes of feedback.

parse_world("offline/null-3")              # World("null", 3)
World("null", 3).rules.weight              # 0.0
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Rules:
    """Parameters of a world; `worlds.yaml` describes them."""

    weight: float
    weights: Mapping[str, float]
    rest: float
    most: float
    ease: float
    helps: float
    harms: float
    reads: bool
    mends: bool
    copies: bool


_ENTRIES = yaml.safe_load(Path(__file__).with_name("worlds.yaml").read_text(encoding="utf-8"))
WORLDS = {name: Rules(**{**_ENTRIES["normal"], **entry}) for name, entry in _ENTRIES.items()}


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
