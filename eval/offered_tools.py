"""Which tools each agent really had: a key that is missing, or a server that is down, may have taken one away.

offered_tools(program)      # {"researcher": ["read_file"], "expert": ["calculator", "read_file"]}
"""

from typing import Any


def offered_tools(program: Any) -> dict[str, list[str]]:
    """Agent → names, sorted; empty for a program that says nothing of tools, such as somebody else's.

    Args:
        program: with `toolboxes` (agent → what has `tools` by name), or with one `toolbox` for all its predictors.
    """
    boxes = getattr(program, "toolboxes", None)
    if boxes is None and (box := getattr(program, "toolbox", None)) is not None:
        boxes = {name: box for name, _ in program.named_predictors()}
    return {str(agent): sorted(map(str, box.tools)) for agent, box in (boxes or {}).items()}
