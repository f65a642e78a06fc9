"""Skills that worked examples (demos) show: an agent imitates them, less than it obeys its instructions.

count_shown_skills(chat)["no_thousands_separators"]      # 2.0: two demos show it; -1.0: one shows the contrary
"""

import re
from collections import Counter
from collections.abc import Mapping

from mas.simulation.chat import Chat, Turn
from mas.simulation.skills.answer_form import wants_list, wants_unit

_PROSE = re.compile(r"\b(?:is|are|was|the answer|i arrive)\b", re.IGNORECASE)


def count_shown_skills(chat: Chat) -> Mapping[str, float]:
    """Return, per skill, the demos that show it minus those that show its contrary."""
    counts: Counter[str] = Counter()
    for turn in chat.demos:
        if not turn.reply:
            continue
        counts["keep_to_the_output_format"] += 1
        counts.update(_count_in_answer(turn))
        counts.update(_count_in_work(turn))
    return counts


def _count_in_answer(turn: Turn) -> Counter[str]:
    answer = turn.reply.get("final_answer", "").strip()
    counts: Counter[str] = Counter()
    if not answer:
        return counts
    asked = " ".join(turn.inputs.values())
    prose = len(answer.split()) > 4 and bool(_PROSE.search(answer))
    counts["answer_with_few_words_no_prose"] = -1 if prose else 1
    if re.search(r"\d", answer) and not wants_unit(asked):
        counts["leave_out_units_unless_asked"] = 1 if re.fullmatch(r"[-+\d.,\s]+", answer) else -1
    if re.search(r"\d{4}|\d[, ]\d{3}\b", answer):
        counts["no_thousands_separators"] = -1 if re.search(r"\d[, ]\d{3}\b", answer) else 1
    if "." in answer and re.search(r"decimal|round", asked):
        counts["follow_the_rounding_asked_for"] = 1 if re.fullmatch(r"[-+\d,]+\.\d{1,3}", answer) else -1
    if wants_list(asked) and "," in answer:
        counts["comma_separated_list_in_the_asked_order"] = -1 if re.search(r"\band\b", answer) else 1
    return counts


def _count_in_work(turn: Turn) -> Counter[str]:
    reply = turn.reply
    called = f"{reply.get('tool_calls', '')} {' '.join(result.name for result in turn.results)}"
    counts: Counter[str] = Counter()
    if "calculator" in called or re.search(r"\d [-+*/] .*= ?-?\d", reply.get("working", "")):
        counts["use_the_calculator"] += 1
    if "unit_converter" in called:
        counts["convert_units_with_the_tool"] += 1
    if "read_file" in called:
        counts["read_the_attached_file_first"] += 1
        counts["use_tools_not_memory"] += 1
    steps = reply.get("research_steps", "") + reply.get("expert_steps", "") + reply.get("steps", "")
    if steps:
        counts["keep_the_plan_short_and_complete"] += 1 if len(steps) < 900 and "form" in steps else 0
        counts["read_the_attached_file_first"] += "file" in reply.get("research_steps", "")
    if "result" in reply and "Found in" in reply["result"]:
        counts["quote_exact_values"] += -1 if "about" in reply["result"] else 1
    if reply.get("decision") == "approve":
        counts["reject_only_real_faults"] += 1
    if reply.get("decision") == "reject":
        counts["recompute_before_approving"] += 1
    return counts
