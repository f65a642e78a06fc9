"""Protection of keys: what other processes get of them."""
