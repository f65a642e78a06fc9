"""One agent in one tool loop: the baseline that a team of agents must beat."""
