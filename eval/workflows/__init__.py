"""What the commands do: evaluate, resume, rescore, sweep, sync, check."""
