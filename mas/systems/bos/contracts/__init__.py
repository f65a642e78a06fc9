"""Requests, results, trace events and responses that the parts of the system exchange."""
