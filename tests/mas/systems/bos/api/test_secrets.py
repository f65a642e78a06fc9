"""Canaries: whatever the API and the model repeat, no secret of the API is in anything that a run leaves behind."""

import json
from pathlib import Path

import pytest

from tests.eval.command_line import EvalCommand, dataset, question
from tests.servers.firebase import API_KEY, EMAIL, PASSWORD, FirebaseServer
from tests.servers.function_llm import AskedFields, function_llm
from tests.servers.loopback import running
from tests.servers.orders_api import DOCUMENTATION, OrdersApi

PLAN = {"make_request": True, "path": "/account", "reason": f"as {EMAIL} with {PASSWORD}"}


def repeat(asked: AskedFields) -> dict[str, object]:
    """Reply as a model that repeats everything it was shown."""
    if "chosen_agents" in asked.outputs:
        return {"chosen_agents": json.dumps(["api_docs"]), "needs": "{}", "rationale": "it asks", "confidence": "1"}
    if "plan" in asked.outputs:
        return {"plan": json.dumps(PLAN)}
    said = " ".join(asked.inputs.values())
    return dict.fromkeys(asked.outputs, said)


def test_d24_no_secret_is_in_the_run_its_logs_or_a_prompt(
    eval_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIREBASE_WEB_API_KEY", API_KEY)
    monkeypatch.setenv("FIREBASE_EMAIL", EMAIL)
    monkeypatch.setenv("FIREBASE_PASSWORD", PASSWORD)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "docs.json").write_text(json.dumps(DOCUMENTATION))
    with (
        running(FirebaseServer()) as firebase,
        running(OrdersApi(firebase.accepts)) as api,
        function_llm(repeat) as llm,
    ):
        model = ("model=openai_compatible", f"model.base_url={llm.base_url}", "model.api_key_env=null")
        where = (f"system.api.documentation={tmp_path / 'docs.json'}", f"system.api.base_url={api.base_url}")
        monkeypatch.setenv("FIREBASE_AUTH_EMULATOR_HOST", firebase.base_url.removeprefix("http://"))
        data = dataset(tmp_path / "data", question("q1", "What is the balance of the account?", "77"))
        finished = eval_command("system=bos", *model, *where, *data)
    assert finished.code == 0, finished.err
    assert [each.headers["authorization"] for each in api.requests] == ["Bearer id-token-number-0001"]
    assert "balance" in json.dumps(finished.records["q1"]), "the model repeated the API's reply"
    secrets = [API_KEY, EMAIL, PASSWORD, "id-token-number-0001", "refresh-token-number-0001"]
    left = [path for path in finished.folder.rglob("*") if path.is_file()]
    assert {"run.db", "multi_agent_system.log"} <= {path.name for path in left}
    found = {(path.name, each) for path in left for each in secrets if each.encode() in path.read_bytes()}
    assert found == set()
    said = finished.out + finished.err + b"".join(llm.bodies).decode()
    assert not [each for each in secrets if each in said]
