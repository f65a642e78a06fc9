import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from eval.runs.call_log import CallLog
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from mas.runtime.sample_context import Payment, SampleKey
from mas.runtime.security.redaction import build_redactor
from tests.mas.llm.loopback import complete_with, serving

ODD = "a\ud83d\0\u202e\udfff'"


def make(sample_id: str) -> Record:
    return Record("r", sample_id, 1, 1, "t", "Which?", None, None, None)


def test_each_draw_of_a_question_has_replies_of_its_own(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        log = CallLog(store)
        samples = [SampleKey("q1"), SampleKey("q1", epoch=2), SampleKey("q1", attempt=2), SampleKey(ODD)]
        for number, sample in enumerate(samples):
            assert log.for_sample(sample).get("key") is None
            log.for_sample(sample).put("key", f"reply {number}")
        assert [log.for_sample(each).get("key") for each in samples] == [f"reply {n}" for n in range(4)]
        store.write(make("q1"), forget=True)
        assert [log.for_sample(each).get("key") for each in samples] == [None, *(f"reply {n}" for n in (1, 2, 3))]


def test_replies_come_back_exactly_in_another_process_too(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        replies = CallLog(store).for_sample(SampleKey("q1"))
        for key, reply in ((ODD, ODD), ("empty", ""), ("long", "é" * 1_000_000)):
            replies.put(key, reply)
        replies.put("empty", "replaced")
    with RunStore(tmp_path / "run.db") as store:
        replies = CallLog(store).for_sample(SampleKey("q1"))
        kept = [replies.get(key) for key in (ODD, "empty", "long", "other")]
        assert kept == [ODD, "replaced", "é" * 1_000_000, None]


def test_what_a_question_was_charged_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        log = CallLog(store)
        log.for_sample(SampleKey("q1")).put("key", "reply")
        log.pay(SampleKey("q1"), Payment(100, 40, 20, 0.25))
        log.pay(SampleKey("q1"), Payment(10, 0, 2, 0.5))
        log.pay(SampleKey(ODD, epoch=2), Payment())
    with RunStore(tmp_path / "run.db") as store:
        log = CallLog(store)
        known = {"lm_calls": 2, "input_tokens": 110, "cached_input_tokens": 40, "output_tokens": 22}
        assert log.sum_paid(SampleKey("q1")) == Usage(**known, cost_usd=0.75, known_cost_usd=0.75)
        assert log.sum_paid(SampleKey("q2")) == Usage()
        assert log.sum_total() == Usage(**{**known, "lm_calls": 3}, known_cost_usd=0.75, unknown_cost_calls=1)
        store.write(make("q1"), forget=True)
        assert log.sum_total() == Usage(lm_calls=1, unknown_cost_calls=1)


def test_a_damaged_database_is_made_again_with_what_was_paid(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_info(RunInfo(run_id="r"))
        store.write(make("q1"))
        CallLog(store).for_sample(SampleKey("q2")).put("key", "reply")
        CallLog(store).pay(SampleKey("q2"), Payment(cost_usd=0.5))
    content = (tmp_path / "run.db").read_bytes()
    (tmp_path / "run.db").write_bytes(content.replace(b'"sample_id": "q1"', b'"sample_id": \xffq1"', 1))
    warnings: list[str] = []
    with RunStore(tmp_path / "run.db", warn=warnings.append) as store:
        assert store.is_restored and "made again from records.jsonl with 1 answers" in warnings[0]
        assert CallLog(store).for_sample(SampleKey("q2")).get("key") == "reply"
        assert CallLog(store).sum_total().known_cost_usd == 0.5


def test_calls_that_cannot_be_kept_stop_nothing(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own stand-in for ENOSPC
        log = CallLog(store)
        log.for_sample(SampleKey("q1")).put("key", "reply" * 100_000)
        assert log.for_sample(SampleKey("q1")).get("key") is None


ASKING = """
import asyncio, sys
from pathlib import Path
import functools
from eval.execution.budget import Account, Budget, BudgetSettings
from eval.runs.call_log import CallLog
from eval.runs.store import RunStore
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.sample_context import SampleContext, SampleKey, use_context

async def ask(sample):
    replies = log.for_sample(sample)
    account = Account(Budget(BudgetSettings()), functools.partial(log.pay, sample))
    with use_context(SampleContext(sample, call_log=replies, budget=account)):
        for n in range(100_000):
            await lm.acall(f"question {n}")
            print(n, flush=True)

async def all_of_them():
    await asyncio.gather(*(ask(SampleKey(f"q{n}")) for n in range(4)))

log = CallLog(RunStore(Path(sys.argv[1])))
lm = OpenAIChatModel("any", base_url=sys.argv[2]).create_lm(AgentModel())
asyncio.run(all_of_them())
"""


def test_a_killed_process_loses_the_payments_of_what_was_in_flight_at_most(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with serving(complete_with("hello")) as server:
        command = [sys.executable, "-c", ASKING, str(path), server.base_url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            for _ in range(60):
                assert asking.stdout.readline(), "it ended by itself"
            os.kill(asking.pid, signal.SIGKILL)
        sent = len(server.requests)
    with RunStore(path) as store:
        log = CallLog(store)
        replies = sum(len(log.read_replies(SampleKey(f"q{n}"))) for n in range(4))
        paid = log.sum_total()
    assert 60 <= replies <= paid.lm_calls <= sent <= replies + 4, "no reply that is not paid for"
    assert (paid.input_tokens, paid.output_tokens) == (30 * paid.lm_calls, 4 * paid.lm_calls)


def test_a_reply_with_a_secret_in_any_encoding_is_not_kept(tmp_path: Path) -> None:
    key = 'canary-"key"/+1'
    encoded = base64.b64encode(f"me:{key}".encode()).decode()
    said = [key, quote(key, safe=""), quote(key), encoded, json.dumps({"again": json.dumps(key)}), "nothing"]
    with RunStore(tmp_path / "run.db", redact=build_redactor((key,))) as store:
        replies = CallLog(store).for_sample(SampleKey("q1"))
        for text in said:
            replies.put(text, f"said: {text}")
        assert [replies.get(text) for text in said] == [None] * 5 + ["said: nothing"]
