"""The GAIA system: planner, researcher, expert, critic and finalizer around an orchestrator."""
