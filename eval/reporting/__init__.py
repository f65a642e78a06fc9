"""What is made from a run's records: table, summary, answers."""
