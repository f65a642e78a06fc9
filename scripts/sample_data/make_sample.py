"""Write the sample's questions and files again, the same ones each time; or others of their kind.

    python scripts/sample_data/make_sample.py                        # eval/benchmarks/sample/
    python scripts/sample_data/make_sample.py FOLDER --seed 7        # other facts, which nobody can have learned
    python eval/run.py model=… data=jsonl data.path=FOLDER split=val

Files that an earlier version wrote under other names stay: delete the folder first, and raise SAMPLE_VERSION.
`families.json`, beside each split's metadata, says what each question is: for tests and analysis, never read by a run.
"""

import argparse
import json
import sys
import uuid
from pathlib import Path
from random import Random

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.benchmarks.sample_set import SAMPLE
from scripts.sample_data import attached as sample_attached
from scripts.sample_data import kinds as sample_kinds
from scripts.sample_data import marked as sample_marked
from scripts.sample_data import media as sample_sound
from scripts.sample_data import puzzles as sample_puzzles
from scripts.sample_data.toy import Drawn, Family

SEED = 2023
SPLITS = ("train", "val", "test")
DIFFICULTIES = (1, 1, 2, 2, 3)  # of a family's questions in each split: 1 is a short table of unlike names
FAMILIES = sample_attached.FAMILIES | sample_puzzles.FAMILIES
MARKED = sample_marked.FAMILIES
KINDS = sample_kinds.FAMILIES | sample_sound.FAMILIES | MARKED  # one question of each, in turn to the splits


def write_sample(folder: Path, seed: int = SEED) -> None:
    """Write `folder/SPLIT/metadata.jsonl`, `families.json` and the attachments beside them."""
    for split in SPLITS:
        (folder / split).mkdir(parents=True, exist_ok=True)
        kinds = [(family, index) for index in range(len(DIFFICULTIES)) for family in FAMILIES]
        kinds += [(family, 0) for family in list(KINDS)[SPLITS.index(split) :: len(SPLITS)]]
        rows = [
            _write_question(folder / split, f"{seed}/{split}/{family}/{index}", family, index)
            for family, index in kinds
        ]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / split / "metadata.jsonl").write_bytes(lines.encode())
        about = {
            str(row["task_id"]): {"family": family, "difficulty": DIFFICULTIES[index]}
            for row, (family, index) in zip(rows, kinds, strict=True)
        }
        (folder / split / "families.json").write_bytes(f"{json.dumps(about, indent=1)}\n".encode())


def _write_question(folder: Path, seed: str, family: str, index: int) -> dict[str, object]:
    rng = Random(seed)
    drawn = draw((FAMILIES | KINDS)[family], rng, DIFFICULTIES[index])
    task_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    file_name = f"{task_id}{drawn.suffix}" if drawn.suffix else ""
    if file_name:
        (folder / file_name).write_bytes(drawn.content)
    return {
        "task_id": task_id,
        "Question": drawn.question,
        "Level": drawn.level,
        "Final answer": drawn.answer,
        "file_name": file_name,
    }


def draw(family: Family, rng: Random, difficulty: int) -> Drawn:
    """A question that does not give its own answer away: a small number may stand in it by chance."""
    while True:
        drawn = family(rng, difficulty)
        if drawn.answer.lower() not in drawn.question.lower() or not drawn.suffix:
            return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--seed", type=int, default=SEED, help="another one makes other questions and answers")
    given = parser.parse_args()
    write_sample(given.folder, given.seed)
    print(f"Wrote {', '.join(SPLITS)} to {given.folder}")


if __name__ == "__main__":
    main()
