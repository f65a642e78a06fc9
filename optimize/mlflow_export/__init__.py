"""Export of tuning runs to MLflow: a parent run, one child per candidate, the published prompts."""

from eval.mlflow_export.exporter import ExportKind

TUNING = ExportKind("optimize.mlflow_export.tuning_export:TuningExport", "optimize")
