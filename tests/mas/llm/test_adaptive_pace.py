import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mas.llm.adaptive_pace import LENGTH, MIN_PACE, AdaptivePace
from tests.bench.limiter_simulation import Client, measure_rise, simulate
from tests.servers.refusals import Bucket, Chance, Changing, Closed, Shared, Window

PER_SECOND = 50.0


def refuse(pace: AdaptivePace, count: int, retry_after: float | None, now: float) -> None:
    """Send requests, all of which are refused at once."""
    for _ in range(count):
        pace.record_rate_limit(pace.record_send(now), retry_after, now)


def begun() -> AdaptivePace:
    pace = AdaptivePace()
    pace.begin(100.0)
    return pace


def test_one_refusal_delays_no_other_request():
    pace = begun()
    refuse(pace, 1, 30.0, 100.0)
    assert pace.next_send_at <= 100.0
    assert [entry["reason"] for entry in pace.history] == ["start"]


def test_refusals_in_a_row_stop_all_requests_until_a_probe_gets_through():
    pace = begun()
    refuse(pace, 3, None, 100.0)
    assert pace.next_send_at == pytest.approx(100.25)
    pace.record_send(100.25)
    assert pace.next_send_at >= 100.35  # whether the probe is refused
    pace.record_send(100.4)
    assert [entry["reason"] for entry in pace.history] == ["start", "rate limit", "open again"]


def test_a_refusal_that_took_long_does_not_keep_all_others_waiting():
    pace = begun()
    for each in [pace.record_send(100.0) for _ in range(3)]:
        pace.record_rate_limit(each, None, 130.0)
    pace.record_send(pace.next_send_at)
    assert pace.next_send_at <= 131.5


@pytest.mark.parametrize(("accepted", "pace"), [(8, 20.0), (9, 10 / 9.4)])
def test_the_rate_before_the_first_closure_is_kept_if_it_is_that_of_ten_requests(accepted, pace):
    """The probe is the tenth. A server that was closed from the start is asked 20 times a second."""
    opening = begun()
    for second in range(accepted):
        opening.record_send(100.0 + second)
    refuse(opening, 3, None, 100.0 + accepted)
    opening.record_send(100.25 + accepted)
    opening.record_send(100.4 + accepted)
    assert opening.history[-1]["reason"] == "open again"
    assert opening.history[-1]["pace"] == pytest.approx(pace, abs=0.005)


@pytest.mark.parametrize(("retry_after", "pause"), [(7.0, 7.0), (3600.0, 60.0), (0.0, 0.25), (None, 0.25)])
def test_a_refused_probe_is_followed_by_the_pause_that_the_server_names_up_to_a_minute(retry_after, pause):
    pace = begun()
    refuse(pace, 3, retry_after, 100.0)
    refuse(pace, 1, retry_after, 100.25)
    assert pace.hold_until == pytest.approx(100.25 + pause)


def test_however_long_it_is_closed_the_server_is_asked_again_every_second():
    pace, now, sent = begun(), 100.0, []
    refuse(pace, 3, None, now)
    for _ in range(50):
        now = pace.next_send_at
        sent.append(now)
        refuse(pace, 1, None, now)
    assert 0.25 <= sent[1] - sent[0] <= 0.51
    assert sent[-1] - sent[-2] == pytest.approx(1.0)


def test_refusals_of_requests_that_were_sent_before_a_decision_change_nothing():
    pace = begun()
    sent = [pace.record_send(100.0) for _ in range(32)]
    for each in sent:
        pace.record_rate_limit(each, None, 100.2)
    assert [entry["reason"] for entry in pace.history] == ["start", "rate limit"]
    assert pace.hold_until == pytest.approx(100.45)


def test_a_server_error_pauses_the_growth_and_cuts_nothing():
    pace = begun()
    before = pace.pace
    pace.record_server_error(100.0)
    while pace.next_send_at < 109.0:
        pace.record_send(max(100.0, pace.next_send_at))
    assert pace.pace == before
    while pace.next_send_at < 112.0:
        pace.record_send(pace.next_send_at)
    assert pace.pace > before


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from("sraf"), st.integers(0, 40)), max_size=200))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_the_pace_stays_in_its_range_and_sending_is_never_stopped_for_good(events):
    pace, now, sent = begun(), 100.0, []
    for seconds, kind, number in events:
        now += seconds
        if kind == "s":
            now = max(now, pace.next_send_at)
            sent.append(pace.record_send(now))
        elif kind == "f":
            pace.record_server_error(now)
        elif sent:
            pace.record_rate_limit(sent.pop(-1 - number % len(sent)), 1.0 if kind == "r" else None, now)
        assert MIN_PACE <= pace.pace < float("inf")
        assert 0.02 <= pace.background <= 1.0
        assert pace.next_send_at <= now + 60.0


def test_the_history_is_bounded_keeps_its_start_and_is_json():
    pace, now = begun(), 100.0
    for _ in range(LENGTH):
        now += 20.0
        pace.record_server_error(now)
    history = json.loads(json.dumps(pace.history))
    assert len(history) == LENGTH
    assert history[0] == {"seconds": 0.0, "pace": 500.0, "reason": "start"}


# The simulation's rows, shorter than in the bench (docs/explanation/rate-limits.md has all of them).


@pytest.mark.parametrize("share", [0.02, 0.1, 0.33])
@pytest.mark.parametrize("says_when", [True, False])
def test_refusals_by_chance_do_not_collapse_the_rate(share, says_when):
    calls = 3_000
    plain, ours = (
        simulate(client, Chance(share, draw=random.Random(1)), calls=calls, says_when=says_when)
        for client in (Client.PLAIN, Client.LIMITER)
    )
    assert ours.good == calls
    assert plain.seconds / ours.seconds >= 0.55


@pytest.mark.parametrize(("share", "at_least"), [(0.2, 0.8), (0.33, 0.5)])
def test_a_slow_model_with_refusals_by_chance_is_hardly_slowed_down(share, at_least):
    plain, ours = (
        simulate(client, Chance(share, draw=random.Random(1)), calls=300, workers=16, latency_seconds=3.0)
        for client in (Client.PLAIN, Client.LIMITER)
    )
    assert plain.seconds / ours.seconds >= at_least


@pytest.mark.parametrize("says_when", [True, False])
@pytest.mark.parametrize(
    "rule",
    [(Bucket, 50, 50), (Bucket, 50, 2), (Bucket, 250, 250), (Window, 50, 1), (Window, 50, 10), (Window, 50, 60)],
    ids=["bucket", "tiny bucket", "fast bucket", "1 s", "10 s", "60 s"],
)
def test_a_limit_is_used_and_little_is_wasted(rule, says_when):
    kind, per_second, size = rule
    ran = simulate(Client.LIMITER, kind(per_second, size), until=6_000 / per_second, says_when=says_when)
    assert ran.good / ran.seconds >= 0.88 * per_second
    assert ran.refused <= 0.04 * ran.good


@pytest.mark.parametrize("says_when", [True, False])
def test_the_pace_does_not_grow_into_the_end_of_each_window(says_when):
    ran = simulate(Client.LIMITER, Window(50, 10), until=120.0, says_when=says_when, refusal_seconds=0.2)
    assert ran.good / ran.seconds >= 0.9 * PER_SECOND
    assert ran.refused <= 0.08 * ran.good


@pytest.mark.parametrize("rise_at", [33.0, 41.0])
def test_a_fivefold_rise_of_the_limit_is_used_within_30_seconds(rise_at):
    assert measure_rise(Changing(((0, 10), (rise_at, 50)))) <= 30.0


def test_a_limit_that_falls_and_rises_wastes_little():
    ran = simulate(Client.LIMITER, Changing(((0, 50), (20, 10), (40, 50))), until=60.0)
    assert ran.good >= 0.85 * 2_200
    assert ran.refused <= 0.15 * ran.good


def test_refusals_by_chance_and_a_limit_together():
    ran = simulate(Client.LIMITER, Chance(0.1, Bucket(50, 50), draw=random.Random(2)), until=120.0)
    assert ran.good / ran.seconds >= 0.85 * PER_SECOND
    assert ran.refused <= 0.2 * ran.good


def test_a_neighbour_does_not_take_the_fair_share():
    ran = simulate(Client.LIMITER, Shared(Bucket(50, 50), 40, draw=random.Random(1)), until=120.0)
    assert ran.good / ran.seconds >= 5.0


def test_a_neighbour_who_sends_four_times_the_limit_leaves_a_quarter_of_the_fair_share():
    ran = simulate(Client.LIMITER, Shared(Bucket(50, 50), 200, draw=random.Random(2)), until=120.0)
    assert ran.good / ran.seconds >= 2.5


def test_a_server_that_was_closed_at_first_is_used_once_it_opens():
    ran = simulate(Client.LIMITER, Closed(5.0, Bucket(50, 50)), calls=1_000)
    assert ran.seconds < 5 + 22
    assert ran.refused <= 80
