"""Headroom preflight: does the run's data give prompts anything to win? Measured before the search, for a small share.

    check_headroom(run)             # shows "headroom: worth it: …", and writes headroom.json

The starting prompts answer a draw of training questions once; the search reuses these answers. Their failures are read
(wrong in form alone, errors, failed tools, the first agent that went wrong), and two rewrites that a search could begin
with answer the same questions: one by the reflection model, which reads the failures several times in a row, and one
with general rules of careful work. Worth it: one of them is better beyond chance (`LEVEL`). Not here: neither is, which
is no proof. Next to it is the smallest gain that the sealed questions could show.

It decides nothing else: the search neither sees the rewrites nor loses any of its budget of scored answers, and
validation and sealed questions are not used. How often it is right: docs/explanation/optimizer-gains.md.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

import dspy

from eval.analysis.attribution.agent_attribution import attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.statistics.intervals import Interval
from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.text import format_count
from optimize.feedback.expectation import Expectation
from optimize.gate.power import compute_smallest_gain
from optimize.gate.sealed_log import find_allowance, list_fingerprints
from optimize.pipeline.cost_estimate import build_plan
from optimize.search.optimizers.prompt_rewriter import PromptRewriter
from optimize.search.trials import Trial
from optimize.session.tuning_run import TuningRun

LEVEL = 0.1  # one-sided, of each rewrite: a missed chance costs more than a search in vain
MIN_QUESTIONS = 8  # below which nothing would be shown
MAX_SCORE = 0.98  # of the starting prompts, above which there is nothing to rewrite
ROUNDS, FAILURES_A_ROUND = 4, 6  # of reflection on failures, each with others
MAX_CHARS = 8000  # of a rewritten prompt
OWN_FAILURES, GENERAL_RULES = "rewritten from its failures", "with general rules"
RULES = """\
Before you reply, check your work:
- Do exactly what the task asks for: keep every condition of it, and its order.
- Use the tools that you have for facts and for every calculation, rather than your memory or your head.
- Copy names and figures exactly from their source, and check that each is the one that is asked for.
- Reply in exactly the form that is asked for: nothing added, no explanation, no unit or sign that is not asked for.
- If something cannot be found, say so instead of guessing."""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of the starting prompts, compared with them on the same training questions."""

    name: str
    score: float
    gain: float
    interval: Interval | None  # of the gain, at twice `LEVEL`
    p: float  # two-sided


@dataclass(frozen=True)
class Headroom:
    """Result of the preflight, as far as a few answers tell."""

    worth_it: bool
    n_questions: int
    parent_score: float
    rewrites: Sequence[Rewrite]
    failures: Mapping[str, int]  # kind → wrong answers
    first_broken: Mapping[str, int]  # agent → wrong answers that it was the first to spoil
    smallest_gain: float | None  # that the sealed questions show in 80 of 100 cases; None: none
    n_answers: int
    n_planned: int  # answers of the whole run, without these
    n_reflections: int = 0  # requests to the reflection model, those of earlier sessions included
    reflection_failed: bool = False  # it gave no usable reply, or none any more

    def lines(self) -> Iterator[str]:
        """Return it as lines for the terminal."""
        questions = format_count(self.n_questions, "training question")
        why = f"{self.parent_score:.1%} of {questions} are right already"
        if best := max(self.rewrites, key=lambda each: each.gain, default=None):
            bounds = ""
            if best.interval:
                bounds = f", {1 - 2 * LEVEL:.0%} interval {_points(best.interval[0])} to {_points(best.interval[1])}"
            shown = "better" if self.worth_it else "not better beyond chance"
            why = f"the prompts {best.name} are {shown}: {_points(best.gain)} points on {questions}{bounds}"
        yield f"headroom: {'worth it' if self.worth_it else 'not here'}: {why}"
        wrong = sum(self.first_broken.values())
        kinds = ", ".join(f"{count} {name}" for name, count in self.failures.items() if count)
        agents = ", ".join(f"{name} {count}" for name, count in self.first_broken.items())
        if wrong:
            yield (
                f"  {format_count(wrong, 'answer')} of {self.n_questions} lost points"
                f"{f': {kinds}' if kinds else ''}; first broken link: {agents}"
            )
        if self.reflection_failed:
            yield (
                f"  the reflection failed: no usable reply any more, or none at all, after "
                f"{format_count(self.n_reflections, 'request')}, so fewer rewrites were tried than planned"
            )
        if not self.worth_it and self.rewrites:
            yield "  this is no proof: a search tries more, and a small gain is not seen on so few questions"
        least = "no gain, however large: seal more questions"
        if self.smallest_gain is not None:
            least = f"a gain of {100 * self.smallest_gain:.1f} points or more"
        yield (
            f"  the sealed questions can show {least}; {format_count(self.n_answers, 'answer')} and "
            f"{format_count(self.n_reflections, 'reflection')} for this, {self.n_answers / self.n_planned:.1%} of the "
            f"{self.n_planned:,} answers planned"
        )


def check_headroom(run: TuningRun) -> None:
    """Measure what can be won, and show it; a resumed run shows nothing again.

    Raises:
        EarlyVerdictError: the metric is broken.
        RunStoppedError: the run was stopped.
    """
    if run.files.read("headroom") is not None:
        return
    config, share, plan = run.config, run.config.headroom.max_share, build_plan(run.config, run.splits)
    n_planned = plan.baseline + (plan.search or 0) + plan.shortlist + plan.sealed
    ids = list(run.objective.train_ids)
    n_questions = min(len(ids), int(share * n_planned) // 3)
    if n_questions < MIN_QUESTIONS:
        run.show(
            f"headroom: not measured: headroom.max_share={share:g} of {n_planned:,} planned answers do not allow "
            f"{MIN_QUESTIONS} training questions with 3 answers each"
        )
        return
    asked = random.Random(config.seed).sample(ids, n_questions)
    if (found := _measure(run, asked, n_planned)) is None:
        run.show("headroom: not measured: a budget is used up")
        return
    run.files.write("headroom", asdict(found))
    for line in found.lines():
        run.show(line)


def _measure(run: TuningRun, asked: Sequence[str], n_planned: int) -> Headroom | None:
    """Return the headroom on these questions; None if a budget does not allow their answers."""
    gate = run.config.gate
    if (before := _answer(run, run.parent.prompts, asked)) is None:
        return None
    parent_score = fmean(trial.record.value for trial in before)
    rewrites, n_requests, reflection_failed = [], 0, False
    if parent_score <= MAX_SCORE:
        wrong = [trial for trial in before if trial.record.value < 1]
        texts, n_requests, reflection_failed = _reflect_on_failures(run, wrong)
        for name, prompts in _list_rewrites(run, texts):
            if (after := _answer(run, prompts, asked)) is None:
                return None
            rewrites.append(_compare(name, before, after))
    failures, first_broken = _read_failures(run, before)
    level = find_allowance(list_fingerprints(run.splits.sealed), run.config.base.simulated).level
    accuracy = min(max(parent_score, 0.01), 0.99)
    return Headroom(
        worth_it=any(each.gain > 0 and each.p <= 2 * LEVEL for each in rewrites),
        n_questions=len(asked),
        parent_score=parent_score,
        rewrites=rewrites,
        failures=failures,
        first_broken=first_broken,
        smallest_gain=compute_smallest_gain(
            len(run.splits.sealed), gate.epochs, accuracy, min_gain=gate.min_gain, level=level
        ),
        n_answers=len(asked) * (1 + len(rewrites)),
        n_planned=n_planned,
        n_reflections=n_requests,
        reflection_failed=reflection_failed,
    )


def _answer(run: TuningRun, prompts: PromptSet, asked: Sequence[str]) -> list[Trial] | None:
    """Answer the questions once, without counting them for the search; None if a budget does not allow it."""
    with run.watch():
        trials = run.build_student(prompts).answer_all(asked, counted=False)
    run.check_stopped()
    run.check_metric()
    return trials if all(trial.completed for trial in trials) else None


def _compare(name: str, before: Sequence[Trial], after: Sequence[Trial]) -> Rewrite:
    pairs = [Pair((a.record.value,), (b.record.value,)) for a, b in zip(before, after, strict=True)]
    found = run_paired_test(pairs)
    return Rewrite(
        name, fmean(each.record.value for each in after), found.difference, found.compute_interval(2 * LEVEL), found.p
    )


def _list_rewrites(run: TuningRun, reflected: Mapping[str, str]) -> Iterator[tuple[str, PromptSet]]:
    parent, agents = run.parent.prompts, run.config.agents
    if reflected != parent.texts:
        yield OWN_FAILURES, replace(parent, texts=dict(reflected))
    ruled = {agent: f"{text}\n\n{RULES}" if agent in agents else text for agent, text in parent.texts.items()}
    yield GENERAL_RULES, replace(parent, texts=ruled)


def _reflect_on_failures(run: TuningRun, failed: Sequence[Trial]) -> tuple[dict[str, str], int, bool]:
    """Reflect some times in a row; an agent without a usable reply keeps its text.

    Returns:
        The agents' texts, the requests (replayed ones included: those that this session paid would be too few), and
        whether the reflection failed.
    """
    texts, n_usable = dict(run.parent.prompts.texts), 0
    rewriter = PromptRewriter(run.parent.prompts, run.get_stop_reason, MAX_CHARS, run.objective.labels.names)
    with run.use_reflection(), dspy.context(lm=run.reflection_lm):
        for round_ in range(ROUNDS):
            first = round_ * FAILURES_A_ROUND
            chosen = [failed[(first + number) % len(failed)] for number in range(min(FAILURES_A_ROUND, len(failed)))]
            examples = {agent: list(_list_examples(run, agent, chosen)) for agent in run.config.agents}
            shown = {agent: each for agent, each in examples.items() if each}
            new = rewriter(texts, shown, list(shown))
            texts.update(new)
            n_usable += len(new)
    run.check_stopped()
    has_failed = rewriter.failure is not None or (bool(rewriter.requests) and not n_usable)
    return texts, rewriter.requests, has_failed


def _list_examples(run: TuningRun, agent: str, trials: Sequence[Trial]) -> Iterator[Mapping[str, object]]:
    """Yield the agent's last step in each answer, with the feedback on it, as a reflection reads them."""
    for trial in trials:
        steps = [step for step in trial.steps if step[0] == agent]
        if steps:
            _, inputs, outputs = steps[-1]
            gold, answered = dspy.Example(sample_id=trial.record.sample_id), dspy.Prediction(trial=trial)
            scored = run.objective(gold, answered, pred_name=agent)
            yield {
                "Inputs": {name: str(value) for name, value in inputs.items()},
                "Generated Outputs": {name: str(value) for name, value in outputs.items()},
                "Feedback": getattr(scored, "feedback", ""),
            }


def _read_failures(run: TuningRun, trials: Sequence[Trial]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the wrong answers by kind, and by the agent that was the first to spoil them."""
    kinds, agents = Counter[str](), Counter[str]()
    for record in (trial.record for trial in trials if trial.record.value < 1):
        steps = AgentSteps.of(record)
        expected = Expectation.of(record.target or "", record.question, run.objective.labels)
        kinds["in error"] += record.error is not None
        kinds["wrong in form alone"] += record.error is None and expected.is_content_right(record.answer or "")
        kinds["with a failed tool"] += any(
            tool.error
            for agent in run.parent.prompts.texts
            for step in steps.select_agent(agent)
            for tool in step.tools
        )
        agents[attribute_failure(record, steps, expected.matcher).agent or "unknown"] += 1
    return dict(kinds), dict(agents.most_common())


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"
