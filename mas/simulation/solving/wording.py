"""Words and numbers in questions and files.

    split_words("What is the unit_price of Widgets?")   # ["unit", "pric", "widget"]
    parse_number("$1,250.50")                           # 1250.5
    read_decimals("… rounded to two decimal places")    # 2

Words are compared by their stems, which need not be words themselves.
"""

import re

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the of in on at to for from by with and or is are was were be been has have had do does did what which
        who whose whom when where how many much according attached file give only answer your as it its this that there
        their than not listed table sheet spreadsheet workbook document please any all each value number named called
        name s""",
    )
)
_SMALL_NUMBERS = {"no": 0, "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_PLACES = {"tenth": 1, "hundredth": 2, "cent": 2, "thousandth": 3, "ten": -1, "hundred": -2, "thousand": -3}
_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d`\u00d7\u00f7", "''\"\"'*/")
_NUMBER = re.compile(r"^(?:about\s+)?[^\w\-+.]{0,2}\s*([-+]?\d[\d,]*(?:\.\d+)?|[-+]?\.\d+)\s*%?$")


def split_words(text: str) -> list[str]:
    """Return the stems of content words in lower case; `snake_case` and `camelCase` are several words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ").lower()
    return [stem(word) for word in re.findall(r"[^\W_]+", spaced) if word not in STOP_WORDS]


def stem(word: str) -> str:
    """Remove the plural, past or `-ing` ending of a word."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ing", "ed", "e"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            return word.removesuffix(ending)
    return word


def parse_number(text: str) -> float | None:
    """Return the number of a cell, without currency sign, thousands separators or percent sign; else None."""
    match = _NUMBER.match(text.strip())
    return float(match[1].replace(",", "")) if match else None


def replace_typographic(text: str) -> str:
    """Replace typographic quotation marks and arithmetic signs by those of a keyboard."""
    return text.translate(_PLAIN)


def find_phrase(phrase: str, text: str) -> int:
    """Return the index of `phrase` in `text` as whole words, ignoring case; -1 if it does not occur."""
    if phrase.lower() not in text.lower():
        return -1
    match = re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE)
    return match.start() if match else -1


def read_decimals(question: str) -> int | None:
    """Return the decimal places that the question asks for; negative: tens, hundreds; None: it does not say."""
    text = question.lower()
    if match := re.search(r"(\d+|no|zero|one|two|three|four|five|six) (?:decimal|digits? after|dp\b)", text):
        return int(match[1]) if match[1].isdigit() else _SMALL_NUMBERS[match[1]]
    if re.search(r"(?:nearest|closest|to an?|to the|as an?) (?:whole|integer|unit\b|full)|whole number|integer", text):
        return 0
    match = re.search(r"nearest (tenth|hundredth|cent|thousandth|ten|hundred|thousand)\b", text)
    return _PLACES[match[1]] if match else None


def format_number(value: float, decimals: int | None) -> str:
    """Format a number as an answer: rounded if asked, else without superfluous digits."""
    if decimals is None:
        return f"{value:.10g}" if abs(value) < 1e15 else f"{value:.0f}"
    rounded = round(value + 1e-9 * (1 if value >= 0 else -1), decimals)
    return f"{rounded:.{max(decimals, 0)}f}"
