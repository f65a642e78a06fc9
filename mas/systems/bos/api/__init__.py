"""The API-docs agent: it finds a documented endpoint, sends one request and sums up the reply."""
