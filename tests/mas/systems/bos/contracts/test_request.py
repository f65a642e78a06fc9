"""Requests: what is coerced, what is refused, and what is never shown."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from mas.runtime.security.redaction import MASK
from mas.systems.bos.contracts.request import (
    AGENT_NAMES,
    AgentRequest,
    format_context,
    get_text,
    list_secrets,
    mask_secrets,
)

TOKEN = "tok-1234567890abcdef"


def test_r01_there_are_three_agents_and_no_other() -> None:
    assert set(AGENT_NAMES) == {"sql", "api_docs", "computation"}
    with pytest.raises(ValidationError, match="'sql', 'api_docs' or 'computation'"):
        AgentRequest(question="q", prefer_agents=("planner",))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"question": ""}, {}, {"question": None}])
def test_r02_a_question_is_required(given: Mapping[str, object]) -> None:
    with pytest.raises(ValidationError, match="question"):
        AgentRequest.parse(given)


def test_r03_a_context_is_a_dictionary_of_its_own() -> None:
    first, second = AgentRequest(question="a"), AgentRequest(question="b")
    assert first.context == {} and first.context is not second.context
    with pytest.raises(ValidationError, match="context"):
        AgentRequest.parse({"question": "q", "context": ["a"]})


def test_defaults_of_a_request() -> None:
    """R04 R05 R07 R09 R11 R12"""
    request = AgentRequest(question="q")
    assert (request.prefer_agents, request.disable_agents) == ((), ())
    assert (request.max_turns, request.include_data, request.trace, request.system_prompt) == (None, True, False, None)
    assert AgentRequest(question="q", prefer_agents=("sql", "api_docs")).prefer_agents == ("sql", "api_docs")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ()),
        (" SQL ", ("sql",)),
        (["Computation", None, "sql"], ("computation", "sql")),
        (("api_docs",), ("api_docs",)),
        ([], ()),
    ],
)
@pytest.mark.parametrize("field", ["prefer_agents", "disable_agents"])
def test_r06_names_of_agents_are_normalised(field: str, given: object, expected: tuple[str, ...]) -> None:
    assert getattr(AgentRequest.parse({"question": "q", field: given}), field) == expected


@pytest.mark.parametrize("given", [7, {"sql": 1}, [7], ["sql", "nobody"]])
def test_r06_what_is_no_name_is_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="prefer_agents"):
        AgentRequest.parse({"question": "q", "prefer_agents": given})


def test_r08_turns_begin_with_one() -> None:
    assert AgentRequest(question="q", max_turns=1).max_turns == 1
    with pytest.raises(ValidationError, match="max_turns"):
        AgentRequest(question="q", max_turns=0)


def test_r14_a_request_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        AgentRequest(question="q").question = "other"  # type: ignore[misc]


def test_r15_objects_mappings_and_json_are_requests() -> None:
    expected = AgentRequest(question="q", disable_agents=("sql",))
    assert AgentRequest.parse({"question": "q", "disable_agents": "sql"}) == expected
    assert AgentRequest.parse('{"question": "q", "disable_agents": ["SQL"]}') == expected
    assert AgentRequest.parse(expected) is expected
    with pytest.raises(ValidationError, match="JSON"):
        AgentRequest.parse("How many?")


def test_secrets_of_the_context_are_shown_nowhere() -> None:
    """R16: every key stays for the agents; prints, stores and prompts show no secret."""
    context = {
        "current_date": "2026-11-22",
        "api_bearer_token": TOKEN,
        "firebase_web_api_key": TOKEN,
        "firebase_email": "someone@example.org",
        "firebase_password": TOKEN,
        "api_headers": {"Authorization": f"Bearer {TOKEN}", "X-Tenant": "tenant-4711"},
        "api_base_url": "http://127.0.0.1:1",
        "nested": {"access_token": TOKEN, "n": 3},
    }
    request = AgentRequest.parse({"question": "q", "context": context})
    assert request.context == context
    for shown in (repr(request), str(request), request.model_dump_json(), format_context(request.context)):
        assert [secret for secret in (TOKEN, "someone@", "tenant-4711") if secret in shown] == []
        assert "2026-11-22" in shown and "http://127.0.0.1:1" in shown
    assert mask_secrets(context)["api_headers"] == {"Authorization": MASK, "X-Tenant": MASK}
    assert {TOKEN, f"Bearer {TOKEN}", "someone@example.org", "tenant-4711"} == set(list_secrets(context))


def test_a_prompt_shows_no_input_twice_and_cuts_long_values() -> None:
    shown = format_context({"system_prompt": "be brief", "earlier_results": "r", "plan": ["b", 1], "long": "x" * 9_000})
    assert shown.startswith('plan: ["b", 1]\nlong: xxx') and shown.endswith("x [cut]")
    assert "brief" not in shown and len(shown) < 3_000
    assert get_text({"system_prompt": " "}, "system_prompt") is None
    assert get_text({"system_prompt": "be brief"}, "system_prompt") == "be brief"


def test_a_value_of_2000_characters_is_shown_whole() -> None:
    assert format_context({"text": "x" * 2_000}) == f"text: {'x' * 2_000}"
    assert format_context({"text": "x" * 2_001}) == f"text: {'x' * 2_000} [cut]"


def test_a_secret_has_at_least_eight_characters_wherever_it_is() -> None:
    context = {
        "token": "12345678",
        "api_key": "1234567",
        "password": None,
        "cookie": 123456789,
        "inner": {"secret": "abcdefgh", "text": "a text that is no secret"},
        "api_headers": {"X-Long": "Bearer token-8c", "X-Short": "short"},
    }
    assert list_secrets(context) == ("12345678", "123456789", "Bearer token-8c", "abcdefgh", "token-8c")
    assert mask_secrets(context) == {
        "token": MASK,
        "api_key": MASK,
        "password": None,
        "cookie": MASK,
        "inner": {"secret": MASK, "text": "a text that is no secret"},
        "api_headers": {"X-Long": MASK, "X-Short": MASK},
    }
    assert list_secrets({"api_headers": "a-text-instead-of-headers"}) == ()
    assert mask_secrets({"api_headers": "a-text-instead-of-headers"}) == {"api_headers": "a-text-instead-of-headers"}


@pytest.mark.parametrize(
    "key",
    ["my_TOKEN", "passwd", "Password", "secret_x", "apikey", "API_KEY", "Authorization", "cookies", "credential"],
)
def test_a_key_is_known_as_a_secret_s_wherever_the_word_is_in_it(key: str) -> None:
    assert mask_secrets({key: "12345678"}) == {key: MASK} and list_secrets({key: "12345678"}) == ("12345678",)
    assert format_context({key: "12345678", "n": 1}) == "n: 1"


def test_a_context_is_shown_as_lines_of_text() -> None:
    context = {
        "text": "Zürich\nBern",
        "dict": {"ä": 1, "token": "12345678"},
        "none": None,
        "odd": {1},
        "system_prompt": "x",
        "earlier_results": "y",
        "masked": MASK,
    }
    assert format_context(context) == ('text: Zürich\nBern\ndict: {"ä": 1, "token": "***"}\nnone: null\nodd: "{1}"')
    assert format_context({}) == ""
    assert format_context({"list": ["x" * 1_996]}) == f'list: ["{"x" * 1_996}"]'
    assert format_context({"list": ["x" * 1_997]}) == f'list: ["{"x" * 1_997}" [cut]'


def test_a_text_of_the_context_is_text_and_not_empty() -> None:
    context = {"a": " x ", "b": "", "c": 3, "d": None}
    assert [get_text(context, key) for key in "abcde"] == [" x ", None, None, None, None]


def test_headers_are_secrets_whole_and_without_their_scheme() -> None:
    context = {"api_headers": {"A": "Basic dXNlcjpwYXNz second-part", "B": 123456789, "C": "Bearer"}}
    assert list_secrets(context) == ("123456789", "Basic dXNlcjpwYXNz second-part", "dXNlcjpwYXNz", "second-part")
    assert mask_secrets({"in": {"api_headers": {1: "x"}}}) == {"in": {"api_headers": {"1": MASK}}}
