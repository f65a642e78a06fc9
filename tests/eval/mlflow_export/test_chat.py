from eval.mlflow_export.traces import to_chat_reply, to_chat_request
from tests.eval.mlflow_export.records import REPLY, SENT


def test_parts_become_messages_that_the_page_shows_as_a_conversation() -> None:
    shown = to_chat_request(SENT)
    assert [message["role"] for message in shown["messages"]] == ["system", "user", "assistant", "tool"]
    assert [message["content"] for message in shown["messages"]] == ["Be brief.", "What is 17 * 23?", "", "391"]
    called = shown["messages"][2]["tool_calls"]
    assert called == [
        {"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": '{"e": "17*23"}'}}
    ]
    assert shown["messages"][3]["tool_call_id"] == "c1"
    assert shown["tools"][0]["function"]["name"] == "calculator"
    assert shown["config"] == {"temperature": 0.0}


def test_the_reply_is_a_choice() -> None:
    message = {"role": "assistant", "content": "391"}
    expected = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assert to_chat_reply(REPLY, "stop") == expected
    assert to_chat_reply({}, None) == {}


def test_every_kind_of_part_leaves_a_text() -> None:
    parts = [
        {"type": "text", "text": "See"},
        {"type": "image", "media_type": "image/png", "data": "[9 characters of base64]"},
        {"type": "data", "value": {"a": 1}},
    ]
    (message,) = to_chat_request({"messages": [{"role": "user", "parts": parts}]})["messages"]
    assert message["content"] == 'See\n[image image/png: [9 characters of base64]]\n{"type": "data", "value": {"a": 1}}'
    thoughts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "So."}]
    (choice,) = to_chat_reply({"role": "assistant", "parts": thoughts}, "stop")["choices"]
    assert choice["message"] == {"role": "assistant", "content": "So.", "reasoning_content": "hm"}
    assert to_chat_request({"messages": [{"role": "developer", "content": "Obey."}]})["messages"][0]["role"] == "system"


def test_what_is_neither_message_nor_tool_stays_and_a_tool_of_another_kind_too() -> None:
    assert to_chat_request({}) == {"messages": []}
    search = {"type": "web_search", "limit": 3}
    assert to_chat_request({"system": [{"text": "a"}, {"text": "b"}], "tools": [search], "messages": None, "n": 2}) == {
        "messages": [{"role": "system", "content": "a\nb"}], "tools": [search], "n": 2
    }  # fmt: skip
    assert to_chat_request({"tools": [{"type": "function", "name": "f"}]})["tools"] == [
        {"type": "function", "function": {"name": "f"}}
    ]


def test_a_message_of_several_results_and_calls_becomes_several_messages() -> None:
    parts = [
        {"type": "tool_result", "id": 5, "content": None},
        {"type": "tool_result"},
        {"type": "tool_call", "id": 7, "name": 8, "input": "raw"},
        {"type": "tool_call"},
    ]
    assert to_chat_request({"messages": [{"parts": parts}, {"role": "user", "parts": []}, {"content": "x"}]}) == {
        "messages": [
            {"role": "tool", "tool_call_id": "5", "content": ""},
            {"role": "tool", "tool_call_id": "", "content": ""},
            {"role": "user", "content": "", "tool_calls": [
                {"id": "7", "type": "function", "function": {"name": "8", "arguments": "raw"}},
                {"id": "", "type": "function", "function": {"name": "", "arguments": "{}"}},
            ]},
            {"role": "user", "content": "x"},
        ]
    }  # fmt: skip


def test_a_reply_of_thoughts_alone_or_of_nothing_is_a_choice_too() -> None:
    thought = to_chat_reply({"role": "assistant", "parts": [{"type": "thinking", "text": "hm"}]}, None)
    assert thought["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "", "reasoning_content": "hm"}, "finish_reason": None}
    ]
    assert to_chat_reply({"parts": []}, "stop")["choices"][0]["message"] == {"role": "assistant", "content": ""}
    assert to_chat_reply({"text": "raw"}, "stop") == {"text": "raw"}


def test_media_are_described_by_where_they_are_and_texts_are_not_escaped() -> None:
    def content(part: object) -> str:
        return str(to_chat_request({"messages": [{"role": "user", "parts": [part]}]})["messages"][0]["content"])

    assert content({"type": "image", "media_type": "image/png", "url": "u" * 201}) == f"[image image/png: {'u' * 200}]"
    assert content({"type": "audio", "media_type": "a/b", "path": "p"}) == "[audio a/b: p]"
    assert content({"type": "audio", "media_type": "a/b"}) == "[audio a/b: ]"
    assert content({"type": "image", "media_type": "x", "data": "d", "url": "u"}) == "[image x: d]"
    assert content({"type": "data", "text": 5, "é": object}) == '{"type": "data", "text": 5, "é": "<class \'object\'>"}'
    call = {"type": "tool_call", "input": {"é": object}}
    (message,) = to_chat_request({"messages": [{"parts": [call]}]})["messages"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"é": "<class \'object\'>"}'
