"""Comparison of runs, paired by sample."""
