"""The agents that the simulated model plays."""
