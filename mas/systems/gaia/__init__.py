"""The GAIA question answerer: planner, researcher, expert, critic and finalizer around an orchestrator."""
