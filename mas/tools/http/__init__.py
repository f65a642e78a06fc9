"""HTTP for tools: public addresses only, with blocked sites and size limits."""
