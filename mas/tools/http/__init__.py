"""HTTP for tools: public addresses only, throttled, with blocked sites and size limits."""
