"""Rows of the comparison page: each question with the answers of all runs, those that disagree first.

gathered = gather_runs(runs, ids, max_questions=2_000)
list_outcomes(gathered.questions[0], "AB")            # ["better in B", "flips"]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from eval.analysis.comparison.compare_runs import ReadRun
from eval.reports.html.blocks import Blocks, BlockWriter
from eval.reports.run_report.answers import MAX_BLOCK_BYTES, AnswerGatherer, AnswerRow, QuestionRow
from eval.runs.store import open_run

RIGHT, WRONG, EQUAL = "all right", "all wrong", "equal in part"
DISAGREE = "runs disagree"  # of three runs or more
FLIPS = "flips"  # all questions on which runs differ


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """One row of the page."""

    question: QuestionRow  # as the first run that has it has it
    answers: Sequence[Sequence[AnswerRow]]  # of each run, by epoch; empty: not answered
    means: Sequence[float]  # value of each run's answers


@dataclass(frozen=True)
class GatheredRuns:
    """Everything that the page shows of answers."""

    questions: Sequence[ComparedQuestion]  # those on which the runs disagree most first
    blocks: Blocks
    n_left_out: int


def gather_runs(runs: Sequence[ReadRun], ids: Sequence[str], max_questions: int) -> GatheredRuns:
    """Read the answers of all runs to the questions that are compared.

    Args:
        runs: that are compared.
        ids: of the questions.
        max_questions: that the page has room for.

    Raises:
        UserError: a store cannot be read.
    """
    scores = {each: [run.answers.list_scores(each, with_missing=False) for run in runs] for each in ids}
    means = {id: [fmean(each) if each else 0.0 for each in sides] for id, sides in scores.items()}
    # stable: else in the dataset's order; losses before gains
    ids = sorted(ids, key=lambda each: (-pvariance(means[each]), means[each][-1] - means[each][0]))
    n_left_out = max(len(ids) - max_questions, 0)
    ids = ids[:max_questions]
    disagree = frozenset(each for each in ids if pvariance(means[each]))
    gatherer = AnswerGatherer(BlockWriter(MAX_BLOCK_BYTES), disagree)
    wanted = frozenset(ids)
    found: list[dict[str, QuestionRow]] = []
    for run in runs:
        with open_run(run.path) as store:
            records = (each for each in store.records() if each.sample_id in wanted)
            plan = [each for each in store.read_plan() if each.id in wanted]
            found.append({row.id: row for row in gatherer.gather(records, plan, len(plan))})
    questions = []
    for id in ids:
        if (first := next((rows[id] for rows in found if id in rows), None)) is not None:
            answers = [rows[id].in_order if id in rows else [] for rows in found]
            questions.append(ComparedQuestion(first, answers, means[id]))
    return GatheredRuns(questions, gatherer.writer.close(), n_left_out)


def list_outcomes(question: ComparedQuestion, labels: Sequence[str]) -> list[str]:
    """Return what a comparison sees in a question, and whether it is one of the flips."""
    means = question.means
    if min(means) == 1:
        return [RIGHT]
    if max(means) == 0:
        return [WRONG]
    if len(set(means)) == 1:
        return [EQUAL]
    if len(means) == 2:
        return [f"better in {labels[1] if means[1] > means[0] else labels[0]}", FLIPS]
    return [DISAGREE, FLIPS]
