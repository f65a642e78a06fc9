"""Prompt sets: folders under `prompts/` that are read, applied to a program, and written."""

# First line of each request of an example that is shown as a conversation.
EXAMPLE = "This is an example of the task."
