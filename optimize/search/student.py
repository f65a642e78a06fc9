"""The system and its metric as DSPy's optimizers want them: a student that answers and an objective that scores.

The student answers by sample id, never raises, and shows its trace; its predictors are the tuned agents. Copies have
prompts of their own and share the trials. The objective is the run's score, with feedback for one agent when its name
is given. Targets are never returned.
"""

import copy
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

import dspy

from eval.analysis.attribution.agent_attribution import attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.benchmarks.dataset import Sample, list_gold_texts
from eval.execution.scoring import describe_answered
from eval.scorers.labels import LabelSet
from eval.scorers.score import SampleScorer, Score, Scorer
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest, read_applied_prompts
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.system import Program
from optimize.feedback.feedback import NOT_ASKED, Expectation, build_feedback, remove_quotes
from optimize.search.dspy_compat import BaseModule, run_in_threads
from optimize.search.trials import Trial, Trials, keep_last_steps

_APPLYING = threading.Lock()  # shared by all students: it is held for less than a millisecond
NONSENSE = "qvxzzkrw"  # no word of any language, and no number
MAX_TESTED = 5  # samples that `check_scorer` tries


class Student(dspy.Module):
    """A program whose answers are trials."""

    def __init__(self, program: Program, prompts: PromptSet, trials: Trials, agents: Collection[str] = ()) -> None:
        """Create a student of a program whose predictors are named like its agents; no `agents`: all are tuned."""
        super().__init__()
        _distinguish_signatures(program)
        self.program, self.initial_prompts, self.trials = program, prompts, trials
        self.agents = tuple(agents) or tuple(prompts.texts)
        self._shows_last_only = False
        self._applied = ""  # digest of the prompts that were applied last

    def named_parameters(self) -> list[tuple[str, dspy.Predict]]:
        return [(name, predictor) for name, predictor in self.program.named_predictors() if name in self.agents]

    @property
    def prompts(self) -> PromptSet:
        """The current texts and demos of all agents."""
        return read_applied_prompts(self.program, self.initial_prompts)

    def forward(self, sample_id: str) -> dspy.Prediction:
        """Return the answer to a question, with its `trial`."""
        trial = self.trial(sample_id)
        if dspy.settings.trace is not None:
            predictors = dict(self.program.named_predictors())
            steps = keep_last_steps(trial.steps) if self._shows_last_only else trial.steps
            dspy.settings.trace.extend((predictors[agent], inputs, outputs) for agent, inputs, outputs in steps)
        return dspy.Prediction(final_answer=trial.record.answer, trial=trial)

    def trial(self, sample_id: str, epoch: int = 1) -> Trial:
        """Return the trial of a question."""
        with _APPLYING:  # changed prompts, as a published set would be
            prompts = self.prompts
            if (found := digest(prompts)) != self._applied:
                apply_prompt_set(self.program, prompts)
                self._applied = found
        return self.trials.run(self.program, found, sample_id, epoch)

    def answer_all(self, sample_ids: Sequence[str], epoch: int = 1) -> list[Trial]:
        """Return a trial of each question, as `run_trials`."""
        return run_trials([(self, each) for each in sample_ids], epoch)

    def copy_for_demos(self) -> "Student":
        """Return a copy that adds one step per agent to the caller's trace, the last: a useful worked example."""
        copied: Student = copy.deepcopy(self)
        copied._shows_last_only = True
        return copied

    def copy_with(self, prompts: PromptSet) -> "Student":
        """Return a copy with these prompts."""
        copied: Student = copy.deepcopy(self)
        apply_prompt_set(copied.program, prompts)
        return copied

    def reset_copy(self) -> "Student":
        """Return a copy without demos of the tuned agents. DSPy's own method would remove their models as well."""
        copied: Student = copy.deepcopy(self)
        for _, predictor in copied.named_parameters():
            predictor.demos = []
        return copied

    def __deepcopy__(self, memo: dict[int, object]) -> "Student":
        program = copy.deepcopy(self.program, {id(value): value for value in _shared_values(self.program)})
        copied = Student(program, self.initial_prompts, self.trials, self.agents)
        copied._shows_last_only = self._shows_last_only
        return copied


def run_trials(asked: Sequence[tuple[Student, str]], epoch: int = 1) -> list[Trial]:
    """Return the trial of each question by its student, `trials.concurrency` at once; only a defect is raised."""
    if not asked:
        return []
    shared = asked[0][0].trials
    trials = run_in_threads(lambda each: each[0].trial(each[1], epoch), asked, shared.concurrency)
    shared.check()
    return trials


def _distinguish_signatures(program: Program) -> None:
    """Mark signatures that several predictors have, by which GEPA finds the calls of one. No adapter shows the mark."""
    seen: list[type[dspy.Signature]] = []
    for name, predictor in program.named_predictors():
        if any(predictor.signature.equals(other) for other in seen):
            first = next(iter(predictor.signature.fields))
            predictor.signature = predictor.signature.with_updated_fields(first, of_predictor=name)
        seen.append(predictor.signature)


def _shared_values(program: Program) -> Iterator[object]:
    """Yield what copies share, all but the predictors: models, tools and values, some of which cannot be copied."""
    for _, module in program.named_sub_modules():
        if isinstance(module, dspy.Predict):
            yield module.lm
        elif isinstance(module, BaseModule):
            yield from (value for value in vars(module).values() if not _holds_modules(value))


def _holds_modules(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_modules, value.values()))
    return isinstance(value, BaseModule) or (isinstance(value, list | tuple) and any(map(_holds_modules, value)))


class Objective:
    """Metric of a search over its training and validation questions. Thread-safe.

    It never raises, because an optimizer swallows what a metric raises and goes on with nothing learned. Instead,
    `errors` of `calls` counts what failed: if their share is large, the search is blind.
    """

    def __init__(
        self,
        train: Sequence[Sample],
        val: Sequence[Sample] = (),
        scorer: Scorer | None = None,
        labels: LabelSet | None = None,
    ) -> None:
        """Create a metric; the scorer may give feedback of its own, which may name the labels."""
        self._scorer = scorer if isinstance(scorer, SampleScorer) else None
        self.labels = labels or LabelSet()
        self.train_ids = [sample.id for sample in train]
        self.val_ids = [sample.id for sample in val]
        self.samples = {sample.id: sample for sample in (*train, *val)}
        self._tags = Counter(tag for sample in self.samples.values() for tag in sample.tags.items())
        self._lock = threading.Lock()
        self.calls = self.errors = 0
        self.first_error: str | None = None

    def __call__(
        self,
        gold: dspy.Example,
        pred: dspy.Prediction,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: object = None,
    ) -> "float | dspy.Prediction":
        """Score a prediction of the student, as `dspy.GEPA` calls its metric, by the example's `sample_id`.

        `pred_name`: the agent that is to learn from the answer; None: return the score alone, 0 to 1. `trace`: of the
        whole program, `pred_trace`: of this agent, for the feedback of the user's own metric.
        """
        score, feedback, error = 0.0, "", None
        try:
            trial: Trial = pred.trial
            score = trial.record.value
            if pred_name is not None:
                feedback = self._feedback(gold.sample_id, pred_name, trial, trace, pred_trace)
        except Exception as raised:  # noqa: BLE001  the boundary of one answer: counted, and reported by the run
            error = f"{type(raised).__name__}: {raised}"
        with self._lock:
            self.calls += 1
            self.errors += error is not None
            self.first_error = self.first_error or error
        return score if pred_name is None else dspy.Prediction(score=score, feedback=feedback)

    def assess(self, trial: Trial, agent: str | None = None) -> dspy.Prediction:
        """Return the `score` of a trial; with an agent also the `feedback` to it."""
        judged = self(dspy.Example(sample_id=trial.record.sample_id), dspy.Prediction(trial=trial), None, agent)
        return judged if isinstance(judged, dspy.Prediction) else dspy.Prediction(score=judged)

    def find_agent_at_fault(self, trial: Trial) -> str | None:
        """Return the agent that made the first mistake of a wrong answer, as far as its steps show."""
        if not trial.completed:
            return None
        matcher = self._expect(trial.record.sample_id).matcher
        return attribute_failure(trial.record, AgentSteps.of(trial.record), matcher).agent

    def _expect(self, sample_id: str) -> Expectation:
        sample = self.samples[sample_id]
        return Expectation.of(sample.target or "", sample.question, self.labels)

    def _feedback(self, sample_id: str, agent: str, trial: Trial, trace: object, own_trace: object) -> str:
        if not trial.completed:
            return NOT_ASKED
        sample, record = self.samples[sample_id], trial.record
        expectation, text = self._expect(sample_id), ""
        if self._scorer is not None and record.error is None:
            own = self._scorer.give_feedback(describe_answered(record, sample.tags), agent, trace, own_trace)
            text = remove_quotes(own or "", expectation.matcher)
        text = text or build_feedback(agent, record, expectation)
        # The user's metric reads values that no other sample has, and they may be part of the target; what a program is
        # asked is no secret.
        for name, value in sample.tags.items() if self._scorer is not None else ():
            if self._tags[name, value] == 1 and value not in sample.question:
                for secret in list_gold_texts(name, value):
                    text = remove_quotes(text, TargetMatcher(secret))
        return text


def check_scorer(scorer: Scorer, samples: Sequence[Sample]) -> None:
    """Try the scorer on targets, which must score 1, and on nonsense, which must not; UserError: it is broken."""
    with suppress(UserError):  # it cannot be loaded: the first question says so
        if isinstance(scorer, SampleScorer) and scorer.reads_outputs():
            return  # nobody but the program knows outputs that would be right
    for sample in samples[:MAX_TESTED]:
        for answer, what in ((sample.target or "", "the target itself"), (NONSENSE, "nonsense")):
            asked = f"on question {sample.id} with {what} as the answer"
            try:
                value = run_blocking(_value(scorer, sample, answer))
            except Exception as error:  # a scorer may be the user's own
                cause = " ".join(f"{type(error).__name__}: {error}".split())
                raise UserError(f"The scorer failed {asked} ({cause}); fix it or choose another.") from error
            if (value >= 1) == (answer is NONSENSE):
                raise UserError(f"The scorer gives {value:g} {asked}; fix it, or the question's target.")


async def _value(scorer: Scorer, sample: Sample, answer: str) -> float:
    score = scorer(sample.question, answer, sample.target or "")
    return score.value if isinstance(score, Score) else (await score).value
