"""The phases of a tuning run, in order: preflight, baseline, search, shortlist, sealed test, gate, publish."""
