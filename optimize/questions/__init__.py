"""Division of samples into training, validation and sealed test questions."""
