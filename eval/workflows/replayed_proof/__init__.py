"""Wrong samples asked again with one agent's output corrected: `eval/attribute.py`."""
