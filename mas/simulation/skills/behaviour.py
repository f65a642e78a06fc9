"""Decision whether an agent follows a skill: the chance depends on its prompt, the draw on prompt and question.

    logit(chance) = talent + 2.5 x emphasis of the prompt (-1 to 1) + 0.35 x demos that show it (3 at most) - dilution

The draw is a sum of normal deviates (probit): the difficulty of the question in general (20% of the variance) and for
this skill (35%), chance for this prompt and request (25%), and the seed of the request (20%). So a question that fails
with one prompt tends to fail with similar ones, and two prompts that ask for the same still differ on some questions.

    behaviour = Behaviour(World(), "expert", prompt, {}, question="What is 17 * 23?", decision_key="…", seed=None)
    behaviour.compute_chance("use_the_calculator")    # 0.9
    behaviour.follows("use_the_calculator")           # always the same for the same request
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

from mas.simulation.skills.lexicon import SKILLS, read_votes
from mas.simulation.worlds import World

EMPHASIS_WEIGHT = 2.5
DEMO_WEIGHT = 0.35
MOST_DEMOS = 3
CONFLICT = 0.5  # of a prompt that asks for a skill and its contrary
FREE_WORDS = 600  # longer prompts dilute their instructions
DILUTION_PER_100_WORDS = 0.35
TOY_EASE = 1.2  # logits: the toy problems are short, and have no critic
AFTER_FEEDBACK = 0.8  # logits, in a revision
CHANCES = (0.02, 0.96)
FORMAT = "keep_to_the_output_format"  # needed in every call, so its chance may be nearer to 1
SHARES = (0.20, 0.35, 0.25, 0.20)  # of the variance: question, question and skill, prompt and request, seed
BASELINE_DILUTION = {"single": 0.17}  # logits, in the null world: its baseline prompt has 648 words
_NORMAL = NormalDist()
_WEIGHTS = tuple(math.sqrt(share) for share in SHARES)


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of one agent in answering one request."""

    world: World
    role: str
    prompt: str  # its instructions
    demos: Mapping[str, float]  # skill → demos that show it, minus those that show the contrary
    question: str
    decision_key: str  # request without format and tool results: one decision for all calls of a turn
    seed: int | None = None
    revision: int = 0  # number of rejections so far

    def compute_chance(self, skill: str, handicap: float = 0.0) -> float:
        """Return the probability that the skill is followed; `handicap`: logits by which it is harder here."""
        low, high = CHANCES
        logit = _logit(SKILLS[skill].talent) + self._weigh_prompt(skill) - handicap
        logit += AFTER_FEEDBACK * bool(self.revision) + TOY_EASE * self.role.startswith("toy_")
        return min(max(1 / (1 + math.exp(-logit)), low), 0.997 if skill == FORMAT else high)

    def follows(self, skill: str, handicap: float = 0.0) -> bool:
        return self.draw(skill) < self.compute_chance(skill, handicap)

    def draw(self, skill: str) -> float:
        """Return a number from 0 to 1, uniformly distributed; the skill is followed if it is below the chance."""
        here = f"{self._prompt_hash}\n{self.question}\n{self.decision_key}\n{skill}"
        parts = (
            _draw_normal(self.world.seed, self.question),
            _draw_normal(self.world.seed, f"{self.question}\n{skill}\n{self.role}"),
            _draw_normal(self.world.seed, here),
            _draw_normal(self.world.seed, f"{here}\n{self.seed}"),
        )
        return _NORMAL.cdf(sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True)))

    def pick(self, kinds: int, of: str) -> int:
        """Choose the kind of an error: a number from 0 to `kinds` - 1, uniformly distributed."""
        return int(_draw_uniform(self.world.seed, f"{self.decision_key}\n{self.seed}\n{of}") * kinds)

    def _weigh_prompt(self, skill: str) -> float:
        rules = self.world.rules
        if not rules.prompts_matter:
            return EMPHASIS_WEIGHT * (self.role in SKILLS[skill].baseline) - BASELINE_DILUTION.get(self.role, 0.0)
        shown = max(-MOST_DEMOS, min(self.demos.get(skill, 0.0), 0.0 if rules.only_loses else MOST_DEMOS))
        emphasis = self._weigh_skills(skill) if rules.weights else self._weigh_mean(skill)
        return emphasis + DEMO_WEIGHT * shown - self._dilution

    def _weigh_mean(self, skill: str) -> float:
        """Return the logits of a prompt by the mean of its sentences' votes; contradictions cost some."""
        votes = read_votes(self.prompt).get(skill, ())
        mean = sum(votes) / len(votes) if votes else 0.0
        return EMPHASIS_WEIGHT * mean - CONFLICT * bool(votes) * (1 - abs(mean))

    def _weigh_skills(self, skill: str) -> float:
        """Return the logits of a prompt where effects differ in size, saturate and interact."""
        rules, strength = self.world.rules, self._measure(skill)
        total = rules.weights.get(skill, rules.weights["default"]) * strength
        for first, second, logits in rules.together:
            if skill in (first, second):
                other = self._measure(second if skill == first else first)
                total += logits * max(strength, 0.0) * max(other, 0.0)
        return total

    def _measure(self, skill: str) -> float:
        """Return how strongly the prompt asks for a skill, -1 to 1: each sentence adds a part of the rest."""
        rules = self.world.rules
        votes = {name: sum(cast) for name, cast in read_votes(self.prompt).items()}
        served = (each for each, own in rules.serves.get(self.role, {}).items() if own == skill)
        asked = votes.get(skill, 0) + sum(max(votes.get(each, 0), 0) for each in served)
        strength = (1 - rules.rest ** abs(asked)) * (1 if asked > 0 else -1)
        most = (1 - rules.rest) * (self.role in SKILLS[skill].baseline) if rules.only_loses else 1.0
        return min(strength, most)

    @cached_property
    def _dilution(self) -> float:
        return DILUTION_PER_100_WORDS * max(0, _count_words(self.prompt) - FREE_WORDS) / 100

    @cached_property
    def _prompt_hash(self) -> str:
        return _digest(f"{self.prompt}\n{sorted(self.demos.items())}").hex()


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


@lru_cache(maxsize=4096)
def _count_words(prompt: str) -> int:
    return len(prompt.split())


def _draw_normal(seed: int, text: str) -> float:
    return _NORMAL.inv_cdf(min(max(_draw_uniform(seed, text), 1e-12), 1 - 1e-12))


def _draw_uniform(seed: int, text: str) -> float:
    return int.from_bytes(_digest(f"{seed}\n{text}"), "big") / 2**64


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
