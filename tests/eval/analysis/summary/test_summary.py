import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from eval.analysis.statistics.intervals import Interval
from eval.analysis.summary.rare_numbers import Leaks
from eval.analysis.summary.summary import read_summary
from eval.reports.summary_table import list_notes
from eval.runs.record import Record, Usage
from eval.runs.run_info import TuningUse
from mas.simulation import SIMULATED_NOTICE
from tests.eval.stored_run import summarise_records

Make = Callable[..., Record]
FAILED = {"answer": None, "score": None, "error": "it broke", "error_class": "LMServerError"}


def test_questions_in_error_count_as_wrong(record: Make) -> None:
    records = [record("a", score=1.0), record("b"), record("c", **FAILED), record("d", **FAILED)]
    summary = summarise_records(records)
    assert (summary.n, summary.n_correct, summary.accuracy, summary.n_error) == (4, 1, 0.25, 2)
    assert summary.errors_by_class == {"LMServerError": 2}


def test_each_part_of_the_score_has_its_mean_over_the_answers_that_have_it(record: Make) -> None:
    """An answer in error is expected to have every part."""
    records = [
        record("a", score=1.0, parts={"answer": 1.0, "tables": 1.0}),
        record("b", score=0.6, parts={"answer": 1.0, "tables": 0.0}),
        record("c", score=0.0, parts={"answer": 0.0}),
        record("d", **FAILED),
    ]
    summary = summarise_records(records)
    assert {name: (part.value, part.n) for name, part in summary.parts.items()} == {
        "answer": (0.5, 4),
        "tables": (1 / 3, 3),
    }
    interval = summary.parts["tables"].ci95
    assert interval is not None and interval[0] < 1 / 3 < interval[1]
    assert (
        dict(list_notes(summary))["part tables"].startswith("33.3% (")
        and "of 3 answers" in dict(list_notes(summary))["part tables"]
    )


@pytest.mark.parametrize("parts", [{"format_loss": 1.0}, {"one": 1.0}, {"a": 7.0, "b": 0.5}])
def test_remarks_a_single_part_and_parts_that_are_no_shares_are_not_summarised(
    record: Make, parts: dict[str, float]
) -> None:
    assert summarise_records([record("a", score=1.0, parts=parts)]).parts == {}


def test_agents_that_have_tools_and_never_called_one_are_named(record: Make) -> None:
    tools = {"planner": [], "researcher": ["web"], "expert": ["calculator"]}
    asked = record("a", usage=Usage(lm_calls=3), seconds_by_agent={"planner": 1.0, "researcher": 2.0})
    said = dict(list_notes(summarise_records([asked], tools=tools)))["no tool was called"]
    assert said.startswith("researcher has tools"), "and not the expert, which never worked"
    called = summarise_records([asked, record("b", calls_by_tool={"calculator": 1})], tools=tools)
    assert "no tool was called" not in dict(list_notes(called))


@pytest.mark.parametrize("error_class", ["not_run", "quota_or_key"])
def test_while_answers_are_to_come_the_accuracy_is_all_that_is_said_of_the_whole(
    error_class: str, record: Make
) -> None:
    asked = [record(name, epoch=1, score=1.0) for name in "ab"]
    to_come = [record(name, epoch=2, **{**FAILED, "error_class": error_class}) for name in "ab"]
    summary = summarise_records([*asked, *to_come], stopped="x", epochs=2)
    assert (summary.incomplete, summary.accuracy, summary.n_correct) == (True, 0.5, 2)
    assert summary.n_not_run == (2 if error_class == "not_run" else 0)
    assert summary.accuracy_ci95 is summary.by_epochs is summary.by_level["1"].accuracy_ci95 is None
    failed = [record(name, epoch=2, **FAILED) for name in "ab"]
    whole = summarise_records([*asked, *failed], stopped="x", epochs=2)
    assert (whole.incomplete, whole.accuracy) == (False, 0.5), "errors are answers that came"
    assert whole.accuracy_ci95 and whole.by_epochs and whole.by_level["1"].accuracy_ci95


def test_what_stands_beside_a_floor_has_no_interval_either(record: Make) -> None:
    leak = [{"tool": "tavily_tool", "source": "x.org"}]
    records = [record("a", score=1.0, leaks=leak), *(record(name, score=1.0) for name in "bc")]
    to_come = record("d", **{**FAILED, "error_class": "not_run"})

    def leaks(*each: Record) -> Leaks:
        found = summarise_records(each).leaks
        assert found
        return found

    assert leaks(*records).without.ci95 is not None
    unfinished = leaks(*records, to_come)
    assert (unfinished.without.value, unfinished.without.ci95) == (pytest.approx(2 / 3), None)


def test_unscored_questions_stay_outside_the_accuracy(record: Make) -> None:
    unscored = record("b", target=None, score=None)
    summary = summarise_records([record("a", score=1.0), unscored])
    assert (summary.n, summary.accuracy, summary.n_unscored) == (2, 1.0, 1)
    alone = summarise_records([unscored])
    assert (alone.accuracy, alone.accuracy_ci95) == (None, None)


def test_the_last_attempt_is_scored_but_every_attempt_is_paid_for(record: Make) -> None:
    usage = Usage(
        lm_calls=3, retries=1, tool_calls=2, input_tokens=100, cached_input_tokens=4, output_tokens=10, cost_usd=0.5
    )
    first = record("a", usage=usage, seconds_by_agent={"planner": 1.5}, **FAILED)
    second = record("a", attempt=2, score=1.0, usage=usage, seconds_by_agent={"planner": 0.5, "expert": 1.0})
    summary = summarise_records([second, first])
    assert (summary.n, summary.accuracy, summary.n_error) == (1, 1.0, 0)
    assert asdict(summary.usage) == {
        "lm_calls": 6, "retries": 2, "misshapen_replies": 0, "replayed_calls": 0, "tool_calls": 4,
        "input_tokens": 200, "cached_input_tokens": 8, "output_tokens": 20, "cost_usd": 1.0,
        "known_cost_usd": 1.0, "unknown_cost_calls": 0,
        "replayed_tool_calls": 0,
    }  # fmt: skip
    assert summary.by_agent == {"planner": 2.0, "expert": 1.0}


def test_what_is_outside_the_plan_is_paid_for_and_nothing_else(record: Make) -> None:
    paid = Usage(lm_calls=1, cost_usd=0.5)
    kept = [record("a", score=1.0, usage=paid), record("a", epoch=2, score=1.0, usage=paid)]
    outside = [record("a", epoch=3, level="3", usage=paid), record("b", **FAILED, usage=paid)]
    summary, alone = (summarise_records(each, epochs=2, planned=["a"]) for each in ([*outside, *kept], kept))
    assert (summary.usage.lm_calls, summary.usage.cost_usd) == (4, 2.0)
    assert {key for key, value in vars(summary).items() if value != vars(alone)[key]} == {"usage"}
    assert summary.by_epochs and summary.by_epochs.pass_at["1"].value == summary.accuracy == 1.0


def test_one_unknown_cost_makes_the_total_unknown(record: Make) -> None:
    known = Usage(lm_calls=1, cost_usd=0.5)
    assert cost_of(record("a", usage=known), record("b", usage=Usage(lm_calls=1))) is None
    assert cost_of(record("a", usage=Usage())) is None


def cost_of(*records: Record) -> float | None:
    cost: float | None = summarise_records(records).usage.cost_usd
    return cost


def test_only_a_simulated_run_carries_the_notice(record: Make) -> None:
    def notice_of(simulated: bool) -> str | None:
        text: str | None = summarise_records([record()], simulated=simulated, wall_seconds=1.0).notice
        return text

    assert notice_of(True) == SIMULATED_NOTICE
    assert notice_of(False) is None


def test_wrong_answers_and_errors_are_told_apart(record: Make) -> None:
    records = [
        record("a", score=1.0),
        record("b"),
        record("c", **{**FAILED, "error_class": "infrastructure"}),
        record("d", **{**FAILED, "error_class": "limit"}, limit="lm_calls"),
        record("e", limit="tokens", score=1.0),
        record("f", target=None, score=None),
    ]
    summary = summarise_records(records)
    counts = [getattr(summary, key) for key in ("n_scored", "n_correct", "n_wrong", "n_error")]
    assert counts == [5, 2, 1, 2]
    assert summary.accuracy == 0.4, "errors of any kind stay in the denominator"
    assert summary.limits == {"lm_calls": 1, "tokens": 1}


def test_what_trying_again_changed_is_told_apart(record: Make) -> None:
    records = [
        record("a", **FAILED),
        record("b", **FAILED),
        record("c", score=1.0),
        record("a", attempt=2, score=1.0),
        record("b", attempt=2, **FAILED),
        record("b", attempt=3, **FAILED),
    ]
    summary = summarise_records(records)
    assert summary.accuracy == pytest.approx(2 / 3)
    assert summary.n_retried == 2
    assert summarise_records(records[2:3]).n_retried == 0


def test_repeats_of_a_question_do_not_narrow_the_interval_by_agreeing(record: Make) -> None:
    def interval(epochs: int) -> Interval:
        records = [
            record(f"q{n}", epoch=epoch, score=float(n < 4)) for n in range(10) for epoch in range(1, epochs + 1)
        ]
        summary = summarise_records(records, epochs=epochs)
        assert (summary.accuracy, summary.n, summary.n_questions) == (0.4, 10 * epochs, 10)
        assert (summary.by_epochs is None) == (epochs == 1)
        found = summary.accuracy_ci95
        assert found
        return found

    assert interval(5) == pytest.approx(interval(1))


def test_a_summary_reads_back_as_it_was(tmp_path: Path, record: Make) -> None:
    leaks = [{"tool": "tavily_tool", "source": "x.org"}]
    records = [record(id, epoch=epoch, leaks=leaks) for id in "ab" for epoch in (1, 2)]
    summary = summarise_records(
        [*records, record("c", epoch=1)],
        epochs=2,
        sessions=[{"started_at": "2026-11-20T10:00:00", "changes": {"run.epochs": "1 → 2"}}],
        unfinished={"lm_calls": 1},
        tuning_use=TuningUse("mine", ["a"], []),
    )
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(summary.to_dict()))
    assert read_summary(path) == summary
    path.write_text(json.dumps({**summary.to_dict(), "version": 0}))
    with pytest.raises(ValueError, match="not a summary of version"):
        read_summary(path)


@pytest.mark.slow
def test_ten_thousand_records_leave_little_in_memory(record: Make) -> None:
    def stream() -> Iterator[Record]:
        for n in range(10_000):
            yield record(f"question-{n}", answer="x" * 10_000, explanation="y" * 10_000)

    tracemalloc.start()
    try:
        summary = summarise_records(stream(), planned=[f"question-{n}" for n in range(10_000)])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert summary.n == 10_000
    assert peak_bytes < 20_000_000  # the stream's texts have 200 MB


def test_tags_have_numbers_of_their_own_and_of_very_many_values_some_are_kept(record: Make) -> None:
    tags = {
        **{f"q{n}": {"kind": "xlsx" if n % 2 else "pdf", "source": f"s{min(n, 40)}", "same": "x"} for n in range(42)},
        "outside": {"kind": "csv"},
    }
    records = [record(f"q{n}", score=float(n % 2)) for n in range(41)] + [
        record("q41", score=None, error="x", error_class="not_run")
    ]
    found = summarise_records(records, tags=tags).by_tag
    assert list(found) == ["kind", "source"], "one value alone says nothing"
    xlsx, pdf = found["kind"]["xlsx"], found["kind"]["pdf"]
    assert (xlsx.n, xlsx.n_correct, xlsx.n_error, pdf.n_correct) == (21, 20, 1, 0), "what was not run counts as wrong"
    assert xlsx.score_ci95 is None, "the run is not complete"
    assert (len(found["source"]), found["source"]["s40"].n) == (30, 2), "the most frequent are kept"
