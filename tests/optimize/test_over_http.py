"""Tuning the GAIA system over HTTP: which prompts and examples its agents are sent, and what they must never be.

The model server is `tests/servers/reflecting_llm.py`, with native tool calls.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mas.prompt_sets.prompt_set import SUFFIX, digest
from tests.command import read_side
from tests.eval.command_line import EvalCommand
from tests.optimize.seal_questions import write_seal_questions
from tests.optimize.sent import Sent, agents_requests, conversation_of, conversation_of_demo, reflections
from tests.optimize.wire import AGENTS, BASELINE, CLAUSE, GEPA, SMALL, Questions, Wire, model, tune
from tests.servers.reflecting_llm import reflecting_llm
from tests.servers.running import RunningServer

pytestmark = pytest.mark.slow  # whole runs, in processes of their own

BOOTSTRAP = ("optimizer=bootstrap", "optimizer.candidates=2", *SMALL)
A_FILE = [
    "planner", "critic_planner", "researcher", "researcher", "critic_researcher", "expert", "critic_expert", "finalizer"
]  # fmt: skip


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    folder = tmp_path_factory.mktemp("over_http") / "questions"
    return folder, write_seal_questions(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with reflecting_llm(clause=CLAUSE) as server:
        yield server


@pytest.fixture(scope="module")
def sometimes_right() -> Iterator[RunningServer]:
    """Bootstrap needs right answers to take examples from."""
    with reflecting_llm(clause=CLAUSE, careless_about="seal") as server:
        yield server


@pytest.fixture(scope="module")
def gepa(tmp_path_factory: pytest.TempPathFactory, server: RunningServer, questions: Questions) -> Wire:
    return tune(tmp_path_factory.mktemp("gepa"), server, questions, *GEPA, "reflection_model=rewriter")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory, sometimes_right: RunningServer, questions: Questions) -> Wire:
    return tune(tmp_path_factory.mktemp("bootstrap"), sometimes_right, questions, *BOOTSTRAP)


def texts(folder: Path) -> dict[str, str]:
    """Each agent's text as the file has it, without the white space around it."""
    return {agent: (folder / f"{agent}{SUFFIX}").read_text("utf-8").strip() for agent in AGENTS}


def demos(folder: Path) -> dict[str, list[dict[str, Any]]]:
    read: dict[str, list[dict[str, Any]]] = json.loads((folder / "demos.json").read_text("utf-8"))
    return read


def asked_of_the_eval_command(command: EvalCommand, wire: Wire, prompts: Path) -> list[dict[str, Any]]:
    """What `eval/run.py prompts=…` sends for the sealed questions, one question after the other."""
    wire.server.reset()
    data = ("data=jsonl", f"data.path={wire.folder}", "level=2")
    finished = command(*model(wire.server), *data, f"prompts={prompts}", "run.concurrency=1")
    assert finished.code == 0, finished.err
    return wire.server.requests()


def test_gepa_mends_the_prompts_and_each_arm_of_the_sealed_test_is_sent_its_own(gepa: Wire) -> None:
    assert (gepa.tuned.code, gepa.tuned.verdict["finish_reason"]) == (0, "improved"), gepa.tuned.err
    parent, winner = texts(BASELINE), texts(gepa.tuned.kept_folder)
    assert all(winner[agent] != parent[agent] for agent in AGENTS)
    for row in gepa.sealed:
        asked = gepa.about(row, gepa.bodies)
        for own in (parent, winner):
            assert [sent.agent for sent in asked if sent.instructions == own[sent.agent]] == A_FILE
        assert len(asked) == 2 * len(A_FILE)
    kept, tested = digest(gepa.tuned.kept), read_side(gepa.tuned.folder, "winner")
    assert {each.variant for each in tested} == {gepa.tuned.verdict["winner"]["prompts_sha256"]} == {kept}


def test_the_winner_of_bootstrap_is_sent_its_examples_as_the_conversations_that_they_were(bootstrap: Wire) -> None:
    assert (bootstrap.tuned.code, bootstrap.tuned.verdict["finish_reason"]) == (0, "improved"), bootstrap.tuned.err
    kept = demos(bootstrap.tuned.kept_folder)
    assert set(kept) == set(AGENTS)
    assert texts(bootstrap.tuned.kept_folder) == texts(BASELINE)
    for row in bootstrap.sealed:
        asked = bootstrap.about(row, bootstrap.bodies)
        assert [sent.agent for sent in asked if not sent.samples] == A_FILE, "the parent's arm has none"
        assert [sent.agent for sent in asked if sent.samples] == A_FILE
        for sent in asked:
            assert sent.instructions == texts(BASELINE)[sent.agent]
            if sent.samples:
                assert told(sent) == by_demo(sent, kept)


def test_examples_of_agents_with_tools_are_tool_calls_and_nobody_answers_none(bootstrap: Wire) -> None:
    sent_by = {row.about: bootstrap.about(row, bootstrap.bodies) for row in bootstrap.sealed}
    samples = [(sent.agent, sent.samples) for asked in sent_by.values() for sent in asked if sent.samples]
    for agent in ("researcher", "expert"):
        shown = [messages for name, messages in samples if name == agent]
        assert shown
        for messages in shown:
            calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
            assert calls
            assert calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
            assert len(set(calls)) == len(calls)
    answers = [turn[1] for _, messages in samples for turn in conversation_of(messages) if turn[0] == "answered"]
    assert answers
    assert all(value not in ("None", "null", "") for answer in answers for value in answer.values())


@pytest.mark.parametrize("optimizer", ["gepa", "bootstrap"])
def test_no_gold_answer_is_in_any_request_unless_it_was_found_there(
    optimizer: str, request: pytest.FixtureRequest
) -> None:
    wire: Wire = request.getfixturevalue(optimizer)
    canaries = [row for row in wire.rows if row.is_canary]
    assert {row.level for row in canaries} == {1, 2}
    everything = json.dumps(wire.bodies)
    assert [row.about for row in canaries if row.gold in everything] == []
    train = set(wire.tuned.read("splits")["train"])
    for sent in agents_requests(wire.bodies):
        (asked,) = wire.rows_in(sent.conversation)
        found = sent.called or sent.agent in ("critic_researcher", "expert", "critic_expert", "finalizer")
        allowed = (
            {asked.gold} if found and not (asked.file == "" and sent.agent == "expert" and not sent.called) else set()
        )
        assert wire.golds_in(sent.conversation) <= allowed, (sent.agent, asked.about)
        shown = wire.rows_in(sent.samples)
        assert {row.id for row in shown} <= train
        assert wire.golds_in(sent.samples) <= {row.gold for row in shown}


def test_reflections_are_told_nothing_but_what_the_agents_read_and_wrote_themselves(gepa: Wire) -> None:
    train = set(gepa.tuned.read("splits")["train"])
    shown = [(fields, json.loads(fields["examples_with_feedback"])) for fields in reflections(gepa.bodies)]
    assert len(shown) >= len(AGENTS)
    golds_seen, wrong = 0, 0
    for fields, samples in shown:
        assert gepa.golds_in(fields["current_instruction"]) == set()
        for sample in samples:
            assert sample.keys() == {"Inputs", "Generated Outputs", "Feedback"}
            assert gepa.golds_in(sample["Feedback"]) == set()
            (row,) = gepa.rows_in(sample)
            assert row.id in train
            assert gepa.golds_in(sample) <= {row.told}
            golds_seen += len(gepa.golds_in(sample))
            wrong += "wrong" in sample["Feedback"]
    assert golds_seen, "the golds of this set do occur in what the agents wrote, so that the check is one"
    assert wrong


def test_the_eval_command_sends_the_published_set_byte_for_byte_as_the_sealed_test_did(
    gepa: Wire, eval_command: EvalCommand
) -> None:
    winner = texts(gepa.tuned.kept_folder)
    bodies = asked_of_the_eval_command(eval_command, gepa, gepa.tuned.kept_folder)
    for row in gepa.sealed:
        tested = [sent.body for sent in gepa.about(row, gepa.bodies) if sent.instructions == winner[sent.agent]]
        asked = [sent.body for sent in gepa.about(row, bodies)]
        assert written(asked) == written(tested)
    assert len(bodies) == len(A_FILE) * len(gepa.sealed)


def told(sent: Sent) -> Counter[str]:
    """The turns of its examples, whatever the order of the examples."""
    return Counter(map(repr, conversation_of(sent.samples)))


def by_demo(sent: Sent, kept: dict[str, list[dict[str, Any]]]) -> Counter[str]:
    turns = [turn for demo in kept[sent.agent] for turn in conversation_of_demo(demo, sent.outputs)]
    return Counter(map(repr, turns))


def written(bodies: Sequence[dict[str, Any]]) -> list[str]:
    """As they came, key by key in the order that they had."""
    return [json.dumps(body, ensure_ascii=False) for body in bodies]
