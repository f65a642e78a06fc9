"""What the three steps tell each other: headed sections in a fixed order, parted by an empty line.

problem_and_steps("A rope costs 3 …", ["Multiply 3 by 4."])     # "PROBLEM:\\nA rope costs 3 …\\n\\nSTEPS:\\n1. …"
"""

from collections.abc import Sequence


def problem_and_steps(problem: str, steps: Sequence[str]) -> str:
    """What the solver is asked: sections PROBLEM and STEPS, the steps numbered from 1, `(none)` if there are none."""
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    return _sections(PROBLEM=problem, STEPS=numbered)


def result_to_finalize(problem: str, working: str, result: str) -> str:
    """What the finalizer is asked: sections PROBLEM, WORKING and RESULT; the planner's steps stay out."""
    return _sections(PROBLEM=problem, WORKING=working, RESULT=result)


def _sections(**texts: str) -> str:
    return "\n\n".join(f"{heading}:\n{text.strip() or '(none)'}" for heading, text in texts.items())
