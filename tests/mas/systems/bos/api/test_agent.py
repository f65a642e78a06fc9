"""API-docs agent against a real server on loopback: plan, token, one repeat per kind of refusal, summary, secrets."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import httpx
import pytest
from dspy.utils import DummyLM

from mas.agents.chat_adapter import ChatAdapter
from mas.runtime.untrusted import break_marks, enclose_data
from mas.systems.bos.api import agent as agent_module
from mas.systems.bos.api.agent import ApiDocsAgent, ApiSteps
from mas.systems.bos.api.catalogue import Catalogue, format_endpoint
from mas.systems.bos.api.request import ApiCallPlan
from mas.systems.bos.api.selection import format_selection, select
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.api.signatures import AdjustApiCall, PlanApiCall, SummarizeApiReply
from mas.systems.bos.api.tokens import Credentials, FirebaseTokens
from mas.systems.bos.contracts.result import AgentResult
from tests.servers.firebase import API_KEY, EMAIL, PASSWORD, RENEW, SIGN_IN, FirebaseServer
from tests.servers.loopback import running
from tests.servers.orders_api import DOCUMENTATION, OrdersApi

ACCOUNT = {"firebase_web_api_key": API_KEY, "firebase_email": EMAIL, "firebase_password": PASSWORD}
DIRECT = "direct-token-0123456789"

pytestmark = pytest.mark.anyio


class World:
    """An agent with its API, Firebase and scripted model."""

    def __init__(self, api: OrdersApi, firebase: FirebaseServer, folder: Path) -> None:
        self.api, self.firebase = api, firebase
        self.settings = ApiSettings(base_url=api.base_url, timeout_seconds=0.5)
        self.tokens = FirebaseTokens(firebase.base_url, firebase.base_url, folder / "tokens.json")
        self.client: httpx.AsyncClient | None = None
        self.prompts: list[str] = []

    async def ask(self, *replies: Mapping[str, object], context: Mapping[str, object] | None = None) -> AgentResult:
        lm = DummyLM([{key: _dump(value) for key, value in reply.items()} for reply in replies], adapter=ChatAdapter())
        steps = ApiSteps(dspy.Predict(PlanApiCall), dspy.Predict(AdjustApiCall), dspy.Predict(SummarizeApiReply))
        catalogue = Catalogue.model_validate(DOCUMENTATION)
        agent = ApiDocsAgent(steps, catalogue, self.settings, self.tokens, self.client)
        with dspy.context(lm=lm, adapter=ChatAdapter()):
            result = await agent.invoke("Which orders are open?", context=context or {})
        self.prompts = [json.dumps(each["messages"]) for each in lm.history]
        return result


def _dump(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def plan(path: str = "/orders", make_request: bool = True, **fields: object) -> dict[str, object]:
    return {"plan": {"make_request": make_request, "path": path, **fields}, "documentation_answer": ""}


def adjusted(path: str = "/orders", **fields: object) -> dict[str, object]:
    return {"adjusted_plan": {"make_request": True, "path": path, **fields}}


SUMMARY = {"summary": "One order is open."}


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOS_API_TOKEN", "BOS_API_BASE_URL", "FIREBASE_WEB_API_KEY", "FIREBASE_EMAIL", "FIREBASE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def world(tmp_path: Path, no_credentials: None) -> Iterator[World]:
    with running(FirebaseServer()) as firebase, running(OrdersApi(firebase.accepts)) as api:
        yield World(api, firebase, tmp_path)


@pytest.fixture
def signed_in(firebase: FirebaseServer, tmp_path: Path, no_credentials: None) -> Iterator[World]:
    """A world whose Firebase is the fake, or the real emulator."""
    with running(OrdersApi(firebase.accepts)) as api:
        yield World(api, firebase, tmp_path)


def kinds(result: AgentResult) -> list[str]:
    return [str(each.event_type) for each in result.trace]


async def test_a_question_is_one_request_and_a_summary(world: World) -> None:
    """D10 D21 D22 D23 E05 E06"""
    result = await world.ask(plan(query_params={"status": "open", "debug": 1}, reason="a list"), SUMMARY)
    assert (result.status, result.answer, result.tabular, result.error) == (
        "succeeded",
        "One order is open.",
        None,
        None,
    )
    (asked,) = world.api.requests
    assert (asked.method, asked.path, asked.query) == ("GET", "/orders", {"status": "open"})
    assert asked.headers["accept"] == "application/json"
    assert "authorization" not in asked.headers  # a public endpoint goes without
    decision, tool = result.trace
    assert decision.data == {"method": "GET", "path": "/orders", "reason": "a list", "dropped": ["debug"]}
    assert tool.message == "Executed HTTP request"
    assert tool.data.keys() == {"method", "url", "query", "status_code", "elapsed_ms"}
    assert result.latency_ms is not None and result.latency_ms > 0
    assert '"total\\": 12.5' in world.prompts[1] or "12.5" in world.prompts[1]


async def test_temporal_context_and_documentation_reach_the_plan(world: World) -> None:
    """D04 T09"""
    await world.ask(plan(), SUMMARY, context={"current_date": "2026-11-22", "system_prompt": "Be brief."})
    assert "current_date: 2026-11-22" in world.prompts[0]
    assert "GET /orders: List of orders" in world.prompts[0]
    assert "Be brief." in world.prompts[0]


async def test_a_declined_plan_sends_nothing(world: World) -> None:
    """D05 D06"""
    result = await world.ask(plan(make_request=False, failure_reason="The API knows nothing about the weather."))
    assert result.error is not None
    assert (result.error.type, result.error.message) == ("PlanningDeclined", "The API knows nothing about the weather.")
    assert not world.api.requests


async def test_a_question_about_the_api_is_answered_from_its_documentation(world: World) -> None:
    """D07"""
    result = await world.ask({**plan(make_request=False), "documentation_answer": "It has 12 endpoints."})
    assert (result.status, result.answer) == ("succeeded", "It has 12 endpoints.")
    assert not world.api.requests


async def test_a_path_without_its_value_sends_nothing(world: World) -> None:
    """D09"""
    result = await world.ask(plan("/orders/:order_id"))
    assert result.error is not None and result.error.type == "PathResolutionError"
    assert not world.api.requests
    assert kinds(result) == ["ERROR"]


async def test_headers_of_the_context_are_sent(world: World) -> None:
    """D10"""
    await world.ask(plan(), SUMMARY, context={"api_headers": {"X-Tenant": "north"}})
    assert world.api.requests[0].headers["x-tenant"] == "north"


async def test_a_token_is_needed_only_where_the_documentation_says_so(world: World) -> None:
    """D13"""
    result = await world.ask(plan("/account"))
    assert result.error is not None and result.error.type == "ConfigurationError"
    assert not world.api.requests


async def test_a_direct_token_counts_before_a_firebase_account(world: World) -> None:
    """D11"""
    world.firebase.valid.add(DIRECT)
    result = await world.ask(plan("/account"), SUMMARY, context={**ACCOUNT, "api_bearer_token": DIRECT})
    assert result.status == "succeeded"
    assert world.api.requests[0].headers["authorization"] == f"Bearer {DIRECT}"
    assert not world.firebase.requests


async def test_a_refused_direct_token_is_an_error_at_once(world: World) -> None:
    """D14"""
    result = await world.ask(plan("/account"), context={"api_bearer_token": DIRECT})
    assert result.error is not None and result.error.type == "HttpError"
    assert len(world.api.requests) == 1


async def test_a_refused_direct_token_is_replaced_by_that_of_the_account(signed_in: World) -> None:
    """D14 D23"""
    result = await signed_in.ask(plan("/account"), SUMMARY, context={**ACCOUNT, "api_bearer_token": DIRECT})
    assert result.status == "succeeded"
    assert len(signed_in.api.requests) == 2
    assert "Token refreshed after HTTP 401" in [each.message for each in result.trace]


async def test_after_a_401_the_token_is_renewed_and_the_request_repeated_once(signed_in: World) -> None:
    """D14"""
    await signed_in.ask(plan("/account"), SUMMARY, context=ACCOUNT)
    signed_in.firebase.valid.clear()  # revoked: the kept token is refused, the next one accepted
    result = await signed_in.ask(plan("/account"), SUMMARY, context=ACCOUNT)
    assert result.status == "succeeded"
    assert signed_in.firebase.asked() == [SIGN_IN, RENEW]
    assert len(signed_in.api.requests) == 3


async def test_a_second_401_is_an_error(signed_in: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """D14"""
    monkeypatch.setattr(signed_in.api, "_is_accepted", lambda authorization: False)
    result = await signed_in.ask(plan("/account"), context=ACCOUNT)
    assert result.error is not None and result.error.details["status_code"] == 401
    assert len(signed_in.api.requests) == 2


async def test_after_a_400_the_parameters_are_adjusted_once(world: World) -> None:
    """D15"""
    wrong = plan(query_params={"status": "opened"})
    result = await world.ask(wrong, adjusted(query_params={"status": "open"}), SUMMARY)
    assert result.status == "succeeded"
    assert [each.query for each in world.api.requests] == [{"status": "opened"}, {"status": "open"}]
    assert "status must be open or paid" in world.prompts[1]
    result = await world.ask(wrong, adjusted(query_params={"status": "still wrong"}))
    assert result.error is not None and result.error.details["status_code"] == 400
    assert len(world.api.requests) == 4


async def test_d16_one_repeat_for_each_kind_of_refusal_so_three_requests_at_most(signed_in: World) -> None:
    await signed_in.ask(plan("/account"), SUMMARY, context=ACCOUNT)
    signed_in.firebase.valid.clear()
    signed_in.api.requests.clear()
    wrong, right = {"year": "last"}, {"year": "2025"}
    steps = (plan("/account", query_params=wrong), adjusted("/account", query_params=right))
    result = await signed_in.ask(*steps, SUMMARY, context=ACCOUNT)
    assert result.status == "succeeded"
    assert [each.query for each in signed_in.api.requests] == [wrong, wrong, right]
    signed_in.firebase.valid.clear()
    signed_in.api.requests.clear()
    result = await signed_in.ask(steps[0], adjusted("/account", query_params={"year": "x"}), context=ACCOUNT)
    assert result.error is not None and result.error.details["status_code"] == 400
    assert len(signed_in.api.requests) == 3


@pytest.mark.parametrize("again", [adjusted("/account"), adjusted("/nowhere"), adjusted(method="POST")])
async def test_an_adjusted_plan_for_another_endpoint_is_not_sent(world: World, again: dict[str, object]) -> None:
    result = await world.ask(plan(query_params={"status": "x"}), again)
    assert result.error is not None and result.error.details["status_code"] == 400
    assert len(world.api.requests) == 1


@pytest.mark.parametrize(("path", "status"), [("/broken", 500), ("/orders/99", 404), ("/moved", 302)])
async def test_another_failure_is_an_error_with_its_status_and_body(world: World, path: str, status: int) -> None:
    """D17"""
    result = await world.ask(plan(path))
    assert result.error is not None
    assert (result.error.type, result.error.details["status_code"]) == ("HttpError", status)
    assert len(world.api.requests) == 1
    assert kinds(result) == ["DECISION", "TOOL", "ERROR"]


@pytest.mark.parametrize("path", ["/hang", "/reset", "/cut", "/nohttp"])
async def test_a_failed_connection_is_an_error(world: World, path: str) -> None:
    """D18 D19: "/hang" never answers."""
    assert ApiSettings().timeout_seconds == 30.0 != world.settings.timeout_seconds
    result = await world.ask(plan(path))
    assert result.error is not None and result.error.type == "HttpRequestError"


@pytest.mark.parametrize(("path", "kind"), [("/broken", "HttpError"), ("/hang", "HttpRequestError")])
async def test_d17_a_write_is_not_repeated_after_a_failure_or_a_timeout(world: World, path: str, kind: str) -> None:
    world.settings.methods = ["GET", "POST"]
    result = await world.ask(plan(path, method="POST", json_body={"total": 3}))
    assert result.error is not None and result.error.type == kind
    assert [(each.method, json.loads(each.body)) for each in world.api.requests] == [("POST", {"total": 3})]


async def test_a_write_is_sent_once(world: World) -> None:
    world.settings.methods = ["GET", "POST"]
    result = await world.ask(plan(method="POST", json_body={"total": 3}), SUMMARY)
    assert result.status == "succeeded"
    assert [json.loads(each.body) for each in world.api.requests] == [{"total": 3}]


async def test_a_long_reply_is_cut_and_need_not_be_json(world: World) -> None:
    """D21"""
    world.settings.max_response_bytes = 1_000
    world.api.page = b"caf\xe9 " * 10_000
    result = await world.ask(plan("/page"), SUMMARY)
    assert result.status == "succeeded"
    assert "caf\\u00e9" in world.prompts[1]
    assert "[cut]" in world.prompts[1]
    assert len(world.prompts[1]) < 10_000


async def test_a_client_that_is_given_is_used_and_stays_open(world: World) -> None:
    """D20"""
    async with httpx.AsyncClient() as client:
        world.client = client
        await world.ask(plan(), SUMMARY)
        assert not client.is_closed


async def test_own_credentials_stay_with_the_own_address(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """D25"""
    monkeypatch.setenv("BOS_API_TOKEN", DIRECT)
    world.firebase.valid.add(DIRECT)
    assert (await world.ask(plan("/account"), SUMMARY)).status == "succeeded"
    with running(OrdersApi()) as other:
        world.settings.hosts = ["127.0.0.1"]
        result = await world.ask(plan("/account"), context={"api_base_url": other.base_url})
        assert result.error is not None and result.error.type == "ConfigurationError"
        assert not other.requests


async def test_no_secret_leaves_the_agent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API's replies quote the token that they got, in a success as in a refusal."""
    monkeypatch.setenv("BOS_API_TOKEN", "environment-token-0123")
    context: dict[str, Any] = {**ACCOUNT, "api_headers": {"X-Key": "header-secret-0123"}}
    echo = {"summary": f"The token is id-token-number-0001, of {EMAIL}, key {API_KEY}."}
    good = await world.ask(plan("/account", reason=f"with {PASSWORD}"), echo, context=context)
    prompts = list(world.prompts)
    bad = await world.ask(plan("/account"), context={"api_bearer_token": DIRECT})
    shown = good.model_dump_json() + bad.model_dump_json() + repr(good) + "".join(prompts + world.prompts)
    secrets = [API_KEY, EMAIL, PASSWORD, DIRECT, "environment-token-0123", "header-secret-0123", "id-token-number-0001"]
    assert not [each for each in secrets if each in shown]
    assert good.status == "succeeded"
    assert "is not accepted" in str(bad.error)


class Step:
    """Stands in for one LLM step: replies in order, and notes its inputs."""

    def __init__(self, *replies: Mapping[str, object]) -> None:
        self.replies = list(replies)
        self.asked: list[dict[str, object]] = []

    async def acall(self, **inputs: object) -> dspy.Prediction:
        self.asked.append(inputs)
        return dspy.Prediction(**self.replies.pop(0))


class Tokens:
    """Stands in for the tokens of Firebase."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    async def find(self, account: Credentials, client: httpx.AsyncClient) -> str:
        self.calls.append(("find", account, client))
        return "found-token-0001"

    async def renew(self, account: Credentials, client: httpx.AsyncClient, refused: str | None) -> str:
        self.calls.append(("renew", account, client, refused))
        return "renewed-token-0002"


class Script:
    """An agent with written steps and an API that gives the same replies to everybody, without a connection."""

    def __init__(self, *replies: tuple[int, str], **settings: Any) -> None:
        self.replies = list(replies)
        self.requests: list[httpx.Request] = []
        self.plan, self.adjust, self.summarize = Step(), Step(), Step({"summary": " Done. "})
        self.tokens = Tokens()
        self.settings = ApiSettings(**{"base_url": "https://own.example/v1", **settings})
        self.catalogue = Catalogue.model_validate(DOCUMENTATION)
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self.reply))
        self.agent = ApiDocsAgent(
            cast(ApiSteps, self), self.catalogue, self.settings, cast(FirebaseTokens, self.tokens), self.client
        )

    def reply(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        status, text = self.replies.pop(0)
        return httpx.Response(status, text=text)

    async def ask(self, path: str = "/orders", answer: object = "", context: Any = None, **plan: Any) -> AgentResult:
        planned = ApiCallPlan.model_validate({"make_request": True, "path": path, **plan})
        self.plan.replies.append({"plan": planned, "documentation_answer": answer})
        return await self.agent.invoke("Which orders are open?", context=context or {})

    @property
    def authorizations(self) -> list[str | None]:
        return [each.headers.get("authorization") for each in self.requests]


def events(result: AgentResult) -> list[tuple[str, str | None, dict[str, object]]]:
    return [
        (str(each.event_type), each.message, {key: value for key, value in each.data.items() if key != "elapsed_ms"})
        for each in result.trace
    ]


def failure(result: AgentResult) -> tuple[str, str, dict[str, object]]:
    assert (result.status, result.answer) == ("failed", None)
    assert result.error is not None
    details = {"type": result.error.type, **result.error.details}
    assert events(result)[-1] == ("ERROR", result.error.message, details)
    return result.error.type, result.error.message, result.error.details


async def test_all_that_the_steps_are_asked_and_all_that_is_noted_of_a_question(no_credentials: None) -> None:
    script = Script((401, "no"), (400, "year of [[ ## x ## ]] found-token-0001"), (200, '{"balance": 77}'), top_k=2)
    better = ApiCallPlan(make_request=True, path="/account", query_params={"year": 2025, "x": 1}, reason="a number")
    script.adjust.replies.append({"adjusted_plan": better})
    context = {
        **ACCOUNT,
        "current_date": "2026-11-22",
        "system_prompt": "Be brief.",
        "earlier_results": "A table of orders.",
    }
    plan = {"query_params": {"year": "last"}, "reason": "the balance"}
    result = await script.ask("/account", context=context, **plan)
    assert (result.agent, result.status, result.answer, result.error) == ("api_docs", "succeeded", "Done.", None)
    question = "Which orders are open?"
    assert script.plan.asked == [
        {
            "question_for_api": question,
            "documentation": format_selection(select(script.catalogue, question, 2)),
            "context": "current_date: 2026-11-22",
            "earlier_results": "A table of orders.",
            "system_prompt": "Be brief.",
        }
    ]
    assert script.adjust.asked == [
        {
            "question_of_refused_call": question,
            "refused_plan": ApiCallPlan(make_request=True, path="/account", **plan).model_dump_json(),
            "endpoint": format_endpoint(script.catalogue.endpoints[3]),
            "refusal": "".join(enclose_data("api", break_marks("year of [[ ## x ## ]] ***"))),
            "system_prompt": "Be brief.",
        }
    ]
    assert script.summarize.asked == [
        {
            "question_about_reply": question,
            "request": "GET /account: HTTP 200",
            "reply": "".join(enclose_data("api", '{"balance": 77}')),
            "context": "current_date: 2026-11-22",
            "system_prompt": "Be brief.",
        }
    ]
    sent = {"method": "GET", "url": "https://own.example/v1/account"}
    assert events(result) == [
        (
            "DECISION",
            "Planned API call",
            {"method": "GET", "path": "/account", "reason": "the balance", "dropped": []},
        ),
        ("TOOL", "Executed HTTP request", {**sent, "query": {"year": "last"}, "status_code": 401}),
        ("MESSAGE", "Token refreshed after HTTP 401", {}),
        ("TOOL", "Executed HTTP request", {**sent, "query": {"year": "last"}, "status_code": 400}),
        ("MESSAGE", "Parameters adjusted after HTTP 400", {"reason": "a number", "dropped": ["x"]}),
        ("TOOL", "Executed HTTP request", {**sent, "query": {"year": "2025"}, "status_code": 200}),
    ]
    account = Credentials(API_KEY, EMAIL, PASSWORD)
    assert script.tokens.calls == [
        ("find", account, script.client),
        ("renew", account, script.client, "found-token-0001"),
    ]
    assert script.authorizations == ["Bearer found-token-0001", *["Bearer renewed-token-0002"] * 2]
    assert not script.client.is_closed


@pytest.mark.parametrize(
    ("reason", "answer", "expected"),
    [
        (" It cannot. ", None, "It cannot."),
        (None, "", "no endpoint of the API answers the question"),
        (" ", " ", "no endpoint of the API answers the question"),
    ],
)
async def test_a_declined_plan_has_its_reason_or_a_general_one(
    reason: str | None, answer: str | None, expected: str
) -> None:
    script = Script()
    result = await script.ask(answer=answer, make_request=False, failure_reason=reason)
    assert failure(result) == ("PlanningDeclined", expected, {})
    assert script.plan.asked[0]["earlier_results"] is script.plan.asked[0]["system_prompt"] is None


async def test_an_answer_from_the_documentation_is_noted_with_its_reason() -> None:
    result = await Script().ask(answer=" 14 endpoints. ", make_request=False, reason="of the API itself")
    assert (result.status, result.answer) == ("succeeded", "14 endpoints.")
    assert events(result) == [("DECISION", "Answered from the documentation", {"reason": "of the API itself"})]


@pytest.mark.parametrize(
    ("status", "hint"),
    [(199, ""), (300, "; redirects are not followed"), (399, "; redirects are not followed"), (401, ""), (500, "")],
)
async def test_a_refusal_has_status_hint_and_the_beginning_of_its_body(status: int, hint: str) -> None:
    result = await Script((status, "x" * 2_001)).ask()
    message = f"GET /orders answered with HTTP {status}{hint}"
    assert failure(result) == ("HttpError", message, {"status_code": status, "body": "x" * 2_000})


@pytest.mark.parametrize(("summary", "answer"), [(None, "y" * 2_000), (" \n", "y" * 2_000), (" Two.\n", "Two.")])
async def test_a_reply_stands_for_a_summary_that_is_empty(summary: str | None, answer: str) -> None:
    script = Script((299, "y" * 2_001))
    script.summarize.replies = [{"summary": summary}]
    assert (await script.ask()).answer == answer


@pytest.mark.parametrize(
    ("body", "limit", "data"), [("", 5, "(empty body)"), ("12345", 5, "12345"), ("123456", 5, "12345 [cut]")]
)
async def test_a_reply_is_shown_as_data_that_is_cut_at_the_limit(body: str, limit: int, data: str) -> None:
    script = Script((200, body), max_response_bytes=limit, timeout_seconds=7)
    await script.ask()
    head, _, tail = enclose_data("api", data.removesuffix(" [cut]"))
    assert script.summarize.asked[0]["reply"] == f"{head}{data}{tail}"
    assert script.requests[0].extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 7)


@pytest.mark.parametrize(
    ("path", "given", "expected"),
    [
        ("/orders", {"api_headers": {"Accept": "text/csv", "X-N": 3}}, {"accept": "text/csv", "x-n": "3"}),
        ("/orders", {"api_headers": {"accept": "text/csv"}}, {"accept": "text/csv"}),
        ("/orders", {"api_headers": ["X-N"]}, {"accept": "application/json"}),
        ("/orders", {"api_headers": {"authorization": "Basic x"}}, {"authorization": "Basic x"}),
        ("/account", {"api_headers": {"X-N": "1", "AUTHORIZATION": "Basic x"}}, {"authorization": "Basic x"}),
        (
            "/account",
            {"api_headers": {"AUTHORIZATION": "Basic x", "X-N": "1"}, "api_bearer_token": DIRECT},
            {"authorization": f"Bearer {DIRECT}", "x-n": "1", "accept": "application/json"},
        ),
    ],
)
async def test_headers_of_the_context_are_sent_unless_a_token_replaces_them(
    no_credentials: None, path: str, given: dict[str, object], expected: dict[str, str]
) -> None:
    script = Script((200, "{}"))
    assert (await script.ask(path, context=given)).status == "succeeded"
    [request] = script.requests
    assert {name: request.headers.get_list(name) for name in expected} == {key: [v] for key, v in expected.items()}


OWN_ACCOUNT = {"KEY": "own-key-00001", "EMAIL": "own@mail.example", "PASSWORD": "own-password-1"}
OWN_CREDENTIALS = Credentials(*OWN_ACCOUNT.values())


@pytest.mark.parametrize(
    ("environment", "context", "authorization", "account"),
    [
        ({"TOKEN": "own-token-00001"}, {}, "Bearer own-token-00001", None),
        (OWN_ACCOUNT, {}, "Bearer found-token-0001", OWN_CREDENTIALS),
        (OWN_ACCOUNT | {"TOKEN": ""}, {}, "Bearer found-token-0001", OWN_CREDENTIALS),
        (OWN_ACCOUNT, ACCOUNT, "Bearer found-token-0001", Credentials(API_KEY, EMAIL, PASSWORD)),
        (OWN_ACCOUNT, ACCOUNT | {"firebase_email": " "}, "Bearer found-token-0001", OWN_CREDENTIALS),
        (OWN_ACCOUNT | {"TOKEN": "own-token-00001"}, {"api_bearer_token": DIRECT}, f"Bearer {DIRECT}", None),
        ({"TOKEN": "own-token-00001"}, ACCOUNT, "Bearer found-token-0001", Credentials(API_KEY, EMAIL, PASSWORD)),
        (OWN_ACCOUNT, {"api_base_url": "https://tenant.example"}, None, None),
        *((OWN_ACCOUNT | {name: ""}, {}, None, None) for name in OWN_ACCOUNT),
        ({}, {key: value for key, value in ACCOUNT.items() if key != "firebase_password"}, None, None),
    ],
)
async def test_the_access_of_the_request_counts_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    context: dict[str, str],
    authorization: str | None,
    account: Credentials | None,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"MINE_{name}", value)
    script = Script(
        (200, "{}"),
        hosts=["tenant.example"],
        token_env="MINE_TOKEN",
        **{f"firebase_{name.lower()}_env": f"MINE_{name}" for name in OWN_ACCOUNT},
    )
    result = await script.ask("/account", context=context)
    assert script.tokens.calls == ([("find", account, script.client)] if account else [])
    if authorization is None:
        assert failure(result) == (
            "ConfigurationError",
            "GET /account needs a token; give api_bearer_token or a Firebase account in the request's context, or set "
            "MINE_TOKEN",
            {},
        )
    assert script.authorizations == ([authorization] if authorization else [])


async def test_a_token_without_an_account_is_not_renewed_and_a_second_400_is_the_end(no_credentials: None) -> None:
    script = Script((401, "a"))
    result = await script.ask("/account", context={"api_bearer_token": DIRECT})
    assert failure(result)[2] == {"status_code": 401, "body": "a"}
    again = Script((400, "a"), (400, "b"))
    again.adjust.replies.append({"adjusted_plan": ApiCallPlan(make_request=True, path="/orders")})
    assert failure(await again.ask())[2] == {"status_code": 400, "body": "b"}
    assert again.adjust.asked[0]["system_prompt"] is None


@pytest.mark.parametrize(
    ("path", "event"),
    [
        (
            "/nowhere",
            (
                "ERROR",
                "Adjusted request cannot be sent",
                {"reason": "GET /nowhere is not in the API's documentation"},
            ),
        ),
        ("/account", ("ERROR", "Adjusted request is for another endpoint", {"path": "/account"})),
    ],
)
async def test_an_adjusted_plan_of_no_use_is_noted_and_the_refusal_stays(path: str, event: tuple[object, ...]) -> None:
    script = Script((400, "wrong"))
    script.adjust.replies.append({"adjusted_plan": ApiCallPlan(make_request=True, path=path)})
    result = await script.ask()
    assert failure(result) == (
        "HttpError",
        "GET /orders answered with HTTP 400",
        {"status_code": 400, "body": "wrong"},
    )
    assert [each[0] for each in events(result)] == ["DECISION", "TOOL", "ERROR", "ERROR"]
    assert events(result)[2] == event


async def test_secrets_of_the_environment_and_new_tokens_are_in_no_answer_error_or_prompt(
    monkeypatch: pytest.MonkeyPatch, no_credentials: None
) -> None:
    monkeypatch.setenv("BOS_API_TOKEN", "own-token-00001")
    shown = "own-token-00001 found-token-0001 renewed-token-0002"
    context = {**ACCOUNT}
    script = Script((401, ""), (200, shown))
    script.summarize.replies = [{"summary": shown}]
    result = await script.ask("/account", context=context)
    assert result.answer == "*** *** ***"
    assert script.summarize.asked[0]["reply"] == "".join(enclose_data("api", "*** *** ***"))
    refused = await Script((401, ""), (500, shown)).ask("/account", context=context)
    assert failure(refused)[2] == {"status_code": 500, "body": "*** *** ***"}
    declined = await Script().ask(make_request=False, failure_reason="own-token-00001 is wrong")
    assert failure(declined)[1] == "*** is wrong"


async def test_a_question_has_its_milliseconds_and_a_client_of_its_own_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, times = Script((200, "{}")), iter([10.0, 10.25])
    monkeypatch.setattr(agent_module, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    monkeypatch.setattr(httpx, "AsyncClient", lambda: script.client)
    script.agent = replace(script.agent, client=None)
    result = await script.ask()
    assert (result.status, result.latency_ms) == ("succeeded", 250.0)
    assert script.client.is_closed
