"""Facts of a result: they move with its text, and survive storage."""

import pickle

import pytest

from mas.runtime.untrusted import enclose_data, mark_untrusted
from mas.tools.results import Excerpt, ToolResult, to_tool_result

RESULT = ToolResult(
    "head\n\nRome\nOslo", kind="web_search", excerpts=[Excerpt("a", "A", 6, 10), Excerpt("b", "B", 11, 15)]
)


def shown(result: ToolResult) -> list[str]:
    return [result[each.start : each.end] for each in result.excerpts]


def test_a_result_is_its_text() -> None:
    assert RESULT == "head\n\nRome\nOslo" and shown(RESULT) == ["Rome", "Oslo"]
    assert pickle.loads(pickle.dumps(RESULT)).excerpts == RESULT.excerpts


def test_an_observation_is_labelled_and_its_excerpts_are_still_those() -> None:
    observation = RESULT.to_observation("web_search", 1_000)
    assert observation == "".join(enclose_data("web_search", str(RESULT)))
    assert shown(observation) == ["Rome", "Oslo"] and not observation.truncated
    assert ToolResult("4").to_observation("calculator", 1_000) == "4"


@pytest.mark.parametrize(("kept", "seen"), [(15, ["Rome", "Oslo"]), (13, ["Rome", "Os"]), (11, ["Rome"]), (3, [])])
def test_a_cut_result_has_the_excerpts_that_are_left(kept: int, seen: list[str]) -> None:
    cut = RESULT.truncate(kept, "\n[cut]")
    assert (cut, cut.truncated, shown(cut)) == (f"{RESULT[:kept]}\n[cut]", True, seen)


def test_lone_surrogates_move_nothing() -> None:
    odd = ToolResult("\ud83d Rome", kind="web_page", excerpts=[Excerpt("a", "A", 2, 6)])
    observation = odd.to_observation("read_page", 1_000)
    assert shown(observation) == ["Rome"] and "\ud83d" not in observation


def test_what_a_users_own_tool_returns_is_its_text() -> None:
    assert to_tool_result(RESULT, None).describe() == RESULT.describe()
    assert (to_tool_result(4, None), to_tool_result(4, None).kind) == ("4", "computed")


def test_a_tool_that_is_marked_untrusted_has_no_trusted_result() -> None:
    @mark_untrusted
    def look() -> None: ...

    for returned in ("seen", ToolResult("seen", is_temporary=True)):
        assert to_tool_result(returned, look).kind == "external"
    assert to_tool_result(ToolResult("seen", is_temporary=True), look).is_temporary
    assert to_tool_result(RESULT, look).kind == "web_search"


def test_facts_survive_storage() -> None:
    for result in (RESULT, RESULT.as_substitute(is_temporary=False), RESULT.truncate(3, "…"), ToolResult("4")):
        again = ToolResult.restore(str(result), result.describe())
        assert (again, again.describe()) == (result, result.describe())
    assert ToolResult.restore("4", {"result_kind": "of a later version"}).is_untrusted


def list_facts(result: ToolResult) -> tuple[object, ...]:
    return (result.kind, result.excerpts, result.truncated, result.failed, result.is_substitute, result.is_temporary)


def test_a_result_is_plain_unless_something_else_is_said() -> None:
    assert list_facts(ToolResult("4")) == ("computed", (), False, False, False, False)
    assert not Excerpt("a", "A", 0, 1).has_line_marks
    assert ToolResult("4").describe() == {"result_kind": "computed"}
    assert not to_tool_result(4, None).failed and to_tool_result("no", None, failed=True).failed


def test_a_substitute_keeps_what_it_is_and_says_whether_it_lasts() -> None:
    for is_temporary in (True, False):
        found = RESULT.as_substitute(is_temporary)
        assert list_facts(found) == ("web_search", RESULT.excerpts, False, False, True, is_temporary)
    assert found.describe() == {
        "result_kind": "web_search",
        "untrusted": True,
        "substitute": True,
        "excerpts": [
            {"source": "a", "title": "A", "start": 6, "end": 10, "has_line_marks": False},
            {"source": "b", "title": "B", "start": 11, "end": 15, "has_line_marks": False},
        ],
    }


def test_another_text_of_a_result_has_all_its_facts() -> None:
    full = ToolResult("no such page", kind="external", failed=True, is_substitute=True, is_temporary=True)
    assert list_facts(full.truncate(4, "…")) == ("external", (), True, True, True, True)
    assert list_facts(full.truncate(4, "…").to_observation("ask", 1_000)) == ("external", (), True, True, True, True)
    assert list_facts(full.to_observation("ask", 1_000)) == ("external", (), False, True, True, True)


def test_an_observation_has_at_most_so_many_characters_of_the_result() -> None:
    whole = ToolResult("123456").to_observation("calculator", 6)
    assert (whole, whole.truncated) == ("123456", False)
    cut = ToolResult("123456").to_observation("calculator", 5)
    assert (cut, cut.truncated) == ("12345\n[cut: the first 5 of 6 characters are shown]", True)
