"""HTTP service of the system: server-sent events, limits, tokens, and a page for people."""
