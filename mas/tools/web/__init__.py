"""The web as tools see it: public addresses alone, within limits, without the pages that give the benchmark away."""
