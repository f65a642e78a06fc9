"""Optimizers, one module per library."""
