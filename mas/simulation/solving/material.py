"""Questions put to material: what a file or a colleague's findings say about them, whatever their form.

    findings("Who keeps the key?", "The lamp is lit. Mira keeps the key.")      # "Mira keeps the key."
    answer("Who keeps the key?", "Mira keeps the key.")                         # Finding(answer="Mira")

A misreading takes the neighbouring row; a slip takes the neighbouring column or the second best fact.
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
# What a question asks for, and how the file reader writes it behind a cell's value or in place of it.
_ON_A_CELL = (
    (r"\bcomments?\b", r"\[comment: ([^\]|]*)\]"),
    (r"\bformula", r"\[(=[^\]|]*?)(?:, result not stored in the file)?\]"),
    (r"\bfill(?:ed)?\b|\bcolou?r", r"\[fill (\w+)\]"),
)
_SHEET = re.compile(r"^(?=sheet \")", re.MULTILINE)


def read_sound_header(text: str) -> str | None:
    """What the first line of a file reader's text says of a sound; None if it is about something else."""
    match = _SOUND.match(text)
    return match[1] if match else None


def use_cell_marks(question: str, content: str) -> str:
    """A workbook's text with what the question asks for in the cells' places; as it is if it asks for no mark."""
    asked = question.lower()
    if re.search(r"\bmerged\b", asked) and (areas := re.findall(r"; (merged [A-Z]+\d+:[^;\n]+)", content)):
        return "\n".join(f"cells {area}" for area in areas)
    if "hidden sheet" in asked:
        hidden = [sheet for sheet in re.split(_SHEET, content) if "; hidden sheet" in sheet.partition("\n")[0]]
        content = "".join(hidden) or content
    if "hidden row" in asked and "[hidden row]" in content:
        content = _only_hidden_rows(content)
    for word, mark in _ON_A_CELL:
        if re.search(word, asked):
            content = re.sub(rf"(?<=\| )[^|\n]*{mark}[^|\n]*?(?= \||$)", r"\1", content, flags=re.MULTILINE)
    return content


def _only_hidden_rows(content: str) -> str:
    """Of each table the letters, the header below them and the rows that are hidden."""
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
    """The question inside a message: under its label, after `answer:`, or the whole text."""
    labelled = extract_section(text, "question")
    if labelled:
        return labelled
    match = re.search(r"\b(?:to answer|following question|topic or question)\b[^:\n]*:\s*(.+)", text, re.DOTALL)
    if not match:
        return text.strip()
    inner = extract_question(match[1]) if "to answer" in match[1] else match[1]
    return re.split(r"\n\nInclude using following file", inner)[0].strip()


def extract_section(text: str, label: str) -> str:
    """The paragraphs under a heading line such as `The research results:`; empty if there is no such heading."""
    match = re.search(
        rf"^(?:The|#+)\s[^\n:]*\b{label}\b[^\n:]*:?[ \t]*\n(.*?)(?=\n\n(?:The|#+)\s[^\n:.]{{1,60}}:[ \t]*\n|\Z)",
        text,
        _ANY,
    )
    return match[1].strip() if match else ""


_ANY = re.MULTILINE | re.DOTALL | re.IGNORECASE


def extract_findings(question: str, content: str, misread: bool = False) -> str:
    """What a careful reader passes on of a file's content."""
    if parse_json(content) is not None:
        records = read_record_tables(content)
        if records and _AGGREGATE.search(question):
            return "\n\n".join(_table_text(table, misread) for table in records)
        found = select_leaves(question, read_leaves(content))
        return "\n".join(leaf.text() for leaf in (found[1:] if misread else found)) or NOTHING_FOUND
    content = use_cell_marks(question, content)
    if read := read_tables(content):
        return "\n\n".join(_table_text(table, misread) for table in read)
    sentences = select_sentences(question, content, 3)
    return "\n".join(sentences[1:] if misread else sentences) or NOTHING_FOUND


def answer_from_material(question: str, material: str, slip: bool = False) -> Finding | None:
    """How to answer from the material, or from the question alone if there is none; None if it cannot be seen."""
    if not material or NOTHING_FOUND in material:
        return solve(question)
    if read := read_tables(material):
        return look_up(question, read, slip)
    if found := select_leaves(question, read_leaves(material)):
        chosen = found[1] if slip and len(found) > 1 else found[0]
        return _stated(question, chosen.value, "Read from the path that fits the question best.")
    for sentence in select_sentences(question, material)[1 if slip else 0 :]:
        if fact := extract_fact(question, sentence):
            return _stated(question, fact, f"The text says: {sentence}")
    return solve(question)


def _stated(question: str, value: str, why: str) -> Finding:
    decimals = read_decimals(question)
    found = Finding(answer=value, why=why)
    amount = parse_number(value)
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
