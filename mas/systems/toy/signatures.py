"""Inputs and outputs of the three steps; the instructions come from the prompt set.

Every step has input names of its own: GEPA tells predictors apart by their signatures.
"""

import dspy


class Plan(dspy.Signature):
    """Plan how the problem is solved."""

    problem: str = dspy.InputField()
    steps: list[str] = dspy.OutputField(desc="what to work out, in order; at least one")


class Solve(dspy.Signature):
    """Carry out the steps."""

    problem_and_steps: str = dspy.InputField()
    working: str = dspy.OutputField(desc="each step with its calculation")
    result: str = dspy.OutputField(desc="what the last step arrives at")


class Finalize(dspy.Signature):
    """Put the result into its final form."""

    result_to_finalize: str = dspy.InputField()
    final_answer: str = dspy.OutputField(desc="the answer alone, in the form the problem asks for")
    final_reasoning_trace: str = dspy.OutputField(desc="how the answer was reached, in a few sentences")
