"""Results of a tuning run for people: a snapshot of its folder, its outcome in words, and its page."""
