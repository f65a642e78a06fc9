"""A simulated language model: everything runs without a key, a network or a cost.

It is an engine behind DSPy's own LM interface, so adapters, parsing, tool calls and retries are the real ones. This
package is its only entry point; its modules are internal. Importing it does not import DSPy.

    SimulatedModel(world="normal", seed=0).create_lm(AgentModel(agent="planner"))      # a dspy.LM
    answer_request(request)                                                     # the reply, without an LM around it
"""

from mas.simulation.model import SIMULATED_NOTICE, SimulatedModel, answer_request, propose_prompt

__all__ = ["SIMULATED_NOTICE", "SimulatedModel", "answer_request", "propose_prompt"]
