"""Prompt optimisation over the harness in `eval/`."""
