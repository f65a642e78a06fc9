"""Agents that are not ours: a Python function, a `dspy.Module`, or a server that speaks HTTP."""
