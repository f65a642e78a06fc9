"""A list of runs in the terminal, and as the index page of outputs/."""
