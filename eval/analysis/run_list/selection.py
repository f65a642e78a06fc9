"""Filters of a list of runs, from words of the command line.

selection = Selection.read(["model=gpt-4o", "night"])
selection.select(runs)        # runs with gpt-4o whose line has "night"
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Self

from eval.analysis.run_list.read_runs import RunEntry
from mas.runtime.errors import UserError

FIELDS = ("system", "model", "data", "prompts", "state", "kind", "name")


@dataclass(frozen=True)
class Selection:
    """Conditions that all must hold; `fields` has the accepted patterns of each."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, words: Iterable[str]) -> Self:
        """Read `name=value` words and others, which are looked for in all texts of a run.

        Raises:
            UserError: there is no such filter.
        """
        given = [word.casefold().partition("=") for word in words]
        fields = {name: value.split(",") for name, equals, value in given if equals}
        if unknown := next((name for name in fields if name not in FIELDS), None):
            choices = ", ".join(f"{each}=" for each in FIELDS)
            raise UserError(f"{unknown}= is no filter of runs; choose one of: {choices}.")
        return cls(fields, [word for word, equals, _ in given if not equals])

    def select(self, runs: Iterable[RunEntry]) -> list[RunEntry]:
        """Return the runs for which all conditions hold."""
        return [run for run in runs if self._fits(run)]

    def _fits(self, run: RunEntry) -> bool:
        if not all(_matches(getattr(run, name), patterns) for name, patterns in self.fields.items()):
            return False
        text = "\n".join((run.name, run.system, run.model, run.data, run.prompts, run.reason, run.run_id)).casefold()
        return all(word in text for word in self.words)


def _matches(value: str, patterns: Sequence[str]) -> bool:
    """Return whether a text is one of the names, or fits one of the patterns; `data/split` fits its `data` too."""
    texts = (value.casefold(), value.casefold().partition("/")[0])
    return any(fnmatchcase(text, each) for each in patterns for text in texts)
