"""Tools of a module: which are found, which block, and how their calls are counted."""

import asyncio
from typing import Any

import dspy
import pytest

from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.systems.external.dspy_tools import blocks, is_finish, limit_tools


def tool(name: str = "search") -> dspy.Tool:
    def look_up(city: str, *, exact: bool = False) -> str:
        return f"{city} {exact}"

    return dspy.Tool(look_up, name=name)


class Holding(dspy.Module):
    """Module that holds things."""

    def __init__(self, **held: Any) -> None:
        super().__init__()
        vars(self).update(held)


def test_tools_are_found_once_in_every_part_and_collection() -> None:
    alone, listed, paired, mapped, deep = (tool(name) for name in ("alone", "listed", "paired", "mapped", "deep"))
    module = Holding(
        alone=alone,
        listed=[listed, alone, "text"],
        paired=(paired,),
        mapped={"a": mapped, "b": 5},
        part=Holding(deep=deep),
        other={alone.name},
    )
    found = limit_tools(module)
    assert {each.name for each in found} == {"alone", "listed", "paired", "mapped", "deep"}
    assert len(found) == 5


def test_the_tool_with_which_react_ends_is_no_work_and_one_of_that_name_is() -> None:
    react = dspy.ReAct("question -> answer", tools=[tool()])
    finish, own = react.tools["finish"], tool("finish")
    assert [is_finish(finish), is_finish(own), is_finish(react.tools["search"])] == [True, False, False]
    renamed = dspy.Tool(finish.func, name="end", args={})
    assert not is_finish(renamed)
    before = finish.func
    assert [each.name for each in limit_tools(react)] == ["search"]
    assert finish.func is before
    assert [each.name for each in limit_tools(Holding(own=own))] == ["finish"]


def test_each_call_is_counted_once_before_it_is_made() -> None:
    made: list[str] = []

    def search(city: str) -> str:
        """Look a city up."""
        made.append(city)
        return city.upper()

    found = dspy.Tool(search)
    module = Holding(found=found)
    assert limit_tools(module) == [found]
    counting = found.func
    assert limit_tools(module) == [found]
    assert found.func is counting  # not wrapped twice
    assert (counting.__name__, counting.__doc__) == ("search", "Look a city up.")
    assert counting.__wrapped__ is search  # type: ignore[attr-defined]
    context = SampleContext(SampleKey("q"), SampleLimits(tool_calls=1))
    with use_context(context):
        assert found(city="Rome") == "ROME"
        with pytest.raises(LimitReachedError):
            found(city="Oslo")
    assert (made, context.usage.tool_calls) == (["Rome"], 1)
    assert counting("Oslo") == "OSLO"  # no sample: nothing to count


def test_a_tool_blocks_unless_its_function_is_a_coroutine() -> None:
    async def later(city: str) -> str:
        return city

    class Later:
        async def __call__(self, city: str) -> str:
            return city

    class Now:
        def __call__(self, city: str) -> str:
            return city

    tools = [dspy.Tool(later), dspy.Tool(Later(), name="later"), dspy.Tool(Now(), name="now"), tool()]
    assert [blocks(each) for each in tools] == [False, False, True, True]
    limit_tools(Holding(tools=tools))
    assert [blocks(each) for each in tools] == [False, False, True, True]
    assert asyncio.run(tools[0].acall(city="Rome")) == "Rome"
