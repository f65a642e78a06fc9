"""Skills of the simulated model (`skills.yaml`): rules that a prompt can ask for, and the mistake that each prevents.

SKILLS["use_the_calculator"].error          # "computes in the head, and slips"
"expert" in SKILLS["use_the_calculator"].roles
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Skill:
    """A rule that an agent follows or not; `skills.yaml` describes the fields."""

    error: str
    talent: float
    roles: Sequence[str]
    baseline: Sequence[str]
    patterns: Sequence[str]


_DATA = yaml.safe_load(Path(__file__).with_name("skills.yaml").read_text(encoding="utf-8"))
WORD_CLASSES: dict[str, str] = _DATA["classes"]
SKILLS = {name: Skill(**fields) for name, fields in _DATA["skills"].items()}
