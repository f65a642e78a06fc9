"""Sandboxes for code that a model wrote: shut in, limited, and ended with its question."""
