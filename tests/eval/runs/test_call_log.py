import base64
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from eval.config.evaluation import CacheSettings
from eval.runs import call_log
from eval.runs.call_log import (
    CallLog,
    MaskedReplies,
    SampleResults,
    SharedCache,
    Signer,
    ToolCache,
    open_caches,
    remove_tool_results,
)
from eval.runs.record import Usage
from mas.runtime.errors import UserError
from mas.runtime.sample_context import KeptResult, Payment, SampleKey
from tests.mas.llm.loopback import complete_with, serving

ODD = "a\ud83d\0\u202e\udfff'"
NOTHING = b"no database " * 1000


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


def test_the_file_goes_when_nothing_is_left_in_it(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    log.for_sample(SampleKey("q1")).put("key", "reply")
    log.close()
    assert (tmp_path / "calls.db").exists()
    log = CallLog(tmp_path / "calls.db")
    log.forget(SampleKey("q1"))
    log.close()
    log.close()
    assert list(tmp_path.iterdir()) == []


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


def test_replies_of_questions_that_are_stored_are_forgotten(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    for sample in (SampleKey("q1"), SampleKey("q1", epoch=2), SampleKey(ODD), SampleKey("q2", attempt=2)):
        log.for_sample(sample).put("key", "reply")
    log.forget_finished({("q1", 1, 1), (ODD, 1, 1), ("q2", 1, 1)})
    assert log.for_sample(SampleKey("q1", epoch=2)).get("key") == "reply"
    assert log.for_sample(SampleKey("q2", attempt=2)).get("key") == "reply"
    assert log.count() == 2
    log.close()


WRITER = """
import sys
from pathlib import Path
from eval.runs.call_log import CallLog
from mas.runtime.sample_context import SampleKey
replies = CallLog(Path(sys.argv[1])).for_sample(SampleKey("q1"))
for n in range(1_000_000):
    replies.put(str(n), "x" * 5000)
    print(n, flush=True)
"""


def test_every_reply_outlives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(500):
            last = writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
    log = CallLog(path)
    assert all(log.for_sample(SampleKey("q1")).get(str(n)) == "x" * 5000 for n in range(int(last) + 1))
    log.close()


ASKING = """
import asyncio, sys
from pathlib import Path
from eval.execution.budget import Budget, SampleBudget
from eval.runs.call_log import CallLog
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.sample_context import SampleContext, SampleKey, use_context

async def ask(sample):
    replies = log.for_sample(sample)
    with use_context(SampleContext(sample, call_log=replies, budget=SampleBudget(sample, log, Budget(None, print)))):
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


def test_a_broken_log_is_set_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    path.write_bytes(NOTHING)
    lines, warn = said()
    log = CallLog(path, warn)
    log.for_sample(SampleKey("q1")).put("key", "reply")
    assert log.for_sample(SampleKey("q1")).get("key") == "reply"
    log.close()
    (line,) = lines
    assert "calls.db cannot be used (file is not a database); it is set aside as calls.db.broken" in line
    assert (tmp_path / "calls.db.broken").read_bytes() == NOTHING


def test_a_log_that_breaks_while_it_is_used_costs_its_replies_only(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    log = CallLog(path)
    for number in range(200):
        log.for_sample(SampleKey("q1")).put(str(number), "x" * 5000)
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    lines, warn = said()
    log = CallLog(path, warn)
    replies = log.for_sample(SampleKey("q1"))
    assert replies.get("17") is None
    replies.put("17", "anew")
    assert replies.get("17") == "anew"
    log.close()
    assert len(lines) == 1


@pytest.mark.parametrize("made", [CallLog, SharedCache])
def test_where_no_file_can_be_made_there_are_no_replies_and_it_is_said_once(
    tmp_path: Path, made: Callable[..., CallLog | SharedCache]
) -> None:
    (tmp_path / "file").touch()
    lines, warn = said()
    log = made(tmp_path / "file" / "calls.db", warn)
    replies = log.for_sample(SampleKey("q1")) if isinstance(log, CallLog) else log
    for number in range(3):
        replies.put(str(number), "reply")
        assert replies.get(str(number)) is None
    log.close()
    (line,) = lines
    assert "cannot be used" in line
    assert "go to the model again" in line


def test_a_full_disk_keeps_what_is_there(tmp_path: Path) -> None:
    lines, warn = said()
    log = CallLog(tmp_path / "calls.db", warn)
    replies = log.for_sample(SampleKey("q1"))
    replies.put("first", "reply")
    assert log._file._database is not None
    log._file._database.execute("PRAGMA max_page_count = 10")
    for number in range(3):
        replies.put(str(number), "x" * 100_000)
    assert (replies.get("0"), replies.get("first")) == (None, "reply")
    log.close()
    assert (len(lines), (tmp_path / "calls.db.broken").exists()) == (1, False)


def test_get_and_put_take_about_a_tenth_of_a_millisecond(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    replies = log.for_sample(SampleKey("q1"))
    began = time.process_time()
    for number in range(500):
        replies.put(str(number), "x" * 2000)
        replies.get(str(number))
    assert (time.process_time() - began) / 1000 < 0.001  # ten times as much as measured: other work goes on here
    log.close()


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


def test_a_cache_that_another_process_keeps_locked_is_a_miss_and_works_again_later(tmp_path: Path) -> None:
    path = tmp_path / "lm.db"
    lines, warn = said()
    cache = SharedCache(path, warn)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    cache.put("key", "lost")
    other.execute("ROLLBACK")
    other.close()
    assert cache.get("key") is None
    cache.put("key", "kept")
    assert cache.get("key") == "kept"
    cache.close()
    assert len(lines) == 1


def test_a_broken_shared_cache_is_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "lm.db").write_bytes(NOTHING)
    lines, warn = said()
    cache = SharedCache(tmp_path / "lm.db", warn)
    cache.put("key", "reply")
    assert cache.get("key") is None
    cache.close()
    assert (len(lines), (tmp_path / "lm.db").read_bytes()) == (1, NOTHING)


def test_a_reply_of_which_a_bit_went_bad_is_asked_for_again_and_says_so(tmp_path: Path) -> None:
    warnings: list[str] = []
    log = CallLog(tmp_path / "calls.db", warnings.append)
    replies = log.for_sample(SampleKey("q1"))
    replies.put("key", "the answer is 42")
    log._file.execute("UPDATE replies SET reply = CAST(replace(CAST(reply AS TEXT), '42', '43') AS BLOB)")
    assert (replies.get("key"), replies.get("key"), log.count()) == (None, None, 0)
    (warning,) = warnings
    assert warning.endswith("calls.db is damaged (its checksum is wrong); its call is made again, as of any other such")


def test_the_file_is_written_without_waiting_for_the_disk_or_for_others(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    settings = [log._file.execute(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "busy_timeout")]
    assert settings == ["wal", 1, 200]  # NORMAL


class Kept(dict[str, str]):
    def put(self, key: str, reply: str) -> None:
        self[key] = reply


def test_a_secret_is_not_kept_and_comes_back() -> None:
    kept, secrets = Kept(), ["canary-longer", "canary"]
    replies = MaskedReplies(kept, lambda: secrets)
    for said in ("your key canary-longer is fine", "canary, canary-longer", "nothing of it", ""):
        replies.put("k", said)
        assert "canary" not in kept["k"]
        assert replies.get("k") == said
    assert replies.get("another") is None


def test_a_secret_is_kept_in_no_encoding_and_comes_back_in_its_own() -> None:
    kept, key = Kept(), 'canary-"key"/+1'
    replies = MaskedReplies(kept, lambda: [key])
    encoded = base64.b64encode(f"me:{key}".encode()).decode()
    said = json.dumps({"text": f"{key} {quote(key, safe='')} {quote(key)} {encoded}", "again": json.dumps(key)})
    replies.put("k", said)
    assert kept["k"].count("\x00secret") == 5 and "canary" not in kept["k"] and encoded[5:-4] not in kept["k"]
    assert replies.get("k") == said


def test_another_key_later_is_put_where_the_first_one_was() -> None:
    kept = Kept()
    MaskedReplies(kept, lambda: ["first-key"]).put("k", "key first-key")
    assert MaskedReplies(kept, lambda: ["second-key"]).get("k") == "key second-key"


ONE, TWO = SampleKey("q1"), SampleKey("q1", 2, 3)


def test_what_is_paid_adds_up_field_by_field_and_an_unknown_cost_stays_unknown(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    assert log.sum_paid(ONE) == log.sum_total() == Usage()
    log.pay(ONE, Payment(100, 10, 20, cost_usd=0.5))
    log.pay(ONE, Payment(1, 2, 3, cost_usd=0.25))
    known = Usage(
        lm_calls=2, input_tokens=101, cached_input_tokens=12, output_tokens=23, cost_usd=0.75, known_cost_usd=0.75
    )
    assert log.sum_paid(ONE) == known
    log.pay(TWO, Payment(1, 0, 1))
    unknown = Usage(lm_calls=1, input_tokens=1, output_tokens=1, unknown_cost_calls=1)
    assert log.sum_paid(TWO) == unknown
    assert log.sum_total() == Usage(
        lm_calls=3, input_tokens=102, cached_input_tokens=12, output_tokens=24, known_cost_usd=0.75,
        unknown_cost_calls=1,
    )  # fmt: skip
    log.forget(ONE)
    assert (log.sum_paid(ONE), log.sum_total()) == (Usage(), unknown)
    log.forget_finished({("q1", 2, 3)})
    assert log.sum_total() == Usage()
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_replies_are_listed_by_sample_and_those_of_finished_ones_are_forgotten(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.db")
    for key in (ONE, TWO):
        for name in "ab":
            log.for_sample(key).put(f"{name}\ud800", f"{key.epoch}{name}")
    log.for_sample(ONE).put("a\ud800", "again")
    assert log.read_replies(ONE) == {"a\ud800": "again", "b\ud800": "1b"}
    assert (log.read_replies(SampleKey("q2")), log.count()) == ({}, 4)
    log.forget_finished({("q1", 1, 1), ("q9", 1, 1)})
    assert (log.read_replies(ONE), log.read_replies(TWO), log.count()) == ({}, {"a\ud800": "2a", "b\ud800": "2b"}, 2)
    log.close()
    assert (tmp_path / "calls.db").exists()
    assert (log.count(), log.read_replies(TWO)) == (0, {})


def test_a_reply_that_another_run_or_sample_wrote_is_refused_and_told_once(tmp_path: Path) -> None:
    lines, warn = said()
    log = CallLog(tmp_path / "calls.db", signer=Signer("mine"))
    for name in "abc":
        log.for_sample(ONE).put(name, f"reply\n{name}")
    assert log.for_sample(ONE).get("a") == "reply\na"
    log.close()
    other = CallLog(tmp_path / "calls.db", warn, Signer("other"))
    assert other.read_replies(ONE) == {}
    assert lines == [
        f"a reply in {tmp_path}/calls.db is damaged (this run did not write it); its call is made again, as of any "
        "other such"
    ]
    assert other.count() == 0, "they are not looked at again"
    other.close()


def test_replies_are_signed_as_they_are_once_the_user_trusts_them(tmp_path: Path) -> None:
    lines, warn = said()
    with_key, plain = Signer("mine"), CallLog(tmp_path / "calls.db", warn)
    plain.for_sample(ONE).put("a", "never signed\nbut of two lines")
    plain._file.execute("INSERT INTO replies VALUES('x', ?, ?)", b"k", b"damaged")
    plain.close()
    other = CallLog(tmp_path / "calls.db", warn, Signer("other"))
    other.for_sample(ONE).put("b", "signed\nby another")
    other.close()
    log = CallLog(tmp_path / "calls.db", warn, with_key)
    log.sign_all()
    assert log.read_replies(ONE) == {"a": "never signed\nbut of two lines", "b": "signed\nby another"}
    assert (log.count(), lines) == (3, [])
    log.close()


def test_without_a_key_of_this_installation_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer("mine")
    sealed = signer.seal("text", "place")
    assert signer.unseal(sealed, "place") == "text"
    for run_id, place in (("other", "place"), ("mine", "elsewhere")):
        with pytest.raises(ValueError, match="this run did not write it"):
            Signer(run_id).unseal(sealed, place)

    def fail(kind: str, content: str) -> str:
        raise UserError("no key")

    monkeypatch.setattr(call_log, "compute_mac", fail)
    unsigned = signer.seal("a\nb", "place")
    assert unsigned[8:] == b"\na\nb" and signer.unseal(unsigned, "elsewhere") == "a\nb"
    with pytest.raises(ValueError, match="this run did not write it"):
        signer.unseal(sealed, "place")


def test_a_result_among_the_replies_of_a_sample_stays_the_first() -> None:
    kept = Kept()
    results = SampleResults(kept)
    results.keep("k", KeptResult("first", ({"event": 1},), {"kind": "web"}))
    results.keep("k", KeptResult("second"))
    assert results.find("k") == KeptResult("first", ({"event": 1},), {"kind": "web"}, None)
    assert json.loads(kept["k"]) == {"returned": "first", "events": [{"event": 1}], "facts": {"kind": "web"}}


@pytest.mark.parametrize(
    ("lm", "tools", "files"),
    [
        ("off", "off", []),
        ("shared", "off", ["outputs/cache/lm.db"]),
        ("off", "shared", ["outputs/cache/tools.db"]),
        ("off", "run", ["run/tools.db"]),
        ("shared", "run", ["outputs/cache/lm.db", "run/tools.db"]),
    ],
)
def test_the_caches_of_a_run_are_those_that_it_is_to_use(
    lm: str, tools: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_log, "OUTPUTS", tmp_path / "outputs")
    (tmp_path / "run").mkdir()
    with open_caches(CacheSettings(lm=lm, tools=tools), tmp_path / "run", "r", str.upper) as caches:
        assert (caches.replies is None, caches.results is None) == (lm == "off", tools == "off")
        if caches.replies is not None:
            caches.replies.put("k", "reply")
            assert caches.replies.get("k") == "reply"
        if caches.results is not None:
            caches.results.keep("k", KeptResult("result"))
            assert caches.results.find("k") == KeptResult("RESULT")
    found = [each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*.db")]
    assert sorted(found) == files
    assert not list(tmp_path.rglob("*-wal")), "they are closed"
    with open_caches(CacheSettings(lm=lm, tools=tools), tmp_path / "run", "other", str) as caches:
        if tools == "shared" and caches.results is not None:
            result = caches.results.find("k")
            assert result is not None and result.other_run_at is not None
    remove_tool_results(tmp_path / "run")
    assert not (tmp_path / "run" / "tools.db").exists()


def test_facts_of_a_result_are_kept_without_secrets(tmp_path: Path) -> None:
    results = ToolCache.open_for_run(tmp_path, "r", lambda text: text.replace("secret", "***"))
    results.keep("k", KeptResult("a secret", ({"at": Path("x"), "text": "secret"},), {"of": ["secret"], "n": 1}))
    found = results.find("k")
    assert found == KeptResult("a ***", ({"at": "x", "text": "***"},), {"of": ["***"], "n": 1}, None)
    results.close()
