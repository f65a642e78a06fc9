"""What a question's run leaves behind, step by step."""
