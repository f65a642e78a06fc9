"""Damage to a run's database: noticed, named, and restored from the copies in the folder."""
