"""Summaries and comparisons as terminal tables, HTML pages and files."""
