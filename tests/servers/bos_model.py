"""A model server whose replies repeat the marker in the request: a reply to another client would show its marker.

with running(BosModel()) as model: ...      # model.base_url

The planner chooses `sql`, the query selects the marker, and the answer is `answer to MARKER`. A question with `slow N`
gets its plan after N seconds; one with `hostile` gets an answer that is HTML.
"""

import json
import re
import time

from tests.servers.chat_reply import complete, list_outputs, write_fields
from tests.servers.scripted_llm import Body, ScriptedLlm

_MARKER = re.compile(r"marker-[\w-]+")
HTML = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


class BosModel(ScriptedLlm):
    def complete(self, body: Body) -> Body:
        messages = body["messages"]
        text = json.dumps([message for message in messages if message["role"] == "user"])
        found = _MARKER.search(text)
        marker = found[0] if found else "marker-none"
        if any("mcp_db_query" in json.dumps(tool) for tool in body.get("tools") or ()):
            query = f"SELECT '{marker}' AS marker, name FROM customers ORDER BY id LIMIT 2"
            return complete(calls=[("mcp_db_query", {"query": query})])
        names = list_outputs(messages[0]["content"])
        if "chosen_agents" in names and (slow := re.search(r"slow (\d+)", text)):
            time.sleep(float(slow[1]))
        values = {"chosen_agents": '["sql"]', "needs": "{}", "rationale": f"plan for {marker}", "confidence": "0.9"}
        answer = f"{HTML} {marker}" if "hostile" in text else f"answer to {marker}"
        return complete(write_fields({name: values.get(name, answer if "answer" in name else "") for name in names}))
