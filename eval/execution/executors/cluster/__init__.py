"""Executor on a Ray cluster (`executor=ray`)."""
