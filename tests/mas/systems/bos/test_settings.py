"""Settings of the planner and of the computation agent at their limits."""

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.settings import ComputationSettings, PlannerSettings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PlannerSettings(), None),
        (PlannerSettings(match="word", keywords={"sql": ["table"], "api_docs": []}), None),
        (
            PlannerSettings(match="words"),
            "system.planner.match=words is not known; choose one of: substring, word.",
        ),
        (
            PlannerSettings(keywords={"web": ["a"], "mail": ["b"], "sql": ["c"]}),
            "system.planner.keywords names mail, web; the agents are sql, api_docs, computation.",
        ),
        *(
            (
                PlannerSettings(keywords={"sql": ["table", word]}),
                f"system.planner.keywords.sql holds {word!r}; expected words in lower case: they are looked for in the "
                "question's lower-case text.",
            )
            for word in ("", "Query")
        ),
        (ComputationSettings(), None),
        (ComputationSettings(repair_attempts=5), None),
        *(
            (
                ComputationSettings(repair_attempts=number),
                f"system.computation.repair_attempts={number} is out of range; expected 0 to 5.",
            )
            for number in (-1, 6)
        ),
    ],
)
def test_a_setting_is_checked(settings: PlannerSettings | ComputationSettings, message: str | None) -> None:
    if message is None:
        settings.check()
        return
    with pytest.raises(UserError) as caught:
        settings.check()
    assert str(caught.value) == message
