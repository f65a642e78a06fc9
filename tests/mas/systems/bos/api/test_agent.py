"""API-docs agent against a real server on loopback: plan, token, one repeat per kind of refusal, summary, secrets."""

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dspy
import httpx
import pytest
from dspy.utils import DummyLM
from dspy.utils.exceptions import LMServerError

from mas.agents.chat_adapter import ChatAdapter
from mas.systems.bos.api.agent import AdjustApiCall, ApiDocsAgent, PlanApiCall, SummarizeApiReply
from mas.systems.bos.api.catalogue import Catalogue
from mas.systems.bos.api.services import ApiServices, FirebaseTokens
from mas.systems.bos.contracts import AgentResult
from mas.systems.bos.settings import ApiSettings
from tests.mas.systems.bos.building import own_events
from tests.mas.systems.bos.test_planner import FixedPredictor
from tests.patience import PATIENCE_SECONDS
from tests.servers.firebase import API_KEY, EMAIL, PASSWORD, SIGN_IN, FirebaseServer
from tests.servers.loopback import running
from tests.servers.orders_api import DOCUMENTATION, OrdersApi

ACCOUNT = {"firebase_web_api_key": API_KEY, "firebase_email": EMAIL, "firebase_password": PASSWORD}
DIRECT = "direct-token-0123456789"

pytestmark = pytest.mark.anyio


class World:
    """An agent with its API, Firebase and scripted model."""

    def __init__(self, api: OrdersApi, firebase: FirebaseServer, folder: Path) -> None:
        self.api, self.firebase = api, firebase
        self.settings = ApiSettings(base_url=api.base_url, timeout_seconds=PATIENCE_SECONDS)
        self.tokens = FirebaseTokens(firebase.base_url, folder / "tokens.json")
        self.client: httpx.AsyncClient | None = None  # the run's; None: one for each question
        self.prompts: list[str] = []

    async def ask(
        self,
        *replies: Mapping[str, object],
        context: Mapping[str, object] | None = None,
        unanswered: str | None = None,  # step whose request to the model fails
    ) -> AgentResult:
        lm = DummyLM([{key: _dump(value) for key, value in reply.items()} for reply in replies], adapter=ChatAdapter())
        signatures = {"api_plan": PlanApiCall, "api_adjust": AdjustApiCall, "api_summarize": SummarizeApiReply}
        predictors: dict[str, Any] = {name: dspy.Predict(each) for name, each in signatures.items()}
        if unanswered:
            predictors[unanswered] = FixedPredictor(LMServerError("503: down"))
        catalogue = Catalogue.model_validate(DOCUMENTATION)
        async with nullcontext(self.client) if self.client else httpx.AsyncClient() as client:
            agent = ApiDocsAgent(predictors, ApiServices(catalogue, self.tokens, self.settings, client))
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
    """A world with an account of Firebase."""
    with running(OrdersApi(firebase.accepts)) as api:
        yield World(api, firebase, tmp_path)


def kinds(result: AgentResult) -> list[str]:
    return [str(each.event_type) for each in own_events(result)]


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
    decision, tool = own_events(result)
    assert decision.data == {"method": "GET", "path": "/orders", "reason": "a list"}
    assert tool.message == "Executed HTTP request"
    assert tool.data.keys() == {"method", "url", "query", "status_code", "elapsed_ms"}
    assert '"total\\": 12.5' in world.prompts[1] or "12.5" in world.prompts[1]


async def test_temporal_context_and_documentation_reach_the_plan(world: World) -> None:
    """D04 T09"""
    await world.ask(plan(), SUMMARY, context={"current_date": "2026-11-22", "system_prompt": "Be brief."})
    assert "current_date: 2026-11-22" in world.prompts[0]
    assert "GET /orders: List of orders" in world.prompts[0]
    assert all("Be brief." in prompt for prompt in world.prompts)


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


@pytest.mark.parametrize(
    ("path", "fields", "kind"),
    [
        ("/orders/{order_id}", {}, "PathResolutionError"),
        ("/orders/:order_id", {"path_params": {"order_id": "<order id>"}}, "PathResolutionError"),
        ("/orders", {"query_params": {"status": "${STATUS}"}}, "PlanningDeclined"),
        ("/orders", {"method": "POST", "json_body": {"total": "{total}"}}, "PlanningDeclined"),
    ],
)
async def test_a_value_that_was_left_as_a_placeholder_sends_nothing(
    world: World, path: str, fields: dict[str, object], kind: str
) -> None:
    """D09"""
    world.settings.methods = ["GET", "POST"]
    result = await world.ask(plan(path, **fields))
    assert result.error is not None and result.error.type == kind
    assert not world.api.requests


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
    assert signed_in.firebase.asked() == [SIGN_IN, SIGN_IN]
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


async def test_an_adjusted_plan_stays_at_its_endpoint(world: World) -> None:
    """D15: what the API answers may tell the model to call another one."""
    world.settings.methods = ["GET", "POST"]
    other = adjusted("/orders", method="POST", json_body={"total": 1})
    result = await world.ask(plan(query_params={"status": "opened"}), other)
    assert result.error is not None and result.error.type == "PathResolutionError"
    assert [each.method for each in world.api.requests] == ["GET"]


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


@pytest.mark.parametrize(("path", "kind"), [("/broken", "HttpError"), ("/hang", "HttpRequestError")])
async def test_d17_a_write_is_not_repeated_after_a_failure_or_a_timeout(world: World, path: str, kind: str) -> None:
    world.settings.methods = ["GET", "POST"]
    world.settings.timeout_seconds = 0.5 if path == "/hang" else PATIENCE_SECONDS
    result = await world.ask(plan(path, method="POST", json_body={"total": 3}))
    assert result.error is not None and result.error.type == kind
    assert [(each.method, json.loads(each.body)) for each in world.api.requests] == [("POST", {"total": 3})]
    (sent,) = [each for each in result.trace if each.event_type == "TOOL"]  # D23: also if no reply came
    assert sent.data["method"] == "POST" and bool(sent.data.get("error")) == (kind == "HttpRequestError")
    assert float(str(sent.data["elapsed_ms"])) < 10_000  # D19


@pytest.mark.parametrize(("path", "kind"), [("/reset", "HttpRequestError"), ("/moved", "HttpError")])
async def test_d18_d25_a_broken_connection_and_a_redirect_are_errors(world: World, path: str, kind: str) -> None:
    result = await world.ask(plan(path))
    assert result.error is not None and result.error.type == kind
    assert len(world.api.requests) == 1


async def test_d20_questions_share_the_client_that_is_provided(world: World) -> None:
    world.client = httpx.AsyncClient(headers={"x-from": "the run"})
    for _ in range(2):
        assert (await world.ask(plan(), SUMMARY)).status == "succeeded"
    assert [each.headers["x-from"] for each in world.api.requests] == ["the run"] * 2
    await world.client.aclose()


async def test_d21_a_reply_without_json_is_summed_up_and_a_long_one_cut(world: World) -> None:
    world.api.page = b"x" * 300_000
    assert (await world.ask(plan("/page"), SUMMARY)).status == "succeeded"
    assert "x [cut]" in world.prompts[1] and len(world.prompts[1]) < 250_000


async def test_e04_a_reply_outlives_a_model_that_cannot_put_it_into_words(world: World) -> None:
    result = await world.ask(plan(), unanswered="api_summarize")
    assert result.status == "succeeded" and "12.5" in str(result.answer)
    assert kinds(result) == ["DECISION", "TOOL", "ERROR"]


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
    bad = await world.ask(plan("/account", reason="environment-token-0123"), context={"api_bearer_token": DIRECT})
    shown = good.model_dump_json() + bad.model_dump_json() + repr(good) + "".join(prompts + world.prompts)
    secrets = [API_KEY, EMAIL, PASSWORD, DIRECT, "environment-token-0123", "header-secret-0123", "id-token-number-0001"]
    assert not [each for each in secrets if each in shown]
    assert good.status == "succeeded" and world.api.requests[0].headers["x-key"] == "header-secret-0123"  # D10
    assert "is not accepted" in str(bad.error)
