from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from eval.mlflow_export.traces import build_trace, derive_trace_id
from eval.mlflow_export.tracked_run import TrackedRun
from eval.runs.record import Record
from tests.eval.mlflow_export import records

Opened = Callable[..., TrackedRun]
Make = Callable[..., Record]
_runs = count()


@pytest.fixture
def a_record() -> Make:
    return partial(records.a_record, run_id=f"counted {next(_runs)}")


def send(run: TrackedRun, *kept: Record) -> Counter[str]:
    return run.send([build_trace(each, run.experiment_id, run.run_id) for each in kept])


@pytest.mark.slow
def test_mlflow_counts_what_one_run_was_sent(opened: Opened, a_record: Make) -> None:
    mine, other = opened("run-1"), opened("run-2")
    assert mine.count() == Counter()
    sent = send(mine, a_record("q1"), a_record("q2", rounds=2), a_record("q1", attempt=2, error="it broke"))
    send(other, records.a_record("q1", run_id="another"))
    assert mine.count() == sent == Counter(traces=3, spans=40)
    assert mine.read_trace_ids() == {
        derive_trace_id(a_record(name, attempt=n), mine.experiment_id) for name, n in [("q1", 1), ("q2", 1), ("q1", 2)]
    }


def test_a_trace_without_its_spans_is_seen(opened: Opened, a_record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = opened()
    send(run, a_record("q1"))

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.tracing, "log_spans", crash)
    with pytest.raises(KeyboardInterrupt):
        send(run, a_record("q2"))
    assert run.count() == Counter(traces=2, spans=11)


def test_a_number_that_a_resumed_run_does_not_have_any_more_is_replaced(opened: Opened) -> None:
    run = opened()
    run.write_page({}, {}, {"accuracy": 0.5, "errors_by_class/infrastructure": 3.0})
    for theirs in ("rouge", "review/agreement"):  # added by somebody else
        run.client.log_metric(run.run_id, theirs, 0.25)
    run.write_page({}, {}, {"accuracy": 0.75})
    shown = run.client.get_run(run.run_id).data.metrics
    assert (shown["accuracy"], str(shown["errors_by_class/infrastructure"])) == (0.75, "nan")
    assert (shown["rouge"], shown["review/agreement"]) == (0.25, 0.25)
