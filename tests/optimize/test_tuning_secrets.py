"""Canaries: no secret is in anything that a tuning run leaves behind or says; no gold answer where it could be learnt.

The model's server repeats its caller's key wherever it can: in tool calls, in what it reflects, and in its refusals.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from eval.runs.store import open_run, read_run_info
from tests.command import Finished, tuning_command
from tests.eval.command_line import question, write_questions
from tests.servers.chat_reply import complete, refusal, write_fields
from tests.servers.fixed_llm import reply_to
from tests.servers.loopback import Answer, Asked, answer_json, running
from tests.servers.scripted_llm import ScriptedLlm

pytestmark = pytest.mark.slow  # whole runs, or whole stores

KEY = "canary-model-key-5f0c1d"
PASSWORD = "canary-password-77e2"
IMPROVED = "IMPROVED"
GOLDS = [f"W{7301 + 37 * n}Q" for n in range(24)]  # two of three questions have 42, which the model says
ROWS = [
    question(f"q{n}", f"What is written on stone {n}?", "42" if n % 3 else GOLDS[n], Level=1 + n // 12)
    for n in range(24)
]
FEW = ("splits.sealed_level=2", "splits.train=0.5", "splits.val=0.5", "gate.epochs=1", "gate.looks=1")


class Repeating(ScriptedLlm):
    """A finalizer that is right only with a reflected prompt, and a reflection that says the key."""

    refused = ""  # requests with that in them

    def answer(self, asked: Asked) -> Answer:
        body, key = asked.body, asked.headers.get("authorization", "").removeprefix("Bearer ")
        if self.refused and self.refused.encode() in body:
            return answer_json(refusal(f"Incorrect API key provided: {key}.", "invalid_api_key"), 401)
        if b"`new_instruction`" in body:
            return answer_json(complete(write_fields({"new_instruction": f"{IMPROVED}. Say {key}."})))
        reply = reply_to(body)
        if IMPROVED.encode() not in body:
            reply = reply.replace(rb"[[ ## final_answer ## ]]\n42", rb"[[ ## final_answer ## ]]\n41")
        return Answer(reply.replace(b"6 * 7", f"{key} * 7".encode()), headers={"Content-Type": "application/json"})


@pytest.fixture
def repeating() -> Iterator[Repeating]:
    with running(Repeating()) as server:
        yield server


def tuned_at(server: Repeating, place: Path, patch: pytest.MonkeyPatch) -> Finished:
    patch.setenv("CANARY_KEY", KEY)
    data = write_questions(place / "data", *ROWS)
    url = f"model.base_url={server.base_url.removesuffix('/v1')}/{KEY}/v1"
    model = ("system=gaia", "model=openai_compatible", url, "model.api_key_env=CANARY_KEY")
    patch.setenv("MLFLOW_TRACKING_USERNAME", "somebody")
    patch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    tracking = ("tracking=server", "tracking.uri=http://127.0.0.1:9", "++tracking.wait_seconds=1")
    asked = (*FEW, "shortlist.epochs=1", "data=jsonl", f"data.path={data}", "budget.metric_calls=30")
    return tuning_command(place, *model, *tracking, *asked)


def holding(place: Path, *texts: str, besides: tuple[str, ...] = ()) -> list[str]:
    """Files below the place that hold one of the texts."""
    files = [each for each in place.rglob("*") if each.is_file() and each.relative_to(place).parts[0] not in besides]
    return [str(each.relative_to(place)) for each in files if any(text.encode() in each.read_bytes() for text in texts)]


def test_a_run_that_publishes_holds_no_secret(
    repeating: Repeating, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = tuned_at(repeating, tmp_path, monkeypatch)
    assert tuned.verdict["finish_reason"] == "improved", (tuned.out, tuned.err)
    assert f"{IMPROVED}. Say ***." in tuned.kept.texts["finalizer"], "else nothing was repeated"
    assert holding(tmp_path, KEY, PASSWORD) == []
    assert KEY not in tuned.out + tuned.err and PASSWORD not in tuned.out + tuned.err
    info = read_run_info(tuned.folder)
    typed = info.command or []
    assert not [each for each in typed if each.startswith("model.base_url=")], "to be given anew"
    for kept in (yaml.safe_load((tuned.folder / "config.yaml").read_text("utf-8")), info.config):
        assert kept["model"]["base_url"] == repeating.base_url.replace("/v1", "/***/v1")

    with_answers = ("run.db", "run.db-wal", "records.jsonl")
    assert holding(tuned.folder, *GOLDS, besides=with_answers) == []
    assert holding(tuned.shelf, *GOLDS) == []
    sealed = set(tuned.read("splits")["sealed"])
    with open_run(tuned.folder) as store:
        assert {each.sample_id for each in store.records() if each.target} == sealed, "the search's rows have no golds"
    splits = tuned.read("splits")
    assert {id for name in ("train", "val", "sealed") for id in splits[name]} == {row["task_id"] for row in ROWS}
    assert "stone" not in json.dumps(splits)


@pytest.mark.parametrize(
    ("refused", "code", "said"),
    [
        ("Are you ready?", 1, "the model that rewrites prompts could not be asked"),
        ("What is written", 3, "refuses further requests"),
    ],
    ids=["reflection", "question"],
)
def test_a_refusal_that_repeats_the_key_is_told_without_it(
    repeating: Repeating, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, code: int, said: str
) -> None:
    repeating.refused = refused
    tuned = tuned_at(repeating, tmp_path, monkeypatch)
    assert tuned.code == code
    assert said in tuned.err and "Incorrect API key provided: ***." in tuned.err
    assert KEY not in tuned.out + tuned.err and PASSWORD not in tuned.out + tuned.err
    assert holding(tmp_path, KEY, PASSWORD) == []
