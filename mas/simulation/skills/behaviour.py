"""Whether an agent does what a skill asks, this time: odds from the prompt, a draw from the question and the prompt.

    logit(chance) = talent + 2.5 x what the prompt says (-1 to 1) + 0.35 x demos that show it (3 at most) - dilution

The draw mixes, as normal deviates (probit), how hard the question is in general (20% of the variance), how hard it is
for this skill (35%), what chance makes of this very prompt and request (25%), and the sample id (20%): a question that
one prompt fails tends to fail under its neighbours, and two prompts that say the same still differ in places.

    behaviour = Conduct(World(), "expert", prompt, {}, question="What is 17 * 23?", decision_key="…", sample=None)
    behaviour.chance("use_the_calculator")            # 0.9
    behaviour.follows("use_the_calculator")           # the same for the same request, for ever
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

from mas.simulation.skills.lexicon import find_mentioned_skills, read_emphasis
from mas.simulation.skills.skills import SKILLS

SAYING_IT = 2.5
A_DEMO = 0.35
DEMOS_THAT_COUNT = 3
CONFLICT = 0.5  # for a prompt that says a thing and its contrary
FREE_WORDS = 600  # instructions beyond this many words dilute each other
DILUTION_PER_100_WORDS = 0.35
TOY_EASE = 1.2  # logits: the toy problems are short, and nobody reviews the work
AFTER_FEEDBACK = 0.8  # a second try pays attention
CHANCES = (0.02, 0.96)
FORMAT = "keep_to_the_output_format"  # at stake in every single call, so its chance may come nearer to 1
SHARES = (0.20, 0.35, 0.25, 0.20)  # of the variance: question, question and skill, prompt and request, sample

# What the baseline prompts say (1) or not, frozen: the null world's odds, whatever the prompt.
BASELINE: dict[str, frozenset[str]] = {
    "planner": frozenset({"read_the_attached_file_first", "keep_the_plan_short_and_complete"}),
    "researcher": frozenset(
        {"read_the_attached_file_first", "use_tools_not_memory", "quote_exact_values", "say_what_was_not_found"}
    ),
    "expert": frozenset(
        {
            "use_tools_not_memory",
            "use_the_calculator",
            "convert_units_with_the_tool",
            "follow_the_rounding_asked_for",
            "comma_separated_list_in_the_asked_order",
        }
    ),
    "critic_planner": frozenset({"reject_only_real_faults"}),
    "critic_researcher": frozenset({"reject_only_real_faults"}),
    "critic_expert": frozenset({"reject_only_real_faults", "recompute_before_approving"}),
    "finalizer": frozenset(
        {
            "follow_the_rounding_asked_for",
            "leave_out_units_unless_asked",
            "no_thousands_separators",
            "answer_with_few_words_no_prose",
            "comma_separated_list_in_the_asked_order",
        }
    ),
    "single": frozenset(
        {
            "read_the_attached_file_first",
            "use_tools_not_memory",
            "quote_exact_values",
            "use_the_calculator",
            "convert_units_with_the_tool",
            "follow_the_rounding_asked_for",
            "no_thousands_separators",
            "answer_with_few_words_no_prose",
            "say_what_was_not_found",
        }
    ),
    "toy_plan": frozenset({"keep_the_plan_short_and_complete"}),
    "toy_solve": frozenset(),
    "toy_finalize": frozenset({"answer_with_few_words_no_prose"}),
}
BASELINE_DILUTION = {"single": 0.17}  # logits: its prompt has 648 words
_NORMAL = NormalDist()
_WEIGHTS = tuple(math.sqrt(share) for share in SHARES)


@dataclass(frozen=True)
class World:
    """`kind`: normal; null, where prompts have no effect; harmful and leaky, where only the reflection differs."""

    kind: str = "normal"
    seed: int = 0


@dataclass(frozen=True)
class Behaviour:
    """How one agent behaves in answering one request."""

    world: World
    role: str
    prompt: str  # its instructions
    demos: Mapping[str, float]  # skill -> demos that show it, less those that show the contrary
    question: str
    decision_key: str  # the request without format and tool results: one decision for all its calls
    sample: int | None = None
    revision: int = 0  # how often the agent has been sent back

    def chance(self, skill: str, handicap: float = 0.0) -> float:
        """The probability that it is followed; `handicap` in logits, for what makes it harder here."""
        low, high = CHANCES
        logit = _logit(SKILLS[skill].talent) + self._prompted(skill) - handicap
        logit += AFTER_FEEDBACK * bool(self.revision) + TOY_EASE * self.role.startswith("toy_")
        return min(max(1 / (1 + math.exp(-logit)), low), 0.997 if skill == FORMAT else high)

    def follows(self, skill: str, handicap: float = 0.0) -> bool:
        return self.draw(skill) < self.chance(skill, handicap)

    def draw(self, skill: str) -> float:
        """Between 0 and 1, evenly; high is hard."""
        here = f"{self._prompt_hash}\n{self.question}\n{self.decision_key}\n{skill}"
        parts = (
            _deviate(self.world.seed, self.question),
            _deviate(self.world.seed, f"{self.question}\n{skill}\n{self.role}"),
            _deviate(self.world.seed, here),
            _deviate(self.world.seed, f"{here}\n{self.sample}"),
        )
        return _NORMAL.cdf(sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True)))

    def pick(self, kinds: int, of: str) -> int:
        """Which of several kinds of error it is: evenly one of 0 to `kinds` - 1."""
        return int(_uniform(self.world.seed, f"{self.decision_key}\n{self.sample}\n{of}") * kinds)

    def _prompted(self, skill: str) -> float:
        if self.world.kind == "null":
            return SAYING_IT * (skill in BASELINE.get(self.role, ())) - BASELINE_DILUTION.get(self.role, 0.0)
        strength = read_emphasis(self.prompt)[skill]
        conflict = CONFLICT * (1 - abs(strength)) if strength or skill in find_mentioned_skills(self.prompt) else 0.0
        demos = max(-DEMOS_THAT_COUNT, min(self.demos.get(skill, 0.0), DEMOS_THAT_COUNT))
        return SAYING_IT * strength + A_DEMO * demos - conflict - self._dilution

    @cached_property
    def _dilution(self) -> float:
        return DILUTION_PER_100_WORDS * max(0, _words(self.prompt) - FREE_WORDS) / 100

    @cached_property
    def _prompt_hash(self) -> str:
        return _digest(f"{self.prompt}\n{sorted(self.demos.items())}").hex()


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


@lru_cache(maxsize=4096)
def _words(prompt: str) -> int:
    return len(prompt.split())


def _deviate(seed: int, text: str) -> float:
    return _NORMAL.inv_cdf(min(max(_uniform(seed, text), 1e-12), 1 - 1e-12))


def _uniform(seed: int, text: str) -> float:
    return int.from_bytes(_digest(f"{seed}\n{text}"), "big") / 2**64


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
