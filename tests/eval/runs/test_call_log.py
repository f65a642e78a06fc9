import base64
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from eval.runs.caches import MaskedReplies, SharedCache
from eval.runs.call_log import CallLog
from eval.runs.record import Usage
from mas.runtime.sample_context import Payment, SampleKey
from tests.mas.llm.loopback import complete_with, serving

ODD = "a\ud83d\0\u202e\udfff'"


def said() -> tuple[list[str], Callable[[str], None]]:
    lines: list[str] = []
    return lines, lines.append


def test_each_draw_of_a_question_has_replies_of_its_own(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    samples = [SampleKey("q1"), SampleKey("q1", epoch=2), SampleKey("q1", attempt=2), SampleKey(ODD)]
    for number, sample in enumerate(samples):
        assert log.for_sample(sample).get("key") is None
        log.for_sample(sample).put("key", f"reply {number}")
    assert [log.for_sample(each).get("key") for each in samples] == [f"reply {n}" for n in range(4)]
    log.forget(SampleKey("q1"))
    assert [log.for_sample(each).get("key") for each in samples[:2]] == [None, "reply 1"]
    assert log.count() == 3
    log.close()


def test_replies_come_back_exactly_in_another_process_too(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    for key, reply in ((ODD, ODD), ("empty", ""), ("long", "é" * 1_000_000)):
        log.for_sample(SampleKey("q1")).put(key, reply)
    log.for_sample(SampleKey("q1")).put("empty", "replaced")
    log.close()
    again = CallLog(tmp_path / "calls.db")
    replies = again.for_sample(SampleKey("q1"))
    assert [replies.get(key) for key in (ODD, "empty", "long", "other")] == [ODD, "replaced", "é" * 1_000_000, None]
    again.close()


def test_what_a_question_was_charged_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    log.for_sample(SampleKey("q1")).put("key", "reply")
    log.pay(SampleKey("q1"), Payment(100, 40, 20, 0.25))
    log.pay(SampleKey("q1"), Payment(10, 0, 2, 0.5))
    log.pay(SampleKey(ODD, epoch=2), Payment())
    log.close()
    log = CallLog(tmp_path / "calls.db")
    known = {"lm_calls": 2, "input_tokens": 110, "cached_input_tokens": 40, "output_tokens": 22}
    assert log.sum_paid(SampleKey("q1")) == Usage(**known, cost_usd=0.75, known_cost_usd=0.75)
    assert log.sum_paid(SampleKey("q2")) == Usage()
    assert log.sum_total() == Usage(**{**known, "lm_calls": 3}, known_cost_usd=0.75, unknown_cost_calls=1)
    log.forget_finished({("q1", 1, 1)})
    assert log.sum_total() == Usage(lm_calls=1, unknown_cost_calls=1)
    log.close()
    assert (tmp_path / "calls.db").exists(), "money is no less worth keeping than replies"


def test_a_broken_log_is_set_aside_and_a_new_one_keeps_what_is_paid(tmp_path: Path) -> None:
    file = tmp_path / "calls.db"
    file.write_bytes(b"no database at all " * 100)
    lines, say = said()
    log = CallLog(file, say)
    for _ in range(2):  # the second time in the next session
        log.for_sample(SampleKey("q1")).put("key", "reply")
        log.pay(SampleKey("q1"), Payment(cost_usd=0.5))
        log.close()
        log = CallLog(file, say)
    assert log.for_sample(SampleKey("q1")).get("key") == "reply" and log.sum_total().known_cost_usd == 1.0
    assert (tmp_path / "calls.db.broken").read_bytes().startswith(b"no database")
    assert len(lines) == 1 and "is set aside as calls.db.broken; its calls go to the model again" in lines[0]
    log.close()


ASKING = """
import asyncio, sys
from pathlib import Path
import functools
from eval.execution.budget import Budget, BudgetSettings
from eval.runs.call_log import CallLog
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.sample_context import SampleContext, SampleKey, use_context

async def ask(sample):
    replies = log.for_sample(sample)
    account = Budget(BudgetSettings(metric_calls=None)).open_account(functools.partial(log.pay, sample))
    with use_context(SampleContext(sample, call_log=replies, budget=account)):
        for n in range(100_000):
            await lm.acall(f"question {n}")
            print(n, flush=True)

async def all_of_them():
    await asyncio.gather(*(ask(SampleKey(f"q{n}")) for n in range(4)))

log = CallLog(Path(sys.argv[1]))
lm = OpenAIChatModel("any", base_url=sys.argv[2]).create_lm(AgentModel())
asyncio.run(all_of_them())
"""


def test_a_killed_process_loses_the_payments_of_what_was_in_flight_at_most(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    with serving(complete_with("hello")) as server:
        command = [sys.executable, "-c", ASKING, str(path), server.base_url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            for _ in range(60):
                assert asking.stdout.readline(), "it ended by itself"
            os.kill(asking.pid, signal.SIGKILL)
        sent = len(server.requests)
    log = CallLog(path)
    replies, paid = log.count(), log.sum_total()
    log.close()
    assert 60 <= replies <= paid.lm_calls <= sent <= replies + 4, "no reply that is not paid for"
    assert (paid.input_tokens, paid.output_tokens) == (30 * paid.lm_calls, 4 * paid.lm_calls)


def _fill(path: Path, name: str) -> None:
    cache = SharedCache(path)
    for number in range(100):
        cache.put(f"{name}-{number}", f"reply {number}")
        cache.put("same", "the same")
    cache.close()


def test_processes_share_one_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "lm.db"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(path, name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    cache = SharedCache(path)
    kept = [cache.get(f"{name}-{number}") for name in "ab" for number in range(100)]
    assert kept == [f"reply {number}" for number in range(100)] * 2
    assert cache.get("same") == "the same"
    cache.close()


class Kept(dict[str, str]):
    def put(self, key: str, reply: str) -> None:
        self[key] = reply


def test_a_secret_is_kept_in_no_encoding_and_comes_back_in_its_own() -> None:
    kept, key = Kept(), 'canary-"key"/+1'
    replies = MaskedReplies(kept, lambda: [key])
    encoded = base64.b64encode(f"me:{key}".encode()).decode()
    said = json.dumps({"text": f"{key} {quote(key, safe='')} {quote(key)} {encoded}", "again": json.dumps(key)})
    replies.put("k", said)
    assert kept["k"].count("\x00secret") == 5 and "canary" not in kept["k"] and encoded[5:-4] not in kept["k"]
    assert replies.get("k") == said
