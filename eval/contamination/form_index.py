"""Search for many forms at once in a `Reading`: one index for prompts and web results.

index = FormIndex([*derive_whole_forms("1,234"), *derive_whole_forms("Pavel Del")])
list(index.find(Reading("Pavel-Del paid 1234 crowns.")))     # [(("word", "paveldel"), 0, 9), (("number", "1234"), …)]
"""

from collections.abc import Iterable, Iterator, Sequence

from eval.contamination.forms import HINT, PASSAGE, Form
from eval.contamination.text import Piece, Reading, join_words

Key = tuple[str, str]  # how a form is written, and its text
Place = tuple[Key, int, int]  # what was found, and where in the reading's text


class FormIndex:
    """Forms to be looked for. It is kept in memory only: most of them are answers."""

    def __init__(self, forms: Iterable[Form] = ()) -> None:
        self._keys: set[Key] = set()
        self._lengths: set[int] = set()  # of the runs of letters
        self._sizes: set[int] = set()  # of the runs of words
        for form in forms:
            self.add(form)

    def add(self, form: Form) -> Key:
        if form.how == "word":
            self._lengths.add(len(form.text))
        elif form.how == "gram":
            self._sizes.add(form.n_words)
        self._keys.add(form.key)
        return form.key

    def find(self, reading: Reading) -> Iterator[Place]:
        """Yield all occurrences, also of lists without their `and`."""
        words = reading.words
        yield from self._find_runs(words)
        for number in reading.numbers:
            if (key := ("number", number.text)) in self._keys:
                yield key, number.start, number.end
        yield from self._find_grams(words, self._sizes)
        without_and = [word for word in words if word.text != "and"]
        if len(without_and) < len(words):
            yield from self._find_grams(without_and, self._sizes - {PASSAGE, HINT})

    def _find_runs(self, words: Sequence[Piece]) -> Iterator[Place]:
        """Yield runs of letters that begin and end with a word: 'Pavel-Del' is `paveldel`, 'Paveldelta' is not."""
        text = join_words(words)
        ends: dict[int, int] = {}  # where a word ends in the squeezed text → where it ends in the reading's
        at = 0
        for word in words:
            at += len(word.text)
            ends[at] = word.end
        lengths, at = sorted(self._lengths), 0
        for word in words:
            for length in lengths:
                end = ends.get(at + length)
                if end is not None and (key := ("word", text[at : at + length])) in self._keys:
                    yield key, word.start, end
            at += len(word.text)

    def _find_grams(self, words: Sequence[Piece], sizes: Iterable[int]) -> Iterator[Place]:
        texts = [word.text for word in words]
        for size in sizes:
            for first in range(len(words) - size + 1):
                if (key := ("gram", " ".join(texts[first : first + size]))) in self._keys:
                    yield key, words[first].start, words[first + size - 1].end
