"""Answers from material of any form: a file, or the findings of another agent.

    extract_findings("Who keeps the key?", "The lamp is lit. Mira keeps the key.")      # "Mira keeps the key."
    answer_from_material("Who keeps the key?", "Mira keeps the key.")                   # Finding(answer="Mira")

`misreads` causes a mistake: findings from the neighbouring row, an answer from the second best column or fact.
"""

import re
from dataclasses import replace

from mas.simulation.solving.facts import (
    extract_fact,
    parse_json,
    read_leaves,
    read_record_tables,
    select_leaves,
    select_sentences,
)
from mas.simulation.solving.lookup import look_up
from mas.simulation.solving.self_contained import Finding, solve
from mas.simulation.solving.tables import Table, read_tables
from mas.simulation.solving.wording import parse_number, read_decimals

_SOUND = re.compile(r"^[^\n]+?: (sound, [^\n;]+)")
# Word of a question, and the mark that the file reader writes after a cell's value or in its place.
_ON_A_CELL = (
    (r"\bcomments?\b", r"\[comment: ([^\]|]*)\]"),
    (r"\bformula", r"\[(=[^\]|]*?)(?:, result not stored in the file)?\]"),
    (r"\bfill(?:ed)?\b|\bcolou?r", r"\[fill (\w+)\]"),
)
_SHEET = re.compile(r"^(?=sheet \")", re.MULTILINE)


def read_sound_header(text: str) -> str | None:
    """Return length and rate from the file reader's text about a sound; None for other files."""
    match = _SOUND.match(text)
    return match[1] if match else None


def use_cell_marks(question: str, content: str) -> str:
    """Replace the cells of a workbook by the marks that the question asks for: comments, formulas, fills, areas."""
    asked = question.lower()
    if re.search(r"\bmerged\b", asked) and (areas := re.findall(r"; (merged [A-Z]+\d+:[^;\n]+)", content)):
        return "\n".join(f"cells {area}" for area in areas)
    if "hidden sheet" in asked:
        hidden = [sheet for sheet in re.split(_SHEET, content) if "; hidden sheet" in sheet.partition("\n")[0]]
        content = "".join(hidden) or content
    if "hidden row" in asked and "[hidden row]" in content:
        content = _select_hidden_rows(content)
    for word, mark in _ON_A_CELL:
        if re.search(word, asked):
            content = re.sub(rf"(?<=\| )[^|\n]*{mark}[^|\n]*?(?= \||$)", r"\1", content, flags=re.MULTILINE)
    return content


def _select_hidden_rows(content: str) -> str:
    """Return, of each table, the column letters, the header and the hidden rows."""
    lines = content.splitlines()
    header = {place + offset for place, line in enumerate(lines) if line.startswith("row | ") for offset in (0, 1)}
    kept = (line for place, line in enumerate(lines) if place in header or "[hidden row]" in line or " | " not in line)
    return "\n".join(kept)


_AGGREGATE = re.compile(
    r"\b(total|sum|average|mean|highest|lowest|most|least|fewest|largest|smallest|longest|shortest|oldest|youngest"
    r"|earliest|latest|cheapest|heaviest|list|alphabetical\w*|more than|less than|at least|at most|over|under|above"
    r"|below|how many)\b",
    re.IGNORECASE,
)
NOTHING_FOUND = "Nothing that answers the question was found."


def extract_question(text: str) -> str:
    """Return the question in a message: under its label, after `answer:`, or the whole text."""
    labelled = extract_section(text, "question")
    if labelled:
        return labelled
    match = re.search(r"\b(?:to answer|following question|topic or question)\b[^:\n]*:\s*(.+)", text, re.DOTALL)
    if not match:
        return text.strip()
    inner = extract_question(match[1]) if "to answer" in match[1] else match[1]
    return re.split(r"\n\nInclude using following file", inner)[0].strip()


def extract_section(text: str, label: str) -> str:
    """Return the paragraphs under a heading such as `The research results:`; empty if there is none."""
    match = re.search(
        rf"^(?:The|#+)\s[^\n:]*\b{label}\b[^\n:]*:?[ \t]*\n(.*?)(?=\n\n(?:The|#+)\s[^\n:.]{{1,60}}:[ \t]*\n|\Z)",
        text,
        _ANY,
    )
    return match[1].strip() if match else ""


_ANY = re.MULTILINE | re.DOTALL | re.IGNORECASE


def extract_findings(question: str, content: str, misreads: bool = False) -> str:
    """Return the parts of a file that matter to the question."""
    if parse_json(content) is not None:
        records = read_record_tables(content)
        if records and _AGGREGATE.search(question):
            return "\n\n".join(_format_table(table, misreads) for table in records)
        found = select_leaves(question, read_leaves(content))
        return "\n".join(leaf.text() for leaf in (found[1:] if misreads else found)) or NOTHING_FOUND
    content = use_cell_marks(question, content)
    if read := read_tables(content):
        return "\n\n".join(_format_table(table, misreads) for table in read)
    sentences = select_sentences(question, content, 3)
    return "\n".join(sentences[1:] if misreads else sentences) or NOTHING_FOUND


def answer_from_material(question: str, material: str, misreads: bool = False) -> Finding | None:
    """Return the answer from the material, or from the question alone without any; None if there is none."""
    if not material or NOTHING_FOUND in material:
        return solve(question)
    if read := read_tables(material):
        return look_up(question, read, misreads)
    if found := select_leaves(question, read_leaves(material)):
        chosen = found[1] if misreads and len(found) > 1 else found[0]
        return _create_finding(question, chosen.value, "Read from the path that fits the question best.")
    for sentence in select_sentences(question, material)[1 if misreads else 0 :]:
        if fact := extract_fact(question, sentence):
            return _create_finding(question, fact, f"The text says: {sentence}")
    return solve(question)


def _create_finding(question: str, value: str, why: str) -> Finding:
    decimals = read_decimals(question)
    found = Finding(answer=value, why=why)
    amount = parse_number(value)
    return (
        found
        if decimals is None or amount is None
        else replace(found, answer=None, expression=value, decimals=decimals)
    )


def _format_table(table: Table, misreads: bool) -> str:
    """Return the table as text; misread, its last column is shifted down by one row."""
    if not misreads or len(table.rows) < 2:
        return table.text()
    shifted = [[*row[:-1], table.rows[index - 1][-1]] for index, row in enumerate(table.rows)]
    return replace(table, rows=shifted).text()
