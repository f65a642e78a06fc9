"""Language models: from a profile in `conf/model/` to one `dspy.LM` per agent."""

AUTO, CHAT, JSON_SCHEMA = OUTPUTS = ("auto", "chat", "json_schema")  # form of a reply: `model.output`
