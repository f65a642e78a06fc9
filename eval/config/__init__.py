"""Checked dataclasses of `conf/`."""
