"""The checks of `eval/doctor.py`. They return findings and raise nothing."""
