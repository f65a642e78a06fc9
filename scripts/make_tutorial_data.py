"""Write the invented data of the tutorial on own programs: `tickets.csv` and `problems.csv`.

    python scripts/make_tutorial_data.py            # into the current folder
    python scripts/make_tutorial_data.py FOLDER

`tickets.csv`: 300 support tickets with title, body, source and category (five of them).
`problems.csv`: 360 word problems with problem, kind and answer, drawn as the toy data are.
The same call writes the same bytes; a file that exists and differs is left alone.
"""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from random import Random

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from scripts.sample_data.toy import DrawnToyDataset, draw_names

TICKETS, PROBLEMS = 300, 360
SOURCES = ("mail", "chat", "phone")
GOODS = ("lamp", "kettle", "backpack", "desk fan", "headset", "coffee grinder")
_TEXTS = {  # category → titles, what the customer says
    "billing": (
        ("Amount is wrong", "Paid twice?", "Question about a payment"),
        ("I was charged twice for the {good}.", "The invoice for the {good} shows another amount than the shop.",
         "My card was debited, but the order of the {good} is still open."),
    ),
    "delivery": (
        ("Where is it?", "Not here yet", "Still waiting"),
        ("The parcel with the {good} is late since {day}.", "The tracking of my {good} has not moved since {day}.",
         "The courier left a note on {day}, and no {good}."),
    ),
    "login": (
        ("Cannot get in", "My account", "Help please"),
        ("My password is refused since {day}.", "I am locked out, and wanted to order a {good}.",
         "The two-factor code never arrives, so I cannot sign in."),
    ),
    "refund": (
        ("Changed my mind", "Please take it back", "Not what I wanted"),
        ("I would like my money back for the {good}.", "How do I return it? The {good} is too large.",
         "I sent it back on {day}; when is the {good} paid out?"),
    ),
    "defect": (
        ("Disappointed", "It does not work", "Problem with my order"),
        ("The {good} stopped working on {day}.", "The {good} is cracked at the bottom.",
         "The {good} rattles, and gets hot."),
    ),
}  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def draw_tickets(seed: int = 0) -> list[tuple[str, str, str, str]]:
    """Return title, body, source and category of each ticket."""
    rng = Random(f"tickets/{seed}")
    drawn = [(category, *each) for category, (titles, said) in _TEXTS.items() for each in product(titles, said, GOODS)]
    rng.shuffle(drawn)
    return [
        (title, _write_body(said, good, rng), rng.choice(SOURCES), category)
        for category, title, said, good in (drawn * 2)[:TICKETS]
    ]


def _write_body(said: str, good: str, rng: Random) -> str:
    day, name, number = rng.choice(_DAYS), draw_names(rng, 1)[0], rng.randint(10_000, 99_999)
    return f"{said.format(good=good, day=day)} Order {number}. {name}"


def draw_problems(seed: int = 1) -> list[tuple[str, str, str]]:
    """Return problem, kind and answer of each problem; 0 would draw the toy data, on which the other tutorial tunes."""
    samples = DrawnToyDataset(n_train=1, n_val=1, n_test=PROBLEMS, seed=seed).load("test").samples
    return [(each.question, each.tags["family"], str(each.target)) for each in samples]


def write_table(file: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV file.

    Raises:
        SystemExit: it exists with other content.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    if file.exists() and file.read_text("utf-8") != text.getvalue():
        raise SystemExit(f"error: {file} exists with other content; move it, or name another folder.")
    file.write_text(text.getvalue(), "utf-8")
    print(f"{file}: {len(text.getvalue().splitlines()) - 1} rows")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "tickets.csv", ("title", "body", "source", "category"), draw_tickets())
    write_table(folder / "problems.csv", ("problem", "kind", "answer"), draw_problems())


if __name__ == "__main__":
    main()
