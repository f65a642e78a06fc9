"""Export of tuning runs to MLflow: a parent run, one child per candidate, the published prompts."""
