"""The Python API: evaluate and tune programs, compare runs, and read results as data frames.

    import mas_harness

    run = mas_harness.evaluate(classify, samples, "exact", model="gpt-4o-mini")
    print(run)                                 # its score, with the interval
    mas_harness.compare("baseline", run).difference
    mas_harness.samples_df(run)
    tuned = mas_harness.tune(classify, samples, metric, model="gpt-4o-mini", options=["yes=true"])
    mas_harness.apply_prompts(classify, tuned.name)

Reference: docs/reference/python.md.
"""

from eval.reports.data_frames import calls_df, runs_df, samples_df
from eval.workflows.python_api import Comparison, Run, compare, evaluate, open_program, open_run
from mas.prompt_sets.prompt_set import apply_prompts
from mas.runtime.errors import UserError
from optimize.pipeline.python_api import Tuned, tune

__all__ = [
    "Comparison",
    "Run",
    "Tuned",
    "UserError",
    "apply_prompts",
    "calls_df",
    "compare",
    "evaluate",
    "open_program",
    "open_run",
    "runs_df",
    "samples_df",
    "tune",
]
