"""Tests of what the run's process keeps for a sample that a worker answers."""

from dataclasses import dataclass
from typing import cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.execution.executors.channel import Channel, Reserved, Start
from eval.execution.executors.contract import Host, SampleHooks
from eval.execution.executors.places import ThisMachine
from eval.execution.executors.processes import MAX_DEATHS, Job, Pool, _Lease, _Worker, divide
from eval.execution.termination import StopController
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey, current_context


@dataclass
class TwoRequests:
    """A RunBudget."""

    in_flight: int = 0
    paid: int = 0

    def reserve(self) -> None:
        if self.in_flight == 2:
            if (context := current_context()) is not None:
                context.server_refusal = "the test ends"
            raise LimitReachedError("budget.lm_calls", "used up")
        self.in_flight += 1

    def settle(self, payment: Payment | None) -> None:
        self.in_flight -= 1
        self.paid += payment is not None


def test_a_request_is_reserved_before_it_is_sent_and_released_if_nobody_reports_its_outcome() -> None:
    budget, key = TwoRequests(), SampleKey("q1")
    job = Job((Sample("q1", "?", None), key), SampleContext, lambda key: {}, lambda record, calls: None)
    lease = _Lease(job, SampleContext(key, budget=budget))
    assert [lease.reserve(1), lease.reserve(2)] == [Reserved(1), Reserved(2)]
    assert lease.reserve(3) == Reserved(3, "budget.lm_calls", "used up", "the test ends")
    lease.settle(Payment(1, 0, 1, 0.1))
    assert (budget.in_flight, budget.paid, lease.reserve(4)) == (1, 1, Reserved(4))
    lease.release()
    lease.release()
    assert (budget.in_flight, budget.paid) == (0, 1)


@pytest.mark.parametrize(
    ("concurrency", "n_workers", "shares"), [(8, 2, [4, 4]), (7, 3, [3, 2, 2]), (2, 16, [1, 1]), (1, 1, [1])]
)
def test_workers_share_the_requests_at_once(concurrency: int, n_workers: int, shares: list[int]) -> None:
    assert divide(concurrency, n_workers) == shares


class ShownHost:
    """A Host."""

    name = "actor 7"


def test_only_a_worker_that_died_with_one_sample_alone_counts_against_it() -> None:
    ended: list[Record] = []
    pool = Pool(ThisMachine(1), Start({}, None, RunInfo(), "", ()), {}, SampleHooks(), StopController())
    jobs = [
        Job(
            (Sample(name, "?", None), SampleKey(name)),
            SampleContext,
            lambda key: {},
            lambda record, calls: ended.append(record),
        )
        for name in ("q1", "q2")
    ]

    def die(*held: Job) -> None:
        leases = {number: _Lease(job, SampleContext(job.pending[1])) for number, job in enumerate(held)}
        worker = _Worker(cast(Host, ShownHost()), cast(Channel, None), 2, leases, how_it_ended="signal SIGKILL")
        worker.is_ready = True
        pool._take_back(worker)

    for _ in range(2 * MAX_DEATHS):
        die(*jobs)
    for _ in range(MAX_DEATHS - 1):
        die(jobs[1])
    assert not ended
    pool.suspects.clear()
    die(jobs[1])
    (record,) = ended
    assert record.sample_id == "q2" and not pool.suspects
    assert record.error == "the worker process ended 3 times while it answered this question alone (signal SIGKILL)"
