"""Decision whether an agent follows a skill: the chance depends on its prompt, the draw on the question, too.

Both are described in docs/explanation/simulated-worlds.md; their parameters are in worlds.yaml and skills.yaml.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import yaml

from mas.simulation.chat import Chat

SKILLS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("skills.yaml").read_text(encoding="utf-8"))
DEMO = 0.14  # strength that a worked example adds to every skill; at most three count
FREE_WORDS = 600  # longer prompts dilute their instructions
DILUTION = 0.14  # strength that each further 100 words cost
TOY_EASE = 1.2  # logits: the toy problems are short, and have no critic
AFTER_FEEDBACK = 0.8  # logits, in a revision
CHANCES = (0.02, 0.96)
FORMAT = "keep_to_the_output_format"  # needed in every call, so its chance may be nearer to 1
SHARES = (0.20, 0.35, 0.25, 0.20)  # of the variance: question, its skill, prompt and request, seed
_NORMAL = NormalDist()
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s*")
_NEGATION = re.compile(
    r"\b(?:no|not|never|without|skip|ignore|avoid|nor|neither|drop|omit|instead of|rather than)\b|n't\b"
)
_HARMLESS = re.compile(r"\bnot only\b|\bwhether or not\b|\bno matter\b|\bno (?:more|less|fewer) than\b")
_CLAUSE_END = re.compile(r"[,:()]|\bbut\b|\bunless\b|\bbefore\b")


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
    """Return world and seed in a model's name (`null-3`); other names: the normal world, seed 0."""
    found = re.search(r"(?:^|/)([a-z]+)-(\d+)$", model)
    return World(found[1], int(found[2])) if found else World()


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of one agent in answering one request."""

    world: World
    chat: Chat  # its request
    question: str

    def compute_chance(self, skill: str, handicap: float = 0.0) -> float:
        """Return the chance that the skill is followed; `handicap`: logits by which it is harder."""
        rules, talent = self.world.rules, SKILLS[skill]["talent"]
        logit = math.log(talent / (1 - talent)) + rules.ease - handicap
        logit += rules.weights.get(skill, rules.weight) * min(self._measure(skill), rules.most)
        logit += AFTER_FEEDBACK * (len(self.chat.turns) > 1) + TOY_EASE * self.chat.role.startswith("toy_")
        low, high = CHANCES
        return min(max(1 / (1 + math.exp(-logit)), low), 0.997 if skill == FORMAT else high)

    def follows(self, skill: str, handicap: float = 0.0) -> bool:
        return self.draw(skill) < self.compute_chance(skill, handicap)

    def draw(self, skill: str) -> float:
        """Return a uniform number from 0 to 1; below its chance, the skill is followed."""
        chat = self.chat
        here = f"{chat.prompt}\n{len(chat.demos)}\n{self.question}\n{chat.decision_key}\n{skill}"
        causes = (self.question, f"{self.question}\n{skill}\n{chat.role}", here, f"{here}\n{chat.seed}")
        normal = (_NORMAL.inv_cdf(draw_uniform(f"{self.world.seed}\n{cause}")) for cause in causes)
        return _NORMAL.cdf(sum(math.sqrt(share) * each for share, each in zip(SHARES, normal, strict=True)))

    def pick(self, kinds: int, of: str) -> int:
        """Choose the kind of an error: a number below `kinds`, uniformly distributed."""
        return int(draw_uniform(f"{self.world.seed}\n{self.chat.decision_key}\n{self.chat.seed}\n{of}") * kinds)

    def _measure(self, skill: str) -> float:
        """Return how strongly the prompt asks for it: each sentence adds a part of what is missing."""
        votes = count_votes(self.chat.prompt)[skill]
        strength = math.copysign(1 - self.world.rules.rest ** abs(votes), votes)
        excess = max(0, len(self.chat.prompt.split()) - FREE_WORDS) / 100
        return strength + DEMO * min(len(self.chat.demos), 3) - DILUTION * excess


@lru_cache(maxsize=4096)
def count_votes(prompt: str) -> Mapping[str, int]:
    """Count the sentences that ask for each skill, less those that ask for its contrary."""
    votes: Counter[str] = Counter()
    for sentence in _SENTENCE.split(prompt.lower()):
        for skill, about in SKILLS.items():
            total = 0
            for sign, pattern in ((1, about["asks"]), (-1, about["denies"])):
                if found := re.search(pattern, sentence):
                    total += -sign if _is_negated(sentence[: found.start()]) else sign
            votes[skill] += (total > 0) - (total < 0)
    return votes


def _is_negated(before: str) -> bool:
    clause = _CLAUSE_END.split(_HARMLESS.sub(" ", before))[-1]
    return len(_NEGATION.findall(clause)) % 2 == 1


def draw_uniform(key: str) -> float:
    """Return a number between 0 and 1 that depends on the key alone."""
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64
