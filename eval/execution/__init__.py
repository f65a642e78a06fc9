"""From samples to records: runner, limits, scoring, budget, stop, progress on the console."""
