"""Leak check, provenance and publication of prompt sets."""
