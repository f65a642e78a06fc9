"""One running sample: context, trace, errors, event loop, and guards around foreign code."""
