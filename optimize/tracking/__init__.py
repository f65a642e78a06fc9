"""Tuning runs in MLflow: a parent run, a child for each proposal, the published prompts in the Prompt Registry."""
