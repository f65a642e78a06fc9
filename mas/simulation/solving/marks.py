"""What stands beside a file's text: the length and rate of a sound, and what Excel shows beside a cell's value.

    marked("Which comment is on Ink's price?", "item | price\\nInk | 9 [comment: dear]")   # "item | price\\nInk | dear"
    about_a_sound("a.wav: sound, WAV, 0.5 seconds, 8000 Hz; page 1 of 1")      # "sound, WAV, 0.5 seconds, 8000 Hz"

Either is text that a reader of tables and sentences can go on with.
"""

import re

_SOUND = re.compile(r"^[^\n]+?: (sound, [^\n;]+)")
# What a question asks for, and how the file reader writes it behind a cell's value or in place of it.
_ON_A_CELL = (
    (r"\bcomments?\b", r"\[comment: ([^\]|]*)\]"),
    (r"\bformula", r"\[(=[^\]|]*?)(?:, result not stored in the file)?\]"),
    (r"\bfill(?:ed)?\b|\bcolou?r", r"\[fill (\w+)\]"),
)
_SHEET = re.compile(r"^(?=sheet \")", re.MULTILINE)


def about_a_sound(text: str) -> str | None:
    """What the first line of a file reader's text says of a sound; None if it is about something else."""
    match = _SOUND.match(text)
    return match[1] if match else None


def marked(question: str, content: str) -> str:
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
