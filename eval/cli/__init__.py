"""Command lines: Hydra composition, help, signals, exit codes."""
