"""Labels of people on answers: kept as files, applied to runs, and compared with a judge's verdicts."""
