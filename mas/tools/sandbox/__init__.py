"""Where code that a model wrote is run: shut in, limited, and ended with the question it belongs to."""
