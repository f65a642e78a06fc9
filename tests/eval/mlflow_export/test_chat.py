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
