"""The folder of a run: store, lock, logs, kept replies, prompts and facts."""
