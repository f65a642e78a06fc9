"""A loopback model server that classifies tickets, and does so well only if its instructions list the labels.

with labelling_llm(planted=["Paveldel"]) as server:
    server.base_url            # for model.base_url
    server.briefs              # the reflection requests that it was sent
    server.classified          # number of requests for a label

It understands a ticket by its key word in `MEANINGS`, and knows the labels only from its instructions: where they list
the one that it means it replies with that, otherwise with words of its own. As the reflection it lists the labels that
the brief or the feedback has named; it knows no others. `planted` are texts that it adds, as a model that has memorised
the benchmark would.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.servers.function_llm import AskedFields, FunctionServer
from tests.servers.loopback import running

# What a ticket holds: the label that is right, and how the model puts it without knowing the labels.
MEANINGS = {
    "invoice": ("billing", "a question of money"),
    "password": ("access", "cannot get in"),
    "crash": ("bug", "something is broken"),
    "manual": ("not a bug", "works as intended"),
}
_IN_BRIEF = re.compile(r"one of these labels: (.*?)\. They are no secret", re.DOTALL)
_IN_FEEDBACK = re.compile(r"The expected label was '([^']*)'")


class LabellingServer(FunctionServer):
    def __init__(self, planted: Sequence[str], reads_brief: bool) -> None:
        super().__init__(self._answer, self._rewrite)
        self.planted = planted
        self.reads_brief = reads_brief  # False: it lists only labels that the feedback has named
        self.briefs: list[str] = []
        self.classified = 0

    def _answer(self, asked: AskedFields) -> dict[str, str]:
        self.classified += "label" in asked.outputs
        ticket = next((word for word in MEANINGS if word in str(asked.inputs)), "")
        label, own_words = MEANINGS.get(ticket, ("", "no idea"))
        given = label if f"'{label}'" in asked.instructions else own_words
        return {name: given if name == "label" else f"about: {ticket}" for name in asked.outputs}

    def _rewrite(self, asked: AskedFields) -> str:
        brief = "\n".join([asked.system, *asked.inputs.values()])
        self.briefs.append(brief)
        known = set(_IN_FEEDBACK.findall(brief))
        for listed in _IN_BRIEF.findall(brief) if self.reads_brief else ():
            known |= set(json.loads(f"[{listed}]"))
        listed_labels = ", ".join(f"'{name}'" for name in sorted(known))
        rules = f"Reply with exactly one of {listed_labels}." if known else "Be precise."
        return "\n\n".join([rules, *self.planted])


@contextmanager
def labelling_llm(planted: Sequence[str] = (), reads_brief: bool = True) -> Iterator[LabellingServer]:
    with running(LabellingServer(planted, reads_brief)) as server:
        yield server
