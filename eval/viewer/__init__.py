"""Viewer of runs in the browser: pages of finished runs, live runs, and the queue in which people review answers."""
