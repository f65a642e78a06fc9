"""What `eval/doctor.py` looks at, one file a subject; each check gives findings and raises nothing."""
