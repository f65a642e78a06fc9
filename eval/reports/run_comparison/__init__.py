"""The page of compared runs: how much they differ, in what, and on which questions."""
