"""The Python API: results of runs as data frames.

    import mas_harness

    mas_harness.runs_df()
    mas_harness.samples_df("latest")

Reference: docs/reference/python.md.
"""

from eval.reports.data_frames import calls_df, runs_df, samples_df
from mas.runtime.errors import UserError

__all__ = ["UserError", "calls_df", "runs_df", "samples_df"]
