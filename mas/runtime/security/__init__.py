"""Protection of secrets: what other processes get of them, and their removal from what is written."""
