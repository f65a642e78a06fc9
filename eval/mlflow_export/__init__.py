"""Export of runs to MLflow, in a process of its own."""
