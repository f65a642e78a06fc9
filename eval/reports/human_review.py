"""What people said of a run's answers, in sentences; loaded for a run with labels of people."""

from eval.analysis.summary.summary import HumanReview, Summary
from eval.reports.formats import describe_without, format_floor
from eval.runs.record import HumanVerdict
from mas.runtime.text import format_count


def describe_changes(review: HumanReview) -> str:
    """Return the numbers of corrected targets and overruled verdicts."""
    answers = f"{format_count(review.n_accepted, 'answer')} accepted, {review.n_rejected} rejected"
    return f"{format_count(review.n_corrected, 'target')} corrected, {answers}"


def describe_verdict(verdict: HumanVerdict) -> str:
    """Return what a person said of an answer or its question, who, when and where, and what it changed."""
    name = verdict.label.replace("_", " ")
    parts = [f"{name}: {verdict.who}, {verdict.when[:16].replace('T', ' ')} UTC, who saw it in {verdict.run}"]
    if verdict.target is not None:
        parts.append(f"gold answer {verdict.target_before!r} corrected to {verdict.target!r}")
    before = "no score" if verdict.score_before is None else f"a score of {verdict.score_before:g}"
    parts.append(f"the scorer had given {before}" if verdict.is_applied else "not applied yet")
    return "; ".join([*parts, *([f"note: {verdict.note}"] if verdict.note else [])])


def describe_review(review: HumanReview, summary: Summary) -> str:
    """Return what people's labels have changed, and the metric without the questions that they call unfair."""
    parts = []
    if review.score_before is not None:
        parts.append(describe_changes(review))
        parts.append(f"before, the {summary.metric} was {format_floor(review.score_before, summary.incomplete)}")
    if n := review.n_ambiguous + review.n_bad_questions:
        kinds = f"{review.n_ambiguous} ambiguous and {format_count(review.n_bad_questions, 'bad question')}"
        parts.append(f"{kinds}, which count: {describe_without(review.without, n, summary.incomplete, summary.metric)}")
    if review.n_pending:
        command = "python eval/rescore.py outputs gold=outputs/gold"
        pending = format_count(review.n_pending, "answer")
        parts.append(f"{pending} with a label that is not applied yet; apply all with {command}")
    return "; ".join(parts)
