"""Sweeps: several runs by one command line, and the table that compares them."""
