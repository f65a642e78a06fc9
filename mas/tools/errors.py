"""The one exception that a tool raises on purpose.

raise ToolError("no sheet is named 'Sale'; the sheets are 'Sales', 'Costs'")
"""


class ToolError(Exception):
    """A tool could not do it: one sentence with the cause and what to try instead.

    Its reader is the agent: the caller hands it back as an observation, and the question goes on.
    """
