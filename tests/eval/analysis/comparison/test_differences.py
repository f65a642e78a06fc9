"""Options, prompts and tools that differ between two runs."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from eval.analysis.comparison.differences import Differences, Setup, find_differences, read_setup
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, write_prompt_set

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


def test_the_setup_of_a_run_is_what_it_has_recorded_or_what_was_configured(tmp_path: Path) -> None:
    config = {
        "system": {
            "name": "configured",
            "agents": {"expert": {"tools": ["python", "calculator"]}, "planner": {"tools": []}, "critic": None},
        },
        "model": {"name": "model of the configuration"},
    }
    bare = RunInfo(config=config)
    assert read_setup(tmp_path, bare) == Setup(
        "configured", "model of the configuration", config, None, 0, {"expert": ["calculator", "python"]}, False
    )
    recorded = replace(bare, system="gaia", model="m", tools={"expert": ["search"]})
    assert read_setup(tmp_path, recorded) == Setup("gaia", "m", config, None, 0, {"expert": ["search"]}, True)
    nothing = read_setup(tmp_path, RunInfo())
    assert nothing == Setup("", "", {}, None, 0, {}, False)
    assert read_setup(tmp_path, replace(bare, tools={})).tools_are_seen, "it recorded that none was offered"


def test_the_prompts_of_a_resumed_run_are_those_used_last(tmp_path: Path) -> None:
    for place, text in (("prompts", "Plan."), ("prompts_2", "Plan well.")):
        write_prompt_set(tmp_path / place, replace(PROMPTS, name=place, texts={"planner": text}))
    found = read_setup(tmp_path, RunInfo(prompts={"prompts": "first", "prompts_2": "second"}))
    assert found.n_prompt_sets == 2
    assert found.prompts is not None and found.prompts.texts == {"planner": "Plan well."}


def test_demos_alone_make_a_difference() -> None:
    demos = [{"question": "1 + 1?", "answer": "2"}]
    one, two = (replace(PROMPTS, demos={"expert": demos * n}) for n in (1, 2))
    before = f"{digest('Solve.' + chr(10) + json.dumps(demos))} with 1 demos"
    now = f"{digest('Solve.' + chr(10) + json.dumps(demos * 2))} with 2 demos"
    assert find_differences(replace(SETUP, prompts=one), replace(SETUP, prompts=two)).prompts == {
        "expert": f"{before} → {now}"
    }
