"""Web results that give a sample away: they hold its target and eight consecutive words of its question.

A source with both is most likely a copy of the benchmark. The check runs over everything the agent saw, once the sample
is finished. All texts of one address are one result, in however many calls: its pages, the lines of a search in it, the
entry of a list of search results. A page's title may hold the question. Text from the agent itself is no finding: the
lines above the text repeat the request, and so do an address (`?q=…`) and a form's fields. A label such as `yes` is in
nearly every text; it counts only close to the words of the question.

    find_web_leaks(record.question, record.target, record.trajectory)
    # [{"tool": "read_page", "source": "https://answers.example.org/17"}]
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from eval.contamination.forms import PASSAGE, FormIndex, Reading, derive_whole_forms, extract_passages, split_items
from mas.tools.browser.session import remove_controls
from mas.tools.files.document import remove_line_marks
from mas.tools.results import WEB_KINDS, Excerpt

MAX_SOURCE_CHARS = 600
_ADDRESS = re.compile(r"https?://[^\s;]+")
_SAME = re.compile(r"^https?://(?:www\.)?|/?(?:#(?![!/]).*)?$")  # parts in which two addresses of one page may differ

Step = Mapping[str, Any]  # a `Span` as a dictionary


class _Result(NamedTuple):
    tool: str
    source: str
    text: str
    title: str = ""  # of a page; searched for the question, never for the target


def find_web_leaks(
    question: str, target: str | None, steps: Iterable[Step], is_label: bool = False
) -> list[dict[str, str]]:
    """Return each source once for each tool that showed words of the question there; nothing without a target.

    A question without a distinctive passage (two words, or common words alone) has no finding, nor has one whose target
    many samples have (`is_label`).
    """
    shown = [step for step in steps if step["kind"] == "tool" and _read_kind(step) in WEB_KINDS]
    if not shown or target is None or is_label:
        return []
    sample = _Secret(question, target)
    found = [(tool, seen[0].source) for seen in _group_by_source(shown) for tool in sample.find_tools(seen)]
    return [{"tool": tool, "source": source} for tool, source in dict.fromkeys(found)]


def _group_by_source(steps: Iterable[Step]) -> Iterable[list[_Result]]:
    """Return the results of each address, in the order of their first use; one without an address is a group."""
    seen: dict[tuple[str, int], list[_Result]] = {}
    for number, step in enumerate(steps):
        for each in _read_results(step):
            key = (_SAME.sub("", each.source), 0 if _ADDRESS.match(each.source) else number)
            seen.setdefault(key, []).append(each)
    return seen.values()


class _Secret:
    """Passages of the question and forms of the target that must not be in one result together."""

    def __init__(self, question: str, target: str) -> None:
        passages, gold = list(extract_passages(question, PASSAGE)), list(derive_whole_forms(target))
        items = [list(derive_whole_forms(item.text)) for item in split_items(target)]
        self._index = FormIndex([*passages, *gold, *(form for item in items for form in item)])
        self._passages = {form.key for form in passages}
        self._gold = {form.key for form in gold}  # each is the whole target
        self._items = [{form.key for form in item} for item in items]  # of a list

    def find_tools(self, results: Sequence[_Result]) -> list[str]:
        """Return the tools that showed words of the question at one source, if the target was shown there as well.

        A place within the words of the question shows no target: they may hold it themselves.
        """
        asked = Reading(unquote_plus(results[0].source.partition("?")[2]))
        left = self._passages - {found.text for found in self._index.find(asked)}
        tools, answers = list[str](), set[str]()
        for result in results if left else ():
            found = list(self._index.find(Reading(result.text)))
            passages = [each for each in found if each.text in left]
            if passages or any(each.text in left for each in self._index.find(Reading(result.title))):
                tools.append(result.tool)
            outside = (
                each for each in found if all(each.end <= words.start or each.start >= words.end for words in passages)
            )
            answers |= {each.text for each in outside}
        is_shown = answers & self._gold or (self._items and all(answers & item for item in self._items))
        return tools if is_shown else []


def _read_results(step: Step) -> Iterator[_Result]:
    """Yield each excerpt that the agent saw; a tool that names no sources has shown one, all of its text."""
    kind, tool = _read_kind(step), str(step["name"])
    given = (str(value) for value in (step.get("inputs") or {}).values())
    asked = next((each for each in given if _ADDRESS.match(each)), "unknown")
    seen = str((step.get("outputs") or {}).get("observation", ""))
    excerpts = [Excerpt(**each) for each in step["attributes"].get("excerpts") or ()]
    for each in excerpts:
        source, text = (each.source or asked)[:MAX_SOURCE_CHARS], seen[each.start : each.end]
        if kind == "web_search":  # the title is part of what was found
            yield _Result(tool, source, f"{each.title}\n{text}")
        else:
            clean = remove_controls if kind == "browser_page" else remove_line_marks
            yield _Result(tool, source, clean(text), each.title)
    if seen and not excerpts and kind == "web_page":
        yield _Result(tool, asked[:MAX_SOURCE_CHARS], seen)


def _read_kind(step: Step) -> str | None:
    return (step.get("attributes") or {}).get("result_kind")
