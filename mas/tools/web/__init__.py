"""The web as tools see it: public addresses, within limits, without pages with the gold answers."""
