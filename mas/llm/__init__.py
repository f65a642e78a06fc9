"""Language models: from a profile in `conf/model/` to one `dspy.LM` per agent."""
