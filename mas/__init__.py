"""The programs under test, and what they share: models, tools, prompts, tracing."""
