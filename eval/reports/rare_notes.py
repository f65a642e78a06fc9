"""Notes and tables that few runs have: critics, epochs, labels, leaks, what people said; loaded where they are used."""

from collections.abc import Iterator

from eval.analysis.attribution import CriticNumbers
from eval.analysis.human_review.labels import AMBIGUOUS, BAD_QUESTION
from eval.analysis.statistics.intervals import Estimate
from eval.analysis.summary.rare_numbers import NO_ANSWER, OTHER, HumanReview, LabelSummary, TuningOverlap
from eval.analysis.summary.summary import Summary
from eval.reports.formats import MAX_ERROR_CHARS, Table, format_floor, format_interval, format_percent, format_share
from eval.scorers.score import ACCURACY, JUDGE
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count


def list_rare_notes(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield names and sentences."""
    metric, incomplete = summary.metric, summary.incomplete
    if summary.used_to_tune:
        yield "tuned on", describe_tuned_on(summary.used_to_tune, incomplete, metric)
    for name, critic in summary.critics.items():
        yield f"critic {name}", describe_critic(critic)
    if metric != ACCURACY:
        share = format_share(summary.accuracy, summary.accuracy_ci95, incomplete)
        yield "fully right", f"{share} of the answers; the {metric} counts partly right ones in part"
    if summary.labels:
        yield "labels", describe_labels(summary.labels, incomplete)
    for name, part in summary.parts.items():
        share = format_share(part.value, part.ci95, incomplete)
        yield f"part {name}", f"{share} of {format_count(part.n or 0, 'answer')}"
    for name, extra in summary.extra_scorers.items():
        result = f"{extra.metric} {format_share(extra.score.value, extra.score.ci95, incomplete)}"
        if extra.n_failed:
            failed = f"{format_count(extra.n_failed, 'answer')} could not be scored and count as 0"
            result += f"; {failed}: {shorten_line(extra.first_error or '', MAX_ERROR_CHARS)}"
        yield f"scored by {name}", result
    if summary.scorer == JUDGE:
        yield "judged", "by a model, whose verdicts are opinions; python eval/view.py has a queue for people's"
    if summary.human_review:
        yield "reviewed by people", _describe_review(summary.human_review, incomplete, metric)
    if leaks := summary.leaks:
        met = f"{format_count(leaks.n_questions, 'question')} met a page that gives the benchmark away"
        sources = shorten_line("; ".join(leaks.sources), MAX_ERROR_CHARS)
        yield "benchmark leaks", f"{met}: {sources}; {_describe_without(leaks.without, incomplete, metric)}"
    if summary.epochs > 1:
        repeats, found = f"{summary.epochs} of each of {summary.n_questions} questions", summary.by_epochs
        clustered = f"; the interval is clustered by question (ICC {found.icc:.2f})" if found else ""
        yield "epochs", f"{repeats}{clustered}"
        if found:
            k = str(summary.epochs)
            one, every = found.pass_at[k], found.pass_hat[k]
            yield f"pass@{k}", f"{format_share(one.value, one.ci95)}: one of {k} answers is right"
            yield f"pass^{k}", f"{format_share(every.value, every.ci95)}: all {k} answers are right"


def describe_tuned_on(overlap: TuningOverlap, incomplete: bool = False, metric: str = ACCURACY) -> str:
    """Return how many samples the prompts were tuned on, and the metric without them."""
    n, unknown = overlap.n_questions, overlap.describe_unknown()
    verb = "were" if n and n > 1 else "was"
    use = f"{n or 'none'} of {format_count(overlap.n_all, 'question')} {verb} used to tune {overlap.prompts}"
    if not n:
        return unknown or use
    roles = f" ({overlap.n_learnt_from} for training, {overlap.n_picked_by} for validation)"
    parts = [f"{use}{roles}, so the {metric} is inflated"]
    if overlap.without and n < overlap.n_all:
        parts.append(_describe_without(overlap.without, incomplete, metric))
    return "; ".join([*parts, *([unknown] if unknown else [])])


def _describe_without(others: Estimate, incomplete: bool, metric: str) -> str:
    bounds = f" ({format_interval(others.ci95)})" if others.ci95 else ""
    return f"{metric} without them: {format_floor(others.value, incomplete)} of {others.n}{bounds}"


def describe_critic(critic: CriticNumbers) -> str:
    """Return what a critic found, and whether it recites its prompt."""
    n_wrong, n_right = critic.hits + critic.misses, critic.false_alarms + critic.approved_right
    parts = [f"it rejects in {critic.n_rejections:,} of {format_count(critic.n_reviews, 'review')}"]
    if critic.n_quoting:
        parts.append(f"{critic.n_quoting:,} of these quote its instructions")
    if n_wrong or n_right:
        right = f"{critic.false_alarms:,} of {n_right:,} of right work"
        parts.append(f"it rejected {critic.hits:,} of {n_wrong:,} of wrong work, {right}")
    if critic.n_rejecting:
        parts.append(f"{critic.n_recovered:,} of {critic.n_rejecting:,} answers right in the end after a rejection")
    return "; ".join(parts)


def describe_labels(labels: LabelSummary, incomplete: bool) -> str:
    """Return the macro F1. While answers are missing, it is no bound: wrong answers that still come make it fall."""
    n = sum(each.recall.n != 0 for each in labels.by_label.values())
    if labels.macro_f1 is None:
        return "no answer has one of the labels as its target"
    so_far = " so far" if incomplete else ""
    return f"macro F1 {format_percent(labels.macro_f1)}{so_far} over {format_count(n, 'label')}"


def build_labels(labels: LabelSummary) -> Table:
    rows = []
    for name, each in labels.by_label.items():
        shares = (format_share(share.value, share.ci95) for share in (each.precision, each.recall))
        rows.append([name, *shares, format_percent(each.f1), str(each.recall.n), str(each.precision.n)])
    return Table(("label", "precision", "recall", "F1", "targets", "answers"), rows)


def build_confusion(labels: LabelSummary) -> Table:
    """Return targets and answers."""
    answers = [*labels.by_label, OTHER, NO_ANSWER]
    confusion = labels.confusion.items()
    rows = [[target, *(str(row.get(answer) or "·") for answer in answers)] for target, row in confusion]
    return Table(["target ↓ answer →", *answers], rows)


def _describe_review(review: HumanReview, incomplete: bool, metric: str) -> str:
    """Return the labels of people, the metric before them, and without the questions that they call unfair."""
    parts = [", ".join(f"{n} {label.replace('_', ' ')}" for label, n in review.labels.items())]
    if review.score_before is not None:
        parts.append(f"before, the {metric} was {format_floor(review.score_before, incomplete)}")
    if not review.labels.keys().isdisjoint((AMBIGUOUS, BAD_QUESTION)):
        parts.append(f"ambiguous and bad questions count; {_describe_without(review.without, incomplete, metric)}")
    return "; ".join(parts)
