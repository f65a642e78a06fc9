"""The simulated reflection model."""
