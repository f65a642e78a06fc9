"""Write a question about an attachment of every kind that agents can read, with facts drawn from a seed.

    python scripts/sample_data/make_every_kind.py FOLDER --seed 7
    python eval/run.py model=… data=jsonl data.path=FOLDER

Another seed makes other files and other answers, so nobody can have learned them. Unlike the sample, whose questions
stay, these are for trying out whether tools and agents find what is there. Pictures need tesseract.
"""

import argparse
import json
import sys
from pathlib import Path
from random import Random

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.benchmarks.toy_set import Family
from scripts.sample_data import attached as sample_attached
from scripts.sample_data import kinds as sample_kinds
from scripts.sample_data import marked as sample_marked
from scripts.sample_data import media as sample_sound
from scripts.sample_data import places as sample_places
from scripts.sample_data.make_sample import draw

_LOOKUPS = ("csv_lookup", "xlsx_lookup", "json_lookup")
FAMILIES: dict[str, Family] = {
    **{family: sample_attached.FAMILIES[family] for family in _LOOKUPS},
    **{family: draw for family, draw in sample_kinds.FAMILIES.items() if family != "word_letter"},
    **sample_marked.FAMILIES,
    **sample_places.FAMILIES,
    **sample_sound.FAMILIES,
}


def write_every_kind(folder: Path, seed: int) -> None:
    """Write `folder/metadata.jsonl` and the attachments beside it; a question's id is the name of its family."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for family, make in FAMILIES.items():
        drawn = draw(make, Random(f"{seed}/{family}"), difficulty=1)
        name = f"{family}{drawn.suffix}"
        (folder / name).write_bytes(drawn.content)
        asked = {"task_id": family, "Question": drawn.question, "Level": drawn.level}
        rows.append({**asked, "Final answer": drawn.answer, "file_name": name})
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "metadata.jsonl").write_text(lines, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True, help="the same seed writes the same questions and answers")
    given = parser.parse_args()
    write_every_kind(given.folder, given.seed)
    print(f"Wrote {len(FAMILIES)} questions to {given.folder}")


if __name__ == "__main__":
    main()
