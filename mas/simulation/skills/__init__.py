"""What a prompt asks of the simulated model, and whether the model does it."""
