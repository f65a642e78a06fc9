"""How an answer is judged."""
