"""Rules that a prompt can ask for, and how the simulated model follows or breaks them."""
