"""What the researcher and the expert can call: one tool a file."""
