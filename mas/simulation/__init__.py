"""A simulated language model, so that everything runs without a key, a network or a cost.

It stands behind DSPy's real LM interface as an engine (see `mas.simulation.engine`); adapters, parsing, tool calls,
retries and the cache are DSPy's own. Importing this package alone costs nothing: DSPy is imported by the engine only.

    dspy.LM("offline/normal-0", engine=OfflineEngine(), async_engine=AsyncOfflineEngine())
"""

SIMULATED_NOTICE = "Simulated model: scores carry no information about any LLM or about GAIA."
