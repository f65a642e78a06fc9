-- PostgreSQL runs this once, on an empty volume. MLflow's accounts need a database of their own.
CREATE DATABASE accounts;
