"""A planner, three specialised agents (SQL, API documentation, computation) and a composer."""
