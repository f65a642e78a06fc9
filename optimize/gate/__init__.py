"""The publishing gate: power, sealed-test log, decision."""
