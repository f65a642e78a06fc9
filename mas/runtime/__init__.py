"""One running sample: its context, trace, errors, event loop, and the guards around calls into foreign code."""
