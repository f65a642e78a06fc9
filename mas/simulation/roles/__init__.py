"""Agents that the simulated model plays."""
