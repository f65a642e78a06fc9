"""Readers of attached files: one kind a file."""
