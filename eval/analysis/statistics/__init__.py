"""Intervals and paired tests."""
