"""Evaluation: examples in, one record per question out, and everything made from those records."""
