"""Folders from elsewhere are data: signatures, stored command lines, and databases that are checked before use."""
