"""Runs compared: in the terminal, without any question, answer or target, and on a page, which holds them.

The page opens from the disk and loads nothing. Two runs are side by side there, three and more are a matrix.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, pvariance

from rich.text import Text

from eval.analysis.attribution.broken_link import read_with_steps
from eval.analysis.comparison.compare_runs import ComparisonResult, GateResult, ReadRun, RunComparison
from eval.analysis.statistics.paired_tests import MeanDifference
from eval.execution.console import Console
from eval.reports.formats import NOT_AVAILABLE, Table, format_interval, format_p_value, format_percent, format_points
from eval.reports.html.page import ROWS, STEPS, Blocks, BlockWriter, Column, Rows, write_page
from eval.reports.run_report.page import MAX_BLOCK_BYTES, Row, gather_answers, list_values
from eval.runs.store import open_run
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

MAX_ID_CHARS = 40  # of the id of a question; --json has all of it
MAX_CHARS = 240  # of a setting
MAX_LISTED = 10  # settings, and questions that got better, or worse, in the terminal; --html and --json have all
MAX_WITH_TEXTS = 3  # runs whose answers are written into the table; of more, their signs
FLIPS = "flips"  # all questions on which runs differ
_GATE = {  # verdict → its sentence and style
    "pass": ("gate passed: {} no worse than allowed", "bold green"),
    "fail": ("gate failed: {} worse than allowed", "bold red"),
    "inconclusive": ("gate inconclusive: these answers neither show nor rule out a loss in {}", "bold yellow"),
}
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPTS = _HERE / "comparison.html.jinja", (*ROWS, *STEPS, _HERE / "comparison.js")

Format = Callable[[float], str]


def print_comparison(result: ComparisonResult, console: Console) -> None:
    if result.notice:
        console.print(Text(result.notice, style="bold yellow"))
    for run in result.runs:
        console.print(Text(describe_run(run)), soft_wrap=True)
    for pair in result.comparisons:
        console.print(build_numbers(pair).build(f"{pair.run} compared with {pair.against}", whole=1))
        verdict, differ = describe_verdict(pair, len(result.comparisons)), list(list_differences(pair))
        more = [f"… and {n} more: --html FILE"] if (n := len(differ) - MAX_LISTED) > 0 else []
        for line in (*verdict, *pair.notes, *differ[:MAX_LISTED], *more, *_list_flips(pair)):
            console.print(Text(line), soft_wrap=True)


def print_gate(pair: RunComparison, gate: GateResult, console: Console) -> None:
    """Print what the verdict of the regression gate rests on, and the verdict as the last line."""
    made, metric = pair.comparison, pair.comparison.metric
    shares = f"{format_percent(made.first.score)} → {format_percent(made.second.score)}"
    bounds = format_interval((gate.lower, gate.upper), format_points)
    change = f"{format_points(made.score.difference)} points, {100 * (1 - 2 * gate.alpha):.3g}% interval {bounds}"
    lines = [f"gate: {metric} {shares} ({change}); a loss of {100 * gate.margin:g} points is allowed"]
    if gate.verdict == "inconclusive":
        lines.append(f"{metric}: {_explain(gate)}")
    if pair.n_tuned_on:
        lines.append(f"{format_count(pair.n_tuned_on, 'question')} left out: prompts were tuned on them")
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    sentence, style = _GATE[gate.verdict]
    console.print(Text(sentence.format(metric), style=style), soft_wrap=True)


def _explain(gate: GateResult) -> str:
    if gate.by_chance:
        return "worse than allowed, but equal programs might well differ so much"
    if not gate.margin:
        return "with a margin of 0 only a gain can pass; allow a loss with --margin"
    return "too few questions to decide, or a change that is too close to the limit"


def _list_flips(pair: RunComparison) -> Iterator[str]:
    for name, sign in {"better": 1, "worse": -1}.items():
        if ids := [id for id, difference in pair.comparison.flips.items() if sign * difference > 0]:
            more = f" and {len(ids) - MAX_LISTED} more" if len(ids) > MAX_LISTED else ""
            listed = ", ".join(shorten_line(each, MAX_ID_CHARS) for each in ids[:MAX_LISTED])
            yield f"{name} in {pair.run}: {listed}{more} (--html FILE shows the answers)"


def describe_run(run: ReadRun) -> str:
    """Return one line about a run."""
    facts, epochs = run.to_dict(), run.answers.epochs
    times = f", {epochs} answers per question" if epochs > 1 else ""
    parts = f"system {facts['system']}, model {facts['model']}, prompts {facts['prompts'] or 'none'}"
    return f"{run.label}: {run.name} ({parts}{times})"


def build_numbers(pair: RunComparison) -> Table:
    """Return a pair's numbers: of the first, of the second, difference with its interval."""
    comparison, rows = pair.comparison, list[Sequence[str]]()
    first, second, score, cost = comparison.first, comparison.second, comparison.score, comparison.cost_usd

    def add(name: str, means: MeanDifference | None, form: Format, form_change: Format, unit: str = "") -> None:
        if means is None:
            rows.append((name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""))
        else:
            change, bounds = form_change(means.difference) + unit, format_interval(means.ci95, form_change)
            rows.append((name, form(means.first), form(means.second), change, bounds))

    scores = MeanDifference(score.n_questions, first.score, second.score, score.difference, score.ci95)
    add(comparison.metric, scores, format_percent, format_points, " points")
    if comparison.metric != ACCURACY:
        rows.append(("fully right", format_percent(first.accuracy), format_percent(second.accuracy), "", ""))
    if cost is None or cost.first or cost.second:  # a simulated model costs nothing
        add("cost/answer", cost, "${:,.5f}".format, "{:+,.5f}".format)
    add("time/answer", comparison.seconds, "{:,.2f} s".format, "{:+,.2f}".format, " s")
    add("tokens/answer", comparison.tokens, "{:,.0f}".format, "{:+,.0f}".format)
    errors = (", ".join(f"{name} {n}" for name, n in each.errors_by_class.items()) for each in (first, second))
    rows.append(("errors", *(each or "none" for each in errors), "", ""))
    return Table(("", pair.against, pair.run, f"{pair.run} - {pair.against}", "95% interval"), rows)


def describe_verdict(pair: RunComparison, n_comparisons: int) -> Iterator[str]:
    """Yield the result as a sentence, and then what it rests on."""
    score, p, several = pair.comparison.score, pair.comparison.score.p, ""
    where, sure = "", "one question says nothing about others"
    verdict = f"No difference is shown between {pair.against} and {pair.run}"
    if n_comparisons > 1:
        p, several = pair.p_holm, f" as one of {n_comparisons} comparisons (Holm)"
    if pair.n_tuned_on:
        where = f" on the {score.n_questions} questions that were {'' if pair.is_optimistic else 'not '}tuned on"
    if score.ci95:
        sure = f"95% interval {format_interval(score.ci95, format_points)}, p {format_p_value(p)}{several}"
        if p <= 0.05:
            verdict = f"{pair.run} is {'better' if score.difference > 0 else 'worse'} than {pair.against}"
    yield f"{verdict}{where}: {format_points(score.difference)} points of {pair.comparison.metric} ({sure})."
    times = "" if score.epochs == 1 else f", each answered at least {score.epochs} times"
    won = f"{pair.run} is better on {score.wins}, worse on {score.losses}, equal on {score.ties}"
    yield f"{score.test}; {format_count(score.n_questions, 'question')}{times}: {won}"
    if (shows := score.smallest_difference) is None:
        yield "too few questions to show any difference reliably"
    else:
        yield f"these questions would show a true difference of {100 * shows:.1f} points in 80 of 100 such comparisons"


def list_differences(pair: RunComparison) -> Iterator[str]:
    """Yield every option, prompt and tool in which the two runs differ."""
    yield from (f"{name}: {shorten_line(change, MAX_CHARS)}" for name, change in pair.differs.items())
    if not pair.differs:
        yield "options, prompts and tools are the same"
    if any(name.startswith("prompt ") for name in pair.differs):
        yield "the texts of prompts: python optimize/diff.py SET SET"


def write_comparison(path: Path, result: ComparisonResult) -> None:
    """Write the page.

    UserError: a run's store cannot be read. OSError: the page cannot be written; one already there stays as it was.
    """
    ids = list(dict.fromkeys(id for each in result.comparisons for id in each.comparison.differences))
    runs, n = result.runs, len(result.comparisons)
    rows, blocks = gather_runs(runs, ids)
    labels = [each.label for each in runs]
    page = {
        "notice": result.notice,
        "title": " and ".join(each.name for each in runs) if n == 1 else f"{len(runs)} runs compared",
        "runs": list(map(describe_run, runs)),
        "comparisons": [_build_section(each, n) for each in result.comparisons],
        "rows": Rows("question", _list_columns(labels), rows),
        "blocks": blocks,
    }
    write_page(path, _TEMPLATE, _SCRIPTS, page)


def _build_section(pair: RunComparison, n_comparisons: int) -> dict[str, object]:
    verdict, *lines = describe_verdict(pair, n_comparisons)
    return {
        "pair": pair,
        "verdict": verdict,
        "numbers": build_numbers(pair),
        "lines": [*lines, *pair.notes],
        "differing": list(list_differences(pair)),
        "differ": format_count(len(pair.differs), "setting"),
    }


def _list_columns(labels: Sequence[str]) -> list[Column]:
    width = "26fr" if len(labels) <= MAX_WITH_TEXTS else "64px"
    lost = {f"lost {label}": f"lost at in {label}" for label in labels}
    menus = {"outcome": "outcome", **lost, "level": "level", "kind": "attachment"}
    return [
        Column("question", "question", width="40fr"),
        Column("target", "gold answer", width="16fr"),
        *(Column(f"run {label}", label, width=width) for label in labels),
        *(Column(key, title, kind="hidden", menu=True) for key, title in menus.items()),
        Column("file", "file", kind="hidden"),
    ]


def gather_runs(runs: Sequence[ReadRun], ids: Sequence[str]) -> tuple[list[Row], Blocks]:
    """Return the rows of questions, those on which the runs disagree most first, and what opens in them."""
    means = {each: [fmean(given.value for given in run.answers.list_given(each)) for run in runs] for each in ids}
    # stable: else in the dataset's order; losses before gains
    ids = sorted(ids, key=lambda each: (-pvariance(means[each]), means[each][-1] - means[each][0]))
    disagree = frozenset(each for each in ids if pvariance(means[each]))
    writer, wanted = BlockWriter(MAX_BLOCK_BYTES), frozenset(ids)
    found: list[dict[str, Row]] = []
    for run in runs:
        with open_run(run.path) as store:
            records, plan = read_with_steps(store, lambda key: key[0] in wanted), store.read_plan()
            found.append({row["id"]: row for row in gather_answers(writer, records, plan, kept_first=disagree)})
    labels, rows = [each.label for each in runs], []
    for id in ids:
        answers = [each[id]["answers"] for each in found]
        row = found[0][id] | {"labels": labels, "answers": answers, "outcome": _list_outcomes(means[id], labels)}
        for label, given in zip(labels, answers, strict=True):
            row[f"run {label}"] = [f"{each['mark']} {each['line']}" for each in given]
            row[f"lost {label}"] = list_values(given, "lost")
        rows.append(row)
    return rows, writer.close()


def _list_outcomes(means: Sequence[float], labels: Sequence[str]) -> list[str]:
    """Return what a comparison sees in a question, by the mean of each run, and whether it is one of the flips."""
    if min(means) == 1:
        return ["all right"]
    if max(means) == 0:
        return ["all wrong"]
    if len(set(means)) == 1:
        return ["equal in part"]
    if len(means) == 2:
        return [f"better in {labels[1] if means[1] > means[0] else labels[0]}", FLIPS]
    return ["runs disagree", FLIPS]
