"""Programs that are not part of this project: a DSPy program, a Python function, or an HTTP server."""
