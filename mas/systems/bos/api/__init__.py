"""The API-docs agent: it finds an endpoint in the documentation, sends one request and sums up the reply."""
