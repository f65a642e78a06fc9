"""One question answered outside a run: the same runner, limits and failures, and nothing stored.

answer_sample(Sample("question", "What is 2 + 2?"), config, prompts, observer).answer      # "4"
"""

from eval.benchmarks.dataset import Sample
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.config.evaluation import EvalConfig
from eval.execution.console import Console, MissingServices
from eval.execution.runner import SampleRunner
from eval.reports.live_steps import LiveSteps, print_answer
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.terminal import print_line
from mas.runtime.trace import Observer
from mas.simulation import SIMULATED_NOTICE


def show_answer(sample: Sample, config: EvalConfig, prompts: PromptSet | None) -> int:
    """Answer the question, show the steps as they happen and then the answer; return the exit code."""
    console = Console()
    if config.needs_model and config.model.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    steps = LiveSteps(console, config.redact)
    try:
        record = answer_sample(sample, config, prompts, steps.observe)
    except KeyboardInterrupt:
        steps.is_closed = True
        print_line("error: interrupted; nothing is stored.", error=True)
        return STOPPED
    print_answer(record, console, config.redact)
    if record.error is not None:
        print_line(f"error: {record.error_component}: {record.error}", error=True)
        if config.log.terminal and record.error_details:
            print_line(record.error_details.stack, error=True)
    return FINISHED if record.error is None else FAILURES


def answer_sample(sample: Sample, config: EvalConfig, prompts: PromptSet | None, observer: Observer) -> Record:
    """Return the record of the sample, unscored; its spans go to `observer` as they open and end.

    Raises:
        UserError: the program cannot be built, such as with a tool that cannot be loaded.
    """
    missing = MissingServices(config)
    with missing.open_resources() as resources:
        runner = SampleRunner(
            run_id="ask",
            program=config.system.build(config.model, prompts, resources),
            scorer=config.scorer,  # never called: the sample has no target
            deadline_seconds=config.run.deadline_seconds,
            redact=config.redact,
            open_context=lambda sample_key: SampleContext(sample_key, config.limits),
            observer=observer,
        )
        missing.report()
        return run_blocking(runner.run_sample(sample, SampleKey(sample.id)))
