"""Detection of leaked benchmark content in texts and web results."""
