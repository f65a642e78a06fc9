"""A simulated language model: everything runs without a key, a network or a cost.

It is an engine behind DSPy's own LM interface, so adapters, parsing, tool calls and retries are the real ones.
Importing this package does not import DSPy.

    SimulatedModel(world="normal", seed=0).create_lm(AgentModel(agent="planner"))      # a dspy.LM
"""

from mas.simulation.model import SIMULATED_NOTICE, SimulatedModel

__all__ = ["SIMULATED_NOTICE", "SimulatedModel"]
