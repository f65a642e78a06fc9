"""Tools that agents can call, one module each."""
