"""State that the phases of a tuning run share: files, budget, progress, termination."""
