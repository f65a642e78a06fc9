"""Questions put to material: what a file or a colleague's findings say about them, whatever their form.

    findings("Who keeps the key?", "The lamp is lit. Mira keeps the key.")      # "Mira keeps the key."
    answer("Who keeps the key?", "Mira keeps the key.")                         # Finding(answer="Mira")

A misreading takes the neighbouring row; a slip takes the neighbouring column or the second best fact.
"""

import re
from dataclasses import replace

from mas.simulation.solving.facts import best_leaves, best_sentences, document, fact_in, leaves, record_tables
from mas.simulation.solving.lookup import look_up
from mas.simulation.solving.marks import marked
from mas.simulation.solving.solving import Finding, solve
from mas.simulation.solving.tables import Table, tables
from mas.simulation.solving.wording import decimals_asked, number

_AGGREGATE = re.compile(
    r"\b(total|sum|average|mean|highest|lowest|most|least|fewest|largest|smallest|longest|shortest|oldest|youngest"
    r"|earliest|latest|cheapest|heaviest|list|alphabetical\w*|more than|less than|at least|at most|over|under|above"
    r"|below|how many)\b",
    re.IGNORECASE,
)
NOTHING_FOUND = "Nothing that answers the question was found."


def question_in(text: str) -> str:
    """The question inside a message: under its label, after `answer:`, or the whole text."""
    labelled = section(text, "question")
    if labelled:
        return labelled
    match = re.search(r"\b(?:to answer|following question|topic or question)\b[^:\n]*:\s*(.+)", text, re.DOTALL)
    if not match:
        return text.strip()
    inner = question_in(match[1]) if "to answer" in match[1] else match[1]
    return re.split(r"\n\nInclude using following file", inner)[0].strip()


def section(text: str, label: str) -> str:
    """The paragraphs under a heading line such as `The research results:`; empty if there is no such heading."""
    match = re.search(
        rf"^(?:The|#+)\s[^\n:]*\b{label}\b[^\n:]*:?[ \t]*\n(.*?)(?=\n\n(?:The|#+)\s[^\n:.]{{1,60}}:[ \t]*\n|\Z)",
        text,
        _ANY,
    )
    return match[1].strip() if match else ""


_ANY = re.MULTILINE | re.DOTALL | re.IGNORECASE


def findings(question: str, content: str, misread: bool = False) -> str:
    """What a careful reader passes on of a file's content."""
    if document(content) is not None:
        records = record_tables(content)
        if records and _AGGREGATE.search(question):
            return "\n\n".join(_table_text(table, misread) for table in records)
        found = best_leaves(question, leaves(content))
        return "\n".join(leaf.text() for leaf in (found[1:] if misread else found)) or NOTHING_FOUND
    content = marked(question, content)
    if read := tables(content):
        return "\n\n".join(_table_text(table, misread) for table in read)
    sentences = best_sentences(question, content, 3)
    return "\n".join(sentences[1:] if misread else sentences) or NOTHING_FOUND


def answer(question: str, material: str, slip: bool = False) -> Finding | None:
    """How to answer from the material, or from the question alone if there is none; None if it cannot be seen."""
    if not material or NOTHING_FOUND in material:
        return solve(question)
    if read := tables(material):
        return look_up(question, read, slip)
    if found := best_leaves(question, leaves(material)):
        chosen = found[1] if slip and len(found) > 1 else found[0]
        return _stated(question, chosen.value, "Read from the path that fits the question best.")
    for sentence in best_sentences(question, material)[1 if slip else 0 :]:
        if fact := fact_in(question, sentence):
            return _stated(question, fact, f"The text says: {sentence}")
    return solve(question)


def _stated(question: str, value: str, why: str) -> Finding:
    decimals = decimals_asked(question)
    found = Finding(answer=value, why=why)
    amount = number(value)
    return (
        found
        if decimals is None or amount is None
        else replace(found, answer=None, expression=value, decimals=decimals)
    )


def _table_text(table: Table, misread: bool) -> str:
    """The table; misread, its last column has slipped down by one row."""
    if not misread or len(table.rows) < 2:
        return table.text()
    shifted = [[*row[:-1], table.rows[index - 1][-1]] for index, row in enumerate(table.rows)]
    return replace(table, rows=shifted).text()
