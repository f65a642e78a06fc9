"""Datasets: sources of samples."""
