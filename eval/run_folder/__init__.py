"""What lies in the folder of a run: its lock, logs, configuration and prompts, and what must not be paid for twice."""
