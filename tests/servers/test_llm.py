"""Real DSPy predictors talk to the server over a socket, in every format that DSPy's adapters have."""

import asyncio
import http.client
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import openpyxl
import pytest

from tests.servers.running import running_llm

TOWNS = "town,wells,mayor\nOsterlund,12,Kay Abel\nEbbe,7,Lun Carr\nYork,31,Mor Dunn\n"


@pytest.fixture(scope="module")
def shared_server():
    with running_llm() as server:
        yield server


@pytest.fixture
def server(shared_server):
    shared_server.reset()
    return shared_server


@pytest.fixture(params=["chat native", "chat text", "json native", "json text"])
def talk(request, server, monkeypatch):
    """Each adapter, with native tool calls and with tools as text."""
    adapter, tools = request.param.split()
    return _talk(server, adapter, native=tools == "native", monkeypatch=monkeypatch)


@pytest.fixture
def native_talk(server, monkeypatch):
    return _talk(server, "chat", native=True, monkeypatch=monkeypatch)


def _talk(server, adapter, native, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")  # or the first call looks for a list on the internet
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    import dspy

    class LM(dspy.LM):
        supports_function_calling = native

    adapters = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter}
    lm = LM("openai/perfect", api_base=server.base_url, api_key="none", cache=False, num_retries=0)
    return SimpleNamespace(
        context=lambda: dspy.context(lm=lm, adapter=adapters[adapter](use_native_function_calling=native)),
        server=server,
        native=native,
    )


def _predict(talk, signature, demos=(), **inputs):
    import dspy

    predictor = dspy.Predict(signature)
    predictor.demos = list(demos)
    with talk.context():
        return predictor(**inputs)


def _react(talk, signature, inputs, tools, turns=(), max_steps=10):
    """The harness's own agent loop."""
    import dspy

    from mas.agents.react import Toolbox, react

    async def run():
        with talk.context():
            toolbox = Toolbox({tool.__name__: dspy.Tool(tool) for tool in tools}, max_steps=max_steps)
            return await react(dspy.Predict(signature), inputs, list(turns), toolbox)

    return asyncio.run(run())


def _plan(talk, question, file):
    import dspy

    from mas.systems.gaia.nodes import Plan

    told = f"\n\nInclude using following file in any of the research steps:{file}" if file else ""
    request = f"Develop a logical plan to answer the following question:\n{question}{told}"
    return _predict(talk, Plan, request=request, file=file, history=dspy.History(messages=[]))


def _research(talk, step, file, tools, **more):
    from mas.systems.gaia.nodes import Research

    inputs = {"research_request": f"Research the following topic or question: {step}", "file": file}
    return _react(talk, Research, inputs, tools, **more)


def _solve(talk, request, tools=(), file=None, **more):
    from mas.systems.gaia.nodes import Solve

    return _react(talk, Solve, {"expert_request": request, "file": file}, tools, **more)


def _expert_request(question, findings, steps):
    """Labels that differ from those of the system on purpose."""
    return (
        f"Question: {question}\n\nResearch results: {findings}\n\n"
        f"Expert steps:\n{steps}\n\nAnswer the question by following the steps."
    )


def _ask(talk, question, path=None):
    """Planner, researcher, expert, finalizer, one after another."""
    from mas.systems.gaia.nodes import Finalize
    from mas.tools.attachments import use_attachments
    from mas.tools.calculator import calculator
    from mas.tools.read_file import read_file
    from mas.tools.unit_converter import unit_converter

    file = path.name if path else None
    plan = _plan(talk, question, file)
    with use_attachments([path] if path else []):
        findings = [_research(talk, step, file, [read_file])[1].result for step in plan.research_steps]
        request = _expert_request(question, findings, plan.expert_steps)
        solved = _solve(talk, request, [calculator, unit_converter], file)[1]
    request = f"Question: {question}\nExpert answer: {solved.expert_answer}\nExpert reasoning: {solved.reasoning_trace}"
    return _predict(talk, Finalize, answer_request=request).final_answer


def _workbook(path):
    workbook = openpyxl.Workbook()
    for name, rows in {"Mills": [("town", "mills"), ("Ebbe", 4)], "Wells": [("town", "wells"), ("Ebbe", 9)]}.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    del workbook["Sheet"]
    workbook.save(path)


def _attachment(folder, name):
    path = folder / name
    if path.suffix == ".xlsx":
        _workbook(path)
    else:
        texts = {
            ".csv": TOWNS,
            ".json": json.dumps({"ships": [{"name": "Skua", "berth": 14}, {"name": "Tern", "berth": 22}]}),
            ".txt": 'Dear Ole,\nThe access code of the "north" gate is 4711. The one for the shed is kept by Ida.\n',
        }
        path.write_text(texts[path.suffix], encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("towns.csv", "Going by the attached list, who is the mayor of Ebbe?", "Lun Carr"),
        ("survey.xlsx", "How many wells does the second sheet give for Ebbe?", "9"),
        ("ships.json", "At which berth does the Tern lie?", "22"),
        ("letter.txt", 'In Ole\'s letter, what is the access code\nfor the "north" gate?', "4711"),
    ],
)
def test_a_fact_in_a_file_gets_through_all_agents(talk, tmp_path, name, question, answer):
    assert _ask(talk, question, _attachment(tmp_path, name)) == answer


def test_another_file_content_gives_another_answer(native_talk, tmp_path):
    path = _attachment(tmp_path, "towns.csv")
    path.write_text(TOWNS.replace("Lun Carr", "Zed Moor"))
    assert _ask(native_talk, "Who is the mayor of Ebbe?", path) == "Zed Moor"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 37 * 412 - 5?", "15239"),
        ("Convert 12 miles to kilometers, rounded to two decimal places.", "19.31"),
        ("Give the results of 6 * 7 and of 10 - 4.", "42, 6"),
    ],
)
def test_what_needs_computing_is_computed_by_a_tool(talk, question, answer):
    assert _ask(talk, question) == answer


def test_two_calculations_are_asked_for_in_one_turn(native_talk):
    def calculator(expression: str) -> str:
        return "Result: 8"

    turns, solved = _solve(native_talk, "Question: What are 3 + 5 and 2 * 4?", [calculator])
    assert [call.args["expression"] for call in turns[0]["tool_calls"].tool_calls] == ["3 + 5", "2 * 4"]
    assert solved.expert_answer == "8, 8"


def test_a_plan_without_a_file_has_no_research_and_one_with_a_file_names_it(talk):
    question = "How many wells has Ebbe?"
    assert _plan(talk, question, None).research_steps == []
    plan = _plan(talk, question, "towns.csv")
    assert [("towns.csv" in step, question in step) for step in plan.research_steps] == [(True, True)]
    assert question in plan.expert_steps[0]


def _long_file(path):
    """1500 rows of town, wells: several pages of the reading tool."""
    rows = [("town", "wells"), *((f"Town{number}", number * 3) for number in range(1500))]
    if path.suffix == ".xlsx":
        workbook = openpyxl.Workbook()
        for row in rows:
            workbook.active.append(row)
        workbook.save(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps([{"town": town, "wells": wells} for town, wells in rows[1:]]))
    else:
        path.write_text("".join(f"{town},{wells}\n" for town, wells in rows))
    return path


@pytest.mark.parametrize("name", ["many.csv", "many.xlsx", "many.json"])
@pytest.mark.parametrize("town", [3, 700, 1499])
def test_a_file_of_many_pages_is_read_to_the_end(native_talk, tmp_path, name, town):
    from mas.tools.attachments import use_attachments
    from mas.tools.read_file import read_file

    question = f"How many wells has Town{town}?"
    step = _plan(native_talk, question, name).research_steps[0]
    with use_attachments([_long_file(tmp_path / name)]):
        turns, found = _research(native_talk, step, name, [read_file], max_steps=20)
    pages = [call.args.get("page", 1) for turn in turns for call in turn["tool_calls"].tool_calls]
    assert pages == list(range(1, len(pages) + 1)) and len(pages) > 1
    request = _expert_request(question, found.result, "-")
    assert _solve(native_talk, request)[1].expert_answer == str(town * 3)


def test_a_tool_of_another_name_is_found_by_its_file_parameter(talk):
    def search(query: str) -> str:
        return "nothing"

    def open_document(file: str) -> str:
        return "town | wells\nEbbe | 7"

    turns, found = _research(talk, "How many wells has Ebbe?", "x.csv", [search, open_document])
    assert [call.name for call in turns[0]["tool_calls"].tool_calls] == ["open_document"]
    assert "Ebbe | 7" in found.result


def test_without_tools_it_knows_nothing(talk):
    step = _plan(talk, "How many wells has Ebbe?", "towns.csv").research_steps[0]
    found = _research(talk, step, "towns.csv", [])[1].result
    assert found == "not found"
    for question in ("How many wells has Ebbe?", "What is 2 + 2?"):
        assert _solve(talk, _expert_request(question, [found], ["Answer."]))[1].expert_answer == "unknown"


def test_a_failing_tool_leaves_it_without_a_finding(talk):
    def read_file(file: str) -> str:
        raise ValueError(f"the wells of Ebbe in {file} cannot be counted")

    turns, found = _research(talk, "How many wells has Ebbe?", "towns.csv", [read_file])
    assert found.result == "not found"
    assert sum(len(turn["tool_calls"].tool_calls) for turn in turns) == 1


def test_findings_that_do_not_hold_the_fact_lead_to_unknown(talk):
    request = _expert_request("What colour is the dragon's egg?", ["town | wells\nEbbe | 7"], ["Answer."])
    assert _solve(talk, request)[1].expert_answer == "unknown"


def test_when_no_more_calls_are_allowed_it_answers_from_what_it_has(talk):
    def read_file(file: str, page: int = 1) -> str:
        return f"{file}; page {page} of 9\n\ntown | wells\nTown{page} | {page}"

    turns, found = _research(talk, "How many wells has Town2?", "towns.csv", [read_file], max_steps=2)
    assert sum(len(turn["tool_calls"].tool_calls) for turn in turns) == 2
    assert "Town2 | 2" in found.result


def test_feedback_gets_the_work_again_without_reading_again(talk):
    from mas.systems.gaia.nodes import Research

    def read_file(file: str) -> str:
        return "town | wells\nEbbe | 7"

    turns, first = _research(talk, "How many wells has Ebbe?", "towns.csv", [read_file])
    feedback = {"research_request": "Use the following feedback to improve the research:\nWhat is 1 + 1?", "file": None}
    later, second = _react(talk, Research, feedback | {"file": "towns.csv"}, [read_file], turns)
    assert second.result == first.result
    assert len(later) == len(turns) + 1


def test_worked_examples_are_not_taken_for_the_request(talk):
    import dspy

    from mas.systems.gaia.nodes import Plan

    demo = dspy.Example(request="Develop a plan for: who?", file="demo.csv", research_steps=["x"], expert_steps=["y"])
    inputs = {"request": "answer the following question:\nHow many wells?", "file": None}
    plan = _predict(talk, Plan, [demo], **inputs, history=dspy.History(messages=[]))
    assert plan.research_steps == [] and "How many wells?" in plan.expert_steps[0]


@pytest.mark.parametrize("agent", ["planner", "researcher", "expert"])
def test_a_critic_rejects_only_the_agent_it_is_told_to(agent, monkeypatch):
    from mas.systems.gaia.nodes import ReviewAnswer, ReviewPlan, ReviewResearch

    work = {
        "planner": (ReviewPlan, {"plan_to_review": "1. Read it.", "file": None}),
        "researcher": (ReviewResearch, {"research_to_review": "Ebbe has 7."}),
        "expert": (ReviewAnswer, {"answer_to_review": "7"}),
    }
    with running_llm("--reject", agent) as server:
        talk = _talk(server, "chat", native=True, monkeypatch=monkeypatch)
        reviews = {name: _predict(talk, signature, **inputs) for name, (signature, inputs) in work.items()}
    assert {name for name, review in reviews.items() if review.decision == "reject"} == {agent}
    assert all(review.feedback for review in reviews.values())


def test_critics_approve_by_default(talk):
    from mas.systems.gaia.nodes import ReviewAnswer

    assert _predict(talk, ReviewAnswer, answer_to_review="7").decision == "approve"


def test_the_same_request_gets_the_same_reply_whatever_came_between(talk, tmp_path):
    path = _attachment(tmp_path, "towns.csv")
    _ask(talk, "Who is the mayor of Ebbe?", path)
    bodies = talk.server.requests()
    assert len(bodies) == 5  # planner, researcher twice, expert, finalizer
    first = [_post(talk.server.port, json.dumps(body)) for body in bodies]
    assert first == [_post(talk.server.port, json.dumps(body)) for body in bodies]
    with running_llm() as fresh:
        assert first[::-1] == [_post(fresh.port, json.dumps(body)) for body in bodies[::-1]]


def test_native_tool_calls_travel_beside_the_text_and_usage_is_counted(native_talk):
    def read_file(file: str) -> str:
        return "town | wells\nEbbe | 7"

    _research(native_talk, "How many wells has Ebbe?", "towns.csv", [read_file])
    replies = [_post(native_talk.server.port, json.dumps(body))[1] for body in native_talk.server.requests()]
    assert [reply["choices"][0]["finish_reason"] for reply in replies] == ["tool_calls", "stop"]
    assert replies[0]["choices"][0]["message"]["content"] is None
    usage = replies[1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert min(usage.values()) > 10


def test_a_server_for_text_tools_only_refuses_native_ones(monkeypatch):
    from dspy.utils.exceptions import LMInvalidRequestError

    def calculator(expression: str) -> str:
        return "4"

    with running_llm("--text-tools-only") as server:
        text = _talk(server, "chat", native=False, monkeypatch=monkeypatch)
        assert _solve(text, "Question: What is 2 + 2?", [calculator])[1].expert_answer == "4"
        native = _talk(server, "chat", native=True, monkeypatch=monkeypatch)
        with pytest.raises(LMInvalidRequestError, match="does not support `tools`"):
            _solve(native, "Question: What is 2 + 2?", [calculator])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{not json", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"messages": []}', "at least one message"),
        ('{"messages": [7]}', "message object"),
        ('{"messages": [{"role": "system", "content": "hello"}]}', "input and output fields"),
    ],
)
def test_a_body_that_is_no_request_is_answered_with_an_error(server, body, said):
    status, answer = _post(server.port, body)
    assert status == 400
    assert said in answer["error"]["message"]
    assert server.stats()["errors"] == 1


def test_one_connection_serves_many_requests_and_large_bodies(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    large = json.dumps({"messages": [{"role": "user", "content": "x" * 15_000_000}]})
    statuses = []
    for method, path, body in (
        ("GET", "/v1/models", None),
        ("POST", "/v1/chat/completions", large),
        ("GET", "/nowhere", None),
    ):
        connection.request(method, path, body)
        response = connection.getresponse()
        statuses.append((response.status, "error" in json.load(response)))
    connection.close()
    assert statuses == [(200, False), (400, True), (404, True)]
    assert server.stats()["connections"] == 2  # this one, and the one that asks


def test_a_body_over_the_limit_is_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", "20000001")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


def test_latency_delays_each_completion_but_not_one_behind_another():
    with running_llm("--latency-seconds", "0.4") as server, ThreadPoolExecutor(8) as threads:
        started = time.monotonic()
        list(threads.map(lambda _: _post(server.port, "{}"), range(8)))
        assert 0.4 <= time.monotonic() - started < 2.0
        assert server.stats()["peak_in_flight"] > 1


def test_a_reset_empties_the_log(server):
    _post(server.port, "{}")
    assert server.stats()["requests"] == 1
    server.reset()
    assert server.requests() == []
    assert server.stats()["requests"] == 0


def test_it_starts_by_hand_from_any_folder_and_says_if_the_port_is_taken(server, tmp_path):
    script = Path(__file__).with_name("llm.py").resolve()
    command = [sys.executable, str(script), "--port", str(server.port)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"cannot listen on port {server.port}")


def _post(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/chat/completions", body)
    response = connection.getresponse()
    answer = response.status, json.load(response)
    connection.close()
    return answer
