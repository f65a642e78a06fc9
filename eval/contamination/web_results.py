"""What the web gave away of a question: results that hold its gold answer beside eight words in a row of it.

Who has both has most likely met a copy of the benchmark. Looked at is what the agent saw, when the question is over.
All that was seen of one address is one result, in however many calls: its pages, the lines of a search in it, the entry
of a list of search results. A page's title may put the question. What the agent itself has put there is no finding: the
lines above the text repeat what was asked for, and so do an address (`?q=…`) and a form's fields.

    web_leaks(record.question, record.target, record.trajectory)
    # [{"tool": "read_page", "source": "https://answers.example.org/17"}]
    blocked_hosts(record.trajectory)      # {"huggingface.co": 2}
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from eval.contamination.forms import PASSAGE, Form, derive_whole_forms, extract_passages, split_items
from eval.contamination.text import Piece, Reading, join_words, read_variants
from mas.tools.browser.page import remove_controls
from mas.tools.files.paging import remove_line_marks
from mas.tools.http.blocked_sites import BLOCKED_PAGE
from mas.tools.results import WEB_KINDS, Excerpt

MAX_SOURCE_CHARS = 600
_ADDRESS = re.compile(r"https?://[^\s;]+")
_SAME = re.compile(r"^https?://(?:www\.)?|/?(?:#(?![!/]).*)?$")  # what two addresses of one page may differ in

Step = Mapping[str, Any]  # a `Span` as a dictionary
Stretch = tuple[int, int]


@dataclass(frozen=True)
class _Result:
    tool: str
    source: str
    text: str
    title: str = ""  # of a page; beside words of the question a gold answer in it counts for nothing


def find_web_leaks(question: str, target: str | None, steps: Iterable[Step]) -> list[dict[str, str]]:
    """Each source once for each tool that showed words of the question there; none without a gold answer.

    A question without a passage to look for (two words, or forms of words alone) has no finding.
    """
    shown = [step for step in steps if step["kind"] == "tool" and _is_from_web(step)]
    if not shown or target is None:
        return []
    told = _Told.of(question, target)
    found = [(tool, seen[0].source) for seen in _by_source(shown) for tool in told.by(seen)]
    return [{"tool": tool, "source": source} for tool, source in dict.fromkeys(found)]


def _is_from_web(step: Step) -> bool:
    return (step.get("attributes") or {}).get("result_kind") in WEB_KINDS


def _by_source(steps: Iterable[Step]) -> Iterable[list[_Result]]:
    """What was seen of each address, in the order in which these were first met; what has none stands alone."""
    seen: dict[tuple[str, int], list[_Result]] = {}
    for number, step in enumerate(steps):
        for each in _results(step):
            key = (_SAME.sub("", each.source), 0 if _ADDRESS.match(each.source) else number)
            seen.setdefault(key, []).append(each)
    return seen.values()


def count_blocked_hosts(steps: Iterable[Step]) -> dict[str, int]:
    """How often a page was blocked, by its host."""
    events = (event for step in steps for event in step.get("events") or () if event["name"] == BLOCKED_PAGE)
    return dict(Counter(_host(str(event.get("url", ""))) for event in events))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "unknown"
    except ValueError:
        return "unknown"


@dataclass(frozen=True)
class _Told:
    """What must not stand together in one result."""

    passages: frozenset[str]
    n_words: int  # of each of them
    gold: list[Form]  # any of these is the gold answer
    items: list[list[Form]]  # of a list: all of its items are, too

    @staticmethod
    def of(question: str, target: str) -> "_Told":
        found = list(extract_passages(question, PASSAGE))
        return _Told(
            passages=frozenset(form.text for form in found),
            n_words=found[0].n_words if found else PASSAGE,
            gold=list(derive_whole_forms(target)),
            items=[list(derive_whole_forms(item.text)) for item in split_items(target)],
        )

    def by(self, results: Sequence[_Result]) -> list[str]:
        """Of one source: the tools that showed words of the question there, if the gold answer was shown as well."""
        asked = Reading(unquote_plus(results[0].source.partition("?")[2])).words
        left = self.passages - {text for text, _ in _grams(asked, self.n_words)}
        if not left:
            return []
        titled = [bool(self._met(Reading(each.title), left)) for each in results]
        texts = [list(read_variants(each.text)) for each in results]
        for way in range(max(map(len, texts))):  # characters without width are nothing; if there are any: blanks
            read = [each[min(way, len(each) - 1)] for each in texts]
            met = [self._met(each, left) for each in read]
            tools = [each.tool for each, here, title in zip(results, met, titled, strict=True) if here or title]
            if tools and self._gold_in(list(zip(read, met, strict=True))):
                return tools
        return []

    def _met(self, reading: Reading, wanted: frozenset[str]) -> list[Stretch]:
        return [stretch for text, stretch in _grams(reading.words, self.n_words, wanted) if text in wanted]

    def _gold_in(self, read: Sequence[tuple[Reading, Sequence[Stretch]]]) -> bool:
        def shown(forms: Iterable[Form]) -> bool:
            return any(_beside(form, reading, met) for form in forms for reading, met in read)

        return shown(self.gold) or (bool(self.items) and all(shown(item) for item in self.items))


def _beside(form: Form, reading: Reading, passages_met: Sequence[Stretch]) -> bool:
    """Whether it stands in the text apart from the question, which may itself say it."""
    return any(
        all(end <= first or start >= last for first, last in passages_met) for start, end in _places(form, reading)
    )


def _places(form: Form, reading: Reading) -> Iterator[Stretch]:
    if form.how == "number":
        yield from ((number.start, number.end) for number in reading.numbers if number.text == form.text)
    elif form.how == "gram":
        yield from (stretch for text, stretch in _grams(reading.words, form.n_words) if text == form.text)
    else:
        yield from _runs(form.text, reading.words)


def _runs(run: str, words: list[Piece]) -> Iterator[Stretch]:
    """Runs of letters that begin and end with a word: 'Pavel-Del' is `paveldel`, 'Paveldelta' is not."""
    text, starts, ends, at = join_words(words), dict[int, int](), dict[int, int](), 0
    for word in words:
        starts[at] = word.start
        at += len(word.text)
        ends[at] = word.end
    at = text.find(run)
    while at >= 0:
        if at in starts and at + len(run) in ends:
            yield starts[at], ends[at + len(run)]
        at = text.find(run, at + 1)


def _grams(words: Sequence[Piece], size: int, wanted: Iterable[str] | None = None) -> Iterator[tuple[str, Stretch]]:
    """All runs of so many words; of those `wanted`, at least all that there are."""
    texts = [word.text for word in words]
    begins = None if wanted is None else {each.partition(" ")[0] for each in wanted}
    for first in range(len(words) - size + 1):
        if begins is None or texts[first] in begins:
            yield " ".join(texts[first : first + size]), (words[first].start, words[first + size - 1].end)


def _results(step: Step) -> Iterator[_Result]:
    """Yield each excerpt that the agent saw; a tool that names no sources has shown one, all of its text."""
    attributes, tool = step.get("attributes") or {}, str(step["name"])
    kind, seen = attributes["result_kind"], str((step.get("outputs") or {}).get("observation", ""))
    excerpts = [Excerpt(**each) for each in attributes.get("excerpts") or ()]
    for each in excerpts:
        source = (each.source or _given_address(step))[:MAX_SOURCE_CHARS]
        text = seen[each.start : each.end]
        if kind == "web_search":  # the title is part of what was found
            yield _Result(tool, source, f"{each.title}\n{text}")
        elif kind == "browser_page":
            yield _Result(tool, source, remove_controls(text), each.title)
        else:
            yield _Result(tool, source, remove_line_marks(text) if each.has_line_marks else text, each.title)
    if seen and not excerpts and kind == "web_page":
        yield _Result(tool, _given_address(step)[:MAX_SOURCE_CHARS], seen)


def _given_address(step: Step) -> str:
    """Return the address that was asked for."""
    given = (str(value) for value in (step.get("inputs") or {}).values())
    return next((each for each in given if _ADDRESS.match(each)), "unknown")
