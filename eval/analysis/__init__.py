"""Numbers that are made from records."""
