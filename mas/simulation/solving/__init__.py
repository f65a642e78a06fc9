"""Solvers that work answers out of questions, tables and documents."""
