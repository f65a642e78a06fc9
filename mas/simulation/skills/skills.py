"""Skills of the simulated model: what a prompt can ask for, of which agents, and the mistake that it prevents.

The chance that an agent follows a skill depends on its own prompt (`mas.simulation.skills.behaviour`).

    SKILLS["use_the_calculator"].error          # "computes in the head, and slips"
    "expert" in SKILLS["use_the_calculator"].roles
"""

from dataclasses import dataclass
from typing import get_args

from mas.simulation.chat import Role

_CRITICS = ("critic_planner", "critic_researcher", "critic_expert")


@dataclass(frozen=True)
class Skill:
    """A rule that an agent follows or not."""

    roles: tuple[str, ...]  # agents whose prompt counts
    talent: float  # chance, 0 to 1, that an agent follows it without being asked to
    error: str  # the mistake of an agent that does not follow it


SKILLS: dict[str, Skill] = {
    "read_the_attached_file_first": Skill(
        ("planner", "researcher", "single"), 0.75, "does not plan to read, or does not read, the attached file"
    ),
    "use_tools_not_memory": Skill(
        ("researcher", "expert", "single"), 0.80, "skips the tool and answers from memory: a made-up value"
    ),
    "quote_exact_values": Skill(("researcher", "single"), 0.65, "passes on rounded values: 'about 8800' for 8841"),
    "check_the_right_row_and_column": Skill(
        ("researcher", "expert", "single", "toy_solve"), 0.50, "misreads a table: another row, another column"
    ),
    "use_the_calculator": Skill(("expert", "single", "toy_solve"), 0.50, "computes in the head, and slips"),
    "convert_units_with_the_tool": Skill(
        ("expert", "single", "toy_solve"), 0.50, "converts with a rough factor from memory"
    ),
    "follow_the_rounding_asked_for": Skill(
        ("expert", "finalizer", "single", "toy_solve", "toy_finalize"), 0.55, "leaves the number unrounded"
    ),
    "leave_out_units_unless_asked": Skill(
        ("finalizer", "expert", "single", "toy_finalize", "toy_solve"), 0.50, "writes the unit behind the number"
    ),
    "no_thousands_separators": Skill(("finalizer", "single", "toy_finalize"), 0.60, "writes 12 345 or 12,345"),
    "answer_with_few_words_no_prose": Skill(
        ("finalizer", "single", "toy_finalize"), 0.55, "wraps the answer in a sentence"
    ),
    "comma_separated_list_in_the_asked_order": Skill(
        ("finalizer", "expert", "single", "toy_solve", "toy_finalize"), 0.55, "forgets the order, or joins with 'and'"
    ),
    "keep_the_plan_short_and_complete": Skill(
        ("planner", "toy_plan"), 0.60, "pads the plan, or forgets the form that the answer must have"
    ),
    "reject_only_real_faults": Skill(_CRITICS, 0.75, "rejects right work: a false alarm"),
    "recompute_before_approving": Skill(_CRITICS, 0.30, "approves wrong work: a miss"),
    "say_what_was_not_found": Skill(("researcher", "single"), 0.60, "fills the gap with a guess"),
    "keep_to_the_output_format": Skill(get_args(Role), 0.96, "breaks the output format, so that it cannot be parsed"),
}
