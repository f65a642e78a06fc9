"""Makers of the sample data set."""
