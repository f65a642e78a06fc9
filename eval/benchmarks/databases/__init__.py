"""Questions about databases and an API, which come with what they are about."""
