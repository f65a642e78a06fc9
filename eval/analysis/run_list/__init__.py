"""Runs and tuning runs below some folders, as a list that is read from small files and filtered by words."""
