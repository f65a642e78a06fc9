"""One question answered outside a run: the same runner, limits and failures, and nothing stored.

answered(Example("question", "What is 2 + 2?"), config, prompts, print).answer      # "4"
"""

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.run_session import MissingServices
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.scorers.score import Score
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.trace import Observer


def answer_sample(sample: Sample, config: EvalConfig, prompts: PromptSet | None, observer: Observer) -> Record:
    """The question's record, unscored; its spans go to `observer` as they open and end.

    Raises:
        UserError: a mistake seen only now: a tool that cannot be loaded.
    """
    missing = MissingServices(config)
    with config.system.open_resources(config.tools, missing.note) as resources:
        runner = SampleRunner(
            run_id="ask",
            program=config.system.build(config.model, prompts, resources),
            scorer=_no_score,
            deadline_seconds=config.run.deadline_seconds,
            redact=config.redact,
            open_context=lambda sample_key: SampleContext(sample_key, config.limits),
            observer=observer,
        )
        missing.print_notes()
        return run_blocking(runner.record_of(sample, SampleKey(sample.id)))


def _no_score(question: str, answer: str | None, target: str) -> Score:
    raise AssertionError("a question without a gold answer is not scored")
