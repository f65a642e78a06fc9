"""Programs that are not part of this project: a Python function, a `dspy.Module`, or an HTTP server."""
