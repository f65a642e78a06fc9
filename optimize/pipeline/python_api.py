"""Tuning from Python, over the code of `optimize/run.py`: `mas_harness.tune`.

tuned = tune(program, samples, metric, model="gpt-4o-mini", options=["yes=true", "budget.usd=5"])
tuned.is_published, tuned.name, tuned.folder
mas_harness.apply_prompts(program, tuned.name)
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from eval.cli.command import InterruptedRunError
from eval.cli.hydra_compat import compose_config, format_override
from eval.execution.console import Console, KeptOutput
from eval.workflows.python_api import ScorerFunction, list_overrides, render_text, report_mistakes
from mas.runtime.errors import UserError
from optimize.session.config import read_config
from optimize.session.tuning_store import read_tuning

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Tuned:
    """A tuning run that has ended, with or without a verdict."""

    folder: Path
    name: str  # of the set that was to be published
    verdict: Mapping[str, object] | None  # None: it was stopped before, and can be resumed
    notes: tuple[str, ...] = ()

    @property
    def is_published(self) -> bool:
        """True if the tuned prompts were better on sealed questions, and are under `prompts/`."""
        return bool(self.verdict and self.verdict["published"])

    @property
    def gain(self) -> float | None:
        """Gain on the sealed questions, in the metric; None: there was no sealed test."""
        return cast(float | None, self.verdict and self.verdict["gain"])

    def __str__(self) -> str:
        return render_text(self._print)

    __repr__ = __str__

    def _print(self, console: Console) -> None:
        from optimize.reports.tuning_page import show_verdict

        if self.verdict is not None:
            show_verdict(read_tuning(self.folder), console)
        for line in self.notes:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def tune(
    program: object,
    samples: "str | Path | Iterable[Mapping[str, object]] | pandas.DataFrame",
    scorer: str | ScorerFunction = "exact",
    *,
    model: str,
    name: str = "tuned",
    options: Sequence[str] = (),
    progress: bool = True,
) -> Tuned:
    """Look for better prompts, test them on sealed samples and publish them if they are better, as `optimize/run.py`.

    Args:
        program: as of `evaluate`, like `samples` and `scorer`; one with prompts, so no plain function.
        model: a choice of `model=`: answers, and rewrites prompts unless `reflection_model=…` is given.
        name: of the prompt set to be published.
        options: further options of `optimize/run.py`. A paid run needs a yes to its estimate: `yes=true`.
        progress: show the estimate, the phases and the progress on standard error; nothing else is printed.

    Raises:
        UserError: a mistake, found before anything is spent.
        KeyboardInterrupt: the run was interrupted; its folder keeps what is finished.
    """
    output = KeptOutput(progress)
    with ExitStack() as stack, report_mistakes():
        given = list_overrides(stack, program, samples, scorer, model, options)
        command = [format_override("name", name), *(each for each in given if not each.startswith("run.name="))]
        config = read_config(compose_config(command, "optimize"), command)
        if config.resume:
            raise UserError("resume is not for Python: give it to optimize/run.py on the command line.")
        config.check()
        from optimize.pipeline.tuning import tune as run_tuning

        try:
            folder, _ = run_tuning(config, output)
        except InterruptedRunError as interrupt:
            raise KeyboardInterrupt(" ".join(output.lines)) from interrupt
    return Tuned(folder, config.name, read_tuning(folder).verdict or None, tuple(output.lines))
