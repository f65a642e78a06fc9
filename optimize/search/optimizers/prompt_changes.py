"""Changes between two wordings of a prompt: lines that are added, removed or replaced, each of which can be used alone.

    changes = divide("plan", "A.\nB.", "A.\nB.\nC.\nD.")       # two: the line C. is added, the line D. is added
    apply_changes("A.\nB.", changes[:1])                        # "A.\nB.\nC."

Several rewritings of one prompt can so be combined, line by line, as a version control system merges branches. A
rewriting that leaves no line as it was is one change.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_ITEM = re.compile(r"[-*•]|\d+[.)]")
SIMILAR = 0.5  # ratio of common words from which on replaced lines count as reworded


@dataclass(frozen=True, order=True)
class Change:
    """The lines `start` to `stop` of an agent's prompt are replaced; blank lines do not count."""

    agent: str
    start: int
    stop: int  # = start: nothing is removed
    lines: tuple[str, ...]  # empty: nothing is added

    def excludes(self, other: "Change") -> bool:
        """Return whether both cannot be applied together. Lines added at one place follow each other."""
        return self.agent == other.agent and self.start < other.stop and other.start < self.stop


def divide(agent: str, before: str, after: str) -> list[Change]:
    """Return the changes that make one prompt of an agent into another.

    Where less than half of the lines stay as they were, the prompt was written anew, which is one change.
    """
    old, new = [line.strip() for line in _lines(before)], [line.rstrip() for line in _lines(after)]
    matcher = SequenceMatcher(None, old, [line.strip() for line in new], autojunk=False)
    if 2 * sum(block.size for block in matcher.get_matching_blocks()) < len(old):
        return [Change(agent, 0, len(old), tuple(new))]
    changes = []
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        added = new[new_start:new_stop]
        if kind == "replace" and _are_similar(old[start:stop], added):
            changes.append(Change(agent, start, stop, tuple(added)))
        elif kind != "equal":
            changes += [Change(agent, place, place + 1, ()) for place in range(start, stop)]
            changes += [Change(agent, stop, stop, part) for part in _divide_block(added)]
    return changes


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """Return a prompt with changes, of which none excludes another."""
    lines = _split(text)
    for change in sorted(changes, reverse=True):  # from the end, so that the places stay
        kept_blank = [blank for blank in lines[change.start : change.stop][:1] if blank.startswith("\n")]
        added = [f"\n{line}" if kept_blank and not n else line for n, line in enumerate(change.lines)]
        lines[change.start : change.stop] = added
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _split(text: str) -> list[str]:
    """Return the lines that are not blank, each with the blank line before it, if there is one."""
    lines: list[str] = []
    blank = False
    for line in text.splitlines():
        if line.strip():
            lines.append(f"\n{line}" if blank and lines else line)
        blank = not line.strip()
    return lines


def _divide_block(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the parts of added lines that make sense alone: a heading stays with its list."""
    part: list[str] = []
    for line in lines:
        if part and not _belongs_to(part, line):
            yield tuple(part)
            part = []
        part.append(line)
    if part:
        yield tuple(part)


def _belongs_to(part: Sequence[str], line: str) -> bool:
    is_headed = part[0].endswith(":") or part[0].startswith("#")
    return line[0].isspace() or part[-1].endswith(":") or (is_headed and bool(_ITEM.match(line)))


def _are_similar(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether lines are another wording of others, and no others in their place."""
    return SequenceMatcher(None, " ".join(old).split(), " ".join(new).split(), autojunk=False).ratio() > SIMILAR
