"""The programs under test, one package per system."""
