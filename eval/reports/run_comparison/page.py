"""Runs compared, on one page that opens from the disk and loads nothing.

The page holds targets, and so is for the runs' owners. Two runs are shown side by side, three and more as a matrix of
questions and runs.

    runs = read_runs(folders)
    write_comparison(Path("comparison.html"), compare_read_runs(runs, intersection=False), runs)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.reports.comparison_table import describe_run, describe_verdict, list_differences, list_numbers
from eval.reports.html.charts import CHARTS
from eval.reports.html.rows import ROWS, STEPS, Column, Rows
from eval.reports.html.templates import load_scripts, load_template
from eval.reports.notes import format_p_value, format_points
from eval.reports.run_comparison.charts import build_charts, chart_losses, describe_losses, list_compared
from eval.reports.run_comparison.rows import FLIPS, ComparedQuestion, GatheredRuns, gather_runs, name_outcome
from eval.reports.run_report.answers import PROMPTS, AnswerRow
from eval.reports.run_report.answers import STEPS as STEPS_BLOCK
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls
from mas.runtime.text import format_count

MAX_ANSWERS = 20_000  # rows of (run, sample, epoch)
MAX_WITH_TEXTS = 3  # runs whose answers are written into the table; of more, their signs
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPT = _HERE / "comparison.html.jinja", _HERE / "comparison.js"
_NOTHING = "none"


def write_comparison(path: Path, result: ComparisonResult, runs: Sequence[ReadRun]) -> None:
    """Write the page.

    Args:
        path: of the page.
        result: of the comparison.
        runs: that were compared, in the same order.

    Raises:
        UserError: a run's store cannot be read.
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    ids = list(dict.fromkeys(each for other in runs[1:] for each in list_compared(runs[0], other)))
    n_answers = sum(each.answers.epochs for each in runs)
    gathered = gather_runs(runs, ids, max(MAX_ANSWERS // n_answers, 1))
    page = load_template(_TEMPLATE).render(
        notice=result.notice,
        title=" and ".join(each.name for each in result.runs) if len(runs) == 2 else f"{len(runs)} runs compared",
        runs=list(map(describe_run, result.runs)),
        verdicts=[describe_result(each, len(result.comparisons)) for each in result.comparisons],
        comparisons=[_build_section(each, len(result.comparisons)) for each in result.comparisons],
        charts=[*build_charts(result, runs), chart_losses(gathered, [each.label for each in runs])],
        losses=describe_losses(gathered, [each.label for each in runs]) if len(runs) == 2 else "",
        prompts=list(_list_prompts(runs)),
        rows=_build_rows(runs, gathered),
        n_shown=len(gathered.questions),
        n_left_out=gathered.n_left_out,
        n_without_steps=gathered.blocks.left_out.get(STEPS_BLOCK, 0),
        n_without_prompts=gathered.blocks.left_out.get(PROMPTS, 0),
        blocks=gathered.blocks,
        scripts=load_scripts(*CHARTS, *ROWS, *STEPS, _SCRIPT),
    )
    with write_atomically(path) as file:
        file.write(escape_controls(page))


def describe_result(pair: RunComparison, n_comparisons: int) -> str:
    """Return the verdict in one sentence: how much, how sure, at what cost."""
    score, p, where = pair.comparison.score, pair.p_holm if n_comparisons > 1 else pair.comparison.score.p, ""
    metric = pair.comparison.metric
    if (held_out := pair.used_to_tune) is not None:
        if held_out.without is None:
            used = f"all {score.n_questions} were used to tune the prompts"
            seen = f"{format_points(score.difference)} points of {metric} on these mean little"
            return f"Nothing can be said about new questions: {used}; {seen}."
        score, p = held_out.without, min(held_out.without.p * n_comparisons, 1.0)
        where = f" on the {held_out.n_without} questions that were not tuned on"
    points = f"{format_points(score.difference)} points of {metric}"
    if score.ci95 is None:
        sure = f"{pair.run} - {pair.against}{where}: {points}; one question says nothing about others"
    else:
        low, high = map(format_points, score.ci95)
        bounds = f"95% interval {low} to {high}, p {format_p_value(p)}"
        if p <= 0.05:
            how = "better" if score.difference > 0 else "worse"
            amount = f"{100 * abs(score.difference):.1f} points of {metric}"
            sure = f"{pair.run} is {how} than {pair.against} by {amount}{where} ({bounds})"
        else:
            sure = f"No difference is shown between {pair.against} and {pair.run}{where}: {points} ({bounds})"
    return f"{sure}{_describe_price(pair)}."


def _describe_price(pair: RunComparison) -> str:
    cost, tokens = pair.comparison.cost_usd, pair.comparison.tokens
    for means, what in ((cost, "cost"), (tokens, "tokens")):
        if means is not None and means.first > 0:
            return f"; it takes {means.second / means.first:.2f} times the {what} of an answer"
    return ""


def _build_section(pair: RunComparison, n_comparisons: int) -> dict[str, object]:
    differing = list(list_differences(pair))
    n = len(pair.differs.options) + len(pair.differs.prompts) + len(pair.differs.tools)
    return {
        "pair": pair,
        "numbers": list(list_numbers(pair)),
        "lines": [*describe_verdict(pair, n_comparisons), *pair.notes],
        "differing": differing,
        "differ": "nothing" if not n else format_count(n, "setting"),
        "names": ", ".join(_name_differences(pair)),
    }


def _name_differences(pair: RunComparison) -> Iterator[str]:
    """Yield what differs in a few words: names of prompts, tools and the first options."""
    differs = pair.differs
    if differs.prompts:
        yield f"prompts of {', '.join(differs.prompts)}"
    if differs.tools:
        yield f"tools of {', '.join(differs.tools)}"
    yield from list(differs.options)[:4]
    if len(differs.options) > 4:
        yield f"{len(differs.options) - 4} more options"


def _list_prompts(runs: Sequence[ReadRun]) -> Iterator[dict[str, object]]:
    """Yield the prompts that differ from the first run's, as both texts."""
    first = runs[0].prompt_set
    for other in runs[1:]:
        second = other.prompt_set
        before, now = (each.texts if each else {} for each in (first, second))
        for agent in {**before, **now}:
            if before.get(agent) != now.get(agent):
                texts = [before.get(agent, _NOTHING), now.get(agent, _NOTHING)]
                yield {"agent": agent, "runs": [runs[0].label, other.label], "texts": texts}


def _build_rows(runs: Sequence[ReadRun], gathered: GatheredRuns) -> Rows:
    labels = [each.label for each in runs]
    with_texts = len(runs) <= MAX_WITH_TEXTS
    width = "26fr" if with_texts else "64px"
    columns = [
        Column("question", "question", width="40fr"),
        Column("target", "gold answer", width="16fr"),
        *(Column(f"run {label}", label, width=width) for label in labels),
        Column("outcome", "outcome", kind="hidden", menu=True, find=False),
        *(Column(f"lost {label}", f"lost at in {label}", kind="hidden", menu=True, find=False) for label in labels),
        Column("level", "level", kind="hidden", menu=True, find=False),
        Column("kind", "attachment", kind="hidden", menu=True, find=False),
        Column("file", "file", kind="hidden"),
        Column("labels", "runs", kind="hidden", find=False, export=False),
        Column("answers", "answers", kind="hidden", find=False, export=False),
    ]
    return Rows("questions", columns, [dict(_build_row(each, labels)) for each in gathered.questions])


def _build_row(compared: ComparedQuestion, labels: Sequence[str]) -> Iterator[tuple[str, object]]:
    question = compared.question
    yield from (("id", question.id), ("question", question.line), ("target", question.target))
    for label, answers in zip(labels, compared.answers, strict=True):
        yield f"run {label}", [f"{each.mark} {each.line}" for each in answers]
        yield f"lost {label}", list(dict.fromkeys(each.lost for each in answers if each.lost))
    yield "outcome", [name_outcome(compared, labels), *([FLIPS] if len(set(compared.means)) > 1 else [])]
    yield from (("level", question.level), ("kind", question.kind), ("file", question.file))
    yield "labels", labels
    yield "answers", [[_build_answer(each) for each in answers] for answers in compared.answers]


def _build_answer(answer: AnswerRow) -> list[object]:
    """Return what `comparison.js` draws of an answer; its order is that of FIELDS there."""
    return [
        *(answer.key, answer.epoch, answer.mark, answer.line, answer.why, answer.lost, answer.approved_by),
        *(answer.seconds, answer.tokens, answer.cost_usd),
    ]
