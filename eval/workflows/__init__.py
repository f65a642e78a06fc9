"""Steps of the commands: evaluate, resume, rescore, sweep, sync."""
