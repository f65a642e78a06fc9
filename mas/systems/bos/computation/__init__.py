"""The computation agent: Python code that a model writes, run in the shared sandbox."""
