"""Optimisers, one module per library."""
