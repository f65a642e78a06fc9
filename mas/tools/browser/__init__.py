"""A real browser for the agents, over the Model Context Protocol: see `session.py`."""
