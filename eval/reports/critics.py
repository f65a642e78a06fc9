"""Critics of a run: a sentence, charts and a table about what each found and cost; loaded for a run that has any.

dict(describe_critics(summary))["critic_expert"]      # "$0.02, 34% of the run's cost. Of work known to be wrong …"
"""

from collections.abc import Iterator

from eval.analysis.statistics.intervals import compute_share_interval
from eval.analysis.summary.summary import CriticNumbers, Summary
from eval.execution.projection import format_duration
from eval.reports.formats import format_usd, shorten_number
from eval.reports.html.charts import Chart, Point
from eval.reports.tables import Table
from mas.runtime.text import format_count


def describe_critics(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield, for each critic, a sentence with its price and with the most that it can have gained."""
    for name, critic in summary.critics.items():
        yield name, _describe_critic(critic, summary)


def summarise_critic(critic: CriticNumbers) -> str:
    """Return in a short line what a critic found, and whether it recites its prompt."""
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


def _describe_critic(critic: CriticNumbers, summary: Summary) -> str:
    usage, tokens = summary.usage, critic.input_tokens + critic.output_tokens
    if critic.cost_usd and usage.cost_usd:
        price = f"{format_usd(critic.cost_usd)}, {critic.cost_usd / usage.cost_usd:.0%} of the run's cost"
    else:
        all_tokens = usage.input_tokens + usage.output_tokens
        price = f"{shorten_number(tokens)} tokens" + (f", {tokens / all_tokens:.0%} of the run's" if all_tokens else "")
    n_wrong, n_right = critic.hits + critic.misses, critic.false_alarms + critic.approved_right
    found = f"{critic.hits:,} of {n_wrong:,}" if n_wrong else "none was seen"
    alarms = f"{critic.false_alarms:,} of {n_right:,}" if n_right else "none was seen"
    unknown = f"; {format_count(critic.n_unknown, 'review')} cannot be judged" if critic.n_unknown else ""
    if critic.n_quoting:
        unknown += f"; it quotes its instructions in {critic.n_quoting:,} of {critic.n_rejections:,} rejections"
    reviewed = f"{price}. Of work known to be wrong it rejected: {found}. Of work known to be right: {alarms}{unknown}."
    after = "right in the end after it had rejected work that was not known to be right"
    if not critic.n_recovered or not summary.n_scored:
        return f"{reviewed} No answer was {after}: nothing here shows that it is worth its cost."
    share = critic.n_recovered / summary.n_scored
    interval = ""
    if not summary.incomplete:  # answers to one question are counted as one: the widest interval
        n_questions = max(summary.n_scored // max(summary.epochs, 1), 1)
        low, high = compute_share_interval(share, n_questions, n_questions)
        interval = f" (95% interval {100 * low:.1f} to {100 * high:.1f})"
    each = f", {format_usd(critic.cost_usd / critic.n_recovered)} for each" if critic.cost_usd else ""
    return (
        f"{reviewed} {critic.n_recovered:,} of {summary.n_scored:,} answers were {after}: it gained at most "
        f"{100 * share:.1f} points of 100{interval}{each}."
    )


def build_critic_charts(summary: Summary) -> Iterator[Chart]:
    """Yield how much of the wrong work each critic found, and how many of its rejections were right."""
    points = []
    for name, critic in summary.critics.items():
        n_wrong, n_rejected = critic.hits + critic.misses, critic.hits + critic.false_alarms
        for group, share, bounds, n in (
            ("wrong work that it rejected", critic.recall, critic.recall_ci95, n_wrong),
            ("rejections that were justified", critic.precision, critic.precision_ci95, n_rejected),
        ):
            if share is not None:
                low, high = bounds or (None, None)
                points.append(Point(name, share, low=low, high=high, group=group, note=f"{critic.hits:,} of {n:,}"))
    if points:
        title = "Critics: what they find, and whether they are right when they reject"
        yield Chart("dots", title, points, "share", x_format="percent", x_domain=(0, 1))


def build_critics(summary: Summary) -> Table:
    """Return a row for each critic."""
    headings = ("critic", "of the work of", "reviews", "wrong work approved", "right work rejected")
    spending = ("right in the end after a rejection", "cost", "tokens", "time")
    rows = [
        (
            *(name, ", ".join(critic.judges), f"{critic.n_reviews:,}"),
            f"{critic.misses:,} of {critic.misses + critic.hits:,}",
            f"{critic.false_alarms:,} of {critic.false_alarms + critic.approved_right:,}",
            f"{critic.n_recovered:,} of {critic.n_rejecting:,} answers",
            *(format_usd(critic.cost_usd), f"{critic.input_tokens + critic.output_tokens:,}"),
            format_duration(critic.seconds),
        )
        for name, critic in summary.critics.items()
    ]
    return Table((*headings, *spending), rows, left=("of the work of",))
