"""The checks of `eval/doctor.py`; each returns findings and raises nothing."""
