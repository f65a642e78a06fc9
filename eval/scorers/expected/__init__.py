"""Scorer that compares what a program returned with what the data expect of it, part by part."""
