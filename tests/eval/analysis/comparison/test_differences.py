"""Options, prompts and tools that differ between two runs."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from eval.analysis.comparison.differences import Differences, Setup, find_differences
from mas.prompt_sets.prompt_set import PromptSet

PROMPTS = PromptSet("own", "gaia", {"planner": "Plan.", "expert": "Solve."}, Path("own"))
SETUP = Setup(
    "gaia",
    "m",
    {"run": {"epochs": 1, "seed": 3}},
    PROMPTS,
    1,
    {"expert": ["calculator", "python"], "planner": []},
    True,
)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def test_equal_setups_do_not_differ() -> None:
    assert find_differences(SETUP, replace(SETUP)) == Differences({}, {}, {})


def test_options_differ() -> None:
    other = replace(SETUP, config={"run": {"epochs": 5, "seed": 4}})
    assert find_differences(SETUP, other) == Differences({"run.epochs": "1 → 5", "run.seed": "3 → 4"}, {}, {})


def test_prompts_differ_by_digest_and_by_their_demos() -> None:
    demos = [{"question": "1 + 1?", "answer": "2"}]
    other = replace(PROMPTS, texts={**PROMPTS.texts, "planner": "Plan well."}, demos={"expert": demos})
    found = find_differences(SETUP, replace(SETUP, prompts=other))
    assert found.options == found.tools == {}
    assert found.prompts["planner"] == f"{digest('Plan.')} → {digest('Plan well.')}"
    assert found.prompts["expert"].startswith(f"{digest('Solve.')} → ")
    assert found.prompts["expert"].endswith(" with 1 demos") and digest("Solve.") not in found.prompts["expert"][13:]
    none = find_differences(SETUP, replace(SETUP, prompts=None)).prompts
    assert none == {"planner": f"{digest('Plan.')} → none", "expert": f"{digest('Solve.')} → none"}


def test_tools_differ_by_name() -> None:
    other = replace(SETUP, tools={"expert": ["calculator"], "planner": [], "critic": ["search"]})
    found = find_differences(SETUP, other)
    assert found.tools == {"expert": "calculator, python → calculator", "critic": "none → search"}
