"""Prompt sets: folders under `prompts/` that are read, applied to a program, and written."""
