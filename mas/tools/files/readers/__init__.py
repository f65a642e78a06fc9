"""Readers of attached files, one module per kind."""
