"""The reflection's own repertoire: what it may propose, as one who reads feedback would put it; half is no good.

The words here are the reflection's, chosen without sight of the task model's vocabulary; which clause helps shows in
the scores alone.

    HELPFUL["arithmetic"][0]        # "Let the calculator do every sum, however small."
"""

# Cue in a feedback text -> what might help against it.
CUES: dict[str, str] = {
    "arithmetic": r"\bnumber|calculat|arithmetic|\bsum\b|computation|total|comput",
    "rounding": r"round|decimal|precision",
    "form": r"prose|sentence|format is wrong|bare answer|around it|explanation|text|verbose",
    "unit": r"\bunits?\b|kilogram|symbol",
    "separators": r"separator|thousands",
    "list": r"\blist\b|order|elements|comma|separated",
    "table": r"\brow|column|cell|table|misread|evidence|value",
    "file": r"\bfile|attach|document|never read|not read",
    "tools": r"\btool|memory|source|look",
    "gaps": r"not found|missing|unknown|nothing|guess",
    "plan": r"\bplan|\bstep|incomplete|exhausted",
    "reject": r"reject|false alarm|right draft|sent back",
    "approve": r"approv|miss\b|missed|wrong draft|let pass",
    "parse": r"parse|structure|field|could not be read|malformed|unusable",
    "convert": r"conver|miles|litres|inches",
    "exact": r"exact|approximat|about",
}
HELPFUL: dict[str, tuple[str, ...]] = {
    "arithmetic": (
        "Let the calculator do every sum, however small.",
        "Do not do any arithmetic in your head.",
    ),
    "rounding": (
        "Give exactly as many decimal places as the question asks for.",
        "Round the final number the way the question requests.",
    ),
    "form": (
        "Give the answer alone, without any sentence around it.",
        "The final answer is a few words at most; no explanation.",
    ),
    "unit": (
        "Give the bare number; leave the unit out unless the question asks for it.",
        "Do not write units after the number.",
    ),
    "separators": ("Write large numbers without thousands separators.", "No commas or spaces inside a number."),
    "list": (
        "Separate the items of a list by commas, in the order that the question asks for.",
        "Sort the list as requested and join the items with a comma.",
    ),
    "table": (
        "Before using a value, check that it stands in the right row and under the right column heading.",
        "Verify the row label and the column header of every figure.",
    ),
    "file": ("Read the attached file before anything else.", "Open the attachment first; what it contains decides."),
    "tools": (
        "Use the tools, never your memory, to find facts.",
        "Look facts up with a tool instead of recalling them.",
    ),
    "gaps": ("Say plainly what you could not find.", "If something is missing, state that it was not found."),
    "plan": (
        "Keep the plan short, but complete: the last step says the form of the answer.",
        "Use as few steps as possible and leave no necessary step out.",
    ),
    "reject": ("Reject only for a real fault that makes the answer wrong.", "Do not reject for style or wording."),
    "approve": ("Recompute the result before you approve it.", "Never approve without redoing the calculation."),
    "parse": ("Keep exactly to the required output format.", "Fill in every output field under its marker."),
    "convert": (
        "Convert units with the unit converter.",
        "Do not convert units by hand; call the unit converter.",
    ),
    "exact": ("Copy the values exactly as the source gives them.", "Report exact figures, not rounded ones."),
}
USELESS: tuple[str, ...] = (
    "Take a deep breath and think carefully.",
    "You are a world-class expert with decades of experience.",
    "Keep in mind that this task matters a great deal to the user.",
    "Stay calm, friendly and professional.",
    "Consider the problem from several points of view.",
    "Imagine that a colleague will look over your shoulder.",
    "Be proud of good work.",
    "Bear the purpose of the whole team in mind.",
    "Aim for excellence in all that you do.",
    "Let curiosity guide you.",
    "Quality matters more than speed.",
    "Treat each question as if it were the first of the day.",
    "Approach the matter with an open mind.",
    "Good habits make good results.",
    "Make the user happy.",
    "Be as helpful as you can.",
)
HARMFUL: tuple[str, ...] = (
    "Answer in complete sentences, so that the reader sees the context.",
    "Always write the unit after the number.",
    "Use thousands separators, since they make numbers easier to read.",
    "Work sums out in your head to save time.",
    "There is no need to use the calculator for simple calculations.",
    "Rely on your memory where you can; tools are slow.",
    "Round the numbers you report, so that they are easy to read.",
    "Do not waste time on checking rows and columns.",
    "Add an explanation to the final answer.",
    "Approve without recomputing, to save effort.",
    "If something is missing, make up a plausible value.",
    "Reject whatever could be phrased better in style.",
    "Make the plan long and elaborate, with extra steps.",
    "Ignore the rounding that the question asks for if more digits are known.",
    "Skip the unit converter; approximate factors are good enough.",
    "The output format does not matter as long as the content is right.",
)
