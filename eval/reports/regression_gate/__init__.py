"""Verdict of the regression gate, `eval/compare.py --gate`, in words and files."""
