"""The publishing gate: looks and power, sealed-test log, decision."""
