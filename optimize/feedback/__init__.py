"""Feedback to one agent about one answer."""
