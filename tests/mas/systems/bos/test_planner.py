"""Planner: keywords, preferences, the model's choice, and what happens without it."""

import asyncio
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError, LMServerError

from mas.systems.bos import planner as module
from mas.systems.bos.agents import REGISTRY, AgentEntry
from mas.systems.bos.contracts import AgentName, PlannerDecision
from mas.systems.bos.planner import FALLBACK_CONFIDENCE, PlanAgents, apply_preferences, find_candidates
from mas.systems.bos.recorder import EventRecorder
from tests.mas.systems.bos.building import KEYWORDS, choose

CHOICES: dict[AgentName, AgentEntry] = {
    "api_docs": replace(REGISTRY["api_docs"], description="calls an API", keywords=tuple(KEYWORDS["api_docs"])),
    "sql": replace(REGISTRY["sql"], description="reads a database", keywords=tuple(KEYWORDS["sql"])),
    "computation": replace(REGISTRY["computation"], description="computes", keywords=tuple(KEYWORDS["computation"])),
}
TIES = {
    (1, 1, 0): ["sql", "computation"],
    (1, 1, 1): ["api_docs", "sql", "computation"],
    (2, 1, 1): ["sql"],
    (1, 2, 1): ["computation"],
    (1, 2, 2): ["api_docs", "computation"],
    (1, 0, 2): ["api_docs", "sql"],
    (0, 0, 1): ["api_docs"],
    (0, 0, 0): ["sql"],
}


class FixedPredictor:
    """Predictor that gives one reply, or raises it, and notes its inputs."""

    def __init__(self, reply: dict[str, Any] | Exception, signature: type[dspy.Signature] = PlanAgents) -> None:
        self.reply, self.signature, self.inputs = reply, signature, list[dict[str, Any]]()

    async def acall(self, **inputs: Any) -> dspy.Prediction:
        self.inputs.append(inputs)
        if isinstance(self.reply, Exception):
            raise self.reply
        return dspy.Prediction(**self.reply)


def plan(reply: dict[str, Any] | Exception, gaps: Any = None, **request: Any) -> tuple[PlannerDecision, Any]:
    predictor = FixedPredictor(reply)
    offered = {name: entry for name, entry in CHOICES.items() if name not in (gaps or {})}
    named = {"question": "List the table", **request}
    return asyncio.run(module.plan(predictor, offered, gaps or {}, **named)), predictor


@pytest.mark.parametrize("scores", TIES)
def test_p06_p07_p08_p09_p10_p11_the_table_of_ties(scores: tuple[int, int, int]) -> None:
    words: dict[str, list[str]] = {"sql": ["s1", "s2"], "computation": ["c1", "c2"], "api_docs": ["a1", "a2"]}
    pairs = zip(("sql", "computation", "api_docs"), scores, strict=True)
    question = " ".join(word.upper() for name, n in pairs for word in words[name][:n])
    entries = {name: replace(entry, keywords=tuple(words[name])) for name, entry in CHOICES.items()}
    assert find_candidates(question or "?", entries) == TIES[scores]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("List all tables in the database", ["sql"]),
        ("List me all the API points available to you", ["api_docs", "sql"]),
        ("What is the average of 3, 5 and 10?", ["computation"]),
        ("Assume a rapid decline", ["api_docs", "computation"]),  # words inside words count
    ],
)
def test_p12_p13_p24_the_keywords_give_the_documented_scenarios(question: str, expected: list[str]) -> None:
    assert find_candidates(question, REGISTRY) == expected
    assert list(CHOICES) == list(REGISTRY)


def test_p14_p15_preferences_order_candidates_and_never_add_one() -> None:
    assert apply_preferences(["api_docs", "sql"], ["sql", "sql", "computation"], []) == ["sql", "api_docs"]
    assert apply_preferences(["api_docs", "sql"], ["sql"], ["sql"]) == ["api_docs"]
    assert apply_preferences(["sql"], ["computation"], ["sql"]) == []


def test_p05_p16_the_model_is_asked_once_with_all_that_is_known() -> None:
    decision, predictor = plan(
        choose("sql"),
        question="List the API endpoints",
        prefer=("sql",),
        disable=("computation",),
        context={"current_date": "2026-11-22", "api_bearer_token": "tok-1234567890", "system_prompt": "be brief"},
    )
    (inputs,) = predictor.inputs
    assert inputs.keys() == set(PlanAgents.input_fields)
    assert inputs["question_to_plan"] == "List the API endpoints" and inputs["candidates"] == ["sql", "api_docs"]
    assert inputs["preferences"] == "preferred, in this order: sql; not allowed: computation"
    assert "computation" not in inputs["agents"] and "sql: reads a database" in inputs["agents"]
    assert inputs["context"] == "current_date: 2026-11-22" and inputs["system_prompt"] == "be brief"
    assert decision.chosen_agents == ("sql",) and decision.rationale == "because" and decision.confidence == 0.9


def test_p03_p17_p18_what_the_model_chooses_is_filtered_and_recorded() -> None:
    decision, _ = plan(choose("Nobody", " SQL ", "sql", "api_docs", "computation"), disable=("api_docs",))
    assert decision.chosen_agents == ("sql", "computation")
    assert decision.guardrails == {
        "disabled": ["api_docs"],
        "dropped": ["nobody", "api_docs"],
        "added": ["computation"],
    }


@pytest.mark.parametrize(("said", "share"), [("85%", 0.85), ("85", 0.85), ("250", 1.0), ("-1", 0.0), ("high", None)])
def test_p02_a_confidence_is_a_share(said: str, share: float | None) -> None:
    assert plan(choose("sql", confidence=said))[0].confidence == share


@pytest.mark.parametrize("chosen", [[], ["nobody"], None, "sql"])
def test_p18_an_empty_choice_means_the_candidates(chosen: Any) -> None:
    decision, _ = plan({**choose(), "chosen_agents": chosen})
    assert decision.chosen_agents == ("sql",) and decision.guardrails["empty_choice"] is True


@pytest.mark.parametrize("error", [LMServerError("500: down"), AdapterParseError("a", PlanAgents, "?")])
def test_p19_without_a_usable_reply_the_candidates_run(error: Exception) -> None:
    recorder = EventRecorder("planner")
    asked = module.plan(FixedPredictor(error), CHOICES, {}, question="Call the API", prefer=("sql",), recorder=recorder)
    decision = asyncio.run(asked)
    assert (decision.chosen_agents, decision.confidence) == (("api_docs",), FALLBACK_CONFIDENCE)
    assert decision.confidence == 0.4 and "allback" in decision.rationale
    assert decision.guardrails["fallback"] == type(error).__name__
    assert [str(event.event_type) for event in recorder.events] == ["ERROR"]


def test_an_agent_that_is_not_configured_is_not_offered() -> None:
    decision, predictor = plan(choose("sql"), {"sql": "no database is configured"})
    assert "sql" not in predictor.inputs[0]["agents"] and predictor.inputs[0]["candidates"] == [
        "api_docs",
        "computation",
    ]
    assert decision.chosen_agents == ("api_docs", "computation")
    assert decision.guardrails["unavailable"] == {"sql": "no database is configured"}
